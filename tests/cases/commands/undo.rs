//! Undo brings back exactly the template that was.

use serde_json::{Value, json};
use support::{Identity, installed};

use super::{done, run};
use crate::plugin::kruise;
use crate::scene::{APP, Scene};

/// Approval after one pod.
fn steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}])
}

/// What a later version adds to the template, removes and changes.
fn later() -> Value {
    json!({"spec": {"template": {
        "metadata": {"annotations": {"example.io/removed": null, "example.io/added": "x", "example.io/changed": "2"}},
        "spec": {"containers": [{"name": "app", "image": "my-registry/my-app:v2", "env": [{"name": "B", "value": "2"}]}],
            "terminationGracePeriodSeconds": 7, "volumes": [{"name": "tmp", "emptyDir": {}}]}
    }}})
}

/// v1 → v2, undone at the first step; v2 in full, undone by steps, which is undone once more at its first step.
async fn goes_back(scene: Scene<'_>, workload: &str) {
    let mut manifest = scene.manifest("v1", None);
    manifest["spec"]["template"]["metadata"]["annotations"] =
        json!({"example.io/removed": "r", "example.io/changed": "1"});
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    scene.set_to(&manifest, &steps()).await;
    let first = scene.app().await["spec"]["template"].clone();
    scene.patch_app(later()).await;
    scene.wait_state(1, "StepPaused").await;
    let second = scene.app().await["spec"]["template"].clone();
    assert_ne!(first, second);

    let arguments = [
        "rollout",
        "undo",
        workload,
        "--yes",
        "--diff",
        "--wait",
        "--timeout=60s",
    ];
    let undone = kruise(&scene, Identity::Developer, &arguments).await;
    assert_eq!(undone.code, 0, "{undone:?}");
    assert!(undone.answer.contains("rolled back to revision 1"), "{undone:?}");
    for (sign, name) in [('-', "example.io/added"), ('+', "example.io/removed")] {
        let shown = |line: &str| line.starts_with(sign) && line.contains(name);
        assert!(undone.answer.lines().any(shown), "{sign}{name}: {undone:?}");
    }
    assert_eq!(scene.app().await["spec"]["template"], first);
    scene.wait_pods("v1", 5).await;

    scene.patch_app(later()).await;
    scene.wait_state(1, "StepPaused").await;
    done(
        &scene,
        Identity::Approver,
        "approve",
        &["--wait=healthy", "--timeout=60s"],
    )
    .await;
    scene.wait_pods("v2", 5).await;
    let undone = run(&scene, Identity::Developer, "undo", &["--yes"]).await;
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(scene.app().await["spec"]["template"], first);
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v1", 1).await;
    // What is stable in the release that this began is v2.
    let again = done(
        &scene,
        Identity::Developer,
        "undo",
        &["--yes", "--wait", "--timeout=60s"],
    )
    .await;
    assert!(again.talk.contains("RolledBack"), "{again:?}");
    assert_eq!(scene.app().await["spec"]["template"], second);
    scene.wait_pods("v2", 5).await;
}

#[tokio::test]
async fn a_custom_workload_gets_exactly_its_template_back() {
    let scene = Scene::new(installed().await, "exact").await;
    goes_back(scene, &format!("mystatefulapps.example.io/{APP}")).await;
}

#[tokio::test]
async fn a_stateful_set_gets_exactly_its_template_back() {
    let scene = Scene::with_stateful_set(installed().await, "exact-sts").await;
    goes_back(scene, &format!("sts/{APP}")).await;
}
