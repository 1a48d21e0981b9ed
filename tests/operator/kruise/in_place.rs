//! Updates in place: the containers of a pod get the images of another revision, and the pod stays. A pod that has the readiness
//! gate for it is not ready until its containers have been replaced. Templates that differ in more than images are not told apart:
//! tests change nothing else.

use k8s_openapi::api::core::v1 as core;
use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::plan::PodAction;
use crate::pod::Pod;
use crate::revision::Revision;

/// Condition that closes the gate.
pub(crate) const GATE: &str = "InPlaceUpdateReady";
/// Annotation that tells of the last update in place.
const STATE: &str = "apps.kruise.io/inplace-update-state";

/// Gates that have to be opened: those of new pods, and of pods whose containers run what they should.
pub(crate) fn openings(pods: &[Pod]) -> impl Iterator<Item = PodAction> {
    let due = pods.iter().filter(|pod| pod.gate_is_due && !pod.terminating);
    due.map(|pod| PodAction::Open {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    })
}

/// Whether the pod has a gate that is not open although its containers run what they should.
pub(crate) fn gate_is_due(pod: &core::Pod) -> bool {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let mut gates = spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let gated = gates.any(|gate| gate.condition_type == GATE);
    let mut conditions = status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let open = conditions.any(|condition| condition.type_ == GATE && condition.status == "True");
    let containers = spec.iter().flat_map(|spec| &spec.containers);
    let running = || {
        status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten())
    };
    let settled = |container: &core::Container| {
        let mut of_it = running().filter(|running| running.name == container.name);
        of_it.all(|running| Some(&running.image) == container.image.as_ref())
    };
    gated && !open && { containers }.all(settled)
}

/// The condition, as a patch of the status.
pub(crate) fn gate(uid: &str, open: bool) -> Value {
    let status = if open { "True" } else { "False" };
    json!({"metadata": {"uid": uid}, "status": {"conditions": [{"type": GATE, "status": status}]}})
}

/// The images and labels of a revision, as a strategic patch of the pod.
pub(crate) fn renewal(kind: &Kind, uid: &str, revision: &Revision) -> Value {
    let labels: Map<String, Value> = kind.revision_labels(&revision.name).into_iter().collect();
    let state = json!({"revision": revision.name}).to_string();
    let containers = revision
        .template
        .pointer("/spec/containers")
        .and_then(Value::as_array);
    let images: Vec<_> = containers
        .into_iter()
        .flatten()
        .map(|container| json!({"name": container["name"], "image": container["image"]}))
        .collect();
    json!({
        "metadata": {"uid": uid, "labels": labels, "annotations": {STATE: state}},
        "spec": {"containers": images},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(image: &str, runs: Option<&str>, gate: Option<&str>) -> core::Pod {
        let conditions = gate.map(|status| json!([{"type": GATE, "status": status}]));
        let running = runs.map(
            |image| json!([{"name": "app", "image": image, "imageID": "", "ready": true, "restartCount": 0}]),
        );
        serde_json::from_value(json!({
            "spec": {"containers": [{"name": "app", "image": image}], "readinessGates": [{"conditionType": GATE}]},
            "status": {"conditions": conditions, "containerStatuses": running},
        }))
        .unwrap()
    }

    #[test]
    fn a_gate_opens_once_the_containers_run_what_they_should() {
        for (pod, due) in [
            (pod("app:v1", None, None), true),
            (pod("app:v1", Some("app:v1"), Some("True")), false),
            (pod("app:v2", Some("app:v1"), Some("False")), false),
            (pod("app:v2", Some("app:v2"), Some("False")), true),
        ] {
            assert_eq!(gate_is_due(&pod), due, "{pod:?}");
        }
        assert!(!gate_is_due(&core::Pod::default()));
    }
}
