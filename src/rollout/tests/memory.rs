//! Restarts, lost races, a lost status, an old view.

use rstest::rstest;

use super::rollback::{POINTS, Point, released_to};
use super::world::{World, steps};
use crate::api::v1beta1::condition;

/// A whole release in which something happens before each round; how many rounds it took.
fn walk(original: Option<i64>, mut happens: impl FnMut(&mut World, usize)) -> (World, usize) {
    let mut world = World::guarded(5, original, &steps());
    world.set_image("v2");
    let mut rounds = 0;
    while rounds < 100 && (world.view().hold().is_some() || world.status().phase != "Healthy") {
        happens(&mut world, rounds);
        world.control();
        world.operate();
        world.kubelet();
        if world.canary().current_step_state == "StepPaused" {
            world.approve();
            world.pass(60);
        }
        rounds += 1;
        assert!(world.oracle.breaches.is_empty(), "{:?}", world.oracle.breaches);
    }
    world.settle();
    (world, rounds)
}

#[rstest]
fn the_controller_dies_before_any_action(#[values(Some(0), Some(2))] original: Option<i64>) {
    for round in 0.. {
        let mut took = 0;
        for survives in 0..5 {
            let (world, rounds) = walk(original, |world, at| {
                if at == round {
                    world.control_on(&world.seen(), survives);
                }
            });
            world.assert_done("v2", original);
            assert_eq!(
                world.says(condition::SUCCEEDED),
                ("True".into(), "Success".into()),
                "{round} {survives}"
            );
            took = took.max(rounds);
        }
        if round > took {
            break;
        }
    }
}

#[rstest]
fn a_controller_that_dies_all_the_time_comes_through(
    #[values(Some(0), Some(2), None)] original: Option<i64>,
) {
    let (world, _) = walk(original, |world, at| world.control_on(&world.seen(), at % 4));
    world.assert_done("v2", original);
}

#[rstest]
fn a_lost_status_is_rebuilt_from_the_marks(#[values(Some(0), Some(2), None)] original: Option<i64>) {
    for round in 0.. {
        let (world, rounds) = walk(original, |world, at| {
            if at == round {
                world.lose_status();
                world.restart();
            }
        });
        world.assert_done("v2", original);
        if round > rounds {
            break;
        }
    }
}

#[rstest]
#[case(Point::Step1, "Progressing 1/StepPaused")]
#[case(Point::TimedPause, "Progressing 2/StepPaused")]
#[case(Point::LastPause, "Progressing 3/StepPaused")]
fn a_lost_status_stands_where_it_stood(#[case] point: Point, #[case] at: &str) {
    let mut world = released_to(point, Some(0));
    let pods = world.pods.clone();
    world.lose_status();
    world.restart();
    world.settle();
    assert_eq!((world.at().as_str(), &world.pods), (at, &pods));
    assert_eq!(world.says(condition::GUARDED).0, "True");
}

#[test]
fn an_approval_that_is_lost_is_given_again() {
    let mut world = released_to(Point::Step1, Some(0));
    world.approve();
    world.lose_status();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.approve();
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused");
}

#[rstest]
fn a_rollback_survives_a_lost_status(
    #[values(0, 1, 2, 3, 5, 7)] point: usize,
    #[values(Some(0), Some(2), None)] original: Option<i64>,
    #[values(0, 1, 2, 4, 8)] rounds: usize,
) {
    let mut world = released_to(POINTS[point], original);
    world.set_image("v1");
    for _ in 0..rounds {
        world.control();
        world.operate();
        world.kubelet();
    }
    world.lose_status();
    world.restart();
    world.settle();
    world.assert_done("v1", original);
}

#[test]
fn v3_after_v2_taken_back_with_a_lost_status_leaves_no_pod_behind() {
    let mut world = released_to(Point::LastBatch, Some(2));
    for _ in 0..10 {
        world.operate();
        world.kubelet();
    }
    world.broken.insert("v2".to_owned());
    world.set_image("v3");
    world.lose_status();
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", Some(2));
}

#[rstest]
fn a_decision_on_an_old_view_loses(#[values(0, 1, 2, 3, 4, 5, 6, 7)] point: usize) {
    let mut world = released_to(POINTS[point], Some(0));
    let old = world.seen();
    world.approve();
    let approved = world.seen();
    world.set_image("v3");
    world.control_on(&old, usize::MAX);
    world.control_on(&approved, usize::MAX);
    assert_eq!(world.partition(), Some(32767));
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v3")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v3", Some(0));
}

#[test]
fn a_status_without_a_time_does_not_pause_for_ever() {
    let mut world = released_to(Point::TimedPause, Some(0));
    let damage = |world: &mut World| {
        let status = world.rollout.as_mut().unwrap().status.as_mut().unwrap();
        status.canary_status.as_mut().unwrap().last_update_time = None;
        world.touch_rollout(false);
    };
    damage(&mut world);
    world.settle();
    world.pass(300);
    world.settle();
    assert_eq!(world.at(), "Progressing 3/StepPaused");
}

#[test]
fn times_out_of_all_bounds_do_no_harm() {
    let mut world = released_to(Point::TimedPause, Some(0));
    let status = world.rollout.as_mut().unwrap().status.as_mut().unwrap();
    status.canary_status.as_mut().unwrap().last_update_time = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(jiff::Timestamp::MAX),
    );
    world.touch_rollout(false);
    world.settle();
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", Some(0));
}

/// A release up to the moment at which the controller will hand the workload back.
fn about_to_end(original: Option<i64>) -> World {
    let mut world = released_to(Point::LastPod, original);
    loop {
        let mut tried = world.clone();
        tried.control();
        if tried.view().hold().is_none() {
            return world;
        }
        world.control();
        world.operate();
        world.kubelet();
    }
}

#[rstest]
fn an_end_that_was_not_told_does_not_make_the_next_release_a_way_back(
    #[values(Some(0), Some(2))] original: Option<i64>,
) {
    let mut world = about_to_end(original);
    // The labels of the last pod, then the end.
    world.control_on(&world.seen(), 2);
    assert_eq!(
        (world.view().hold(), world.status().phase.as_str()),
        (None, "Progressing")
    );
    world.set_image("v1");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v1")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v1", original);
}

#[test]
fn an_end_that_was_not_told_is_told() {
    let mut world = about_to_end(Some(2));
    // The labels of the last pod, then the end.
    world.control_on(&world.seen(), 2);
    assert_eq!(world.view().hold(), None);
    world.settle();
    world.assert_done("v2", Some(2));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
    assert_eq!(
        world.says(condition::PROGRESSING),
        ("False".into(), "Completed".into())
    );
}

#[test]
fn a_partition_asked_for_at_the_last_moment_is_not_lost() {
    let mut world = about_to_end(Some(2));
    let old = world.seen();
    world.set_partition(Some(1));
    world.control_on(&old, usize::MAX);
    world.settle();
    world.assert_done("v2", Some(1));
}

#[test]
fn an_operator_that_calls_the_new_revision_current_at_once_releases_nothing() {
    let mut world = World::new(5, Some(0));
    world.habits.current_at_once = true;
    world.rollout = Some(super::world::rollout(&steps()));
    world.settle();
    world.set_image("v2");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.lose_status();
    world.restart();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v2", Some(0));
}
