//! Back to the stable template, from every point of a release.

use rstest::rstest;
use serde_json::json;

use super::api::Fault;
use super::world::World;
use crate::api::v1beta1::condition;
use crate::names;

/// Points of a release of `v2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Point {
    /// The controller has not looked yet.
    Held,
    /// Step 1 is granted, the operator has not acted.
    BeforeTheFirstPod,
    /// The first pod is on its way.
    FirstPod,
    /// Step 1 waits for approval.
    Step1,
    /// Step 2 waits for its time.
    TimedPause,
    /// Step 3, the last pause.
    LastPause,
    /// The last batch has begun.
    LastBatch,
    /// Every pod is there, and the controller has not looked.
    LastPod,
}

pub(super) const POINTS: [Point; 8] = [
    Point::Held,
    Point::BeforeTheFirstPod,
    Point::FirstPod,
    Point::Step1,
    Point::TimedPause,
    Point::LastPause,
    Point::LastBatch,
    Point::LastPod,
];

/// A release of `v2` over 5 pods, as far as the point.
pub(super) fn released_to(point: Point, original: Option<i64>) -> World {
    let plan = json!([
        {"replicas": 1, "pause": {}},
        {"replicas": "40%", "pause": {"duration": 300}},
        {"replicas": "60%", "pause": {}},
        {"replicas": "100%"}
    ]);
    let mut world = World::guarded(5, original, &plan);
    world.set_image("v2");
    if point == Point::Held {
        return world;
    }
    world.control();
    world.control();
    if point == Point::BeforeTheFirstPod {
        return world;
    }
    world.operate();
    if point == Point::FirstPod {
        return world;
    }
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    if point == Point::Step1 {
        return world;
    }
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 2/StepPaused", vec![3, 4])
    );
    if point == Point::TimedPause {
        return world;
    }
    world.pass(300);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 3/StepPaused", vec![2, 3, 4])
    );
    if point == Point::LastPause {
        return world;
    }
    world.approve();
    world.control();
    world.operate();
    if point == Point::LastBatch {
        return world;
    }
    for _ in 0..10 {
        world.kubelet();
        world.operate();
    }
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 4/StepUpgrade", 5)
    );
    world
}

/// Both writes of the way back are made, and neither status after them.
#[test]
fn a_way_back_that_no_status_could_tell_of_is_told_at_its_end() {
    let mut world = released_to(Point::Step1, Some(0));
    world.set_image("v1");
    world.faults.extend([Fault::None, Fault::Broken]);
    world.control();
    assert_eq!(
        (world.partition(), world.at().as_str()),
        (Some(0), "Progressing 1/StepPaused")
    );
    for _ in 0..3 {
        world.operate();
        world.kubelet();
    }
    world.operate();
    world.faults.extend([Fault::None, Fault::Broken]);
    world.control();
    assert_eq!(
        (world.marks(), world.at().as_str()),
        (vec![names::GUARDED_BY.to_owned()], "Progressing 1/StepPaused")
    );
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".into(), "RolledBack".into())
    );
}

#[rstest]
fn every_pod_returns_without_steps(
    #[values(
        Point::BeforeTheFirstPod,
        Point::FirstPod,
        Point::Step1,
        Point::TimedPause,
        Point::LastPause,
        Point::LastBatch,
        Point::LastPod
    )]
    point: Point,
    #[values(Some(0), Some(2), None)] original: Option<i64>,
) {
    let mut world = released_to(point, original);
    world.forget_logs();
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", original);
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".into(), "RolledBack".into())
    );
    assert_eq!(
        world.says(condition::PROGRESSING),
        ("False".into(), "Completed".into())
    );
    assert_eq!(world.says(condition::READY), ("True".into(), "Healthy".into()));
    assert!(
        !world.states.iter().any(|state| state.contains("Paused")),
        "{:?}",
        world.states
    );
    assert!(
        world.events.ends_with(&["RollingBack", "RolledBack"]),
        "{:?}",
        world.events
    );
    // Neither message asks for anything any more.
    assert_eq!(world.canary().message, world.status().message);
    assert!(
        !world.canary().message.contains("approve"),
        "{}",
        world.canary().message
    );
    // The next release works as the first one did.
    world.set_image("v2");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    assert_eq!(world.condition(condition::SUCCEEDED), None);
    world.finish();
    world.assert_done("v2", original);
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
}

#[rstest]
fn a_change_taken_back_before_the_controller_looks_is_no_release(
    #[values(Some(0), Some(2), None)] original: Option<i64>,
) {
    let mut world = released_to(Point::Held, original);
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", original);
    // A partition that keeps pods back comes back once the operator has seen the template, and people are told of the wait.
    let told = (original == Some(2)).then(|| "RolledBack".to_owned());
    let succeeded = world.condition(condition::SUCCEEDED);
    assert_eq!(succeeded.map(|succeeded| succeeded.reason), told);
    assert_eq!(world.on("v1").len(), 5);
}

#[rstest]
fn a_broken_template_is_taken_back(#[values(Some(0), Some(2))] original: Option<i64>) {
    let mut world = World::guarded(5, original, &super::world::steps());
    world.broken.insert("v2".to_owned());
    world.set_image("v2");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepUpgrade");
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", original);
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".into(), "RolledBack".into())
    );
}

#[test]
fn the_same_template_again_while_it_is_taken_back_is_held_again() {
    let mut world = released_to(Point::LastPause, Some(0));
    world.set_image("v1");
    for _ in 0..3 {
        world.control();
        world.operate();
        world.kubelet();
    }
    assert!(
        !world.on("v2").is_empty() && world.on("v2").len() < 3,
        "{:?}",
        world.pods
    );
    world.set_image("v2");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn back_from_a_second_template_leads_to_the_stable_one() {
    let mut world = released_to(Point::LastPause, Some(2));
    world.set_image("v3");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v3")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", Some(2));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".into(), "RolledBack".into())
    );
}

#[test]
fn back_to_what_is_no_longer_stable_is_a_release() {
    let mut world = released_to(Point::LastBatch, Some(0));
    world.finish();
    world.set_image("v1");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v1")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v1", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
}

#[test]
fn a_change_that_only_the_operator_has_seen_is_rolled_back() {
    // The operator has seen v2 and not yet v1, so the controller waits for it, and says so.
    let mut world = released_to(Point::Held, Some(0));
    world.operate();
    world.set_image("v1");
    world.control();
    assert_eq!(world.status().phase, "Progressing");
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".to_owned(), "RolledBack".to_owned())
    );
}
