//! Found of DaemonSets and Deployments of Kubernetes, whose pods are moved by us.

use serde_json::json;

use super::super::world::{World, daemon_set, deployment, native_daemon_set, steps};

/// Gives the template an empty member, which changes nothing that counts.
fn dress(world: &mut World) {
    world.patch(&json!({"spec": {"template": {"spec": {"securityContext": {}}}}}));
}

/// How many pods the grant is for has changed, and nobody has looked at that yet.
#[test]
fn nothing_moves_before_it_is_known_where_a_template_leads() {
    let mut world = World::of(deployment(), 1, None).under(&steps());
    dress(&mut world);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v1").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.scale(2);
    world.control();
    let sizes: Vec<_> = world.sets().iter().map(|set| set.replicas).collect();
    assert_eq!(sizes, [0, 1]);
    world.finish();
    world.assert_done("v1", None);
}

/// The pods on new nodes are there before the status counts these, and the grant of all nodes is one for those of before.
#[test]
fn pods_on_nodes_that_nobody_has_told_of_are_not_replaced() {
    let mut world = World::of(native_daemon_set(), 1, None).under(&steps());
    world.set_image("v2");
    world.set_replicas(4);
    world.kubelet();
    world.sync();
    world.sync();
    world.control();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.finish();
    world.assert_done("v2", None);
}

/// New nodes are counted before anybody is told of them.
#[test]
fn an_operator_that_has_seen_new_nodes_acts_on_the_grant_for_those_of_before() {
    let mut world = World::of(daemon_set(), 1, None).under(&steps());
    world.set_image("v2");
    world.set_replicas(2);
    world.control();
    for _ in 0..2 {
        world.operate();
        world.kubelet();
    }
    world.settle();
    assert_eq!(world.on("v2").len(), 2);
    world.finish();
    world.assert_done("v2", None);
}

/// As long as a step has exposed all its pods, the controller of Deployments gives whatever is added to the only ReplicaSet that has
/// any.
#[test]
fn pods_that_are_added_where_all_are_exposed_run_the_new_template_and_count() {
    let mut world = World::of(deployment(), 1, None).under(&steps());
    world.set_image("v2");
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.set_replicas(4);
    world.operate();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 4)
    );
    world.finish();
    world.assert_done("v2", None);
}

/// It still stands on a node that the status does not count, and the one that comes instead is of the new template.
#[test]
fn a_pod_that_leaves_a_node_that_nobody_has_told_of_is_counted() {
    let mut world = World::of(native_daemon_set(), 1, None).under(&json!([{"replicas": 1, "pause": {}}]));
    world.set_image("v2");
    world.finish();
    world.set_replicas(2);
    world.sync();
    world.set_image("v1");
    world.control();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v1").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.finish();
    world.assert_done("v1", None);
}

/// Somebody takes away what was made instead of a pod, and neither goes; or the node that they are on has gone.
#[test]
fn a_pod_that_stays_on_its_way_out_is_replaced_once() {
    let mut world = World::of(native_daemon_set(), 3, None).under(&steps());
    world.lingering = true;
    world.set_image("v2");
    world.settle();
    for _ in 0..3 {
        let kept = *world.on("v1").last().unwrap();
        world.lose_pod(kept);
        world.settle();
    }
    world.lingering = false;
    world.finish();
    world.assert_done("v2", None);

    let mut world = World::of(native_daemon_set(), 1, None).under(&steps());
    world.lingering = true;
    world.fail_pod(1, true);
    world.set_image("v2");
    for nodes in [4, 2] {
        world.set_replicas(nodes);
        world.settle();
    }
    world.lingering = false;
    world.finish();
    world.assert_done("v2", None);
}

/// Nobody else gets the pods that are missing, and these are more than the step has.
#[test]
fn missing_pods_come_on_the_stable_template_on_the_way_back_by_steps() {
    let mut world = World::of(deployment(), 2, None).under(&steps());
    world.back_in_batches(true);
    world.set_image("v2");
    world.settle();
    assert_eq!(world.on("v2").len(), 1);
    world.set_image("v1");
    world.set_replicas(4);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v1").len()),
        ("Progressing 1/StepPaused", 3)
    );
    world.finish();
    world.assert_done("v1", None);
}

/// The partition keeps back as many pods of the old template as it should have of those that were told of.
#[test]
fn a_grant_for_fewer_nodes_than_there_are_exposes_no_other_pod() {
    let mut world = World::of(daemon_set(), 3, None).under(&steps());
    world.set_image("v2");
    let seen = world.seen();
    world.scale(6);
    world.operate();
    world.control_on(&seen, usize::MAX);
    assert_eq!(world.partition(), Some(2));
    assert!(world.oracle.breaches.is_empty(), "{:?}", world.oracle.breaches);
    world.finish();
    world.assert_done("v2", None);
}

/// As a whole it knows nothing of the hold, and asks for all that it has, be it as a field is held.
#[test]
fn a_manifest_that_is_put_in_mid_release_asks_for_the_type_that_holds() {
    let mut world = World::of(deployment(), 2, None).under(&steps());
    world.set_image("v2");
    world.settle();
    world.put(world.manifest(2, Some(6), "v2"));
    world.finish();
    assert_eq!(world.object()["spec"]["strategy"], json!({"type": "Recreate"}));
    assert!(world.has_what_was_asked_for());
}

/// All pods of the stable template are gone, and with them its record: the one of a template that resembles it is none of it.
#[test]
fn a_template_is_another_one_although_the_record_of_the_stable_one_is_forgotten() {
    let mut world = World::of(native_daemon_set(), 2, None).under(&steps());
    world.habits.forgets_revisions = true;
    dress(&mut world);
    world.pods.clear();
    world.operate();
    world.settle();
    assert_eq!(world.at(), "Progressing 1/StepPaused");
    world.finish();
    world.assert_done("v1", None);
}

/// Nor has a template a record that was changed before its operator has seen it.
#[test]
fn a_template_is_another_one_although_the_stable_one_never_had_a_record() {
    let mut world = World::of(native_daemon_set(), 2, None).under(&steps());
    world.edit_rollout(|rollout| rollout.spec.disabled = true);
    world.set_image("v2");
    world.control();
    world.edit_rollout(|rollout| rollout.spec.disabled = false);
    dress(&mut world);
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2").len()),
        ("Progressing 1/StepPaused", 1)
    );
    world.finish();
    world.assert_done("v2", None);
}
