//! Creating, disabling, deleting; workloads that cannot be governed, and what heals them.

use rstest::rstest;
use serde_json::{Value, json};

use super::rollback::{POINTS, Point, released_to};
use super::world::{APP, World, manifest, rollout, steps};
use crate::api::v1beta1::condition;
use crate::names;
use crate::rollout::Action;

fn disable(world: &mut World, disabled: bool) {
    world.edit_rollout(|rollout| rollout.spec.disabled = disabled);
}

#[test]
fn a_rollout_may_come_before_its_workload() {
    let mut world = World::new(5, Some(0));
    (world.workload, world.pods) = (None, Default::default());
    world.rollout = Some(rollout(&steps()));
    world.settle();
    assert_eq!(world.status().phase, "Initial");
    assert!(world.status().message.contains(APP), "{}", world.status().message);
    world.create(manifest(5, Some(0), "v1"));
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(world.says(condition::READY).0, "True");
    world.set_image("v2");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
}

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

#[rstest]
fn disabled_in_mid_release_releases_the_rest(
    #[values(0, 1, 2, 3, 4, 5, 6, 7)] point: usize,
    #[values(Some(0), Some(2), None)] original: Option<i64>,
) {
    let mut world = released_to(POINTS[point], original);
    disable(&mut world, true);
    world.settle();
    assert_eq!(world.status().phase, "Disabled");
    assert_eq!(
        (world.marks(), world.partition(), world.on("v2").len()),
        (vec![], original, 5)
    );
    assert_ne!(world.says(condition::PROGRESSING).0, "True");
    // Nothing is held while it is disabled.
    world.set_image("v3");
    assert_eq!(world.partition(), original);
    world.settle();
    let left = usize::try_from(original.unwrap_or(0)).unwrap();
    assert_eq!(world.on("v3").len(), 5 - left);
    disable(&mut world, false);
    world.settle();
    assert_eq!(
        (world.status().phase.as_str(), world.marks()),
        ("Healthy", vec![names::GUARDED_BY.to_owned()])
    );
    world.set_image("v4");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v4")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v4", original);
}

#[test]
fn the_template_of_before_is_a_new_one_after_disabling() {
    let mut world = released_to(Point::Step1, Some(0));
    disable(&mut world, true);
    world.settle();
    disable(&mut world, false);
    // As soon as the mark is there.
    world.control();
    assert_eq!(world.marks(), [names::GUARDED_BY]);
    world.set_image("v1");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v1")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v1", Some(0));
}

#[test]
fn enabled_again_before_the_rest_is_released_takes_steps_again() {
    let mut world = released_to(Point::Step1, Some(2));
    disable(&mut world, true);
    world.control();
    world.operate();
    assert_eq!(
        (world.status().phase.as_str(), world.partition()),
        ("Disabling", Some(0))
    );
    disable(&mut world, false);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.finish();
    world.assert_done("v2", Some(2));
}

#[rstest]
fn deleted_in_mid_release_releases_the_rest(
    #[values(0, 1, 2, 3, 4, 5, 6, 7)] point: usize,
    #[values(Some(0), Some(2), None)] original: Option<i64>,
    #[values(true, false)] legacy: bool,
) {
    let mut world = released_to(POINTS[point], original);
    if legacy {
        world.edit_rollout(|rollout| {
            rollout.metadata.finalizers = Some(vec![names::LEGACY_FINALIZER.to_owned()])
        });
    }
    world.delete_rollout();
    world.restart();
    world.settle();
    assert_eq!(world.rollout, None);
    assert_eq!(
        (world.marks(), world.partition(), world.on("v2").len()),
        (vec![], original, 5)
    );
}

#[test]
fn an_unmarked_legacy_finalizer_is_removed() {
    let mut world = World::new(5, Some(0));
    let mut legacy = rollout(&steps());
    legacy.metadata.finalizers = Some(vec![names::LEGACY_FINALIZER.to_owned()]);
    world.rollout = Some(legacy);
    world.settle();
    assert_eq!(world.rollout.as_ref().unwrap().metadata.finalizers, None);
    world.assert_done("v1", Some(0));
}

#[test]
fn a_broken_template_whose_rollout_is_deleted_is_freed_once_it_works() {
    let mut world = released_to(Point::Step1, Some(2));
    world.broken.insert("v2".to_owned());
    world.delete_pod(4);
    world.settle();
    world.delete_rollout();
    world.settle();
    world.set_image("v3");
    world.settle();
    assert_eq!(
        (world.marks(), world.partition(), world.on("v3").len()),
        (vec![], Some(2), 5)
    );
}

#[test]
fn a_rival_governs_nothing_until_the_other_is_gone() {
    let mut world = World::new(5, Some(0));
    world.rival = Some("elder");
    world.rollout = Some(rollout(&steps()));
    world.settle();
    assert_eq!(
        world.says(condition::GUARDED),
        ("False".into(), "Conflict".into())
    );
    assert!(
        world.status().message.contains("elder"),
        "{}",
        world.status().message
    );
    assert!(world.marks().is_empty());
    world.rival = None;
    world.settle();
    world.assert_done("v1", Some(0));
    assert_eq!(world.condition(condition::STALLED), None);
}

#[test]
fn a_workload_that_is_referred_to_no_more_is_freed() {
    let mut world = released_to(Point::Step1, Some(2));
    world.oracle.free = true;
    world.edit_rollout(|rollout| "other".clone_into(&mut rollout.spec.workload_ref.name));
    world.settle();
    assert_eq!(
        (world.marks(), world.partition(), world.on("v2").len()),
        (vec![], Some(2), 5)
    );
    assert_eq!(world.status().phase, "Initial");
    world.edit_rollout(|rollout| APP.clone_into(&mut rollout.spec.workload_ref.name));
    world.settle();
    world.assert_done("v2", Some(2));
    assert_eq!(world.condition(condition::SUCCEEDED), None);
}

#[test]
fn a_workload_made_anew_is_a_new_one() {
    let mut world = released_to(Point::Step1, Some(0));
    let mut copy = world.object().clone();
    copy["spec"]["template"] = super::world::template("v3");
    world.create(copy);
    world.settle();
    world.finish();
    world.assert_done("v3", Some(0));
}

#[rstest]
#[case::not_begun(1, 32767, "Progressing 1/StepPaused")]
#[case::half(4, 32767, "Progressing 1/StepPaused")]
fn a_template_changed_while_admission_was_down_is_held_again(
    #[case] rounds: usize,
    #[case] partition: i64,
    #[case] at: &str,
) {
    let mut world = World::guarded(5, Some(0), &steps());
    world.webhook = false;
    world.set_image("v2");
    world.webhook = true;
    for _ in 0..rounds {
        world.operate();
        world.kubelet();
    }
    let escaped = world.on("v2");
    world.control();
    assert_eq!(world.partition(), Some(partition));
    world.settle();
    assert_eq!(world.at(), at);
    assert_eq!(world.on("v2").len(), escaped.len().max(1), "{:?}", world.pods);
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn a_template_that_rolled_out_while_admission_was_down_is_the_stable_one() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.webhook = false;
    world.set_image("v2");
    for _ in 0..20 {
        world.operate();
        world.kubelet();
    }
    world.webhook = true;
    world.settle();
    world.assert_done("v2", Some(0));
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
