//! What is kept of a pod, and how pods of a workload are counted.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::marks::read_count;
use super::trouble::{self, Trouble};
use crate::names;

/// One pod, reduced to what decisions and reports need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    #[serde(skip)]
    pub uid: String,
    /// `metadata.resourceVersion`: which state of the pod this is.
    #[serde(skip)]
    pub resource_version: String,
    /// UID of the controller owner; pods without one belong to no workload.
    #[serde(skip)]
    pub owner: Option<String>,
    /// Revision from the label `controller-revision-hash`, else `pod-template-hash`.
    pub revision: Option<String>,
    /// Release that the pod came with, from the label [`names::ROLLOUT_ID`].
    #[serde(skip)]
    pub rollout_id: Option<String>,
    /// Batch that the pod came with, as the label [`names::ROLLOUT_BATCH_ID`] has it; people may have written anything.
    #[serde(skip)]
    pub batch_id: Option<String>,
    /// Name of the node that it runs on or, while it is not scheduled, is bound to by name.
    #[serde(skip)]
    pub node: Option<String>,
    /// What its deletion costs, by people's annotation: of two pods the cheaper one goes first.
    #[serde(skip)]
    pub deletion_cost: i32,
    /// Condition Ready is True, and so are those of all readiness gates.
    pub ready: bool,
    /// Deletion has been asked for.
    pub terminating: bool,
    /// Phase Failed or Succeeded: the pod runs nothing and will be replaced.
    pub finished: bool,
    /// Why it is not ready: the first waiting or terminated reason, or the scheduler's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was made, or made anew in place.
    #[serde(skip)]
    pub created: Option<Timestamp>,
    /// Since when it is as it is: on its way out, ready, or not ready.
    #[serde(skip)]
    pub since: Option<Timestamp>,
    /// A container of it has ended and begun again. Where nothing probes them, such pods become ready again and again, so that
    /// `since` says little.
    #[serde(skip)]
    pub restarted: bool,
    /// More about a pod that is not ready or on its way out.
    #[serde(skip)]
    pub trouble: Option<Box<Trouble>>,
}

impl PodView {
    /// Reads a pod. Whatever is missing reads as "not so": a pod without conditions is not ready.
    #[must_use]
    pub fn read(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        let label = |name: &str| {
            metadata["labels"]
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let owner = metadata["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|owner| owner["controller"] == Value::Bool(true))
            .and_then(|owner| owner["uid"].as_str())
            .map(str::to_owned);
        let readiness = condition(pod, "Ready");
        let ready = readiness.is_some_and(|c| c["status"] == "True") && gates_are_open(pod);
        let terminating = metadata.get("deletionTimestamp").is_some_and(|t| !t.is_null());
        let created = time(&metadata["creationTimestamp"]).max(updated_in_place(metadata));
        let since = if terminating {
            deletion_asked(metadata)
        } else {
            readiness.and_then(|c| time(&c["lastTransitionTime"])).or(created)
        };
        Self {
            name: text(&metadata["name"]).unwrap_or_default(),
            uid: text(&metadata["uid"]).unwrap_or_default(),
            resource_version: text(&metadata["resourceVersion"]).unwrap_or_default(),
            owner,
            revision: label(names::CONTROLLER_REVISION_HASH).or_else(|| label(names::POD_TEMPLATE_HASH)),
            rollout_id: label(names::ROLLOUT_ID),
            batch_id: label(names::ROLLOUT_BATCH_ID),
            node: node(&pod["spec"]),
            deletion_cost: deletion_cost(metadata),
            ready,
            terminating,
            finished: matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")),
            reason: if ready { None } else { trouble::reason(pod) },
            created,
            since,
            restarted: trouble::restarted(pod),
            trouble: (!ready || terminating).then(|| Box::new(Trouble::read(pod))),
        }
    }

    /// Since when it has been ready, or has not; for one that crashes again and again, since it was made.
    #[must_use]
    pub fn steadily_since(&self) -> Option<Timestamp> {
        if self.restarted && !self.terminating {
            self.created
        } else {
            self.since
        }
    }

    /// Until when it counts as not available yet, although it is ready; `None` once it has been ready for so many seconds. A time that
    /// lies further ahead than that was stamped by another clock, or the clock has been set back since: it would be waited for as
    /// long as the clocks differ.
    #[must_use]
    pub fn fresh_until(&self, min_ready_seconds: u32, now: Timestamp) -> Option<Timestamp> {
        let seconds = SignedDuration::from_secs(min_ready_seconds.into());
        let since = self.since.filter(|since| since.duration_since(now) <= seconds)?;
        since.checked_add(seconds).ok().filter(|until| *until > now)
    }

    /// Whether another state of the pod differs in nothing but its resource version.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&self.resource_version);
        *self == other
    }

    /// The number at the end of the name, by which StatefulSet-like operators count their pods.
    #[must_use]
    pub fn ordinal(&self) -> Option<i64> {
        self.name
            .rsplit_once('-')
            .and_then(|(_, number)| read_count(number))
    }

    /// Whether the pod runs the revision: it is there and nobody has asked it to leave.
    #[must_use]
    pub fn runs(&self, revision: &str) -> bool {
        !self.terminating
            && !self.finished
            && self
                .revision
                .as_deref()
                .is_some_and(|own| names_revision(own, revision))
    }
}

/// Whether a pod's hash label names the revision: they are the same, or one is what follows a dash in the other, since operators
/// write full names in one place and bare hashes in the other. A bare suffix is not enough: `ab` would then name `…-xab`. Nothing
/// names an empty revision, and an empty label names none.
#[must_use]
pub fn names_revision(label: &str, revision: &str) -> bool {
    let ends = |whole: &str, part: &str| {
        let rest = whole.strip_suffix(part);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    };
    !label.is_empty() && !revision.is_empty() && (ends(revision, label) || ends(label, revision))
}

fn node(spec: &Value) -> Option<String> {
    // As the DaemonSet controller binds its pods.
    let by_name = || {
        let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let terms = spec.pointer(required)?["nodeSelectorTerms"].as_array()?;
        let mut fields = terms
            .iter()
            .flat_map(|term| term["matchFields"].as_array())
            .flatten();
        let name = fields.find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
        text(&name["values"][0])
    };
    text(&spec["nodeName"]).or_else(by_name)
}

/// An annotation that is no 32-bit integer counts as absent, as it does for Kubernetes.
fn deletion_cost(metadata: &Value) -> i32 {
    let cost = metadata["annotations"].get(names::POD_DELETION_COST);
    cost.and_then(Value::as_str)
        .and_then(|cost| cost.parse().ok())
        .unwrap_or(0)
}

/// When an operator of Kruise has last replaced containers of the pod in place; they count as begun again then.
fn updated_in_place(metadata: &Value) -> Option<Timestamp> {
    let text = metadata["annotations"]
        .get(names::IN_PLACE_UPDATE_STATE)?
        .as_str()?;
    let state: Value = serde_json::from_str(text).ok()?;
    time(&state["updateTimestamp"])
}

/// Whether the conditions of all readiness gates are True. The kubelet withdraws Ready a moment after one is not: who updates a pod in
/// place closes a gate, and changes the revision's label, before that.
fn gates_are_open(pod: &Value) -> bool {
    let gates = pod["spec"]["readinessGates"].as_array();
    let open = |gate: &Value| {
        let kind = gate["conditionType"].as_str().unwrap_or_default();
        condition(pod, kind).is_some_and(|c| c["status"] == "True")
    };
    gates.is_none_or(|gates| gates.iter().all(open))
}

/// The time at which deletion was asked for: the timestamp is when the grace ends.
fn deletion_asked(metadata: &Value) -> Option<Timestamp> {
    let ends = time(&metadata["deletionTimestamp"])?;
    let grace = metadata["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or_default();
    ends.checked_sub(SignedDuration::from_secs(grace)).ok()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

pub(super) fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|c| c["type"] == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn revisions_are_named_whole_or_by_their_last_part() {
        assert!(names_revision("app-6d4cf56db6", "app-6d4cf56db6"));
        assert!(names_revision("6d4cf56db6", "app-6d4cf56db6"));
        assert!(!names_revision("db6", "app-6d4cf56db6"));
        assert!(!names_revision("", "app-6d4cf56db6"));
        assert!(!names_revision("app", "app-6d4cf56db6"));
        assert!(names_revision("app-6d4cf56db6", "6d4cf56db6"));
        assert!(!names_revision("app-6d4cf56db6", "other-6d4cf56db6"));
        assert!(!names_revision("app-6d4cf56db6", "db6"));
        assert!(!names_revision("app-", ""));
    }

    #[test]
    fn a_pod_that_is_leaving_runs_nothing() {
        let pod = json!({"metadata": {"name": "a-0", "labels": {"controller-revision-hash": "a-1"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"uid": "x"}, {"uid": "w", "controller": true}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let view = PodView::read(&pod);
        assert_eq!(view.owner.as_deref(), Some("w"));
        assert!(view.ready && view.terminating && !view.runs("a-1"));
    }

    #[test]
    fn a_closed_gate_is_believed_before_the_kubelet_says_so() {
        let mut pod = json!({"metadata": {"name": "a"}, "spec": {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(!PodView::read(&pod).ready);
        for (gate, ready) in [("False", false), ("True", true)] {
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True"}, {"type": "InPlaceUpdateReady", "status": gate}]);
            assert_eq!(PodView::read(&pod).ready, ready, "{gate}");
        }
    }

    #[test]
    fn since_when_it_is_as_it_is() {
        let mut pod =
            json!({"metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        let second = |view: &PodView| view.steadily_since().unwrap().as_second() - 1_767_225_600;
        assert_eq!(second(&PodView::read(&pod)), 0);
        pod["status"]["conditions"] =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"}]);
        assert_eq!(second(&PodView::read(&pod)), 7);
        assert_eq!(PodView::read(&pod).trouble, None);
        pod["status"]["containerStatuses"] = json!([{"restartCount": 1}]);
        assert_eq!(second(&PodView::read(&pod)), 0);
        pod["metadata"]["annotations"] = json!({names::IN_PLACE_UPDATE_STATE: r#"{"revision": "a-2", "updateTimestamp": "2026-01-01T00:00:05Z"}"#});
        assert_eq!(second(&PodView::read(&pod)), 5);
        pod["metadata"]["annotations"] = json!({names::IN_PLACE_UPDATE_STATE: "junk"});
        assert_eq!(second(&PodView::read(&pod)), 0);
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(second(&PodView::read(&pod)), 30);
    }
}
