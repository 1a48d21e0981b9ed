//! Nodes that want no pod, and keep the one that they have.

use super::*;

/// As autoscalers taint a node that is about to go: its pod stays, and the node is not counted any more. While a pod is on its way
/// out there are as many pods left as nodes that want one.
#[tokio::test]
async fn nodes_that_keep_a_pod_that_they_do_not_want_hide_no_other() {
    let mut daemons = daemons("tainted", rolling(json!({"maxUnavailable": 2}))).await;
    daemons.subject.manifest["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!("my-registry/my-app:v1-linger-2");
    let scene = daemons.scene();
    scene.create_app(&daemons.subject.manifest).await;
    scene.wait_pods("v1-linger-2", 5).await;
    scene.create_rollout(&two_steps()).await;
    scene.wait_phase("Healthy").await;
    let pool = scene.namespace.name();
    let taints = json!({"spec": {"taints": [{"key": POOL, "value": pool, "effect": "NoSchedule"},
        {"key": "example.io/goes", "effect": "NoSchedule"}]}});
    for index in [3, 4] {
        let name = daemons.node(index);
        let params = PatchParams::default();
        daemons
            .nodes
            .patch(&name, &params, &Patch::Merge(&taints))
            .await
            .unwrap();
    }
    // Its controller counts when it next has something to do.
    scene
        .patch_app(json!({"metadata": {"labels": {"team": "a"}}}))
        .await;
    scene
        .wait_app("three nodes", |app| {
            app["status"]["desiredNumberScheduled"] == 3 && app["status"]["numberMisscheduled"] == 2
        })
        .await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 1).await;
    assert_eq!(gate.most("v2").await, 1);
    scene.approve().await;
    scene
        .wait_app("handed back", |app| mark(app, names::GRANTED_PARTITION).is_null())
        .await;
    daemons.settled(&[("v2", 3)]).await;
}
