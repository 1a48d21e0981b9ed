//! Workloads, operators and plans that cannot be carried out, what is said of them, and what heals them.

use rstest::rstest;
use serde_json::{Value, json};

use super::rollback::{Point, released_to};
use super::world::{World, manifest, rollout, steps};
use crate::api::v1beta1::condition;
use crate::names;
use crate::rollout::Action;

#[test]
fn a_missing_label_is_said_and_heals() {
    let mut world = World::new(5, Some(0));
    let label = |value: Value| json!({"metadata": {"labels": {names::WORKLOAD_TYPE: value}}});
    world.patch(&label(Value::Null));
    world.rollout = Some(rollout(&steps()));
    world.settle();
    let message = world.status().message;
    let command = "kubectl label mystatefulapp.example.io/my-app -n default rollouts.kruise.io/workload-type=statefulset";
    assert!(
        message.contains("no label rollouts.kruise.io/workload-type") && message.contains(command),
        "{message}"
    );
    assert_eq!(world.status().phase, "Disabled");
    assert_eq!(
        world.says(condition::GUARDED),
        ("False".into(), "LabelMissing".into())
    );
    assert_eq!(
        world.says(condition::STALLED),
        ("True".into(), "LabelMissing".into())
    );
    assert!(world.marks().is_empty());
    world.patch(&label(json!("cloneset")));
    world.settle();
    assert_eq!(
        world.says(condition::GUARDED),
        ("False".into(), "LabelWrong".into())
    );
    world.patch(&label(json!("statefulset")));
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(
        (
            world.says(condition::GUARDED).0.as_str(),
            world.condition(condition::STALLED)
        ),
        ("True", None)
    );
    // Taken away at rest, and again put back.
    world.patch(&label(Value::Null));
    world.settle();
    assert_eq!(
        (world.status().phase.as_str(), world.marks()),
        ("Disabled", vec![])
    );
    world.patch(&label(json!("statefulset")));
    world.settle();
    world.assert_done("v1", Some(0));
}

#[test]
fn a_label_taken_away_in_mid_release_stays() {
    let mut world = released_to(Point::Step1, Some(0));
    world.patch(&json!({"metadata": {"labels": {"theirs": "stays"}}}));
    let label = json!({"metadata": {"labels": {names::WORKLOAD_TYPE: null}}});
    world.patch(&label);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.webhook = false;
    world.patch(&label);
    world.webhook = true;
    world.settle();
    assert_eq!(
        world.object()["metadata"]["labels"][names::WORKLOAD_TYPE],
        "statefulset"
    );
    assert_eq!(world.object()["metadata"]["labels"]["theirs"], "stays");
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn an_update_type_without_partition_is_said_and_heals() {
    let mut world = World::new(5, Some(0));
    let kind = |kind: &str| json!({"spec": {"updateStrategy": {"type": kind}}});
    world.patch(&kind("OnDelete"));
    world.rollout = Some(rollout(&steps()));
    world.settle();
    assert_eq!(
        world.says(condition::GUARDED),
        ("False".into(), "UnsupportedUpdateStrategy".into())
    );
    assert!(
        world.status().message.contains("spec.updateStrategy.type"),
        "{}",
        world.status().message
    );
    world.patch(&kind("RollingUpdate"));
    world.settle();
    world.assert_done("v1", Some(0));
}

#[test]
fn an_operator_without_observed_generation_is_said_and_heals() {
    let mut world = World::new(5, Some(0));
    world.habits.observed_generation = false;
    world.operate();
    world.rollout = Some(rollout(&steps()));
    world.settle();
    assert_eq!(
        world.says(condition::STALLED),
        ("True".into(), "NoObservedGeneration".into())
    );
    assert_eq!(world.says(condition::READY).0, "False");
    world.set_image("v2");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepUpgrade", vec![4])
    );
    assert_eq!(world.says(condition::STALLED).0, "True");
    world.habits.observed_generation = true;
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.condition(condition::STALLED)),
        ("Progressing 1/StepPaused", None)
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[rstest]
fn operators_that_report_less(
    #[values(true, false)] revisions: bool,
    #[values(Some(0), Some(2))] original: Option<i64>,
) {
    let mut world = World::new(5, original);
    (world.habits.pod_labels, world.habits.revisions) = (false, revisions);
    world.operate();
    world.rollout = Some(rollout(&steps()));
    world.settle();
    world.set_image("v2");
    world.settle();
    if revisions {
        assert_eq!(world.at(), "Progressing 1/StepPaused");
        assert!(
            world
                .states
                .iter()
                .any(|state| state == "Progressing 1/StepUpgrade")
        );
        world.finish();
        world.assert_done("v2", original);
    } else {
        assert_eq!(world.at(), "Progressing 1/StepUpgrade");
    }
}

#[test]
fn a_silent_operator_is_said_after_some_seconds() {
    let mut world = World::new(5, Some(0));
    (world.workload, world.pods) = (None, Default::default());
    world.create(manifest(5, Some(0), "v1"));
    world.rollout = Some(rollout(&steps()));
    world.control();
    world.control();
    assert_eq!(world.condition(condition::STALLED), None);
    world.pass(4);
    world.control();
    assert_eq!(
        world.says(condition::STALLED),
        ("True".into(), "OperatorSilent".into())
    );
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(world.condition(condition::STALLED), None);
}

#[test]
fn what_cannot_be_guarded_is_said_and_tried_again() {
    let mut world = World::new(5, Some(0));
    world.webhook = false;
    world.rollout = Some(rollout(&steps()));
    world.settle();
    assert_eq!(
        (world.status().phase.as_str(), world.marks()),
        ("Disabled", vec![])
    );
    assert_eq!(world.says(condition::GUARDED), ("False".into(), "NotHeld".into()));
    world.webhook = true;
    world.settle();
    assert_eq!(world.status().phase, "Disabled");
    world.pass(30);
    world.settle();
    world.assert_done("v1", Some(0));
}

#[test]
fn a_plan_that_cannot_be_read_is_said_and_nothing_moves() {
    let mut world = released_to(Point::Step1, Some(0));
    let good = world.rollout.as_ref().unwrap().spec.strategy.canary.clone();
    world.edit_rollout(|rollout| {
        rollout.spec.strategy.canary.as_mut().unwrap().steps[0].replicas = Some("junk".into())
    });
    world.approve();
    world.settle();
    assert_eq!(
        world.says(condition::STALLED),
        ("True".into(), "InvalidPlan".into())
    );
    assert!(
        world.status().message.contains("steps[0].replicas"),
        "{}",
        world.status().message
    );
    assert_eq!((world.partition(), world.on("v2")), (Some(4), vec![4]));
    world.edit_rollout(|rollout| rollout.spec.strategy.canary = good);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.condition(condition::STALLED)),
        ("Progressing 2/StepPaused", None)
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn a_malformed_workload_is_said_and_nothing_moves() {
    let world = released_to(Point::Step1, Some(0));
    let mut seen = world.seen();
    seen.workload.as_mut().unwrap()["spec"]["replicas"] = json!("five");
    let decision = world.decide(&seen);
    let status = decision.status.unwrap();
    let stalled = condition::get(&status.conditions, condition::STALLED).unwrap();
    assert_eq!(
        (stalled.status.as_str(), stalled.reason.as_str()),
        ("True", "MalformedWorkload")
    );
    assert!(
        status.message.contains("spec.replicas should be an integer"),
        "{}",
        status.message
    );
    assert!(
        decision
            .actions
            .iter()
            .all(|action| matches!(action, Action::Announce(_)))
    );
}
