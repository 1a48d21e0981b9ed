//! Clocks that differ, and what tools that judge by conditions see.

use jiff::SignedDuration;
use serde_json::json;

use super::rollback::{Point, released_to};
use super::world::World;
use crate::api::v1beta1::condition;

/// The pause that [`released_to`] has after step 2, in seconds.
const PAUSE: i64 = 300;

/// A timed pause, with the clock set `back` after so many seconds of it.
fn pause_with_the_clock_set_back(back: i64, waited: i64, restarted: bool, min_ready: i64) {
    let case =
        format!("{back} s back after {waited} s, restarted: {restarted}, minReadySeconds: {min_ready}");
    let mut world = released_to(Point::TimedPause, Some(0));
    world.patch(&json!({"spec": {"minReadySeconds": min_ready}}));
    world.pass(waited);
    world.settle();
    world.set_clock_back(back);
    if restarted {
        world.restart();
    }
    world.settle();
    // Whatever the clock says: 300 seconds are not over before they are.
    world.pass(PAUSE - waited - 1);
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused", "{case}");
    assert_eq!(world.on("v2"), [3, 4], "{case}");
    // And no more than as many again are added, besides the seconds that pods have to be ready: twice those of the step, and those
    // of the next.
    world.pass(waited + 1);
    world.settle();
    for _ in 0..3 {
        world.pass(min_ready);
        world.settle();
    }
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 3/StepPaused", vec![2, 3, 4]),
        "{case}"
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn r46_a_clock_that_is_set_back_neither_skips_nor_prolongs_a_pause() {
    for back in [1, 10, PAUSE - 1, PAUSE, PAUSE + 1, 3600, 1_000_000] {
        for waited in [0, 1, 150, PAUSE - 1] {
            for (restarted, min_ready) in [(false, 0), (true, 0), (false, 5), (true, 5)] {
                pause_with_the_clock_set_back(back, waited, restarted, min_ready);
            }
        }
    }
}

#[test]
fn pods_stamped_by_another_clock_are_waited_for_no_longer_than_twice() {
    for (min_ready, ahead) in [
        (0, 7),
        (0, 3600),
        (10, 7),
        (10, 3600),
        (10, -7),
        (10, 0),
        (10, -3600),
    ] {
        let mut world = released_to(Point::BeforeTheFirstPod, Some(0));
        world.patch(&json!({"spec": {"minReadySeconds": min_ready}}));
        for _ in 0..5 {
            world.operate();
            world.kubelet();
        }
        for pod in world.pods.values_mut() {
            pod.since += SignedDuration::from_secs(ahead);
        }
        world.settle();
        world.pass(2 * min_ready);
        world.settle();
        assert_eq!(
            world.at(),
            "Progressing 1/StepPaused",
            "{ahead} s ahead: {}",
            world.status().message
        );
    }
}

/// Tools that judge by conditions see whether a release works, waits for somebody, was stopped, or is over.
#[test]
fn r88_conditions_tell_work_from_waiting_and_from_the_end() {
    let told = |world: &World| (world.says(condition::READY), world.says(condition::RECONCILING));
    let at_work = |reason: &str| {
        let said = |status: &str| (status.to_owned(), reason.to_owned());
        (said("False"), said("True"))
    };
    let mut world = released_to(Point::FirstPod, Some(0));
    assert_eq!(told(&world), at_work("StepUpgrade"));
    world.settle();
    assert_eq!(told(&world), at_work("StepPaused"));
    world.pause(true);
    world.settle();
    assert_eq!(told(&world), at_work("Paused"));
    world.pause(false);
    world.settle();
    assert_eq!(told(&world), at_work("StepPaused"));
    world.approve();
    world.control();
    assert_eq!(told(&world), at_work("StepUpgrade"));
    world.finish();
    assert_eq!(world.condition(condition::RECONCILING), None);
    assert_eq!(world.says(condition::READY), ("True".into(), "Healthy".into()));
}
