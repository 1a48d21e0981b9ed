//! What is wrong with a pod, in words that stay the same while it stays as wrong.
//!
//! A container that crashes again and again is running, ended and waiting in turn, and an image that cannot be pulled is tried
//! again and again. Nothing here follows these turns, and nothing counts restarts: a message made of it is written once.

use serde_json::Value;

use super::pod::{condition, text};

/// What is known of a pod that is not ready or on its way out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The node that it is on, if any.
    pub node: Option<String>,
    /// Why it is not ready, in a few words.
    pub why: String,
}

impl Trouble {
    /// Reads a pod.
    #[must_use]
    pub fn read(pod: &Value) -> Self {
        Self {
            node: text(&pod["spec"]["nodeName"]),
            why: why(pod),
        }
    }
}

/// The containers that keep a pod from being ready, those first that begin first.
fn unready(pod: &Value) -> impl Iterator<Item = &Value> {
    statuses(pod).filter(|container| container["ready"] != true)
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|field| pod["status"][field].as_array())
        .flatten()
}

/// Whether a container has ended and begun again.
pub(super) fn restarted(pod: &Value) -> bool {
    statuses(pod).any(|container| container["restartCount"].as_u64().is_some_and(|count| count > 0))
}

/// The reason of the moment, one word: the first waiting or terminated one, or the scheduler's.
pub(super) fn reason(pod: &Value) -> Option<String> {
    let of = |container: &Value| {
        let state = &container["state"];
        text(&state["waiting"]["reason"]).or_else(|| text(&state["terminated"]["reason"]))
    };
    unready(pod).find_map(of).or_else(|| unscheduled(pod))
}

fn unscheduled(pod: &Value) -> Option<String> {
    condition(pod, "PodScheduled")
        .filter(|c| c["status"] == "False")
        .and_then(|c| text(&c["reason"]))
}

fn why(pod: &Value) -> String {
    let status = &pod["status"];
    if let Some(phase @ ("Failed" | "Succeeded")) = status["phase"].as_str() {
        return text(&status["reason"]).map_or_else(|| phase.to_owned(), |why| format!("{phase}: {why}"));
    }
    if let Some(reason) = unscheduled(pod) {
        return format!("{reason}: no node takes it");
    }
    if let Some(container) = unready(pod).next() {
        return of_container(container);
    }
    let readiness = condition(pod, "Ready").and_then(|c| text(&c["reason"]));
    readiness.unwrap_or_else(|| "its containers have not begun".to_owned())
}

fn of_container(container: &Value) -> String {
    let name = container["name"].as_str().unwrap_or_default();
    let state = &container["state"];
    let ended = [&state["terminated"], &container["lastState"]["terminated"]]
        .into_iter()
        .find(|ended| ended["exitCode"].is_i64());
    if let Some(ended) = ended {
        let why = match ended["reason"].as_str() {
            None | Some("" | "Error" | "Completed") => String::new(),
            Some(reason) => format!(", {reason}"),
        };
        return format!(
            "container {name} in CrashLoopBackOff: exit code {}{why}",
            ended["exitCode"]
        );
    }
    match state["waiting"]["reason"].as_str() {
        Some("ErrImagePull" | "ImagePullBackOff") => {
            let image = container["image"].as_str().unwrap_or_default();
            format!("container {name} in ImagePullBackOff: image {image}")
        }
        Some(reason) if !reason.is_empty() => format!("container {name} in {reason}"),
        _ if state["running"].is_object() => format!("container {name} runs and is not ready"),
        _ => format!("container {name} has not begun"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(container: &Value) -> Value {
        let mut container = container.clone();
        container["name"] = json!("app");
        container["image"] = json!("app:v2");
        let done = json!({"name": "prepare", "ready": true, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let beside = json!({"name": "proxy", "ready": true, "state": {"running": {}}});
        json!({"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"nodeName": "n1"},
            "status": {"initContainerStatuses": [done], "containerStatuses": [beside, container]}})
    }

    #[rstest]
    #[case::waits(json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}},
        "restartCount": 3}))]
    #[case::runs(json!({"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
        "restartCount": 4}))]
    #[case::ended(json!({"state": {"terminated": {"exitCode": 1, "reason": "Error"}}, "restartCount": 4}))]
    fn a_crash_is_the_same_at_every_turn(#[case] container: Value) {
        let trouble = Trouble::read(&pod(&container));
        assert_eq!(trouble.why, "container app in CrashLoopBackOff: exit code 1");
        assert_eq!(trouble.node.as_deref(), Some("n1"));
    }

    #[rstest]
    #[case("ErrImagePull", "container app in ImagePullBackOff: image app:v2")]
    #[case("ImagePullBackOff", "container app in ImagePullBackOff: image app:v2")]
    #[case("CreateContainerConfigError", "container app in CreateContainerConfigError")]
    fn waiting(#[case] reason: &str, #[case] why: &str) {
        let trouble = Trouble::read(&pod(&json!({"state": {"waiting": {"reason": reason}}})));
        assert_eq!(trouble.why, why);
    }

    #[rstest]
    #[case(json!({"containerStatuses": [{"name": "app", "state": {"running": {}}}]}), "container app runs and is not ready")]
    #[case(json!({"containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}),
        "container app in CrashLoopBackOff: exit code 137, OOMKilled")]
    #[case(json!({"phase": "Failed", "reason": "Evicted"}), "Failed: Evicted")]
    #[case(json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available"}]}), "Unschedulable: no node takes it")]
    #[case(json!({"conditions": [{"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}]}),
        "ReadinessGatesNotReady")]
    #[case(json!({}), "its containers have not begun")]
    fn other_troubles(#[case] status: Value, #[case] why: &str) {
        assert_eq!(Trouble::read(&json!({"metadata": {}, "status": status})).why, why);
    }

    #[test]
    fn the_reason_is_the_first_thing_that_keeps_it_from_being_ready() {
        let waiting = pod(&json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}));
        assert_eq!(reason(&waiting).as_deref(), Some("CrashLoopBackOff"));
        let unschedulable = json!({"metadata": {"name": "a"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
        assert_eq!(reason(&unschedulable).as_deref(), Some("Unschedulable"));
    }
}
