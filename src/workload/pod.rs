//! What is kept of a pod, and how pods of a workload are counted.

use serde::Serialize;
use serde_json::Value;

use super::marks::read_count;
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
    /// Condition Ready is True.
    pub ready: bool,
    /// Deletion has been asked for.
    pub terminating: bool,
    /// Phase Failed or Succeeded: the pod runs nothing and will be replaced.
    pub finished: bool,
    /// Why it is not ready: the first waiting or terminated reason, or the scheduler's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
        let ready = condition(pod, "Ready").is_some_and(|c| c["status"] == "True");
        Self {
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            owner,
            revision: label(names::CONTROLLER_REVISION_HASH).or_else(|| label(names::POD_TEMPLATE_HASH)),
            rollout_id: label(names::ROLLOUT_ID),
            batch_id: label(names::ROLLOUT_BATCH_ID),
            ready,
            terminating: metadata.get("deletionTimestamp").is_some_and(|t| !t.is_null()),
            finished: matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")),
            reason: if ready { None } else { reason(pod) },
        }
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

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|c| c["type"] == kind)
}

fn reason(pod: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
    let containers = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|field| pod["status"][field].as_array())
        .flatten();
    for container in containers {
        let state = &container["state"];
        if let Some(reason) =
            text(&state["waiting"]["reason"]).or_else(|| text(&state["terminated"]["reason"]))
        {
            return Some(reason);
        }
    }
    condition(pod, "PodScheduled")
        .filter(|c| c["status"] == "False")
        .and_then(|c| text(&c["reason"]))
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
    fn the_reason_is_the_first_thing_that_keeps_it_from_being_ready() {
        let waiting = json!({"metadata": {"name": "a"}, "status": {"containerStatuses": [
            {"state": {"running": {}}}, {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        assert_eq!(
            PodView::read(&waiting).reason.as_deref(),
            Some("CrashLoopBackOff")
        );
        let unschedulable = json!({"metadata": {"name": "a"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
        assert_eq!(
            PodView::read(&unschedulable).reason.as_deref(),
            Some("Unschedulable")
        );
    }
}
