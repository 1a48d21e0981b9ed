//! The main job: a release from the first pod to the last.

use serde_json::json;

use super::world::{World, manifest, steps};
use crate::api::v1beta1::condition;
use crate::names;

#[test]
fn the_walk() {
    let mut world = World::guarded(5, Some(0), &steps());
    assert_eq!(world.at(), "Healthy 3/Completed");
    world.set_image("v2");
    assert_eq!(world.partition(), Some(names::HOLD_PARTITION));
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    assert!(
        world
            .status()
            .message
            .contains("kubectl kruise rollout approve rollout/my-app-rollout -n default")
    );
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 2/StepPaused", vec![2, 3, 4])
    );
    world.pass(299);
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused");
    world.pass(1);
    world.settle();
    world.assert_done("v2", Some(0));
    assert_eq!(world.partitions, [Some(32767), Some(4), Some(2), Some(0)]);
    let expected = [
        "Progressing 1/StepUpgrade",
        "Progressing 1/StepPaused",
        "Progressing 2/StepUpgrade",
        "Progressing 2/StepPaused",
        "Progressing 3/StepUpgrade",
        "Healthy 3/Completed",
    ];
    assert_eq!(world.states, expected);
    assert_eq!(
        world.says(condition::PROGRESSING),
        ("False".into(), "Completed".into())
    );
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
    assert_eq!(world.says(condition::READY), ("True".into(), "Healthy".into()));
    assert_eq!(world.says(condition::GUARDED).0, "True");
    let before = world.object().clone();
    world.put(manifest(5, Some(0), "v2"));
    assert_eq!(world.object(), &before);
    // One for each state above, and one when the operator names the new revision.
    assert_eq!(world.status_writes, 7);
}

/// The partition to restore comes back only when every pod is on the new revision and the operator agrees.
#[rstest::rstest]
#[case::above_zero(Some(2), &[Some(32767), Some(4), Some(2), Some(0), Some(2)])]
#[case::absent(None, &[Some(32767), Some(4), Some(2), Some(0), None])]
fn the_partition_that_people_asked_for_is_restored(
    #[case] original: Option<i64>,
    #[case] partitions: &[Option<i64>],
) {
    let mut world = World::guarded(5, original, &steps());
    let manifest = world.object()["spec"].get("updateStrategy").cloned();
    world.set_image("v2");
    let restored = |world: &World| world.partitions.len() == partitions.len();
    for _ in 0..100 {
        world.control();
        if restored(&world) {
            break;
        }
        world.operate();
        world.kubelet();
        world.approve();
        world.pass(60);
    }
    let status = &world.object()["status"];
    assert_eq!(world.on("v2").len(), 5);
    if original.is_some() {
        assert_eq!(status["currentRevision"], status["updateRevision"]);
    }
    world.settle();
    world.assert_done("v2", original);
    assert_eq!(world.partitions, partitions);
    assert_eq!(world.object()["spec"].get("updateStrategy").cloned(), manifest);
}

#[test]
fn a_partition_asked_for_in_mid_release_is_restored_and_releases_nothing() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.settle();
    for partition in [Some(0), None, Some(5), Some(3)] {
        world.set_partition(partition);
        world.settle();
        assert_eq!((world.partition(), world.on("v2")), (Some(4), vec![4]));
    }
    world.finish();
    world.assert_done("v2", Some(3));
}

#[test]
fn applying_the_manifest_again_and_again_releases_nothing() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    for _ in 0..20 {
        world.put(manifest(5, Some(0), "v2"));
        world.control();
        world.put(manifest(5, Some(0), "v2"));
        world.operate();
        world.kubelet();
    }
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn a_plan_that_leaves_pods_behind_ends_with_all() {
    let plan = json!([{"replicas": 1, "pause": {"duration": 5}}, {"replicas": 3, "pause": {}}]);
    let mut world = World::guarded(5, Some(0), &plan);
    world.set_image("v2");
    world.settle();
    world.pass(5);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 2/StepPaused", vec![2, 3, 4])
    );
    world.approve();
    world.settle();
    world.assert_done("v2", Some(0));
}

#[test]
fn the_last_step_that_reaches_all_never_waits() {
    let plan = json!([{"replicas": 1, "pause": {}}, {"replicas": 5, "pause": {}}]);
    let mut world = World::guarded(5, Some(0), &plan);
    world.set_image("v2");
    world.settle();
    world.approve();
    world.settle();
    world.assert_done("v2", Some(0));
}

#[test]
fn a_step_waits_for_its_pods_to_be_ready() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.broken.insert("v2".to_owned());
    world.set_image("v2");
    world.settle();
    world.pass(100_000);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepUpgrade", vec![4])
    );
    // The way on: back, or a template that works.
    world.set_image("v3");
    world.finish();
    world.assert_done("v3", Some(0));
}

#[test]
fn paused_takes_no_step_and_an_approval_given_meanwhile_counts() {
    let mut world = World::guarded(5, Some(0), &steps());
    let pause =
        |world: &mut World, paused| world.edit_rollout(|rollout| rollout.spec.strategy.paused = paused);
    pause(&mut world, true);
    world.set_image("v2");
    world.settle();
    assert_eq!((world.partition(), world.on("v2")), (Some(32767), vec![]));
    assert_eq!(
        world.says(condition::PROGRESSING),
        ("True".into(), "Paused".into())
    );
    pause(&mut world, false);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    pause(&mut world, true);
    world.settle();
    world.approve();
    world.settle();
    assert_eq!((world.partition(), world.on("v2")), (Some(4), vec![4]));
    pause(&mut world, false);
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused");
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn an_approval_that_comes_too_late_approves_nothing() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.control();
    // Over StepUpgrade.
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    // Between a new template and the controller's next look.
    world.set_image("v3");
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v3")),
        ("Progressing 1/StepPaused", vec![4])
    );
    // Twice over the same pause.
    world.approve();
    world.control();
    world.approve();
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused");
    world.finish();
    world.assert_done("v3", Some(0));
}

#[test]
fn a_template_that_comes_in_mid_release_starts_at_the_first_step() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.settle();
    world.approve();
    world.settle();
    world.set_image("v3");
    assert_eq!(world.partition(), Some(32767));
    world.settle();
    // The pods of v2 stay until their turn.
    assert_eq!(
        (world.at().as_str(), world.on("v3"), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4], vec![2, 3])
    );
    world.finish();
    world.assert_done("v3", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
}

#[test]
fn a_change_that_is_none_to_the_operator_is_let_go() {
    let mut world = World::guarded(5, Some(2), &steps());
    world.patch(&json!({"spec": {"template": {"metadata": {"annotations": {}}}}}));
    assert_eq!(world.partition(), Some(32767));
    world.settle();
    world.assert_done("v1", Some(2));
    world.patch(&json!({"spec": {"template": {"metadata": {"annotations": {"counts": "not"}}}}}));
    world.settle();
    world.assert_done("v1", Some(2));
    assert_ne!(world.says(condition::SUCCEEDED).0, "False");
}

/// The controller sees what it wrote before the operator does, and must not take back what the operator's word made it do.
#[rstest::rstest]
fn a_change_that_is_none_to_a_slow_operator_is_let_go(
    #[values(Some(0), Some(2), None)] original: Option<i64>,
    #[values(1, 2, 3)] looks: usize,
) {
    let mut world = World::guarded(5, original, &steps());
    world.patch(&json!({"spec": {"template": {"metadata": {"annotations": {"counts": "not"}}}}}));
    for _ in 0..10 {
        (0..looks).for_each(|_| world.control());
        world.operate();
        world.kubelet();
    }
    world.assert_done("v1", original);
    assert!(world.partitions.len() <= 4, "{:?}", world.partitions);
}
