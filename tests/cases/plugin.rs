//! The plugin as people run it: `kubectl kruise …`, each as who may.

use serde_json::Value;
use support::{Identity, installed};

use crate::scene::{ROLLOUT, Scene, condition, walk_steps};

/// What a command said.
#[derive(Debug)]
pub struct Said {
    /// Its exit code.
    pub code: i32,
    /// On stdout.
    pub answer: String,
    /// On stderr.
    pub talk: String,
}

/// Runs `kubectl kruise` in the scene's namespace.
pub async fn kruise(scene: &Scene<'_>, who: Identity, arguments: &[&str]) -> Said {
    let mut command = scene.namespace.kubectl(who).unwrap();
    let output = command.arg("kruise").args(arguments).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let said = Said {
        code: output.status.code().unwrap(),
        answer: text(output.stdout),
        talk: text(output.stderr),
    };
    assert!(
        !said.answer.contains('\u{1b}') && !said.talk.contains('\u{1b}'),
        "escape codes without a terminal"
    );
    said
}

fn rollout() -> String {
    format!("rollout/{ROLLOUT}")
}

#[tokio::test]
async fn a_release_is_approved_undone_and_shown() {
    let scene = Scene::new(installed().await, "plugin").await;
    scene.set(Some(0), &walk_steps()).await;
    let target = rollout();
    let early = kruise(&scene, Identity::Approver, &["rollout", "approve", &target]).await;
    assert_eq!(early.code, 1, "{}", early.talk);

    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let shown = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "status", &target, "--watch=false", "-o", "json"],
    )
    .await;
    let report: Value = serde_json::from_str(&shown.answer).unwrap();
    assert_eq!(shown.code, 0, "{}", shown.talk);
    assert!(report.to_string().contains("AwaitingApproval"), "{report:#}");

    let approved = kruise(&scene, Identity::Approver, &["rollout", "approve", &target]).await;
    assert_eq!(approved.code, 0, "{}", approved.talk);
    assert!(approved.answer.ends_with("approved\n"), "{}", approved.answer);
    let followed = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "status", &target, "--watch", "--timeout=60s"],
    )
    .await;
    assert_eq!(followed.code, 0, "{}{}", followed.answer, followed.talk);
    scene.wait_pods("v2", 5).await;

    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    let unasked = kruise(&scene, Identity::Developer, &["rollout", "undo", &target]).await;
    assert_ne!(unasked.code, 0, "{}", unasked.answer);
    let undone = kruise(
        &scene,
        Identity::Developer,
        &["rollout", "undo", &target, "--yes"],
    )
    .await;
    assert_eq!(undone.code, 0, "{}", undone.talk);
    let back = scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    assert_eq!(back["status"]["canaryStatus"]["currentStepState"], "Completed");
    scene.wait_pods("v2", 5).await;
    // A rollback is shown as one.
    let shown = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "status", &target, "--watch=false"],
    )
    .await;
    assert_eq!(shown.code, 6, "{}", shown.answer);

    // At rest the newest other template comes back, by steps.
    let undone = kruise(
        &scene,
        Identity::Developer,
        &["rollout", "undo", &target, "--yes", "--to-revision=1"],
    )
    .await;
    assert_eq!(undone.code, 0, "{}", undone.talk);
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v1", 1).await;
}
