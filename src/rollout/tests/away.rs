//! What is told of changes that were made while no controller was at work.

use rstest::rstest;
use serde_json::json;

use super::api::Fault;
use super::rollback::{POINTS, Point, released_to};
use super::world::{World, app, manifest, steps, template};
use crate::names;
use crate::rollout::Action;

const AWAY: &str = "ChangedWhileAway";

/// The controller goes, somebody changes something, and another one comes: what that one tells, which it tells once.
fn told(mut world: World, change: impl FnOnce(&mut World)) -> String {
    world.restart();
    change(&mut world);
    world.forget_logs();
    let decision = world.decide(&world.seen());
    let told = decision.actions.iter().filter_map(|action| match action {
        Action::Announce(event) if event.reason == AWAY => {
            assert!(!event.warning);
            event.message.strip_prefix("while no controller was at work: ")
        }
        _ => None,
    });
    let told: Vec<_> = told.collect();
    world.settle();
    let events = world.events.iter().filter(|reason| **reason == AWAY).count();
    assert_eq!(events, told.len(), "{:?}", world.events);
    assert!(events <= 1, "{told:?}");
    world.restart();
    world.settle();
    let again = world.events.iter().filter(|reason| **reason == AWAY).count();
    assert_eq!(again, events, "{:?}", world.events);
    told.concat()
}

fn at_rest() -> World {
    World::guarded(5, Some(0), &steps())
}

fn at_step_1() -> World {
    released_to(Point::Step1, Some(0))
}

fn rolling_back() -> World {
    let mut world = at_step_1();
    world.set_image("v1");
    world.control();
    assert!(world.status().message.contains("rolling back"));
    world
}

/// Writes that no admission looks at.
fn unheld(world: &mut World, write: impl FnOnce(&mut World)) {
    world.webhook = false;
    write(world);
    world.webhook = true;
}

fn without_release_marks(world: &mut World) {
    let marks = names::RELEASE_MARKS.map(|mark| (mark.to_owned(), json!(null)));
    unheld(world, |world| {
        world.strip(&json!(serde_json::Map::from_iter(marks)), &json!({}))
    });
}

fn without_marks(world: &mut World) {
    unheld(world, |world| world.put(manifest(5, Some(0), "v2")));
}

#[rstest]
#[case::a_new_template(at_rest(), |w: &mut World| w.set_image("v2"),
    "a new template of @ was held; its release starts now at step 1 of 3")]
#[case::a_new_template_that_the_operator_has_seen(at_rest(), |w: &mut World| {
    w.set_image("v2");
    w.operate();
}, "a new template of @ was held; its release starts now at step 1 of 3")]
#[case::a_newer_template(at_step_1(), |w: &mut World| w.set_image("v3"),
    "the template of @ was replaced by a newer one, which is held; its release starts now at step 1 of 4")]
#[case::a_newer_template_at_the_last_pause(released_to(Point::LastPause, Some(2)), |w: &mut World| w.set_image("v3"),
    "the template of @ was replaced by a newer one, which is held; its release starts now at step 1 of 4")]
#[case::a_template_taken_back(at_step_1(), |w: &mut World| w.set_image("v1"),
    "the template of @ was taken back; pods return to the stable template")]
#[case::taken_back_before_the_first_pod(released_to(Point::BeforeTheFirstPod, Some(0)), |w: &mut World| w.set_image("v1"),
    "the template of @ was taken back; pods return to the stable template")]
#[case::another_template_on_the_way_back(rolling_back(), |w: &mut World| w.set_image("v3"),
    "the template of @ was replaced by a newer one, which is held; its release starts now at step 1 of 4")]
#[case::more_replicas(at_step_1(), |w: &mut World| w.set_replicas(8),
    "replicas of @ were changed from 5 to 8; the release goes on at step 1 of 4")]
#[case::more_replicas_by_scale(at_step_1(), |w: &mut World| w.scale(8),
    "replicas of @ were changed from 5 to 8; the release goes on at step 1 of 4")]
#[case::fewer_replicas(released_to(Point::TimedPause, None), |w: &mut World| w.scale(4),
    "replicas of @ were changed from 5 to 4; the release goes on at step 2 of 4")]
#[case::replicas_on_the_way_back(rolling_back(), |w: &mut World| w.scale(4),
    "replicas of @ were changed from 5 to 4; pods return to the stable template")]
#[case::both(at_step_1(), |w: &mut World| w.patch(&json!({"spec": {"replicas": 8, "template": template("v3")}})),
    "the template of @ was replaced by a newer one, which is held, and replicas of @ were changed from 5 to 8; \
     its release starts now at step 1 of 4")]
#[case::release_marks_gone(
    at_step_1(),
    without_release_marks,
    "the marks of the release were taken off @, so that nothing held it; what it has not reached yet is held now"
)]
#[case::all_marks_gone(
    at_step_1(),
    without_marks,
    "the marks of the release were taken off @, so that nothing held it; it is guarded from here on as it is"
)]
#[case::never_held(at_rest(), |w: &mut World| unheld(w, |w| w.set_image("v2")),
    "a new template of @ came, and nothing held it; what it has not reached yet is held now")]
#[case::never_held_and_done(at_rest(), |w: &mut World| {
    unheld(w, |w| w.set_image("v2"));
    for _ in 0..20 {
        w.operate();
        w.kubelet();
    }
}, "a new template of @ came, and nothing held it; it is guarded from here on as it is")]
#[case::created_again(at_rest(), |w: &mut World| w.create(manifest(5, Some(0), "v1")),
    "@ was deleted and created again; it is a new workload, and its present template is the stable one")]
#[case::created_again_in_mid_release(at_step_1(), |w: &mut World| w.create(manifest(5, Some(0), "v2")),
    "@ was deleted and created again; it is a new workload, and its present template is the stable one")]
#[case::created_again_with_the_marks_of_the_one_before(at_step_1(), |w: &mut World| w.create(w.object().clone()),
    "@ was deleted and created again; it is a new workload, and its present template is the stable one")]
fn a_change_is_told(#[case] world: World, #[case] change: fn(&mut World), #[case] message: &str) {
    assert_eq!(told(world, change), message.replace('@', &app().to_string()));
}

#[rstest]
#[case::nothing(at_rest(), |_: &mut World| {})]
#[case::scaled_at_rest(at_rest(), |w: &mut World| w.scale(8))]
#[case::a_partition_at_rest(at_rest(), |w: &mut World| w.set_partition(Some(3)))]
#[case::changed_and_changed_back(at_rest(), |w: &mut World| {
    w.set_image("v2");
    w.set_image("v1");
})]
#[case::changed_and_changed_back_under_the_operators_eyes(at_rest(), |w: &mut World| {
    w.set_image("v2");
    w.operate();
    w.set_image("v1");
})]
#[case::pods_go_on(released_to(Point::BeforeTheFirstPod, Some(0)), |w: &mut World| {
    w.operate();
    w.kubelet();
    w.operate();
})]
#[case::an_approval(at_step_1(), |w: &mut World| w.approve())]
#[case::a_jump(at_step_1(), |w: &mut World| w.jump(3))]
#[case::a_time_that_passes(released_to(Point::TimedPause, Some(0)), |w: &mut World| w.pass(300))]
#[case::the_manifest_again(at_step_1(), |w: &mut World| w.put(manifest(5, Some(2), "v2")))]
#[case::the_rollout_disabled(at_step_1(), |w: &mut World| w.edit_rollout(|rollout| rollout.spec.disabled = true))]
#[case::the_label_gone(at_rest(), |w: &mut World| w.strip(&json!({}), &json!({names::WORKLOAD_TYPE: null})))]
#[case::another_workload(at_step_1(), |w: &mut World| {
    w.oracle.free = true;
    w.edit_rollout(|rollout| "other".clone_into(&mut rollout.spec.workload_ref.name));
})]
#[case::the_memory_lost(at_step_1(), |w: &mut World| {
    w.lose_status();
    w.set_image("v3");
})]
#[case::the_workload_gone(at_rest(), World::delete_workload)]
fn what_is_no_change_of_the_workload_is_not_told(#[case] world: World, #[case] change: fn(&mut World)) {
    assert_eq!(told(world, change), "");
}

#[rstest]
fn a_failover_in_which_nothing_was_changed_says_nothing(
    #[values(0, 1, 2, 3, 4, 5, 6, 7)] point: usize,
    #[values(Some(0), Some(2), None)] original: Option<i64>,
) {
    let world = released_to(POINTS[point], original);
    if POINTS[point] == Point::Held {
        assert!(told(world, |_| {}).contains("a new template"));
        return;
    }
    assert_eq!(told(world.clone(), |_| {}), "");
    assert_eq!(told(world, |w| (0..3).for_each(|_| w.operate())), "");
}

/// The controller dies between any two of its writes, and the next one finds what it did not tell of.
#[rstest]
fn what_a_controller_of_before_has_done_is_not_told(#[values(Some(0), Some(2))] original: Option<i64>) {
    for survives in 0..4 {
        let mut world = released_to(Point::Step1, original);
        world.forget_logs();
        for _ in 0..40 {
            world.control_on(&world.seen(), survives);
            // It watches pods from its first look on.
            world.control();
            world.control();
            world.operate();
            world.kubelet();
            if world.canary().current_step_state == "StepPaused" {
                world.approve();
                world.pass(300);
            }
        }
        world.settle();
        world.assert_done("v2", original);
        assert!(!world.events.contains(&AWAY), "{survives}: {:?}", world.events);
    }
}

#[rstest]
#[case::a_new_template(at_rest(), |w: &mut World| w.set_image("v2"))]
#[case::a_newer_template(at_step_1(), |w: &mut World| w.set_image("v3"))]
#[case::a_template_taken_back(at_step_1(), |w: &mut World| w.set_image("v1"))]
#[case::replicas(at_step_1(), |w: &mut World| w.set_replicas(8))]
#[case::marks_gone(at_step_1(), without_marks)]
#[case::never_held(at_rest(), |w: &mut World| unheld(w, |w| w.set_image("v2")))]
#[case::created_again(at_rest(), |w: &mut World| w.create(manifest(5, Some(0), "v2")))]
fn a_controller_at_work_tells_nothing_of_it(#[case] mut world: World, #[case] change: fn(&mut World)) {
    change(&mut world);
    world.settle();
    assert!(!world.events.contains(&AWAY), "{:?}", world.events);
}

#[rstest]
#[case::a_new_template(at_rest(), |w: &mut World| w.set_image("v2"))]
#[case::a_template_taken_back(at_step_1(), |w: &mut World| w.set_image("v1"))]
#[case::replicas(at_step_1(), |w: &mut World| w.set_replicas(8))]
#[case::created_again(at_rest(), |w: &mut World| w.create(manifest(5, Some(0), "v2")))]
fn a_first_look_whose_writes_fail_is_told_once(
    #[case] mut world: World,
    #[case] change: fn(&mut World),
    #[values(Fault::Conflict, Fault::Refused, Fault::Broken, Fault::Lost)] fault: Fault,
    #[values(0, 1, 2, 3)] succeed: usize,
) {
    world.restart();
    change(&mut world);
    world.forget_logs();
    world.faults.extend(vec![Fault::None; succeed]);
    world.faults.extend([fault, fault]);
    world.settle();
    let events = world.events.iter().filter(|reason| **reason == AWAY).count();
    // Where the status is written and its answer is lost, nobody knows that there is something to tell.
    assert!(
        events == 1 || fault == Fault::Lost && events == 0,
        "{:?}",
        world.events
    );
}
