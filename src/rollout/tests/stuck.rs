//! Pods in the way of a release: replaced, or named.

use rstest::rstest;
use serde_json::json;

use super::deadline::{broken, deadline, seconds_until_wake, stalled, told};
use super::world::{World, steps};

/// Where pods are managed in order, a rollback works past a pod that never becomes ready.
#[rstest]
#[case::default(None, 30)]
#[case::own(Some(5), 5)]
#[case::own_and_long(Some(3600), 3600)]
fn back_past_a_pod_in_the_way(#[case] own: Option<i32>, #[case] seconds: i64) {
    let mut world = broken(World::in_order(5, Some(0), &steps()));
    if let Some(own) = own {
        deadline(&mut world, own);
    }
    world.set_image("v1");
    world.settle();
    assert_eq!(world.on("v2"), [4]);
    assert_eq!(seconds_until_wake(&world), Some(seconds));
    world.pass(seconds - 1);
    world.settle();
    assert_eq!(world.on("v2"), [4]);
    world.forget_logs();
    world.pass(1);
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(world.events, ["StuckPodReplaced", "RolledBack"]);
}

#[test]
fn forward_past_a_pod_in_the_way() {
    let mut world = broken(World::in_order(5, Some(0), &steps()));
    world.set_image("v3");
    world.settle();
    world.pass(30);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert_eq!((world.on("v3"), world.on("v2")), (vec![4], vec![]));
    world.finish();
    world.assert_done("v3", Some(0));
}

/// At whatever place: the operator waits for all of them, also for those that are kept back, which return as stable ones.
#[test]
fn forward_past_a_pod_that_is_kept_back() {
    let mut world = World::in_order(
        5,
        Some(0),
        &json!([{"replicas": "60%", "pause": {}}, {"replicas": "100%"}]),
    );
    world.set_image("v2");
    world.settle();
    assert_eq!(world.on("v2"), [2, 3, 4]);
    let again = json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}]);
    world.edit_rollout(|rollout| {
        rollout.spec.strategy.canary.as_mut().unwrap().steps = serde_json::from_value(again).unwrap();
    });
    world.broken.insert("v2".to_owned());
    world.kubelet();
    world.set_image("v3");
    world.settle();
    assert_eq!(world.on("v3"), [0; 0]);
    for _ in 0..3 {
        world.pass(30);
        world.settle();
    }
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert_eq!((world.on("v3"), world.on("v1")), (vec![4], vec![0, 1, 2, 3]));
}

/// An operator that calls the update revision current at once would bring a pod that is kept back to it.
#[test]
fn a_pod_that_would_come_back_updated_is_left_alone() {
    let mut world = World::in_order(
        5,
        Some(0),
        &json!([{"replicas": "60%", "pause": {}}, {"replicas": "100%"}]),
    );
    world.habits.current_at_once = true;
    world.set_image("v2");
    world.settle();
    assert_eq!(world.on("v2"), [2, 3, 4]);
    world.broken.insert("v2".to_owned());
    world.kubelet();
    world.edit_rollout(|rollout| {
        let one = json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}]);
        rollout.spec.strategy.canary.as_mut().unwrap().steps = serde_json::from_value(one).unwrap();
    });
    world.set_image("v3");
    world.settle();
    world.pass(30);
    world.settle();
    assert_eq!((world.on("v2"), world.on("v3")), (vec![2, 3], vec![]));
    world.pass(600);
    world.settle();
    assert_eq!(stalled(&world), told("ProgressDeadlineExceeded"));
    assert!(world.status().message.contains("pod my-app-2 is not ready since"));
}

#[test]
fn nobody_is_replaced_where_the_switch_is_off() {
    let mut world = broken(World::in_order(5, Some(0), &steps()));
    world.replaces = false;
    world.set_image("v1");
    world.settle();
    world.pass(30);
    world.forget_logs();
    world.settle();
    assert_eq!(world.on("v2"), [4]);
    assert_eq!(stalled(&world), told("PodInTheWay"));
    assert_eq!(world.events, ["Stalled"]);
    let message = world.status().message;
    let expected = "rolling back: pods return to the stable template, without steps; pod my-app-4 is not ready since \
        2026-01-01T00:00:00Z (container main in CrashLoopBackOff: exit code 1); its revision my-app-v2 is neither the stable \
        nor the wanted one, and it holds up all others, since pods are managed in order; delete it: kubectl delete pod \
        my-app-4 -n default";
    assert_eq!(message, expected);
    world.pass(10_000);
    world.settle();
    assert_eq!(world.status().message, expected);
    world.delete_pod(4);
    world.settle();
    world.assert_done("v1", Some(0));
}

/// Broken as they are, these are not in the way: the updated pod itself, pods while the release is paused, pods that do not wait
/// for each other, and all of them while it is not known what the wanted revision is.
#[test]
fn what_is_not_in_the_way_stays() {
    let replaced = |world: &mut World| {
        world.pass(100_000);
        world.forget_logs();
        world.settle();
        world.events.contains(&"StuckPodReplaced")
    };
    assert!(!replaced(&mut broken(World::in_order(5, Some(0), &steps()))));

    let mut paused = broken(World::in_order(5, Some(0), &steps()));
    paused.edit_rollout(|rollout| rollout.spec.strategy.paused = true);
    paused.set_image("v3");
    paused.settle();
    assert!(!replaced(&mut paused));

    let mut off = broken(World::in_order(5, Some(0), &steps()));
    deadline(&mut off, 0);
    off.set_image("v3");
    off.settle();
    assert!(!replaced(&mut off));

    let mut parallel = broken(World::guarded(5, Some(0), &steps()));
    parallel.patch(&json!({"spec": {"podManagementPolicy": "Parallel"}}));
    parallel.set_image("v1");
    assert!(!replaced(&mut parallel));

    let mut unseen = broken(World::in_order(5, Some(0), &steps()));
    unseen.set_image("v1");
    unseen.pass(100_000);
    unseen.forget_logs();
    for _ in 0..5 {
        unseen.control();
    }
    assert_eq!(unseen.on("v2"), [4]);
    assert!(!unseen.events.contains(&"StuckPodReplaced"));
}

/// The pod becomes ready before the deletion arrives.
#[test]
fn a_pod_that_has_changed_is_not_deleted() {
    let mut world = broken(World::in_order(5, Some(0), &steps()));
    world.set_image("v1");
    world.settle();
    world.pass(30);
    let seen = world.seen();
    assert!(!world.decide(&seen).actions.is_empty());
    world.broken.clear();
    world.kubelet();
    world.control_on(&seen, usize::MAX);
    assert!(world.pods.values().all(|pod| !pod.terminating));
}

/// A rollback by steps waits for the operator like a release does.
#[test]
fn back_in_batches_past_a_pod_in_the_way() {
    let mut world = World::in_order(5, Some(0), &steps());
    world.back_in_batches(true);
    let mut world = broken(world);
    world.set_image("v1");
    world.settle();
    assert_eq!(world.on("v2"), [4]);
    world.finish();
    world.assert_done("v1", Some(0));
    assert!(world.events.contains(&"StuckPodReplaced"), "{:?}", world.events);
}

/// A pause that has passed while pods were lost is over, whatever had to be replaced since.
#[test]
fn a_pause_does_not_begin_anew_with_a_replaced_pod() {
    let plan = |first: &str| json!([{"replicas": first, "pause": {"duration": 300}}, {"replicas": "100%"}]);
    let mut world = World::in_order(5, Some(0), &plan("60%"));
    world.set_image("v2");
    world.settle();
    assert_eq!(world.on("v2"), [2, 3, 4]);
    world.replan(&plan("20%"));
    world.set_image("v3");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v3")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.broken.extend(["v2".to_owned(), "v3".to_owned()]);
    world.kubelet();
    world.forget_logs();
    world.pass(301);
    world.settle();
    assert!(world.events.contains(&"StuckPodReplaced"), "{:?}", world.events);
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.broken.clear();
    world.settle();
    world.assert_done("v3", Some(0));
}
