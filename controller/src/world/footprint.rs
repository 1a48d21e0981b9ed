//! What the stores take. Memory is what a large cluster meets first, so it is counted here; docs/performance.md has the sum.

use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kruise_rollout::rollout::Workload;
use kruise_rollout::workload::{GroupKind, Guard, PodView, TemplateId};
use serde_json::{Value, json};

use super::{Place, World};

const UID: &str = "6bbc4cb5-78fd-4abe-8204-6eb43ed138";

/// A Rollout whose release has ended, as the API server stores it.
fn rollout(number: u32) -> Rollout {
    let time = "2026-01-01T00:00:00Z";
    let condition = |type_: &str, message: &str| {
        json!({"type": type_, "status": "True", "reason": "Completed", "message": message,
            "lastTransitionTime": time, "lastUpdateTime": time})
    };
    let message = "release completed: every pod runs the new template";
    serde_json::from_value(json!({
        "metadata": {"name": format!("app-{number:05}"), "namespace": "shop", "uid": format!("{UID}-r{number:05}"),
            "resourceVersion": (100_000 + number).to_string(), "generation": 1, "creationTimestamp": time},
        "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": format!("app-{number:05}")},
            "strategy": {"canary": {"steps": [{"replicas": 1, "pause": {"duration": 60}},
                {"replicas": "60%", "pause": {"duration": 60}}, {"replicas": "100%"}]}}},
        "status": {"observedGeneration": 1, "phase": "Healthy", "currentStepIndex": 3, "currentStepState": "Completed",
            "message": message,
            "conditions": [condition("Guarded", "a template change of StatefulSet.apps app is held: proven by a dry-run"),
                condition("Ready", message), condition("Progressing", message), condition("Succeeded", message)],
            "canaryStatus": {"currentStepIndex": 3, "currentStepState": "Completed", "nextStepIndex": -1, "message": message,
                "lastUpdateTime": time, "canaryReplicas": 5, "canaryReadyReplicas": 5, "canaryRevision": "app-75cd7df57f",
                "stableRevision": "app-75cd7df57f", "podTemplateHash": "app-75cd7df57f", "observedRolloutID": "app-75cd7df57f",
                "observedWorkloadGeneration": 5, "observedWorkloadUID": format!("{UID}-w{number:05}"),
                "templateId": "8b72f57bfdfd45cb-15247564", "stableTemplateId": "8b72f57bfdfd45cb-15247564"}},
    }))
    .unwrap()
}

/// Its workload, guarded and at rest.
fn workload(number: u32) -> (Place, Value) {
    let (name, uid) = (format!("app-{number:05}"), format!("{UID}-w{number:05}"));
    let template = json!({"metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "app", "image": "my-registry/my-app:v1"}]}});
    let guard = Guard::text(&uid, &name, &TemplateId::of(&template));
    let object = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": (200_000 + number).to_string(),
            "generation": 5, "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {names::GUARDED_BY: guard},
            "labels": {names::WORKLOAD_TYPE: names::TYPE_STATEFULSET}},
        "spec": {"replicas": 5, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
        "status": {"observedGeneration": 5, "replicas": 5, "readyReplicas": 5, "availableReplicas": 5, "updatedReplicas": 5,
            "currentRevision": "app-75cd7df57f", "updateRevision": "app-75cd7df57f"},
    });
    let kind = GroupKind {
        group: "apps".to_owned(),
        kind: "StatefulSet".to_owned(),
    };
    let place = Place {
        namespace: "shop".to_owned(),
        workload: Workload { kind, name },
    };
    (place, object)
}

fn pod(number: u32, owner: &Value) -> PodView {
    PodView::read(&json!({
        "metadata": {"name": format!("app-00000-{number}"), "uid": format!("{UID}-p{number:05}"), "resourceVersion": "300000",
            "labels": {names::CONTROLLER_REVISION_HASH: "app-75cd7df57f"}, "ownerReferences": owner},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
}

fn filled(count: u32) -> World {
    let world = World::default();
    world.rollouts_known();
    for number in 0..count {
        world.put_rollout(rollout(number));
        let (place, object) = workload(number);
        world.put_workload(&place, &object);
    }
    world
}

/// Bytes that stay allocated for each.
fn each(count: u32, fill: impl FnOnce()) -> i64 {
    allocation_counter::measure(fill).bytes_current / i64::from(count)
}

#[test]
fn a_rollout_at_rest_and_its_workload_take_less_than_four_kib_however_many_there_are() {
    let taken = |count| {
        let mut kept = None;
        let bytes = each(count, || kept = Some(filled(count)));
        drop(kept);
        bytes
    };
    let (few, many) = (taken(1_000), taken(8_000));
    assert!((1_000..4_096).contains(&few), "{few} bytes");
    assert!(many < few + few / 8, "{few} and {many} bytes");
}

#[test]
fn all_that_was_known_of_a_rollout_is_forgotten_with_it() {
    let world = filled(1);
    let there_and_gone = |number| {
        let rollout = rollout(number);
        let key = super::key_of(&rollout);
        world.put_rollout(rollout);
        let (place, object) = workload(number);
        world.put_workload(&place, &object);
        world.prove(&key, UID, kruise_rollout::rollout::Proof::Proven);
        world.looked(&key, crate::lease::Term(1));
        world.drop_workload(&place);
        world.drop_rollout(&key);
    };
    // The tables keep the room that they once needed.
    (1..100).for_each(there_and_gone);
    assert_eq!(each(1, || (100..200).for_each(there_and_gone)), 0);
}

#[test]
fn a_pod_takes_little_where_a_release_is_in_progress_and_nothing_if_it_is_nobodys() {
    let world = filled(1);
    let owned = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "app-00000", "uid": format!("{UID}-w00000"),
        "controller": true}]);
    let taken = |owner: &Value, numbers: std::ops::Range<u32>| {
        each(1_000, || {
            for number in numbers {
                world.with_pods(|pods| pods.put("shop", pod(number, owner)));
            }
        })
    };
    let (ours, nobodys) = (taken(&owned, 0..1_000), taken(&Value::Null, 1_000..2_000));
    assert!((100..1_536).contains(&ours), "{ours} bytes");
    assert_eq!(nobodys, 0);
}
