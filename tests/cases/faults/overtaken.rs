//! Releases that something newer overtakes: a rollback, another template, the same template again.

use k8s_openapi::api::coordination::v1::Lease;
use kruise_rollout::names;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use support::{Identity, Installation, eventually, installed};

use super::fixtures::{approved_steps, walk_on};
use crate::gate::Gate;
use crate::ground::Ground;
use crate::plugin::kruise;
use crate::scene::{ROLLOUT, SOON, Scene, assert_free, condition, mark, partition, walk_steps};

const HELD: Option<i64> = Some(names::HOLD_PARTITION);

async fn wait_rolled_back(scene: &Scene<'_>) -> Value {
    scene
        .wait("rolled back", |rollout| {
            rollout["status"]["phase"] == "Healthy"
                && condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await
}

/// Waits until the pod of step 1 has been made of a version that crashes.
async fn wait_crashing(scene: &Scene<'_>) {
    scene
        .wait_app("step 1", |app| app["status"]["updatedReplicas"] == 1)
        .await;
}

fn parallel(mut manifest: Value) -> Value {
    manifest["spec"]["podManagementPolicy"] = json!("Parallel");
    manifest
}

#[tokio::test]
async fn r03_after_a_rollback_nothing_claims_a_pause() {
    let scene = Scene::new(installed().await, "r03").await;
    let manifest = parallel(scene.manifest("v1", Some(0)));
    scene.set_to(&manifest, &walk_steps()).await;
    scene.set_version("bad").await;
    scene.wait_state(1, "StepUpgrade").await;
    wait_crashing(&scene).await;
    scene.set_version("v1").await;
    let done = wait_rolled_back(&scene).await;
    let status = &done["status"];
    let canary = &status["canaryStatus"];
    assert_eq!(
        (&status["currentStepState"], &canary["currentStepState"]),
        (&json!("Completed"), &json!("Completed"))
    );
    assert_eq!(
        (&status["currentStepIndex"], &canary["currentStepIndex"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(canary["nextStepIndex"], -1);
    // What is counted are pods of the stable revision.
    assert_eq!(canary["canaryRevision"], canary["stableRevision"]);
    assert_eq!(canary["podTemplateHash"], canary["stableRevision"]);
    assert_eq!(
        scene.app().await["status"]["updateRevision"],
        canary["stableRevision"]
    );
    for message in [&status["message"], &canary["message"]] {
        assert!(!message.as_str().unwrap().contains("approv"), "{message}");
    }
    let target = format!("rollout/{ROLLOUT}");
    let said = kruise(&scene, Identity::Approver, &["rollout", "approve", &target]).await;
    assert_eq!(said.code, 1, "{}", said.answer);
    assert!(said.talk.contains("no release is in progress"), "{}", said.talk);

    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 1).await;
}

#[tokio::test]
async fn r20_a_newer_release_starts_at_the_first_step_and_goes_back_to_the_stable_one() {
    let scene = Scene::new(installed().await, "r20").await;
    scene.set(Some(0), &approved_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v3").await;
    let second = scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v3", 1).await, ["my-app-4"]);
    assert_eq!(scene.wait_pods("v2", 2).await, ["my-app-2", "my-app-3"]);
    let second = &second["status"]["canaryStatus"];

    // A restart, as `kubectl rollout restart` writes it, is a release like any other.
    let restart =
        json!({"spec": {"template": {"metadata": {"annotations": {"example.io/restarted": "now"}}}}});
    let held = scene.patch_app(restart).await;
    assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
    scene
        .wait("step 1 of the restart", |rollout| {
            let canary = &rollout["status"]["canaryStatus"];
            canary["currentStepState"] == "StepPaused" && canary["templateId"] != second["templateId"]
        })
        .await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(
        gate.steps("v3").await,
        [
            (Some(2), 0),
            (HELD, 0),
            (Some(4), 1),
            (HELD, 1),
            (Some(4), 1),
            (Some(2), 3)
        ]
    );
    let target = format!("rollout/{ROLLOUT}");
    let undone = kruise(
        &scene,
        Identity::Developer,
        &["rollout", "undo", &target, "--yes"],
    )
    .await;
    assert_eq!(undone.code, 0, "{}", undone.talk);
    wait_rolled_back(&scene).await;
    scene.wait_pods("v1", 5).await;
}

#[tokio::test]
async fn r20_a_newer_release_overtakes_one_that_crashes() {
    let scene = Scene::new(installed().await, "r20-bad").await;
    let manifest = parallel(scene.manifest("v1", Some(0)));
    scene.set_to(&manifest, &approved_steps()).await;
    scene.set_version("bad").await;
    wait_crashing(&scene).await;
    scene.wait_state(1, "StepUpgrade").await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v3", 1).await, ["my-app-4"]);
    walk_on(&scene, "v3", 5).await;
    gate.within_grants("v3").await;
}

/// The controller stops to write until the lease is given back; its webhook goes on.
async fn take_the_lease(scene: &Scene<'_>, installation: &Installation<'_>) {
    const LOST: &str = "Somebody else holds the lease.";
    let losses = || {
        let log = std::fs::read_to_string(installation.controller_log().unwrap()).unwrap();
        log.matches(LOST).count()
    };
    let before = losses();
    give_the_lease_to(scene, "somebody").await;
    eventually(SOON, "the controller has lost its lease", async || {
        if losses() > before {
            Ok(())
        } else {
            Err("it writes")
        }
    })
    .await;
    // It may take it when nothing has changed it for its whole time: that begins anew here.
    give_the_lease_to(scene, "somebody-else").await;
}

async fn give_the_lease_to(scene: &Scene<'_>, holder: &str) {
    let leases: Api<Lease> = Api::namespaced(scene.admin.clone(), names::DEFAULT_NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": holder}}));
    leases
        .patch(names::CONTROLLER, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn r21_edited_and_put_back_before_the_controller_acts() {
    let installation = Ground::with_controller().await;
    let scene = Scene::new(&installation, "r21").await;
    let mut manifest = scene.manifest("v1", Some(2));
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = env.clone();
    scene.set_to(&manifest, &walk_steps()).await;
    let uids = async || -> Vec<_> {
        let pods = scene.all_pods().list(&Default::default()).await.unwrap();
        pods.items.into_iter().map(|pod| pod.metadata.uid).collect()
    };
    let before = uids().await;
    let template = |container: Value| json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let image = |version: &str| format!("my-registry/my-app:{version}");
    let v1 = template(json!({"name": "app", "image": image("v1"), "env": env}));
    let swapped = json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]);
    for change in [
        template(json!({"name": "app", "image": image("v2"), "env": env})),
        template(json!({"name": "app", "image": image("v1"), "env": swapped})),
    ] {
        take_the_lease(&scene, &installation).await;
        let held = scene.patch_app(change).await;
        assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
        scene.patch_app(v1.clone()).await;
        give_the_lease_to(&scene, "").await;
        let free = scene
            .wait_app("handed back", |app| mark(app, names::IN_PROGRESSING).is_null())
            .await;
        assert_free(&free);
        assert_eq!(partition(&free), &json!(2));
        let rollout = scene.wait_phase("Healthy").await;
        assert_eq!(rollout["status"]["canaryStatus"]["currentStepState"], "Completed");
    }
    // Outside the template nothing is held at all.
    let labelled = scene
        .patch_app(json!({"metadata": {"labels": {"tier": "web"}}}))
        .await;
    assert_eq!(partition(&labelled), &json!(2));
    assert!(mark(&labelled, names::IN_PROGRESSING).is_null());
    assert_eq!(uids().await, before);
}
