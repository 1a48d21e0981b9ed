//! Back to the stable template by the steps of the plan.

use rstest::rstest;

use super::rollback::{POINTS, Point, released_to};
use super::world::World;
use crate::api::v1beta1::condition;

/// A release of `v2` as far as the point, whose way back takes steps.
fn by_steps(point: Point, original: Option<i64>) -> World {
    let mut world = released_to(point, original);
    world.back_in_batches(true);
    world.forget_logs();
    world
}

fn stands(world: &World) -> (String, usize) {
    (world.at(), world.on("v1").len())
}

fn paused_at(step: usize, pods: usize) -> (String, usize) {
    (format!("Progressing {step}/StepPaused"), pods)
}

fn rolled_back(world: &World, original: Option<i64>) {
    world.assert_done("v1", original);
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".into(), "RolledBack".into())
    );
}

#[test]
fn pods_that_never_left_count_and_every_step_pauses() {
    let mut world = by_steps(Point::LastPause, Some(0));
    world.set_image("v1");
    world.settle();
    // Two pods never left, so the first two steps bring nothing.
    assert_eq!(stands(&world), paused_at(1, 2));
    let message = world.status().message;
    assert!(
        message.starts_with("rolling back in batches, step 1 of 4: 2 of 5 pods run the stable template, 1 more than the step has; "),
        "{message}"
    );
    assert!(message.contains("approve"), "{message}");
    assert_eq!(
        world.says(condition::PROGRESSING),
        ("True".into(), "InRolling".into())
    );
    world.approve();
    world.settle();
    assert_eq!(stands(&world), paused_at(2, 2));
    world.pass(300);
    world.settle();
    assert_eq!(stands(&world), paused_at(3, 3));
    world.approve();
    world.settle();
    rolled_back(&world, Some(0));
    assert_eq!(world.partitions, [Some(32767), Some(5), Some(4), Some(0)]);
    let told = [
        "RollingBack",
        "StepPaused",
        "StepPaused",
        "StepStarted",
        "StepPaused",
        "StepStarted",
        "RolledBack",
    ];
    assert_eq!(world.events, told);
    // The next release is one like any other.
    world.set_image("v2");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    assert!(!world.status().message.contains("rolling back"));
}

#[rstest]
fn from_everywhere_and_through_restarts(
    #[values(1, 2, 3, 4, 5, 6, 7)] point: usize,
    #[values(Some(0), Some(2), None)] original: Option<i64>,
    #[values(None, Some(0), Some(1), Some(3))] trouble: Option<usize>,
) {
    let mut world = by_steps(POINTS[point], original);
    let left = 5 - world.on("v2").len();
    world.set_image("v1");
    for round in 0.. {
        if let Some(survives) = trouble.filter(|_| round % 2 == 0) {
            world.control_on(&world.seen(), survives);
        }
        world.control();
        world.operate();
        world.kubelet();
        if world.status().phase == "Healthy" && round > 0 {
            break;
        }
        let allowed = [1, 2, 3, 5][usize::try_from(world.canary().current_step_index).unwrap() - 1];
        // What had left when the operator saw the change may have been deleted already.
        assert!(
            world.on("v1").len() <= allowed.max(left),
            "{} {:?}",
            world.at(),
            world.pods
        );
        if world.canary().current_step_state == "StepPaused" {
            world.approve();
        }
        assert!(round < 100, "{}", world.at());
    }
    world.settle();
    rolled_back(&world, original);
}

#[rstest]
fn without_the_word_it_opens_at_once(#[values(true, false)] removed_midway: bool) {
    let mut world = by_steps(Point::LastPause, Some(0));
    world.set_image("v1");
    if removed_midway {
        world.settle();
        assert_eq!(stands(&world), paused_at(1, 2));
    }
    world.back_in_batches(false);
    world.control();
    assert_eq!(world.partition(), Some(0));
    world.settle();
    rolled_back(&world, Some(0));
}

#[test]
fn what_is_open_stays_open() {
    let mut world = released_to(Point::LastPause, Some(2));
    world.set_image("v1");
    world.control();
    assert_eq!(world.partition(), Some(0));
    world.forget_logs();
    world.back_in_batches(true);
    world.settle();
    rolled_back(&world, Some(2));
    // Also if nobody could say so.
    let mut world = released_to(Point::LastPause, Some(2));
    world.set_image("v1");
    world.control_on(&world.seen(), 1);
    assert_eq!(world.partition(), Some(0));
    world.back_in_batches(true);
    world.settle();
    rolled_back(&world, Some(2));
    assert!(
        !world.states.iter().any(|state| state.contains("Paused 1")),
        "{:?}",
        world.states
    );
}

#[test]
fn before_anything_is_exposed_it_ends_at_once() {
    for point in [Point::Held, Point::BeforeTheFirstPod] {
        let mut world = by_steps(point, Some(0));
        world.set_image("v1");
        world.settle();
        world.assert_done("v1", Some(0));
        assert!(!world.events.contains(&"StepPaused"), "{:?}", world.events);
    }
}

#[test]
fn paused_it_waits() {
    let mut world = by_steps(Point::LastPause, Some(0));
    world.pause(true);
    world.settle();
    world.set_image("v1");
    world.settle();
    assert_eq!((world.partition(), world.on("v1").len()), (Some(32767), 2));
    assert_eq!(world.says(condition::PROGRESSING).1, "Paused");
    world.pause(false);
    world.settle();
    assert_eq!(stands(&world), paused_at(1, 2));
}

#[rstest]
#[case::another("v3")]
#[case::the_same_again("v2")]
fn a_template_in_mid_way_starts_at_the_first_step(#[case] image: &str) {
    let mut world = by_steps(Point::LastPause, Some(0));
    world.set_image("v1");
    world.settle();
    world.jump(3);
    world.settle();
    assert_eq!(stands(&world), paused_at(3, 3));
    world.set_image(image);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert!(
        !world.status().message.contains("rolling back"),
        "{}",
        world.status().message
    );
    assert_eq!(world.partition(), Some(if image == "v3" { 4 } else { 5 }));
    world.set_image("v1");
    world.finish();
    rolled_back(&world, Some(0));
}

#[rstest]
fn a_lost_status_does_not_open(#[values(0, 1, 2, 4, 8, 20)] rounds: usize) {
    let mut world = by_steps(Point::LastPause, Some(0));
    world.set_image("v1");
    for _ in 0..rounds {
        world.control();
        world.operate();
        world.kubelet();
    }
    world.lose_status();
    world.restart();
    world.settle();
    assert_eq!(stands(&world), paused_at(1, 2));
    world.finish();
    rolled_back(&world, Some(0));
}
