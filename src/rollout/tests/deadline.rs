//! A release that does not get on: what is told.

use rstest::rstest;
use serde_json::json;

use super::world::{World, steps};
use crate::api::v1beta1::condition;
use crate::rollout::Wake;

/// Step 1 of `v2`, whose only pod never becomes ready.
pub(super) fn broken(mut world: World) -> World {
    world.broken.insert("v2".to_owned());
    world.set_image("v2");
    world.settle();
    assert_eq!(world.on("v2"), [4]);
    assert_eq!(world.at(), "Progressing 1/StepUpgrade");
    world
}

pub(super) fn deadline(world: &mut World, seconds: i32) {
    world.edit_rollout(|rollout| {
        let canary = rollout.spec.strategy.canary.as_mut().unwrap();
        canary.progress_deadline_seconds = Some(seconds);
    });
    world.settle();
}

pub(super) fn stalled(world: &World) -> (String, String) {
    world.says(condition::STALLED)
}

pub(super) fn told(reason: &str) -> (String, String) {
    ("True".to_owned(), reason.to_owned())
}

pub(super) fn seconds_until_wake(world: &World) -> Option<i64> {
    match world.decide(&world.seen()).wake {
        Wake::OnChange => None,
        Wake::At(at) => Some(at.duration_since(world.now).as_secs()),
    }
}

#[rstest]
#[case::default(None, 600)]
#[case::own(Some(20), 20)]
fn a_step_that_does_not_get_on_is_told(#[case] own: Option<i32>, #[case] seconds: i64) {
    let mut world = broken(World::guarded(5, Some(0), &steps()));
    if let Some(own) = own {
        deadline(&mut world, own);
    }
    assert_eq!(seconds_until_wake(&world), Some(seconds));
    world.pass(seconds - 1);
    world.settle();
    assert_eq!(stalled(&world), Default::default());
    world.forget_logs();

    world.pass(1);
    world.settle();
    assert_eq!(stalled(&world), told("ProgressDeadlineExceeded"));
    assert_eq!(world.says(condition::READY).0, "False");
    assert_eq!(world.condition(condition::RECONCILING), None);
    assert_eq!(
        (world.events.as_slice(), world.status_writes),
        (&["Stalled"][..], 1)
    );
    assert_eq!(seconds_until_wake(&world), None);
    let message = world.status().message;
    let expected = "step 1 of 3: updating to 1 of 5 pods; no progress since 2026-01-01T00:00:00Z: pod my-app-4 is not ready since \
        2026-01-01T00:00:00Z (container main in CrashLoopBackOff: exit code 1)";
    assert_eq!(message, expected);

    // It stays as it is, and goes when the pod becomes ready.
    world.pass(4000);
    world.settle();
    assert_eq!(world.status_writes, 1);
    world.broken.clear();
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert_eq!(stalled(&world), Default::default());
    assert!(!world.status().message.contains("progress"));
}

#[test]
fn nothing_is_told_where_the_deadline_is_off() {
    let mut world = broken(World::guarded(5, Some(0), &steps()));
    deadline(&mut world, 0);
    world.pass(100_000);
    world.settle();
    assert_eq!(stalled(&world), Default::default());
    assert_eq!(seconds_until_wake(&world), None);
}

#[test]
fn nothing_is_told_of_a_pause() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.settle();
    world.pass(100_000);
    world.settle();
    assert_eq!(
        (world.at().as_str(), stalled(&world)),
        ("Progressing 1/StepPaused", Default::default())
    );

    let mut world = broken(World::guarded(5, Some(0), &steps()));
    world.edit_rollout(|rollout| rollout.spec.strategy.paused = true);
    world.settle();
    world.pass(100_000);
    world.settle();
    assert_eq!(stalled(&world), Default::default());
}

#[test]
fn every_pod_that_becomes_ready_is_progress() {
    let mut world = World::guarded(5, Some(0), &json!([{"replicas": "100%"}]));
    world.set_image("v2");
    for _ in 0..5 {
        // The operator replaces one pod after the other, and each takes longer than half the deadline.
        for _ in 0..4 {
            world.control();
            world.operate();
            if world.pods.values().any(|pod| pod.terminating) {
                world.pods.retain(|_, pod| !pod.terminating);
            }
        }
        world.pass(400);
        world.control();
        assert_eq!(stalled(&world), Default::default());
        world.kubelet();
    }
    world.settle();
    world.assert_done("v2", Some(0));
}

#[test]
fn who_holds_it_up_is_told_in_order() {
    let mut world = World::guarded(5, Some(0), &json!([{"replicas": "100%"}]));
    world.set_image("v2");
    for _ in 0..3 {
        world.control();
    }
    // The operator asks the last pod to leave, and it stays.
    world.operate();
    assert!(world.pods[&4].terminating);
    world.pass(600);
    world.control();
    assert_eq!(stalled(&world), told("ProgressDeadlineExceeded"));
    let message = world.status().message;
    assert!(
        message.ends_with(": pod my-app-4 is terminating since 2026-01-01T00:00:00Z on node node-1"),
        "{message}"
    );

    // Nobody is to blame.
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.control();
    world.control();
    world.pass(600);
    world.control();
    assert_eq!(stalled(&world), told("ProgressDeadlineExceeded"));
    let message = world.status().message;
    assert!(
        message.ends_with("no pod is in trouble: does the operator of MyStatefulApp.example.io my-app run?"),
        "{message}"
    );
}

#[test]
fn three_pods_are_named() {
    let mut world = World::guarded(5, Some(0), &json!([{"replicas": "100%"}]));
    world.set_image("v2");
    world.control();
    world.control();
    world.broken.insert("v1".to_owned());
    world.kubelet();
    world.pass(600);
    world.control();
    let message = world.status().message;
    let start = message.find("pod my-app-0").unwrap();
    let names: Vec<_> = message[start..]
        .split("; ")
        .map(|part| part.split(" is ").next().unwrap())
        .collect();
    assert_eq!(
        names,
        ["pod my-app-0", "pod my-app-1", "pod my-app-2", "and 2 more"]
    );
}

#[test]
fn a_restart_is_no_news() {
    let mut world = broken(World::guarded(5, Some(0), &steps()));
    world.pass(600);
    world.settle();
    let before = world.status();
    world.forget_logs();
    world.restart();
    world.pass(10);
    world.settle();
    assert_eq!(world.status(), before);
    assert_eq!((world.status_writes, world.events.len()), (0, 0));
}

#[test]
fn a_rollback_has_a_deadline_of_its_own() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.settle();
    world.pass(100_000);
    world.set_image("v1");
    world.control();
    world.control();
    assert_eq!(world.at(), "Progressing 1/StepUpgrade");
    assert_eq!(stalled(&world), Default::default());
    assert_eq!(seconds_until_wake(&world), Some(600));
    world.pass(600);
    world.control();
    assert_eq!(stalled(&world), told("ProgressDeadlineExceeded"));
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(stalled(&world), Default::default());
}

/// A step that is done and loses pods: neither an approval nor the end of its time takes the release further until they are back.
#[rstest]
#[case::approved(json!({}))]
#[case::timed(json!({"duration": 300}))]
fn the_next_step_waits_for_pods_that_the_step_has_lost(#[case] pause: serde_json::Value) {
    let mut world = World::guarded(
        5,
        Some(0),
        &json!([{"replicas": 1, "pause": pause}, {"replicas": "100%"}]),
    );
    world.set_image("v2");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.pass(200);
    world.broken.insert("v2".to_owned());
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.pass(100);
    if pause == json!({}) {
        world.approve();
    }
    world.settle();
    assert_eq!(
        (world.canary().current_step_index, world.partition()),
        (1, Some(4))
    );
    let message = world.status().message;
    assert_eq!(
        message,
        "step 1 of 2: pods of the step are not ready any more; goes on once 1 of 5 pods are updated and ready"
    );
    world.pass(499);
    world.settle();
    assert_eq!(stalled(&world), Default::default());
    world.pass(1);
    world.settle();
    assert_eq!(stalled(&world), told("ProgressDeadlineExceeded"));
    world.broken.clear();
    world.settle();
    world.assert_done("v2", Some(0));
}

/// A pod counts once it has been ready for `minReadySeconds`.
#[test]
fn a_step_is_done_when_its_pods_are_available() {
    let mut world = World::guarded(
        5,
        Some(0),
        &json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}]),
    );
    world.patch(&json!({"spec": {"minReadySeconds": 10}}));
    world.set_image("v2");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepUpgrade");
    assert_eq!(seconds_until_wake(&world), Some(10));
    world.pass(10);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 2/StepUpgrade", 5)
    );
    world.pass(10);
    world.settle();
    world.assert_done("v2", Some(0));
}
