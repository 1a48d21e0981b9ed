//! `spec.strategy.paused`: nothing more is released, whatever else happens.

use rstest::rstest;
use serde_json::json;

use super::rollback::{POINTS, Point, released_to};
use super::world::World;
use crate::api::v1beta1::condition;

#[rstest]
fn nothing_more_is_released_from_anywhere(
    #[values(0, 1, 2, 3, 4, 5, 6, 7)] point: usize,
    #[values(Some(0), Some(2), None)] original: Option<i64>,
) {
    let mut world = released_to(POINTS[point], original);
    let (partition, step) = (world.partition(), world.canary().current_step_index);
    world.pause(true);
    world.settle();
    assert_eq!(
        world.says(condition::PROGRESSING),
        ("True".into(), "Paused".into())
    );
    assert!(world.status().message.contains("spec.strategy.paused"));
    world.forget_logs();
    world.approve();
    world.pass(3600);
    world.settle();
    assert_eq!((world.partition(), world.partitions.len()), (partition, 0));
    let begun = if point == 0 { 1 } else { step };
    assert_eq!(world.canary().current_step_index, begun);
    world.pause(false);
    world.control();
    assert!(world.canary().current_step_index >= begun);
    world.finish();
    world.assert_done("v2", original);
}

#[rstest]
fn a_revert_is_a_rollback_at_once(
    #[values(0, 1, 2, 3, 4, 5, 6, 7)] point: usize,
    #[values(true, false)] pushed_while_paused: bool,
) {
    let mut world = released_to(POINTS[point], Some(2));
    world.pause(true);
    world.settle();
    if pushed_while_paused {
        world.set_image("v3");
        world.settle();
        assert_eq!((world.on("v3"), world.partition()), (vec![], Some(32767)));
    }
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", Some(2));
    assert_eq!(world.says(condition::SUCCEEDED).1, "RolledBack");
}

#[test]
fn a_template_that_comes_while_paused_is_held_until_unpaused() {
    for point in [Point::FirstPod, Point::LastPause, Point::LastBatch] {
        let mut world = released_to(point, Some(0));
        world.pause(true);
        world.set_image("v3");
        for _ in 0..3 {
            world.scale(world.view().replicas + 1);
            world.settle();
        }
        assert_eq!(
            (world.on("v3"), world.at().as_str()),
            (vec![], "Progressing 1/StepUpgrade")
        );
        world.pause(false);
        world.settle();
        assert_eq!(
            (world.on("v3").len(), world.at().as_str()),
            (1, "Progressing 1/StepPaused")
        );
    }
}

#[test]
fn scaling_is_followed_upward_and_the_same_step_goes_on() {
    let plan =
        json!([{"replicas": "20%", "pause": {}}, {"replicas": "60%", "pause": {}}, {"replicas": "100%"}]);
    let mut world = World::guarded(10, Some(0), &plan);
    world.set_image("v2");
    world.settle();
    world.approve();
    world.control();
    world.operate();
    world.pause(true);
    world.settle();
    // What is under way ends.
    assert_eq!((world.partition(), world.on("v2").len()), (Some(4), 6));
    world.scale(14);
    world.control();
    assert!(world.partition() > Some(4), "{:?}", world.partition());
    world.settle();
    let raised = world.partition();
    assert_eq!(world.view().hold().map(|hold| hold.granted), raised);
    world.scale(8);
    world.settle();
    assert!(world.partition() >= raised);
    let lived = world.on("v2").len();
    world.pause(false);
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused");
    assert!(world.on("v2").len() >= lived.max(5), "{:?}", world.pods);
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn the_time_of_a_step_is_measured_from_unpausing() {
    let mut world = released_to(Point::FirstPod, Some(0));
    world.broken.insert("v2".to_owned());
    let begun = world.canary().last_update_time;
    world.pause(true);
    world.settle();
    world.pass(1000);
    world.settle();
    assert_eq!(world.canary().last_update_time, begun);
    world.pause(false);
    world.settle();
    let since = world.canary().last_update_time.unwrap().0;
    assert_eq!(
        (since, world.at().as_str()),
        (world.now, "Progressing 1/StepUpgrade")
    );

    // A pause that has begun goes on.
    let mut world = released_to(Point::TimedPause, Some(0));
    let since = world.canary().last_update_time;
    world.pause(true);
    world.settle();
    world.pass(299);
    world.pause(false);
    world.settle();
    assert_eq!(
        (world.canary().last_update_time, world.at().as_str()),
        (since, "Progressing 2/StepPaused")
    );
    world.pass(1);
    world.settle();
    assert_eq!(world.at(), "Progressing 3/StepPaused");
}
