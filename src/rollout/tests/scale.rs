//! Replicas that change in mid-release.

use rstest::rstest;
use serde_json::json;

use super::rollback::{Point, released_to};
use super::world::World;

#[test]
fn scaled_up_through_the_workload_exposes_no_more_pods() {
    let mut world = released_to(Point::Step1, Some(0));
    world.set_replicas(8);
    assert_eq!(world.partition(), Some(8));
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn scaled_up_by_a_share_exposes_the_share() {
    let mut world = released_to(Point::TimedPause, Some(0));
    world.set_replicas(10);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 2/StepPaused", 4)
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn pods_that_scale_adds_above_the_partition_are_the_last_to_escape() {
    let mut world = released_to(Point::Step1, Some(0));
    world.scale(8);
    world.operate();
    assert_eq!(world.on("v2"), [4, 5, 6, 7]);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert!(world.partition().unwrap() >= 7);
    world.scale(12);
    world.settle();
    // Only what was above the raised partition.
    assert!(world.on("v2").len() <= 8, "{:?}", world.pods);
    world.finish();
    world.assert_done("v2", Some(0));
}

#[rstest]
fn scaled_down(
    #[values(Point::Step1, Point::TimedPause, Point::LastPause, Point::LastBatch)] point: Point,
    #[values(0, 1, 2, 3)] replicas: u32,
    #[values(true, false)] subresource: bool,
) {
    let mut world = released_to(point, Some(0));
    if subresource {
        world.scale(replicas);
    } else {
        world.set_replicas(replicas);
    }
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn paused_still_holds_what_scale_adds() {
    let mut world = released_to(Point::Step1, Some(0));
    world.edit_rollout(|rollout| rollout.spec.strategy.paused = true);
    world.settle();
    world.scale(6);
    world.settle();
    assert!(world.partition().unwrap() >= 5);
}

#[test]
fn no_replicas_is_a_release_of_nothing() {
    let mut world = World::guarded(0, Some(0), &super::world::steps());
    world.set_image("v2");
    // Nobody has to approve it.
    world.settle();
    world.assert_done("v2", Some(0));
    world.scale(3);
    world.settle();
    world.assert_done("v2", Some(0));
}

#[test]
fn steps_that_differ_only_in_rounding_pass() {
    let plan =
        json!([{"replicas": "1%", "pause": {}}, {"replicas": "2%", "pause": {}}, {"replicas": "100%"}]);
    let mut world = World::guarded(3, None, &plan);
    world.set_image("v2");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![2])
    );
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 2/StepPaused", vec![2])
    );
    world.finish();
    world.assert_done("v2", None);
}

#[test]
fn a_step_that_becomes_the_last_while_it_waits_still_brings_its_pods() {
    let plan = json!([{"replicas": 1, "pause": {}}, {"replicas": 4, "pause": {}}]);
    let mut world = World::guarded(6, Some(0), &plan);
    world.set_image("v2");
    world.settle();
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 2/StepPaused", vec![2, 3, 4, 5])
    );
    world.broken.insert("v2".to_owned());
    world.scale(4);
    world.control();
    assert_eq!(world.at(), "Progressing 2/StepUpgrade");
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepUpgrade");
    world.broken.clear();
    world.settle();
    world.assert_done("v2", Some(0));
}
