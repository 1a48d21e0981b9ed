//! Found of memories: what the status tells of workloads that have gone, of grants, and of what people wrote there.

use serde_json::json;

use super::super::api::Fault;
use super::super::world::{World, manifest, rollout, steps};

#[test]
fn a_rollout_that_is_created_again_in_mid_release_takes_over() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.settle();
    world.delete_rollout();
    world.create_rollout(rollout(&steps()));
    world.restart();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v2", Some(0));
}

#[test]
fn a_workload_that_is_created_again_is_a_new_one() {
    let mut world = World::guarded(5, Some(0), &steps());
    world.set_image("v2");
    world.settle();
    let old = world.seen();
    world.delete_workload();
    world.create(manifest(5, Some(2), "v3"));
    world.control_on(&old, usize::MAX);
    world.settle();
    world.assert_done("v3", Some(2));
    world.set_image("v2");
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
}

#[test]
fn a_step_that_somebody_writes_as_the_present_one_is_put_right_whatever_is_written_first() {
    let mut world = World::guarded(5, None, &steps());
    world.set_image("v2");
    world.settle();
    let status = world.rollout.as_mut().and_then(|rollout| rollout.status.as_mut());
    status.unwrap().canary_status.as_mut().unwrap().current_step_index = 99;
    world.touch_rollout(false);
    world.faults.push_back(Fault::Refused);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
}

/// The status tells of the time before the workload was there: of its release the first step can have been granted, and no other.
#[test]
fn a_first_grant_that_was_not_told_is_that_of_the_first_step_whatever_the_replicas_are_now() {
    let mut world = World::guarded(1, None, &steps());
    world.delete_workload();
    world.control();
    world.create(manifest(3, None, "v1"));
    world.set_image("v2");
    world.faults.extend([Fault::Broken, Fault::Lost]);
    world.control();
    world.control();
    assert_eq!((world.at().as_str(), world.partition()), ("Initial 0/", Some(2)));
    world.scale(4);
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.finish();
    world.assert_done("v2", None);
}

/// Nobody has looked while it was away: neither the step nor the approval is that of the workload that is there now.
#[test]
fn a_release_of_another_workload_of_the_same_name_is_another_release() {
    let mut world = World::guarded(5, None, &steps());
    world.set_image("v2");
    world.settle();
    world.approve();
    world.delete_workload();
    world.create(manifest(5, None, "v1"));
    while world.on("v1").len() < 5 {
        world.operate();
        world.kubelet();
    }
    world.set_image("v2");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    world.finish();
    world.assert_done("v2", None);
}

/// Its Rollout is a new one, and the operator calls another revision the current one.
#[test]
fn a_pod_that_was_never_ready_is_replaced_where_nobody_remembers_that_it_is_of_the_stable_template() {
    let mut world = World::in_order(1, None, &steps());
    let export = world.object().clone();
    world.patch(&json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
    world.delete_rollout();
    world.control();
    world.apply("v3", None, false);
    world.scale(0);
    world.settle();
    world.create_rollout(rollout(&steps()));
    world.set_replicas(1);
    world.sync();
    world.put(export);
    world.set_image("v2");
    world.replan(&json!([{"replicas": 1, "pause": {}}]));
    world.control();
    world.operate();
    world.mend();
    world.pass(60);
    world.finish();
    world.assert_done("v2", None);
}
