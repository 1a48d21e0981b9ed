//! Rollbacks: the stable template comes back without steps, from wherever the release stands.

use futures::future::join;
use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use crate::gate::{Gate, Step};
use crate::kinds::OwnKind;
use crate::scene::{SOON, Scene, WALK, assert_free, condition, mark, partition, walk_steps};

const HELD: Option<i64> = Some(names::HOLD_PARTITION);

/// Waits for the end of a rollback, and looks at everything that it should have left.
async fn rolled_back(scene: &Scene<'_>, original: &Value) {
    let done = scene
        .wait("rolled back", |rollout| {
            rollout["status"]["phase"] == "Healthy"
                && condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    assert_eq!(condition(&done, "Succeeded")["status"], "False");
    assert_eq!(condition(&done, "Progressing")["reason"], "Completed");
    assert_eq!(condition(&done, "Ready")["status"], "True");
    let canary = &done["status"]["canaryStatus"];
    assert_eq!(canary["currentStepState"], "Completed");
    assert_eq!(canary["stableRevision"], canary["canaryRevision"]);
    let app = scene.app().await;
    assert_eq!(partition(&app), original);
    assert_free(&app);
    assert_eq!(scene.wait_pods("v1", 5).await.len(), scene.pods().await.len());
}

/// Rolls back from a pause after these steps; what was in force until then is the beginning of [`WALK`].
async fn from_pause(prefix: &str, original: Option<i64>, steps: &Value, step: i64, passed: &[Step]) {
    let scene = Scene::new(installed().await, prefix).await;
    scene.set(original, steps).await;
    let before = partition(&scene.app().await).clone();
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    for done in 1..step {
        scene.wait_state(done, "StepPaused").await;
        scene.approve().await;
    }
    scene.wait_state(step, "StepPaused").await;
    scene.set_version("v1").await;
    rolled_back(&scene, &before).await;
    let most = passed.last().unwrap().1;
    let mut expected = [&[(original, 0)], passed, &[(HELD, most), (Some(0), most)]].concat();
    if original != Some(0) {
        expected.push((original, 0));
    }
    assert_eq!(gate.steps("v2").await, expected);
}

#[tokio::test]
async fn from_the_first_pause() {
    from_pause("back-first", Some(0), &walk_steps(), 1, &WALK[..2]).await;
}

#[tokio::test]
async fn from_the_last_pause_with_a_partition_to_restore() {
    let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}]);
    from_pause("back-last", Some(2), &steps, 2, &WALK[..3]).await;
}

#[tokio::test]
async fn from_a_long_timed_pause_without_a_partition_to_restore() {
    let steps = json!([{"replicas": 1, "pause": {"duration": 300}}, {"replicas": "100%"}]);
    from_pause("back-timed", None, &steps, 1, &WALK[..2]).await;
}

/// Rolls back while the only pod on the new version crashes. Where pods are managed in order, a StatefulSet replaces a pod that
/// never became ready only once somebody has deleted it.
async fn from_a_crash(prefix: &str, management: &str) {
    let scene = Scene::new(installed().await, prefix).await;
    let mut manifest = scene.manifest("v1", Some(0));
    manifest["spec"]["podManagementPolicy"] = json!(management);
    scene.create_app(&manifest).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Healthy").await;
    let gate = Gate::open(&scene).await;
    scene.set_version("bad").await;
    let crashes = |pod: &(String, String, bool)| pod.1 == "bad";
    eventually(SOON, "a pod on the bad version", async || {
        let pods = scene.pods().await;
        if pods.iter().any(crashes) {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await;
    scene.wait_state(1, "StepUpgrade").await;
    scene.set_version("v1").await;
    if management == "OrderedReady" {
        scene.wait_app("opened", |app| partition(app) == &json!(0)).await;
        let pods: Api<Pod> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
        pods.delete("my-app-4", &DeleteParams::default()).await.unwrap();
    }
    rolled_back(&scene, &json!(0)).await;
    let expected = [(Some(0), 0), (HELD, 0), (Some(4), 1), (HELD, 1), (Some(0), 1)];
    assert_eq!(gate.steps("bad").await, expected);
}

#[tokio::test]
async fn from_a_step_that_never_becomes_ready() {
    join(
        from_a_crash("back-bad-parallel", "Parallel"),
        from_a_crash("back-bad-ordered", "OrderedReady"),
    )
    .await;
}

#[tokio::test]
async fn before_anything_is_granted() {
    let scene = Scene::new(installed().await, "back-paused").await;
    scene.set(Some(0), &walk_steps()).await;
    let pause = json!({"spec": {"strategy": {"paused": true}}});
    scene.patch_rollout(&pause).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_phase("Progressing").await;
    scene.set_version("v1").await;
    rolled_back(&scene, &json!(0)).await;
    assert_eq!(gate.steps("v2").await, [(Some(0), 0), (HELD, 0), (Some(0), 0)]);
}

#[tokio::test]
async fn before_the_operator_has_seen_the_change() {
    let installation = installed().await;
    let kind = OwnKind::new("StoppedApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "back-stopped", kind.resource.clone()).await;
    scene.set(Some(0), &walk_steps()).await;
    let gate = Gate::open(&scene).await;
    operator.kill();
    scene.set_version("v2").await;
    scene
        .wait_app("step 1 is granted", |app| partition(app) == &json!(4))
        .await;
    scene.set_version("v1").await;
    scene
        .wait_app("opened again", |app| partition(app) == &json!(0))
        .await;
    let _operator = kind.operate(installation, &[]);
    rolled_back(&scene, &json!(0)).await;
    let expected = [(Some(0), 0), (HELD, 0), (Some(4), 0), (HELD, 0), (Some(0), 0)];
    assert_eq!(gate.steps("v2").await, expected);
}

#[tokio::test]
async fn at_once_after_the_change() {
    let scene = Scene::new(installed().await, "back-at-once").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.set_version("v1").await;
    // Whether the controller has begun a release meanwhile is a race; both ends are the same to the workload.
    scene
        .wait_app("handed back", |app| {
            partition(app) == &json!(0) && mark(app, names::IN_PROGRESSING).is_null()
        })
        .await;
    let done = scene.wait_phase("Healthy").await;
    assert_eq!(done["status"]["canaryStatus"]["currentStepState"], "Completed");
    assert_ne!(condition(&done, "Succeeded")["status"], "True");
    assert_free(&scene.app().await);
    scene.wait_pods("v1", 5).await;
}

#[tokio::test]
async fn another_version_in_mid_release_begins_at_the_first_step() {
    let scene = Scene::new(installed().await, "restart").await;
    let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}]);
    scene.set(Some(0), &steps).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 3).await;

    let gate = Gate::open(&scene).await;
    let held = scene.set_version("v3").await;
    assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v3", 1).await, ["my-app-4"]);
    assert_eq!(scene.wait_pods("v2", 2).await, ["my-app-2", "my-app-3"]);
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;

    // Back to what was stable before v2.
    scene.set_version("v1").await;
    rolled_back(&scene, &json!(0)).await;
    let expected = [&[(Some(2), 0)], &WALK[..3], &[(HELD, 3), (Some(0), 3)]].concat();
    assert_eq!(gate.steps("v3").await, expected);
}
