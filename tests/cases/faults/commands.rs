//! The plugin's commands at moments at which others have failed.

use std::process::Stdio;

use futures::future::join;
use serde_json::{Value, json};
use support::{Identity, installed};

use super::fixtures::{approved_steps, sized};
use crate::gate::Gate;
use crate::plugin::{Said, kruise};
use crate::scene::{ROLLOUT, Scene, condition, partition};

async fn rollout(scene: &Scene<'_>, who: Identity, command: &str, more: &[&str]) -> Said {
    let target = format!("rollout/{ROLLOUT}");
    kruise(scene, who, &[&["rollout", command, &target], more].concat()).await
}

async fn undo(scene: &Scene<'_>, more: &[&str]) -> Said {
    rollout(scene, Identity::Developer, "undo", &[&["--yes"], more].concat()).await
}

async fn release(scene: &Scene<'_>, version: &str) {
    scene.set_version(version).await;
    for step in [1, 2] {
        scene.wait_state(step, "StepPaused").await;
        scene.approve().await;
    }
    scene.wait_released().await;
    scene.wait_pods(version, 5).await;
}

async fn rolled_back(scene: &Scene<'_>, version: &str) {
    scene
        .wait("rolled back", |rollout| {
            rollout["status"]["phase"] == "Healthy"
                && condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    scene.wait_pods(version, 5).await;
}

#[tokio::test]
async fn r02_undo_while_a_release_is_in_progress() {
    let scene = Scene::new(installed().await, "r02").await;
    scene.set(None, &approved_steps()).await;
    release(&scene, "v2").await;

    // In mid-release: to the stable template, not to the one before it.
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    let undone = undo(&scene, &[]).await;
    assert_eq!(undone.code, 0, "{undone:?}");
    assert!(undone.answer.contains("rolled back to revision 2"), "{undone:?}");
    rolled_back(&scene, "v2").await;
    // The operator has numbered it anew.
    let unchanged = undo(&scene, &["--to-revision=4"]).await;
    assert_eq!(unchanged.code, 0, "{unchanged:?}");
    assert!(
        unchanged.answer.contains("already at revision 4"),
        "{unchanged:?}"
    );
    assert_eq!(scene.rollout().await["status"]["phase"], "Healthy");

    // After a release it is a release by steps; undone once more, that one is taken back.
    release(&scene, "v4").await;
    let gate = Gate::open(&scene).await;
    let undone = undo(&scene, &["--to-revision=4"]).await;
    assert_eq!(undone.code, 0, "{undone:?}");
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 1).await;
    let again = undo(&scene, &[]).await;
    assert_eq!(again.code, 0, "{again:?}");
    rolled_back(&scene, "v4").await;
    assert!(gate.steps("v2").await.iter().all(|(_, pods)| *pods <= 1));

    // Any recorded one, in mid-release too; which is by steps unless it is the stable one.
    scene.set_version("v5").await;
    scene.wait_state(1, "StepPaused").await;
    let first = undo(&scene, &["--to-revision=1"]).await;
    assert_eq!(first.code, 0, "{first:?}");
    scene.wait_pods("v1", 1).await;
    scene.wait_state(1, "StepPaused").await;
}

/// Ten steps, each approved as soon as it is done.
async fn every_approval_counts_once() {
    let scene = Scene::new(installed().await, "r73-many").await;
    let steps: Vec<Value> = (1..=10)
        .map(|pods| json!({"replicas": pods, "pause": {}}))
        .collect();
    let mut manifest = sized(scene.manifest("v1", None), 10);
    manifest["spec"]["podManagementPolicy"] = json!("Parallel");
    scene.set_to(&manifest, &json!(steps)).await;
    scene.set_version("v2").await;
    for step in 1..10 {
        scene.wait_state(step, "StepPaused").await;
        assert_eq!(partition(&scene.app().await), 10 - step);
        let number = format!("--step={step}");
        let (one, other) = join(
            rollout(&scene, Identity::Approver, "approve", &[&number]),
            rollout(&scene, Identity::Approver, "approve", &[&number]),
        )
        .await;
        // One of two at the same time may come late, and then approves nothing else.
        assert!(one.code == 0 || other.code == 0, "{one:?} {other:?}");
    }
    scene.wait_released().await;
    scene.wait_pods("v2", 10).await;
}

/// `kubectl patch` of the state, with further arguments; whether it succeeded, and what was said.
async fn patch_state(scene: &Scene<'_>, who: Identity, more: &[&str]) -> (bool, String) {
    let mut kubectl = scene.namespace.kubectl(who).unwrap();
    let patch = r#"{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}"#;
    let resource = format!("rollouts.{}", kruise_rollout::names::GROUP);
    kubectl.args(["patch", &resource, ROLLOUT, "--type=merge", "-p", patch]);
    let output = kubectl.args(more).stdin(Stdio::null()).output().await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// The states in which there is nothing to approve, and the ways to approve that have an effect or none.
async fn what_approves_and_what_does_not() {
    let scene = Scene::new(installed().await, "r73-ways").await;
    scene.set(None, &approved_steps()).await;
    let refused = async |state: &str| {
        let said = rollout(&scene, Identity::Approver, "approve", &[]).await;
        assert_eq!(said.code, 1, "{state}: {said:?}");
        assert!(
            said.talk.to_lowercase().contains(state),
            "{state} is not told: {said:?}"
        );
    };
    refused("no release").await;
    scene.set_version("bad").await;
    scene.wait_state(1, "StepUpgrade").await;
    refused("step 1").await;
    scene.set_version("v1").await;
    scene
        .wait_app("opened", |app| {
            partition(app) == 0 || partition(app) == &Value::Null
        })
        .await;
    scene.patch_rollout(&json!({"spec": {"disabled": true}})).await;
    scene.wait_phase("Disabled").await;
    refused("disabled").await;
    scene.patch_rollout(&json!({"spec": {"disabled": false}})).await;
    scene.wait_phase("Healthy").await;

    scene.set_version("v2").await;
    let scene = &scene;
    // The broken pod of the version before is in the way until somebody removes it.
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
        kube::Api::namespaced(scene.admin.clone(), scene.namespace.name());
    let broken = scene.pods().await.into_iter().find(|pod| pod.1 == "bad");
    if let Some((name, ..)) = broken {
        pods.delete(&name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }
    scene.wait_state(1, "StepPaused").await;
    let (done, said) = patch_state(scene, Identity::Approver, &[]).await;
    assert!(!done && said.contains("forbidden"), "{said}");
    // The API server drops a status that does not come through the subresource.
    let (done, said) = patch_state(scene, Identity::Developer, &[]).await;
    assert!(done && said.contains("no change"), "{said}");
    scene.wait_state(1, "StepPaused").await;
    let (done, said) = patch_state(scene, Identity::Approver, &["--subresource=status"]).await;
    assert!(done, "{said}");
    scene.wait_state(2, "StepPaused").await;
}

#[tokio::test]
async fn r73_an_approval_has_its_effect_or_is_refused() {
    join(every_approval_counts_once(), what_approves_and_what_does_not()).await;
}
