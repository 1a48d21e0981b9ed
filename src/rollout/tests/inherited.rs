//! Releases that the existing controller has begun: its words in the status, its marks on the workload, no mark of ours.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{APP, ROLLOUT, World, rollout, steps};
use crate::api::v1beta1::condition;
use crate::names;
use crate::workload::marks::in_progressing;

/// What the existing controller says of a release, and has on the workload.
#[derive(Clone, Copy)]
struct Left {
    template: &'static str,
    partition: Option<i64>,
    /// The annotation of its admission, and that of its release object.
    marks: (bool, bool),
    phase: &'static str,
    reason: &'static str,
    step: i32,
    state: &'static str,
    stable: &'static str,
    canary: &'static str,
}

/// In the middle of step 1: the others differ from this.
const STEP: Left = Left {
    template: "v2",
    partition: Some(4),
    marks: (true, true),
    phase: "Progressing",
    reason: "InRolling",
    step: 1,
    state: "StepPaused",
    stable: "v1",
    canary: "v2",
};
const HELD: i64 = names::HOLD_PARTITION;

impl Left {
    fn status(&self) -> Value {
        let next = if self.step < 3 { self.step + 1 } else { -1 };
        json!({
            "observedGeneration": 1, "phase": self.phase, "message": "theirs",
            "conditions": [{"type": "Progressing", "status": "True", "reason": self.reason, "message": "theirs",
                "lastUpdateTime": "2025-12-31T23:00:00Z", "lastTransitionTime": "2025-12-31T23:00:00Z"}],
            "currentStepIndex": self.step, "currentStepState": if self.state == "StepReady" { "StepPaused" } else { self.state },
            "canaryStatus": {
                "observedWorkloadGeneration": 2, "observedRolloutID": format!("{APP}-{}", self.canary), "rolloutHash": "theirs",
                "stableRevision": format!("{APP}-{}", self.stable), "canaryRevision": format!("{APP}-{}", self.canary),
                "podTemplateHash": format!("{APP}-{}", self.canary), "currentStepIndex": self.step, "nextStepIndex": next,
                "finalisingStep": "", "currentStepState": self.state, "message": "theirs",
                "lastUpdateTime": "2025-12-31T23:00:00Z", "canaryReplicas": 1, "canaryReadyReplicas": 1
            }
        })
    }

    /// The world as it stands when the other controller has stopped and ours has not started.
    fn world(&self) -> World {
        self.world_of(&steps())
    }

    fn world_of(&self, steps: &Value) -> World {
        let mut world = World::new(5, None);
        // No limit of ours holds before we have seen it.
        world.oracle_knows_stable("v1");
        let at = |template: &str, partition: Option<i64>| {
            json!({"spec": {"template": {"spec": {"containers": [
            {"name": "main", "image": template}]}}, "updateStrategy": {"rollingUpdate": {"partition": partition}}}})
        };
        if self.template != self.canary || self.stable != self.canary {
            // First what it has released, then what is asked for now.
            world.patch(&at(
                self.canary,
                self.partition.filter(|at| *at != HELD).or(Some(4)),
            ));
            world.run();
        }
        world.patch(&at(self.template, self.partition));
        world.run();
        let owner = json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "BatchRelease", "name": ROLLOUT, "uid": "b"});
        let mark = |is: bool, text: String| if is { json!(text) } else { Value::Null };
        world.patch(&json!({"metadata": {"annotations": {
            names::IN_PROGRESSING: mark(self.marks.0, in_progressing(ROLLOUT)),
            names::LEGACY_CONTROL_INFO: mark(self.marks.1, owner.to_string()),
        }}}));
        let mut theirs = rollout(steps);
        theirs.metadata.finalizers = Some(vec![names::LEGACY_FINALIZER.to_owned()]);
        theirs.status = serde_json::from_value(self.status()).unwrap();
        world.rollout = Some(theirs);
        world.forget_logs();
        world
    }
}

impl World {
    /// The operator and the kubelet until nothing changes, and no controller.
    fn run(&mut self) {
        for _ in 0..40 {
            self.operate();
            self.kubelet();
        }
    }
}

#[rstest]
#[case::held_and_not_seen(Left { partition: Some(HELD), marks: (true, false), phase: "Healthy", reason: "Completed", step: 3, state: "Completed", canary: "v1", ..STEP }, "Progressing 1/StepPaused", 1)]
#[case::initializing(Left { partition: Some(HELD), marks: (true, false), reason: "Initializing", state: "BeforeStepUpgrade", ..STEP }, "Progressing 1/StepPaused", 1)]
#[case::step_begins(Left { partition: Some(HELD), state: "StepUpgrade", ..STEP }, "Progressing 1/StepPaused", 1)]
#[case::step_under_way(Left { state: "StepUpgrade", ..STEP }, "Progressing 1/StepPaused", 1)]
#[case::routing(Left { state: "StepTrafficRouting", ..STEP }, "Progressing 1/StepPaused", 1)]
#[case::analysing(Left { state: "StepMetricsAnalysis", ..STEP }, "Progressing 1/StepPaused", 1)]
#[case::paused(STEP, "Progressing 1/StepPaused", 1)]
#[case::approved(Left { state: "StepReady", ..STEP }, "Progressing 2/StepPaused", 3)]
#[case::next_begins(Left { step: 2, state: "BeforeStepUpgrade", ..STEP }, "Progressing 2/StepPaused", 3)]
#[case::second_step(Left { partition: Some(2), step: 2, state: "StepUpgrade", ..STEP }, "Progressing 2/StepPaused", 3)]
fn goes_on_where_it_stood(
    #[case] left: Left,
    #[case] at: &str,
    #[case] pods: usize,
    #[values(false, true)] late: bool,
) {
    let mut world = left.world();
    if late {
        // The operator has not seen the last write yet, whatever it was.
        let generation = world.object()["metadata"]["generation"].as_i64().unwrap();
        world.patch(&json!({"status": {"observedGeneration": generation - 1}}));
        world.control();
        world.control();
        assert!(world.partitions.is_empty(), "{:?}", world.partitions);
    }
    world.settle();
    assert_eq!((world.at().as_str(), world.on("v2").len()), (at, pods));
    assert_eq!(world.rollout.as_ref().unwrap().metadata.finalizers, None);
    assert!(!world.marks().contains(&names::LEGACY_CONTROL_INFO.to_owned()));
    world.finish();
    world.assert_done("v2", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
}

#[rstest]
#[case::pods_return(Left { template: "v1", partition: Some(HELD), reason: "Cancelling", canary: "v1", marks: (false, true), ..STEP })]
#[case::noticed_by_nobody(Left { template: "v1", partition: Some(HELD), ..STEP })]
fn a_way_back_is_gone_to_its_end(#[case] left: Left) {
    let mut world = left.world();
    if world.on("v2").is_empty() {
        // Its pod of the second template has not left.
        world.pods.get_mut(&4).unwrap().revision = format!("{APP}-v2");
        world.run();
    }
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".into(), "RolledBack".into())
    );
}

#[test]
fn what_it_had_done_is_completed() {
    let done = Left {
        partition: Some(0),
        reason: "Finalising",
        step: 3,
        state: "Completed",
        marks: (false, true),
        ..STEP
    };
    let mut world = done.world();
    world.settle();
    world.assert_done("v2", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
    // It has handed the workload back, and said nothing of it yet.
    let mut world = Left {
        partition: None,
        marks: (false, false),
        ..done
    }
    .world();
    world.settle();
    world.assert_done("v2", None);
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
}

#[test]
fn a_plan_that_ends_before_the_last_pods_releases_them_too() {
    let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": 3, "pause": {}}]);
    let done = Left {
        partition: Some(2),
        reason: "Finalising",
        step: 2,
        state: "Completed",
        marks: (false, true),
        ..STEP
    };
    let mut world = done.world_of(&steps);
    world.settle();
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn a_newer_template_begins_at_the_first_step() {
    let mut world = Left {
        template: "v3",
        partition: Some(HELD),
        step: 2,
        ..STEP
    }
    .world();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v3").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".into(), "RolledBack".into())
    );
}

#[test]
fn a_rollback_of_what_was_taken_over_needs_no_steps() {
    let mut world = STEP.world();
    world.settle();
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("False".into(), "RolledBack".into())
    );
}

/// The revision that it calls stable counts only as long as the operator calls it current.
#[test]
fn an_old_name_of_the_stable_template_opens_nothing() {
    // v1 is released again, and the status speaks of the release of v2 that came after the first v1.
    let mut world = Left {
        template: "v1",
        partition: Some(HELD),
        marks: (true, false),
        phase: "Healthy",
        reason: "Completed",
        step: 3,
        state: "Completed",
        ..STEP
    }
    .world();
    for pod in world.pods.values_mut() {
        pod.revision = format!("{APP}-v2");
    }
    world.oracle_knows_stable("v2");
    world.oracle.current = Some(format!("{APP}-v2"));
    world.run();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v1").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.finish();
    world.assert_done("v1", Some(0));
}

#[test]
fn an_operator_that_calls_the_newest_current_opens_nothing() {
    let mut world = STEP.world();
    world.habits.current_at_once = true;
    world.run();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[rstest]
fn deleting_it_releases_the_rest(
    #[values(Some(4), Some(HELD))] partition: Option<i64>,
    #[values(false, true)] beside: bool,
) {
    let mut world = Left {
        partition,
        phase: "Terminating",
        ..STEP
    }
    .world();
    world.beside_another = beside;
    world.delete_rollout();
    world.settle();
    assert_eq!(world.rollout, None);
    assert_eq!(
        (world.marks(), world.partition(), world.on("v2").len()),
        (vec![], Some(0), 5)
    );
}

#[rstest]
fn disabling_it_releases_the_rest(#[values("Disabling", "Disabled", "Progressing")] phase: &'static str) {
    let mut world = Left { phase, ..STEP }.world();
    world.edit_rollout(|rollout| rollout.spec.disabled = true);
    world.settle();
    assert_eq!(
        (world.status().phase.as_str(), world.marks()),
        ("Disabled", vec![])
    );
    assert_eq!((world.partition(), world.on("v2").len()), (Some(0), 5));
}

#[test]
fn what_is_not_carried_out_stands_still() {
    let mut world = STEP.world();
    world.edit_rollout(|rollout| {
        let canary = rollout.spec.strategy.canary.as_mut().unwrap();
        canary.enable_extra_workload_for_canary = true;
    });
    world.quiet();
    assert_eq!(
        (world.at().as_str(), world.partition(), world.on("v2").len()),
        ("Progressing 1/StepPaused", Some(4), 1)
    );
    assert_eq!(world.says(condition::STALLED).1, "ReleaseOfAnotherController");
    assert!(world.rollout.as_ref().unwrap().metadata.finalizers.is_some());
    world.edit_rollout(|rollout| {
        let canary = rollout.spec.strategy.canary.as_mut().unwrap();
        canary.enable_extra_workload_for_canary = false;
    });
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

/// Its admission holds a change that comes at the end of a release, and the end takes the mark of it away.
#[test]
fn a_hold_that_it_has_forgotten_is_a_release() {
    let mut world = Left {
        partition: Some(HELD),
        marks: (false, false),
        phase: "Healthy",
        reason: "Completed",
        step: 3,
        state: "Completed",
        canary: "v1",
        ..STEP
    }
    .world();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

/// Whoever wrote these marks, it was for another workload.
#[test]
fn a_copy_of_its_marks_is_no_release() {
    let mut world = Left {
        marks: (true, true),
        ..STEP
    }
    .world();
    world.rollout = Some(rollout(&steps()));
    world.settle();
    assert_eq!(
        (world.status().phase.as_str(), world.partition()),
        ("Healthy", Some(4))
    );
}

#[test]
fn while_it_may_be_at_work_its_finalizer_stays() {
    let mut world = STEP.world();
    world.beside_another = true;
    world.settle();
    assert!(world.rollout.as_ref().unwrap().metadata.finalizers.is_some());
    world.beside_another = false;
    world.settle();
    assert_eq!(world.rollout.as_ref().unwrap().metadata.finalizers, None);
}
