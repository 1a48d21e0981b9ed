//! Kinds that update any pod: CloneSet, and Advanced DaemonSet, which has a pod for each node.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{World, clone_set, daemon_set, nested, steps};
use crate::api::v1beta1::condition;
use crate::names;
use crate::workload::{Adapter, Partition};

/// A guarded workload at rest.
fn guarded(adapter: &'static dyn Adapter, steps: &Value) -> World {
    World::of(adapter, 5, Some(0)).under(steps)
}

/// Waits at a pause of this step, with so many pods on `v2`.
fn paused_at(world: &World, step: usize, pods: usize) {
    assert_eq!(
        (world.at(), world.on("v2").len()),
        (format!("Progressing {step}/StepPaused"), pods)
    );
}

#[rstest]
fn by_numbers_and_by_shares(
    #[values(clone_set(), daemon_set())] adapter: &'static dyn Adapter,
    #[values(json!(2), json!("40%"), json!("21%"))] two: Value,
) {
    let plan = json!([{"replicas": two, "pause": {}}, {"replicas": "60%", "pause": {"duration": 300}}, {"replicas": "100%"}]);
    let mut world = guarded(adapter, &plan);
    world.set_image("v2");
    assert_eq!(world.partition(), Some(names::HOLD_PARTITION));
    world.settle();
    paused_at(&world, 1, 2);
    world.approve();
    world.settle();
    paused_at(&world, 2, 3);
    world.pass(300);
    world.settle();
    world.assert_done("v2", Some(0));
    assert_eq!(world.partitions, [Some(32767), Some(3), Some(2), Some(0)]);
    assert_eq!(world.says(condition::SUCCEEDED).0, "True");
}

#[rstest]
#[case(None)]
#[case(Some(json!(0)))]
#[case(Some(json!(2)))]
#[case(Some(json!("20%")))]
#[case(Some(json!("0%")))]
fn people_get_back_what_they_had(
    #[values(clone_set(), daemon_set())] adapter: &'static dyn Adapter,
    #[case] original: Option<Value>,
) {
    let asked = |world: &World| {
        let path = adapter.partition_path().unwrap();
        let at = path.iter().try_fold(world.object(), |at, name| at.get(*name));
        at.cloned()
    };
    let mut world = World::of(adapter, 5, None);
    world.patch(&nested(adapter.partition_path().unwrap(), json!(original)));
    world = world.under(&steps());
    for image in ["v2", "v3"] {
        world.set_image(image);
        world.settle();
        assert_eq!(world.partition(), Some(4));
        world.finish();
        assert_eq!(
            (world.marks(), asked(&world)),
            (vec![names::GUARDED_BY.to_owned()], original.clone())
        );
        assert_eq!(world.on(image).len(), 5);
    }
    world.set_image("v4");
    world.settle();
    world.delete_rollout();
    world.settle();
    assert_eq!((world.marks(), asked(&world)), (vec![], original));
    assert_eq!(world.on("v4").len(), 5);
}

#[rstest]
fn a_percentage_in_mid_release_is_for_later(
    #[values(clone_set(), daemon_set())] adapter: &'static dyn Adapter,
    #[values(0, 20, 100)] percent: u32,
) {
    let mut world = guarded(adapter, &steps());
    world.set_image("v2");
    world.settle();
    world.set_share(percent);
    assert_eq!(world.partition(), Some(4));
    world.settle();
    paused_at(&world, 1, 1);
    world.finish();
    assert_eq!(world.view().partition, Some(Partition::Percent(percent)));
    assert_eq!(
        (world.on("v2").len(), world.marks()),
        (5, vec![names::GUARDED_BY.to_owned()])
    );
}

#[rstest]
fn back_to_the_stable_template(
    #[values(clone_set(), daemon_set())] adapter: &'static dyn Adapter,
    #[values(0, 1, 2)] steps_taken: usize,
) {
    let mut world = guarded(adapter, &steps());
    world.set_image("v2");
    if steps_taken > 0 {
        world.settle();
    }
    if steps_taken > 1 {
        world.approve();
        world.settle();
    }
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", Some(0));
    if steps_taken > 0 {
        assert_eq!(
            world.says(condition::SUCCEEDED),
            ("False".into(), "RolledBack".into())
        );
    }
}

#[rstest]
fn another_template_in_mid_release_begins_again(
    #[values(clone_set(), daemon_set())] adapter: &'static dyn Adapter,
) {
    let mut world = guarded(adapter, &steps());
    world.set_image("v2");
    world.settle();
    world.approve();
    world.settle();
    paused_at(&world, 2, 3);
    world.set_image("v3");
    assert_eq!(world.partition(), Some(names::HOLD_PARTITION));
    world.settle();
    // Any pod of the others may have been the first.
    assert_eq!(
        (world.at().as_str(), world.on("v3").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.finish();
    world.assert_done("v3", Some(0));
}

#[rstest]
fn broken_pods_of_an_abandoned_template_are_the_first_to_go(
    #[values(clone_set(), daemon_set())] adapter: &'static dyn Adapter,
) {
    let mut world = guarded(adapter, &steps());
    world.broken.insert("v2".to_owned());
    world.set_image("v2");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepUpgrade");
    world.set_image("v3");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 0)
    );
    world.finish();
    world.assert_done("v3", Some(0));
}

#[test]
fn a_clone_set_that_is_scaled_in_mid_release_keeps_to_its_share() {
    let plan = json!([{"replicas": "40%", "pause": {}}, {"replicas": "100%"}]);
    let mut world = guarded(clone_set(), &plan);
    world.set_image("v2");
    world.settle();
    paused_at(&world, 1, 2);
    world.set_replicas(10);
    assert_eq!(world.partition(), Some(10));
    world.settle();
    paused_at(&world, 1, 4);
    assert_eq!(world.partition(), Some(6));
    world.set_replicas(5);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.partition()),
        ("Progressing 1/StepPaused", Some(3))
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn new_nodes_run_the_new_template_and_count() {
    let plan =
        json!([{"replicas": "40%", "pause": {}}, {"replicas": "80%", "pause": {}}, {"replicas": "100%"}]);
    let mut world = guarded(daemon_set(), &plan);
    world.set_image("v2");
    world.settle();
    paused_at(&world, 1, 2);
    world.scale(10);
    world.settle();
    // Two by the step and five new ones, of ten: the step has room for four.
    paused_at(&world, 1, 7);
    assert_eq!(world.partition(), Some(6));
    world.approve();
    world.settle();
    paused_at(&world, 2, 8);
    world.scale(5);
    world.settle();
    assert_eq!(world.partition(), Some(1));
    world.finish();
    world.assert_done("v2", Some(0));
}

#[rstest]
fn a_lost_pod_comes_back_as_the_partition_says(#[values(true, false)] updated: bool) {
    let mut world = guarded(clone_set(), &steps());
    world.set_image("v2");
    world.settle();
    let on = world.on(if updated { "v2" } else { "v1" });
    world.delete_pod(on[0]);
    world.settle();
    paused_at(&world, 1, 1);
    world.finish();
    world.assert_done("v2", Some(0));
}

#[rstest]
fn deleting_the_rollout_releases_the_rest(
    #[values(clone_set(), daemon_set())] adapter: &'static dyn Adapter,
) {
    let mut world = guarded(adapter, &steps());
    world.set_image("v2");
    world.settle();
    paused_at(&world, 1, 1);
    world.delete_rollout();
    world.restart();
    world.settle();
    assert_eq!(
        (world.marks(), world.partition(), world.on("v2").len()),
        (vec![], Some(0), 5)
    );
}

#[rstest]
fn what_keeps_an_operator_from_updating_is_said(
    #[values(clone_set(), daemon_set())] adapter: &'static dyn Adapter,
) {
    let path = adapter.paths().paused.as_ref().unwrap().path();
    let mut world = guarded(adapter, &steps());
    world.patch(&nested(path, json!(true)));
    world.set_image("v2");
    world.control();
    world.control();
    let remark = format!("{} of MyStatefulApp.example.io my-app is true", path.join("."));
    assert!(
        world.status().message.contains(&remark),
        "{}",
        world.status().message
    );
    world.settle();
    world.pass(601);
    world.settle();
    let stalled = world.condition(condition::STALLED).unwrap();
    assert!(stalled.message.contains(&remark), "{stalled:?}");
    world.patch(&nested(path, json!(null)));
    world.settle();
    paused_at(&world, 1, 1);
    assert!(!world.status().message.contains("is true"));
}

#[test]
fn nothing_is_granted_before_the_number_of_pods_is_known() {
    let mut world = World::of(daemon_set(), 5, Some(0)).under(&steps());
    let mut object = world.object().clone();
    object.as_object_mut().unwrap().remove("status");
    world.put_in_place(object);
    world.set_image("v2");
    for _ in 0..3 {
        world.control();
    }
    assert_eq!(world.partition(), Some(names::HOLD_PARTITION));
    assert!(
        world.status().message.contains("how many pods"),
        "{}",
        world.status().message
    );
    world.settle();
    paused_at(&world, 1, 1);
    world.finish();
    world.assert_done("v2", Some(0));
}
