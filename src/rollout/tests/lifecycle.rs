//! Creating, disabling, deleting.

use jiff::SignedDuration;
use rstest::rstest;
use serde_json::json;

use super::rollback::{POINTS, Point, released_to};
use super::world::{APP, World, manifest, rollout, steps};
use crate::api::v1beta1::condition;
use crate::names;

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

#[test]
fn a_workload_made_anew_with_the_new_template_has_not_completed_the_release() {
    let mut world = released_to(Point::Step1, Some(0));
    let template = world.object()["spec"]["template"].clone();
    let mut manifest = manifest(5, Some(0), "v2");
    manifest["spec"]["template"] = template;
    world.create(manifest);
    world.settle();
    assert_eq!(world.status().phase, "Healthy");
    assert_ne!(world.says(condition::SUCCEEDED).0, "True");
    assert!(
        world.status().message.contains("at rest"),
        "{}",
        world.status().message
    );
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
fn while_every_write_changes_the_template_nothing_is_granted_and_letting_go_takes_one_write() {
    let mut world = released_to(Point::Step1, Some(2));
    world.set_image("v3");
    world.rewritten = Some(world.now + SignedDuration::from_secs(15));
    world.forget_logs();
    world.settle();
    assert_eq!(world.partitions, []);
    assert_eq!(
        world.says(condition::STALLED),
        ("True".to_owned(), "TemplateRewritten".to_owned())
    );
    // The time is over: tried again.
    world.pass(15);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert_eq!(world.says(condition::STALLED), Default::default());

    world.set_image("v4");
    world.forget_logs();
    world.edit_rollout(|rollout| rollout.spec.disabled = true);
    world.settle();
    assert_eq!(world.partitions, [Some(2)]);
    assert!(world.marks().is_empty(), "{:?}", world.marks());
}

/// Deleted in mid-release under a controller that keeps workloads held then.
fn kept_at(point: usize, original: Option<i64>) -> World {
    let mut world = released_to(POINTS[point], original);
    (world.keeps_held, world.looked) = (true, false);
    world.delete_rollout();
    world
}

#[rstest]
fn a_workload_whose_rollout_is_deleted_is_kept_held_where_that_is_wanted(
    #[values(0, 1, 2, 3, 4, 5, 6, 7)] point: usize,
    #[values(Some(0), Some(2), None)] original: Option<i64>,
) {
    let mut world = kept_at(point, original);
    let before = (world.marks(), world.partition());
    world.control();
    world.restart();
    world.settle();
    assert_eq!((world.marks(), world.partition()), before);
    // A newer template is held as ever.
    world.set_image("v3");
    world.settle();
    assert_eq!(world.partition(), Some(names::HOLD_PARTITION));
    assert_eq!(world.on("v3").len(), 0);
    assert!(world.events.contains(&"KeptHeld") && !world.events.contains(&"Released"));
    // The Rollout again: another release, since this is another template.
    world.create_rollout(rollout(&steps()));
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert!(world.on("v3").len() == 1);
    world.finish();
    world.assert_done("v3", original);
}

#[test]
fn a_kept_release_goes_on_where_it_was() {
    let mut world = kept_at(3, Some(0));
    world.settle();
    assert_eq!((world.partition(), world.on("v2").len()), (Some(4), 1));
    let plan = json!([{"replicas": 1, "pause": {}}, {"replicas": "60%", "pause": {}}, {"replicas": "100%"}]);
    world.create_rollout(rollout(&plan));
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.partition()),
        ("Progressing 1/StepPaused", Some(4))
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

/// The way out without steps.
#[test]
fn a_kept_release_is_let_go_by_a_rollout_that_is_disabled() {
    let mut world = kept_at(3, Some(0));
    world.settle();
    let mut disabled = rollout(&steps());
    disabled.spec.disabled = true;
    world.create_rollout(disabled);
    world.settle();
    assert_eq!((world.marks(), world.on("v2").len()), (vec![], 5));
}
