//! What the properties have found, as stories.

mod memory;
mod natives;

use serde_json::json;

use super::api::Fault;
use super::world::{World, manifest, rollout, steps};
use crate::api::v1beta1::condition;
use crate::names;
use crate::workload::Partition;

#[test]
fn an_approval_of_nothing_does_not_make_a_change_taken_back_a_release() {
    let mut world = World::guarded(1, None, &steps());
    world.approve();
    world.set_image("v2");
    world.operate();
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", None);
    assert!(
        world.states.iter().all(|state| !state.contains("StepUpgrade")),
        "{:?}",
        world.states
    );
    assert_ne!(world.says(condition::SUCCEEDED).0, "True");
}

#[test]
fn a_partition_that_was_handed_back_is_disowned_even_if_the_answer_was_lost() {
    let mut world = World::guarded(3, None, &steps());
    world.set_image("v2");
    world.set_image("v1");
    world.faults.push_back(Fault::Lost);
    world.settle();
    world.assert_done("v1", None);
    assert!(!world.view().partition_is_ours);
    world.apply("v1", Some(2), false);
    assert_eq!(world.partition(), Some(2));
}

#[test]
fn a_partition_is_disowned_when_the_rollout_is_deleted_in_mid_release() {
    let mut world = World::guarded(3, Some(1), &steps());
    world.set_image("v2");
    world.settle();
    world.delete_rollout();
    world.settle();
    assert_eq!((world.marks(), world.partition()), (vec![], Some(1)));
    assert!(!world.view().partition_is_ours);
}

#[test]
fn a_partition_is_disowned_when_the_rollout_is_disabled_and_the_answer_is_lost() {
    let mut world = World::guarded(3, None, &steps());
    world.set_image("v2");
    world.settle();
    world.edit_rollout(|rollout| rollout.spec.disabled = true);
    world.faults.push_back(Fault::Lost);
    world.settle();
    assert_eq!((world.marks(), world.partition()), (vec![], None));
    assert!(!world.view().partition_is_ours);
}

#[test]
fn a_copy_of_a_held_workload_keeps_the_partition_that_it_was_given() {
    let mut world = World::guarded(3, None, &steps());
    world.set_image("v2");
    let mut copy = world.object().clone();
    world.delete_workload();
    world.settle();
    copy["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(2);
    world.create(copy);
    world.settle();
    world.assert_done("v2", Some(2));
}

#[test]
fn a_copy_of_a_held_workload_as_it_was_gets_back_what_people_asked_for() {
    let mut world = World::guarded(3, Some(1), &steps());
    world.set_image("v2");
    world.settle();
    let copy = world.object().clone();
    world.delete_workload();
    world.settle();
    world.create(copy);
    world.settle();
    world.assert_done("v2", Some(1));
}

#[test]
fn marks_of_a_release_that_are_left_at_rest_go() {
    let mut world = World::guarded(3, None, &steps());
    world.patch(&json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
    world.settle();
    world.strip(&json!({names::GRANTED_PARTITION: "0"}), &json!({}));
    world.mend();
    world.settle();
    world.assert_done("v1", None);
}

/// The Rollout comes from one watch and the workload from another, which may be further.
#[test]
fn a_release_is_not_let_go_by_what_its_rollout_was_before() {
    for ends in [
        (|world| world.edit_rollout(|rollout| rollout.spec.disabled = true)) as fn(&mut World),
        World::delete_rollout,
    ] {
        let mut world = World::guarded(3, None, &steps());
        let before = world.rollout.clone();
        ends(&mut world);
        let ended = world.seen();
        world.rollout = before;
        // The end was one generation, and this is another.
        world.touch_rollout(true);
        world.touch_rollout(true);
        world.set_image("v2");
        let mut seen = world.seen();
        seen.rollout = ended.rollout;
        world.control_on(&seen, usize::MAX);
        assert_eq!(world.partition(), Some(names::HOLD_PARTITION));
        world.settle();
        assert_eq!(world.on("v2").len(), 1);
    }
}

#[test]
fn an_export_of_a_release_that_is_put_back_at_rest_asks_for_what_its_marks_say() {
    for asked in [None, Some(2)] {
        let mut world = World::guarded(3, asked, &steps());
        world.set_image("v2");
        let export = world.object().clone();
        world.finish();
        world.put(export);
        assert_eq!(world.partition(), asked);
        assert_eq!(world.oracle.asked, Some(asked.map(Partition::Count)));
        world.finish();
        world.assert_done("v2", asked);
    }
}

#[test]
fn a_jump_written_while_paused_outlives_a_template_that_is_changed_and_changed_back() {
    let pause = json!({"replicas": 0, "pause": {"duration": 0}});
    let mut world = World::guarded(2, None, &json!([pause, pause, {"replicas": 1, "pause": {}}]));
    world.set_image("v2");
    world.settle();
    assert_eq!(world.at(), "Progressing 3/StepPaused");
    world.edit_rollout(|rollout| rollout.spec.strategy.paused = true);
    world.set_image("v1");
    world.set_image("v2");
    world.jump(1);
    world.control();
    assert_eq!(world.canary().next_step_index, 1);
    world.edit_rollout(|rollout| rollout.spec.strategy.paused = false);
    world.control();
    assert!(world.oracle.breaches.is_empty(), "{:?}", world.oracle.breaches);
    assert!(world.events.contains(&"StepJump"), "{:?}", world.events);
    world.finish();
    world.assert_done("v2", None);
}

/// Without the label nothing is held; the mark names the template that was stable before that, and it still is when it comes back.
#[test]
fn the_template_before_the_label_was_taken_away_needs_no_steps() {
    for other in ["v2", "v3"] {
        let mut world = World::guarded(3, None, &steps());
        world.strip(&json!({}), &json!({names::WORKLOAD_TYPE: null}));
        world.set_image("v2");
        world.put(manifest(3, None, other));
        world.set_image("v1");
        assert_eq!(world.partition(), Some(names::HOLD_PARTITION));
        world.settle();
        world.assert_done("v1", None);
    }
}

#[test]
fn a_template_without_the_label_that_the_controller_has_seen_is_the_stable_one() {
    let mut world = World::guarded(3, None, &steps());
    world.strip(&json!({}), &json!({names::WORKLOAD_TYPE: null}));
    world.set_image("v2");
    world.settle();
    world.put(manifest(3, None, "v2"));
    world.settle();
    world.set_image("v1");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert_eq!(world.on("v1"), [2]);
    world.finish();
    world.assert_done("v1", None);
}

#[test]
fn a_release_that_ended_without_pods_stays_ended_when_pods_come_before_it_is_told() {
    let mut world = World::guarded(1, None, &steps());
    world.set_image("v2");
    world.settle();
    world.scale(0);
    world.operate();
    world.kubelet();
    world.control_on(&world.seen(), 1);
    assert_eq!(world.marks(), [names::GUARDED_BY]);
    world.scale(3);
    world.settle();
    assert!(!world.view().partition_is_ours);
    world.assert_done("v2", None);
}

#[test]
fn a_jump_outlives_a_write_that_was_refused() {
    let mut world = World::guarded(5, None, &steps());
    world.set_image("v2");
    world.settle();
    world.approve();
    world.settle();
    assert_eq!(world.canary().current_step_index, 2);
    world.jump(1);
    world.faults.push_back(Fault::Refused);
    world.settle();
    assert_eq!(world.canary().current_step_index, 1);
    world.finish();
    world.assert_done("v2", None);
}

/// It would act on the first grant and then on the second one, which is for another pod.
#[test]
fn nothing_is_granted_anew_while_the_operator_may_act_on_an_earlier_grant() {
    for comes_back in [false, true] {
        let mut world = World::guarded(4, None, &steps());
        world.set_image("v2");
        world.control();
        world.freeze();
        if comes_back {
            world.set_image("v3");
        }
        world.set_replicas(5);
        world.set_image("v2");
        world.settle();
        assert_eq!(world.on("v2"), [3]);
        world.frozen = None;
        world.settle();
        assert_eq!(
            (world.at().as_str(), world.on("v2")),
            ("Progressing 1/StepPaused", vec![3])
        );
        world.finish();
        world.assert_done("v2", None);
    }
}

#[test]
fn a_way_back_that_was_opened_takes_steps_if_they_are_asked_for_before_it_is_taken_again() {
    let mut world = World::guarded(5, None, &steps());
    world.set_image("v2");
    world.settle();
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 2/StepPaused", 3)
    );
    world.set_image("v1");
    world.control();
    assert_eq!(world.partition(), Some(0));
    world.back_in_batches(true);
    world.set_image("v2");
    world.set_image("v1");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    assert!(!world.events.contains(&"NoSuchStep"), "{:?}", world.events);
    world.finish();
    world.assert_done("v1", None);
}

/// Whatever the marks say that came along with it, a copy runs its own template and no other one.
#[test]
fn a_copy_of_a_held_workload_returns_to_its_template_without_steps() {
    let mut world = World::guarded(2, None, &steps());
    world.set_image("v3");
    let copy = world.object().clone();
    world.delete_workload();
    world.create(copy);
    world.control();
    world.set_image("v1");
    world.set_image("v3");
    world.settle();
    world.assert_done("v3", None);
}

/// What came while the label was away is held by the controller, without a template change.
#[test]
fn a_template_that_is_held_late_is_taken_back_without_steps() {
    let mut world = World::guarded(3, None, &steps());
    world.set_image("v2");
    world.finish();
    world.strip(&json!({}), &json!({names::WORKLOAD_TYPE: null}));
    world.set_image("v3");
    world.mend();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v3")),
        ("Progressing 1/StepPaused", vec![2])
    );
    world.set_image("v2");
    world.settle();
    world.assert_done("v2", None);
}

/// Otherwise the partition that people asked for would keep the pods on the template that was taken back.
#[test]
fn a_partition_above_0_comes_back_once_the_operator_has_seen_that_the_template_did() {
    for (replicas, granted) in [(1, true), (0, false)] {
        let mut world = World::guarded(1, None, &steps());
        world.habits.current_at_once = true;
        world.set_replicas(0);
        world.settle();
        world.set_image("v2");
        if granted {
            world.faults.push_back(Fault::Lost);
            world.control();
            assert_eq!(world.at(), "Healthy 3/Completed");
        }
        world.scale(replicas);
        world.operate();
        world.put(manifest(replicas, Some(1), "v1"));
        world.control();
        world.set_replicas(1);
        world.settle();
        world.assert_done("v1", Some(1));
    }
}

/// The kind may not even be registered then, so that nobody could have kept the mark away.
#[test]
fn a_mark_that_is_put_back_on_a_workload_that_nobody_governs_is_believed() {
    let mut world = World::guarded(2, None, &steps());
    world.set_image("v3");
    let export = world.object().clone();
    world.delete_rollout();
    world.set_image("v2");
    world.settle();
    assert_eq!((world.marks(), world.on("v2").len()), (vec![], 2));
    world.put(export);
    world.create_rollout(rollout(&steps()));
    world.set_image("v1");
    world.settle();
    world.assert_done("v1", None);
}

/// It has ended and is one too many, so that nothing is left to take back by steps.
#[test]
fn a_pod_that_goes_anyway_is_not_taken_back_by_steps() {
    let mut world = World::in_order(7, None, &steps());
    world.set_image("v2");
    world.settle();
    assert_eq!(world.on("v2"), [6]);
    world.back_in_batches(true);
    world.fail_pod(0, false);
    world.fail_pod(6, true);
    world.set_image("v1");
    world.set_replicas(2);
    world.settle();
    world.assert_done("v1", None);
}

#[test]
fn an_approval_after_the_workload_has_gone_approves_nothing() {
    let mut world = World::guarded(1, None, &steps());
    world.set_image("v2");
    world.settle();
    world.delete_workload();
    world.approve();
    world.settle();
    assert!(world.oracle.breaches.is_empty(), "{:?}", world.oracle.breaches);
}

#[test]
fn a_step_that_needs_no_more_pods_is_done_although_one_has_gone_unseen() {
    let nothing = |pause| json!({"replicas": 0, "pause": pause});
    let plan = json!([{"replicas": "1%", "pause": {}}, nothing(json!({"duration": 0})), nothing(json!({}))]);
    let mut world = World::guarded(1, None, &plan);
    world.set_image("v2");
    world.settle();
    world.delete_pod(0);
    world.kubelet();
    world.approve();
    world.settle();
    assert!(world.oracle.breaches.is_empty(), "{:?}", world.oracle.breaches);
}
