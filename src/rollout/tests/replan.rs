//! Plans that are edited in mid-release, and the forms of a pause.

use rstest::rstest;
use serde_json::{Value, json};

use super::rollback::{Point, released_to};
use super::world::World;
use crate::api::v1beta1::condition;

/// A release of `v2` over ten pods, paused at this step.
fn paused_at(step: usize) -> World {
    let mut world = World::guarded(10, Some(0), &plan(&json!("20%"), &json!("50%")));
    world.set_image("v2");
    world.settle();
    for _ in 1..step {
        world.approve();
        world.settle();
    }
    world.forget_logs();
    world
}

fn plan(first: &Value, second: &Value) -> Value {
    json!([{"replicas": first, "pause": {}}, {"replicas": second, "pause": {}}, {"replicas": "100%"}])
}

fn stands(world: &World) -> (String, usize) {
    (world.at(), world.on("v2").len())
}

fn stood(step: usize, pods: usize) -> (String, usize) {
    (format!("Progressing {step}/StepPaused"), pods)
}

#[rstest]
fn the_present_step_made_larger_releases_more_and_pauses_again(#[values(true, false)] approved: bool) {
    let mut world = paused_at(1);
    if approved {
        // The approval was for fewer pods.
        world.approve();
    }
    world.replan(&plan(&json!("40%"), &json!("50%")));
    world.control();
    assert_eq!(world.at(), "Progressing 1/StepUpgrade");
    world.settle();
    assert_eq!(stands(&world), stood(1, 4));
    assert_eq!(
        world.states,
        ["Progressing 1/StepUpgrade", "Progressing 1/StepPaused"]
    );
    assert_eq!(world.events, ["PlanChanged", "StepPaused"]);
    // Back and forth.
    world.jump(3);
    world.control();
    world.jump(2);
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused");
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn the_present_step_made_smaller_stays_and_says_what_is_there() {
    let mut world = paused_at(2);
    world.replan(&plan(&json!("20%"), &json!("20%")));
    world.settle();
    assert_eq!(stands(&world), stood(2, 5));
    assert_eq!((world.partition(), world.status_writes), (Some(10), 1));
    assert!(
        world
            .status()
            .message
            .contains("5 of 10 pods are updated: 3 pods more than the step has stay on the new template"),
        "{}",
        world.status().message
    );
    assert_eq!(world.canary().canary_replicas, 5);
    // Restarts and pods that come and go change no word of it.
    world.delete_pod(9);
    world.restart();
    for _ in 0..5 {
        world.control();
        world.operate();
        world.kubelet();
    }
    assert_eq!(world.status_writes, 1);
    let mut goes_on = world.clone();
    goes_on.finish();
    goes_on.assert_done("v2", Some(0));
    world.set_image("v3");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v3").len(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 2, 3)
    );
}

#[test]
fn a_step_that_becomes_smaller_in_mid_batch_is_done_and_brings_no_other_on() {
    let mut world = paused_at(1);
    world.approve();
    world.control();
    world.operate();
    world.replan(&plan(&json!("20%"), &json!("20%")));
    world.settle();
    assert_eq!(stands(&world), stood(2, 2));
}

#[test]
fn a_later_step_moves_nothing() {
    let mut world = released_to(Point::TimedPause, Some(0));
    world.forget_logs();
    let since = world.canary().last_update_time;
    world.pass(200);
    world.replan(&json!([
        {"replicas": 1, "pause": {}},
        {"replicas": "40%", "pause": {"duration": 300}},
        {"replicas": "80%", "pause": {}},
        {"replicas": "90%", "pause": {}}
    ]));
    world.settle();
    assert_eq!(stands(&world), stood(2, 2));
    assert_eq!((world.canary().last_update_time, world.status_writes), (since, 1));
    assert_eq!(
        (world.partitions.as_slice(), world.events.as_slice()),
        (&[][..], &["PlanChanged"][..])
    );
    world.pass(100);
    world.settle();
    assert_eq!(stands(&world), stood(3, 4));
}

#[test]
fn an_approval_that_was_acted_on_is_not_repeated() {
    let mut world = paused_at(1);
    world.approve();
    world.control();
    world.replan(&plan(&json!("10%"), &json!("60%")));
    world.settle();
    assert_eq!(stands(&world), stood(2, 6));
    // One that was given for what has not changed counts, once.
    world.approve();
    world.replan(&plan(&json!("10%"), &json!("60%")));
    world.settle();
    world.assert_done("v2", Some(0));
}

#[rstest]
#[case::the_last_one_of_fewer(json!([{"replicas": "20%", "pause": {}}, {"replicas": "100%"}]), "Healthy 2/Completed", 10)]
#[case::only_one(json!([{"replicas": "100%"}]), "Healthy 1/Completed", 10)]
#[case::only_one_of_some(json!([{"replicas": "60%", "pause": {}}]), "Progressing 1/StepPaused", 6)]
#[case::more(json!([{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}, {"replicas": 6, "pause": {}}, {"replicas": 8}]),
    "Progressing 2/StepPaused", 5)]
fn more_or_fewer_steps(#[case] plan: Value, #[case] at: &str, #[case] pods: usize) {
    let mut world = paused_at(2);
    world.replan(&plan);
    world.settle();
    assert_eq!(stands(&world), (at.to_owned(), pods));
    assert!(!world.events.contains(&"NoSuchStep"), "{:?}", world.events);
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn no_steps_at_all_are_said_and_hold_everything() {
    let mut world = paused_at(2);
    world.replan(&json!([]));
    world.settle();
    assert_eq!(stands(&world), stood(2, 5));
    assert_eq!(world.says(condition::STALLED).1, "InvalidPlan");
    world.replan(&plan(&json!("20%"), &json!("60%")));
    world.settle();
    assert_eq!(
        (stands(&world), world.condition(condition::STALLED)),
        (stood(2, 6), None)
    );
}

#[test]
fn while_paused_a_plan_is_taken_up_and_releases_nothing() {
    let mut world = paused_at(1);
    world.edit_rollout(|rollout| rollout.spec.strategy.paused = true);
    world.settle();
    world.replan(&plan(&json!("40%"), &json!("50%")));
    world.settle();
    assert_eq!((world.partition(), world.on("v2").len()), (Some(8), 2));
    world.edit_rollout(|rollout| rollout.spec.strategy.paused = false);
    world.settle();
    assert_eq!(stands(&world), stood(1, 4));
}

#[test]
fn pauses_and_the_threshold_take_effect_at_once_and_start_nothing_anew() {
    let mut world = paused_at(1);
    let hash = world.canary().rollout_hash;
    let timed = |seconds: i32| json!([{"replicas": "20%", "pause": {"duration": seconds}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}]);
    world.pass(20);
    world.replan(&timed(30));
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert!(world.status().message.contains("goes on after 30 s"));
    world.replan(&timed(20));
    world.settle();
    assert_eq!(stands(&world), stood(2, 5));
    assert_eq!(world.canary().rollout_hash, hash);
    assert!(!world.events.contains(&"PlanChanged"), "{:?}", world.events);

    let mut world = paused_at(1);
    world.broken.insert("v2".to_owned());
    world.approve();
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepUpgrade");
    for pod in world
        .pods
        .values_mut()
        .filter(|pod| pod.revision.ends_with("v2"))
        .take(3)
    {
        pod.ready = true;
    }
    world.edit_rollout(|rollout| {
        rollout.spec.strategy.canary.as_mut().unwrap().failure_threshold = Some("90%".into());
    });
    world.broken.clear();
    world.control();
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused");
}

#[test]
fn scaling_does_not_restart_a_timed_pause() {
    let mut world = released_to(Point::TimedPause, Some(0));
    let since = world.canary().last_update_time;
    world.pass(200);
    for replicas in [10, 4, 7] {
        world.set_replicas(replicas);
        world.settle();
        assert_eq!(
            (world.at().as_str(), world.canary().last_update_time),
            ("Progressing 2/StepPaused", since.clone())
        );
    }
    world.pass(100);
    world.settle();
    assert_eq!(world.at(), "Progressing 3/StepPaused");
}

/// No pause and an empty one wait for a person, 0 for nothing but the pods, and seconds for their time.
#[rstest]
#[case::none(json!({"replicas": 1}), false, false)]
#[case::empty(json!({"replicas": 1, "pause": {}}), false, false)]
#[case::null(json!({"replicas": 1, "pause": {"duration": null}}), false, false)]
#[case::zero(json!({"replicas": 1, "pause": {"duration": 0}}), true, true)]
#[case::negative(json!({"replicas": 1, "pause": {"duration": -3}}), true, true)]
#[case::timed(json!({"replicas": 1, "pause": {"duration": 30}}), false, true)]
fn forms_of_a_pause(
    #[case] step: Value,
    #[case] at_once: bool,
    #[case] by_itself: bool,
    #[values(true, false)] restarts: bool,
) {
    let mut world = World::guarded(
        5,
        Some(0),
        &json!([step, {"replicas": 3, "pause": {}}, {"replicas": "100%"}]),
    );
    world.set_image("v2");
    world.control();
    world.operate();
    // Never before the pods are ready.
    world.broken.insert("v2".to_owned());
    world.settle();
    world.pass(3600);
    world.settle();
    assert_eq!(stands(&world), ("Progressing 1/StepUpgrade".to_owned(), 1));
    world.broken.clear();
    world.settle();
    assert_eq!(stands(&world), if at_once { stood(2, 3) } else { stood(1, 1) });
    let mut rest = |seconds| {
        if restarts {
            world.restart();
        }
        world.pass(seconds);
        world.settle();
        stands(&world)
    };
    assert_eq!(rest(29), if at_once { stood(2, 3) } else { stood(1, 1) });
    assert_eq!(rest(1), if by_itself { stood(2, 3) } else { stood(1, 1) });
    world.finish();
    world.assert_done("v2", Some(0));
}
