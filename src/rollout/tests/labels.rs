//! Labels of the pods of a release.

use serde_json::json;

use super::world::{World, revision, steps};
use crate::names;
use crate::plan::Plan;

impl World {
    /// Ordinal, id and batch of the pods that carry any of the two labels.
    fn labels(&self) -> Vec<String> {
        let labelled = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.rollout_id.is_some() || pod.batch_id.is_some());
        let text = |label: &Option<String>| label.clone().unwrap_or_default();
        labelled
            .map(|(ordinal, pod)| format!("{ordinal} {} {}", text(&pod.rollout_id), text(&pod.batch_id)))
            .collect()
    }

    /// At a pause every pod of the release has the id and a batch of those that have begun, no batch has more pods than its step
    /// adds, and none is without one unless there are more pods than the plan has.
    pub(super) fn check_labels(&self) {
        let (status, canary) = (self.status(), self.canary());
        let told = self.habits.pod_labels && self.habits.revisions;
        if !told || status.phase != "Progressing" || status.current_step_state != "StepPaused" {
            return;
        }
        if canary.rolled_back {
            // A way back labels nothing, by steps neither.
            return;
        }
        let view = self.watched_view();
        let rollout = self.rollout.as_ref().unwrap();
        let Ok(plan) = Plan::new(rollout.spec.strategy.canary.as_ref().unwrap(), view.replicas) else {
            return;
        };
        let step = usize::try_from(canary.current_step_index).unwrap();
        let update = revision(&self.object()["spec"]["template"]);
        let id = view.release_id().unwrap_or_default();
        assert_eq!(canary.observed_rollout_id, id);
        let pods: Vec<_> = self
            .pods
            .values()
            .filter(|pod| pod.revision == update && !pod.terminating)
            .collect();
        let mut labelled = 0;
        for number in 1..=step {
            let before = if number == 1 {
                0
            } else {
                plan.step(number - 1).exposure
            };
            let text = Some(number.to_string());
            let count = pods
                .iter()
                .filter(|pod| pod.batch_id == text && pod.rollout_id.as_deref() == Some(id))
                .count();
            assert!(
                count <= (plan.step(number).exposure - before) as usize,
                "{:?}",
                self.labels()
            );
            labelled += count;
        }
        let bare = pods
            .iter()
            .filter(|pod| pod.rollout_id.is_none() && pod.batch_id.is_none())
            .count();
        assert_eq!(labelled + bare, pods.len(), "{:?}", self.labels());
        assert_eq!(
            labelled,
            pods.len().min(plan.step(step).exposure as usize),
            "{:?}",
            self.labels()
        );
    }

    fn name_release(&mut self, id: &str) {
        self.patch(&json!({"metadata": {"labels": {names::ROLLOUT_ID: id}}}));
    }
}

fn paused_at(step: usize) -> World {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.settle();
    for _ in 1..step {
        world.approve();
        world.settle();
    }
    world
}

#[test]
fn each_pod_is_labelled_once_with_its_batch() {
    let mut world = paused_at(1);
    assert_eq!(world.labels(), ["4 my-app-v2 1"]);
    assert_eq!(world.canary().observed_rollout_id, "my-app-v2");
    world.finish();
    world.assert_done("v2", Some(0));
    let all = [
        "0 my-app-v2 3",
        "1 my-app-v2 3",
        "2 my-app-v2 2",
        "3 my-app-v2 2",
        "4 my-app-v2 1",
    ];
    assert_eq!(world.labels(), all);
    assert_eq!(world.label_writes, 5);
}

#[test]
fn what_is_lost_or_odd_is_put_right() {
    let right = ["2 my-app-v2 2", "3 my-app-v2 2", "4 my-app-v2 1"];
    let mut world = paused_at(2);
    world.delete_pod(4);
    world.delete_pod(2);
    world.settle();
    assert_eq!(world.labels(), right);
    for odd in ["x", "99", "-1", "0", "01", "1", ""] {
        world.pods.get_mut(&2).unwrap().batch_id = Some(odd.to_owned());
        world.settle();
        assert_eq!(world.labels(), right, "{odd}");
    }
    assert_eq!(world.at(), "Progressing 2/StepPaused");
}

#[test]
fn a_new_release_replaces_old_labels() {
    let mut world = paused_at(2);
    world.set_image("v3");
    world.settle();
    assert_eq!(
        world.labels(),
        ["2 my-app-v2 2", "3 my-app-v2 2", "4 my-app-v3 1"]
    );
    world.finish();
    let labels = world.labels();
    assert_eq!(labels.len(), 5);
    assert!(labels.iter().all(|pod| pod.contains("v3")), "{labels:?}");
}

#[test]
fn pods_of_a_scale_up_beyond_the_plan_have_no_batch() {
    let mut world = paused_at(1);
    world.scale(8);
    world.settle();
    assert_eq!(world.labels(), ["4 my-app-v2 1"]);
    assert!(world.on("v2").len() > 1);
    world.finish();
    assert_eq!(world.labels().len(), 8);
}

#[test]
fn an_id_that_changes_at_rest_is_taken_over_and_nothing_else_happens() {
    let mut world = World::guarded(5, Some(0), &steps());
    let pods = world.pods.clone();
    world.name_release("7");
    let before = world.object().clone();
    world.settle();
    assert_eq!(world.canary().observed_rollout_id, "7");
    let done = (world.status_writes, world.events.len(), world.label_writes);
    assert_eq!(done, (1, 0, 0));
    assert_eq!((world.object(), &world.pods), (&before, &pods));
    world.name_release("");
    world.settle();
    assert_eq!(world.canary().observed_rollout_id, "my-app-v1");
    assert_eq!(world.at(), "Healthy 3/Completed");
}

#[test]
fn an_id_that_changes_in_mid_release_keeps_the_batches() {
    let mut world = paused_at(2);
    // So that the order alone would give other batches.
    for (ordinal, batch) in [(4, "2"), (2, "1")] {
        world.pods.get_mut(&ordinal).unwrap().batch_id = Some(batch.to_owned());
    }
    world.settle();
    world.forget_logs();
    world.name_release("8");
    world.settle();
    assert_eq!(world.labels(), ["2 8 1", "3 8 2", "4 8 2"]);
    assert_eq!(world.at(), "Progressing 2/StepPaused");
    assert_eq!((world.status_writes, world.label_writes), (1, 3));
    world.finish();
    assert_eq!(world.canary().observed_rollout_id, "8");
    assert_eq!(world.labels().len(), 5);
    assert!(world.labels().iter().all(|pod| pod.contains(" 8 ")));
}

#[test]
fn pods_without_revisions_are_left_alone() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.habits.pod_labels = false;
    world.set_image("v2");
    world.finish();
    world.assert_done("v2", Some(0));
    assert_eq!(world.label_writes, 0);
}

#[test]
fn a_rollback_labels_nothing() {
    let mut world = paused_at(2);
    let labelled = world.label_writes;
    world.set_image("v1");
    world.finish();
    world.assert_done("v1", Some(0));
    assert_eq!((world.label_writes, world.labels().len()), (labelled, 0));
}

#[test]
fn labels_that_come_late_meet_no_other_pod() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    while world.on("v2").is_empty() {
        world.control();
        world.operate();
        world.kubelet();
    }
    let old = world.seen();
    world.delete_pod(4);
    world.kubelet();
    world.operate();
    world.control_on(&old, usize::MAX);
    assert!(world.labels().is_empty());
    world.settle();
    assert_eq!(world.labels().len(), 1);
}
