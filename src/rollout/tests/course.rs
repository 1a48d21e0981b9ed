//! People who change the course of a release: jumps, other plans, pauses, and a way back by steps.

use rstest::rstest;
use serde_json::{Value, json};

use super::rollback::{POINTS, Point, released_to};
use super::world::{World, steps};
use crate::api::v1beta1::condition;
use crate::names;

impl World {
    /// A person writes the step to go to next, as a merge patch of the status does.
    pub(super) fn jump(&mut self, to: i32) {
        let status = self.rollout.as_mut().and_then(|rollout| rollout.status.as_mut());
        let Some(canary) = status.and_then(|status| status.canary_status.as_mut()) else {
            return;
        };
        canary.next_step_index = to;
        let template = canary.template_id.clone();
        self.oracle_jumps(&template, to);
        self.touch_rollout(false);
    }

    /// A person edits the steps.
    pub(super) fn replan(&mut self, steps: &Value) {
        self.oracle_replans();
        let steps = serde_json::from_value(steps.clone()).unwrap();
        self.edit_rollout(|rollout| rollout.spec.strategy.canary.as_mut().unwrap().steps = steps);
        self.oracle_looks();
    }

    pub(super) fn back_in_batches(&mut self, by_steps: bool) {
        self.oracle_sees_the_way_back(by_steps);
        self.edit_rollout(|rollout| {
            let annotations = rollout.metadata.annotations.get_or_insert_default();
            annotations.insert(names::ROLLBACK_IN_BATCH.to_owned(), by_steps.to_string());
        });
    }

    pub(super) fn pause(&mut self, paused: bool) {
        self.edit_rollout(|rollout| rollout.spec.strategy.paused = paused);
    }
}

fn told(world: &World, reason: &str) -> usize {
    world.events.iter().filter(|event| **event == reason).count()
}

/// Where the release stands, and how many pods run `v2`.
fn stands(world: &World) -> (String, usize) {
    (world.at(), world.on("v2").len())
}

fn paused_at(step: usize, pods: usize) -> (String, usize) {
    (format!("Progressing {step}/StepPaused"), pods)
}

#[rstest]
fn a_jump_leads_to_the_step_from_everywhere(
    #[values(1, 2, 3, 4, 5, 6, 7)] point: usize,
    #[values(1, 2, 3, 4)] to: i32,
    #[values(Some(0), Some(2))] original: Option<i64>,
) {
    let mut world = released_to(POINTS[point], original);
    let had = world.on("v2").len();
    let natural = world.canary().next_step_index == to;
    world.forget_logs();
    world.jump(to);
    if natural {
        world.control();
        assert_eq!(told(&world, "StepJump"), 0);
    } else {
        world.settle();
        assert_eq!(told(&world, "StepJump"), 1, "{:?}", world.events);
        if to < 4 {
            let exposure = usize::try_from(to).unwrap();
            // Pods that are beyond the step stay, but no other one comes.
            assert!(
                world.on("v2").len() == exposure || world.on("v2").len() == had,
                "{:?}",
                world.pods
            );
            assert_eq!(world.at(), format!("Progressing {to}/StepPaused"));
            assert!(world.on("v2").len() >= exposure);
            // As long as more than enough are there, none may come, not even in the place of one that is lost.
            let beyond = had > exposure;
            assert_eq!(
                world.partition(),
                Some(if beyond { 5 } else { i64::from(5 - to) })
            );
            assert_eq!(world.canary().next_step_index, to + 1);
        } else {
            // The last step releases all.
            assert_eq!(world.status().phase, "Healthy");
        }
    }
    assert_eq!(told(&world, "NoSuchStep"), 0);
    world.finish();
    world.assert_done("v2", original);
    assert_eq!(world.says(condition::SUCCEEDED).1, "Success");
}

#[test]
fn a_jump_back_is_taken_in_one_decision_and_undoes_no_pods() {
    let mut world = released_to(Point::LastPause, Some(0));
    world.forget_logs();
    world.jump(1);
    world.control();
    assert_eq!(stands(&world), paused_at(1, 3));
    assert_eq!((world.partition(), world.status_writes), (Some(5), 1));
    assert_eq!(world.canary().canary_replicas, 3);
    let message = world.status().message;
    let truth = "3 of 5 pods are updated: 2 pods more than the step has stay on the new template; waiting for approval";
    assert!(message.contains(truth), "{message}");
    // Neither that nor a pod that comes and goes is worth another write.
    world.delete_pod(4);
    for _ in 0..5 {
        world.control();
        world.operate();
        world.kubelet();
    }
    assert_eq!((world.status().message, world.status_writes), (message, 1));
    // The one that was lost came back as it is kept back. The step after it is there already.
    world.approve();
    world.settle();
    assert_eq!(stands(&world), paused_at(2, 2));
    world.pass(300);
    world.settle();
    assert_eq!(stands(&world), paused_at(3, 3));
    assert!(!world.status().message.contains("more than"));
    world.finish();
    world.assert_done("v2", Some(0));
}

#[rstest]
fn a_number_that_is_no_step_is_put_right_and_said(
    #[values(0, 99, 5, -5, -1, i32::MIN, i32::MAX)] written: i32,
    #[values(Point::FirstPod, Point::Step1, Point::TimedPause)] point: Point,
    #[values(true, false)] paused: bool,
) {
    let mut world = released_to(point, Some(0));
    world.pause(paused);
    world.control();
    let (before, at) = (world.canary(), world.at());
    world.forget_logs();
    world.jump(written);
    world.control();
    assert_eq!(
        (world.canary().next_step_index, world.at()),
        (before.next_step_index, at)
    );
    assert_eq!(world.canary().last_update_time, before.last_update_time);
    assert_eq!((told(&world, "NoSuchStep"), world.status_writes), (1, 1));
    let said = world.condition(condition::JUMP).unwrap();
    assert_eq!(
        (said.status.as_str(), said.reason.as_str()),
        ("False", "NoSuchStep")
    );
    let words = format!("nextStepIndex {written} was written, which is no step: possible are 1 to 4");
    assert_eq!(said.message, words);
    // Once; and it stays until the next step begins.
    world.control();
    assert_eq!((told(&world, "NoSuchStep"), world.status_writes), (1, 1));
    world.pause(false);
    world.settle();
    assert_eq!(world.condition(condition::JUMP), Some(said));
    world.approve();
    world.control();
    assert_eq!(world.condition(condition::JUMP), None);
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn paused_a_jump_waits() {
    let mut world = released_to(Point::Step1, Some(0));
    world.pause(true);
    world.settle();
    world.forget_logs();
    world.jump(3);
    world.settle();
    assert_eq!(stands(&world), paused_at(1, 1));
    assert_eq!((world.canary().next_step_index, world.status_writes), (3, 0));
    world.pause(false);
    world.settle();
    assert_eq!(stands(&world), paused_at(3, 3));
}

#[rstest]
fn without_a_release_by_steps_a_jump_leads_nowhere(#[values(1, 0, 99)] written: i32) {
    let mut world = World::guarded(5, Some(0), &steps());
    world.jump(written);
    world.settle();
    assert_eq!(
        (world.canary().next_step_index, world.at().as_str()),
        (-1, "Healthy 3/Completed")
    );
    assert_eq!((told(&world, "NoSuchStep"), world.status_writes), (1, 1));

    let mut world = released_to(Point::LastPause, Some(2));
    world.set_image("v1");
    world.control();
    world.forget_logs();
    world.jump(written);
    world.settle();
    assert_eq!(told(&world, "NoSuchStep"), 1);
    world.assert_done("v1", Some(2));
}

#[rstest]
fn the_number_of_the_present_step_is_not_for_people_to_write(#[values(-7, 0, 2, 3, 99)] written: i32) {
    let mut world = released_to(Point::Step1, Some(0));
    let before = stands(&world);
    let status = world.rollout.as_mut().unwrap().status.as_mut().unwrap();
    status.canary_status.as_mut().unwrap().current_step_index = written;
    world.touch_rollout(false);
    world.settle();
    assert_eq!((stands(&world), world.canary().current_step_index), (before, 1));
}

#[test]
fn no_jump_survives_a_new_template() {
    for point in [Point::Held, Point::Step1, Point::LastPause] {
        let mut world = released_to(point, Some(0));
        world.jump(4);
        world.set_image("v3");
        world.jump(4);
        world.settle();
        assert_eq!(
            (world.at().as_str(), world.on("v3")),
            ("Progressing 1/StepPaused", vec![4])
        );
        assert_eq!((told(&world, "NoSuchStep"), told(&world, "StepJump")), (0, 0));
    }
}

#[test]
fn a_jump_and_an_approval_at_once_are_a_jump() {
    let mut world = released_to(Point::LastPause, Some(0));
    world.approve();
    world.jump(1);
    world.settle();
    assert_eq!(stands(&world), paused_at(1, 3));
}

#[test]
fn replicas_that_change_the_number_of_steps_are_no_jump() {
    let plan = json!([{"replicas": 2, "pause": {}}, {"replicas": 4, "pause": {}}]);
    let mut world = World::guarded(6, Some(0), &plan);
    world.set_image("v2");
    world.settle();
    world.approve();
    world.settle();
    world.broken.insert("v2".to_owned());
    world.delete_pod(5);
    world.kubelet();
    for (replicas, next) in [(4, -1), (6, 3), (4, -1)] {
        world.set_replicas(replicas);
        world.control();
        assert_eq!(world.canary().next_step_index, next, "{}", world.at());
    }
    assert_eq!((told(&world, "NoSuchStep"), told(&world, "StepJump")), (0, 0));
    assert_eq!(world.condition(condition::JUMP), None);
    world.broken.clear();
    world.finish();
    world.assert_done("v2", Some(0));
}
