//! Other versions of ourselves: a newer one was at work and an older one goes on, with definitions that come and go in mid-release; and
//! the definition of the existing controller under ours.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{Identity, Installation, eventually};

use super::left::{STEP_1, define_batch_releases, is_tidy, nothing_registered, steps};
use crate::gate::Gate;
use crate::ground::{Ground, called, finish};
use crate::scene::{APP, ROLLOUT, SOON, Scene, condition, mark};

/// A mark that no version knows yet.
const NEWER_MARK: &str = "rollouts.kruise.io/of-a-newer-version";
const DEFINITION: &str = "rollouts.rollouts.kruise.io";

/// The definition of Rollouts as we install it.
async fn definition(installation: &Installation<'_>) -> Value {
    let mut command = tokio::process::Command::new(&installation.product().controller);
    let output = command.args(["manifests", "crds"]).output().await.unwrap();
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    documents
        .into_iter()
        .find(|document| document["metadata"]["name"] == DEFINITION)
        .unwrap()
}

/// The same as a newer version would have it.
fn newer(definition: &Value) -> Value {
    let mut newer = definition.clone();
    let schema = &mut newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let field = json!({"type": "string"});
    schema["spec"]["properties"]["strategy"]["properties"]["canary"]["properties"]["newer"] = field.clone();
    schema["status"]["properties"]["canaryStatus"]["properties"]["newer"] = field;
    newer
}

async fn apply(installation: &Installation<'_>, definition: &Value) {
    installation.kubectl_apply(&definition.to_string()).await.unwrap();
}

/// Runs kubectl as the administrator; what it answers on stderr where it fails.
async fn kubectl(scene: &Scene<'_>, arguments: &[&str]) -> Result<(), String> {
    let mut kubectl = scene.namespace.kubectl(Identity::Admin).unwrap();
    let output = kubectl.args(arguments).output().await.unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

/// Takes the registrations away, while no controller runs that would bring them back.
async fn unregister(scene: &Scene<'_>) {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(scene.admin.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(scene.admin.clone());
    let name = names::WEBHOOK_CONFIGURATION;
    mutating.delete(name, &DeleteParams::default()).await.unwrap();
    validating.delete(name, &DeleteParams::default()).await.unwrap();
}

/// What a newer version has written: templates named in its own way, and words that we do not know.
async fn written_by_a_newer_version(scene: &Scene<'_>) {
    let uid = scene.app().await["metadata"]["uid"].as_str().unwrap().to_owned();
    let marks = json!({names::GUARDED_BY: format!("{uid}/{ROLLOUT}/sha512:stable"), NEWER_MARK: "x"});
    let marks = json!({"metadata": {"annotations": marks}});
    eventually(SOON, "the marks are written", async || {
        let apps = scene.apps(&scene.admin);
        let written = apps
            .patch(APP, &PatchParams::default(), &Patch::Merge(&marks))
            .await;
        let app = serde_json::to_value(written.map_err(|error| error.to_string())?).unwrap();
        let guard = mark(&app, names::GUARDED_BY).as_str().unwrap_or_default();
        if guard.ends_with("/sha512:stable") {
            Ok(())
        } else {
            Err(guard.to_owned())
        }
    })
    .await;
    let mut status = scene.rollout().await["status"].clone();
    let at = "2026-01-01T00:00:00Z";
    let condition = json!({"type": "Newer", "status": "True", "reason": "Newer", "message": "theirs", "lastTransitionTime": at});
    status["conditions"].as_array_mut().unwrap().push(condition);
    let canary = &mut status["canaryStatus"];
    for (field, value) in [
        ("templateId", "sha512:new"),
        ("stableTemplateId", "sha512:stable"),
        ("newer", "x"),
    ] {
        canary[field] = json!(value);
    }
    let rollouts = scene.rollouts(&scene.admin);
    let patch = Patch::Merge(json!({ "status": status }));
    rollouts
        .patch_status(ROLLOUT, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// The Rollout as it is stored: the typed client would drop what it does not know.
async fn stored(scene: &Scene<'_>) -> Value {
    let mut kubectl = scene.namespace.kubectl(Identity::Admin).unwrap();
    let output = kubectl
        .args(["get", "rollout", ROLLOUT, "-o", "json"])
        .output()
        .await
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn an_older_version_goes_on_and_loses_nothing() {
    // Past a policy nobody writes such marks.
    let mut ground = Ground::with_webhook_alone().await;
    let scene = Scene::new(&ground, "older").await;
    let ours = definition(&ground).await;
    apply(&ground, &newer(&ours)).await;
    scene.set(Some(0), &steps()).await;
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"canary": {"newer": "x"}}}}))
        .await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    ground.kill_controller();
    unregister(&scene).await;
    written_by_a_newer_version(&scene).await;

    ground.set_flags(&["--admission=webhook", "--workers=1"]);
    ground.start_controller().await.unwrap();
    called(&ground).await;
    scene
        .wait("taken over", |rollout| {
            condition(rollout, "Guarded")["status"] == "True"
        })
        .await;
    let paused = scene.looked_at_in(1, "named-after").await;
    assert_eq!(condition(&paused, "Newer")["message"], "theirs");
    assert_eq!(gate.most("v2").await, 1);
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    let kept = stored(&scene).await;
    assert_eq!(
        (
            &kept["status"]["canaryStatus"]["newer"],
            &kept["spec"]["strategy"]["canary"]["newer"]
        ),
        (&json!("x"), &json!("x"))
    );
    assert_eq!(mark(&scene.app().await, NEWER_MARK), "x");

    // The older definition comes back in the middle of it, and so does the newer one.
    apply(&ground, &ours).await;
    ground.kill_controller();
    ground.start_controller().await.unwrap();
    called(&ground).await;
    assert_eq!(gate.most("v2").await, 3);
    apply(&ground, &newer(&ours)).await;
    apply(&ground, &ours).await;
    scene.looked_at_in(2, "named-again").await;
    finish(&scene, "v2").await;
    assert_eq!(mark(&scene.app().await, NEWER_MARK), "x");
}

#[tokio::test]
async fn an_older_version_rolls_back_what_a_newer_one_began() {
    let mut ground = Ground::with_webhook_alone().await;
    let scene = Scene::new(&ground, "older-back").await;
    scene.set(Some(2), &steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    ground.kill_controller();
    unregister(&scene).await;
    written_by_a_newer_version(&scene).await;
    ground.start_controller().await.unwrap();
    called(&ground).await;
    scene.wait_state(1, "StepPaused").await;
    scene.set_version("v1").await;
    let back = scene.wait_phase("Healthy").await;
    assert_eq!(condition(&back, "Succeeded")["reason"], "RolledBack");
    scene.wait_pods("v1", 5).await;
}

/// The definition of the existing controller, with its conversion, which nobody answers for any more.
fn theirs() -> Value {
    let anything =
        json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}}, "schema": anything});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
        "spec": {"group": names::GROUP, "scope": "Namespaced",
            "names": {"kind": "Rollout", "listKind": "RolloutList", "plural": "rollouts", "singular": "rollout"},
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
                "service": {"namespace": "kruise-rollout", "name": "kruise-rollout-webhook-service", "path": "/convert"}}}},
            "versions": [version("v1alpha1", false), version("v1beta1", true)]},
    })
}

#[tokio::test]
async fn the_definition_of_the_existing_controller_becomes_ours() {
    let mut ground = Ground::take().await;
    nothing_registered(&ground).await;
    define_batch_releases(&ground).await;
    let file = std::env::temp_dir().join(format!("theirs-{}.json", std::process::id()));
    let scene = Scene::new(&ground, "definition").await;
    let path = file.to_str().unwrap();
    let forced = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=helm",
        "-f",
        path,
    ];
    std::fs::write(&file, theirs().to_string()).unwrap();
    kubectl(&scene, &forced).await.unwrap();
    STEP_1.in_scene(&scene).await;
    let gate = Gate::open(&scene).await;

    let ours = ["apply", "--server-side", "--force-conflicts", "-f", path];
    std::fs::write(&file, definition(&ground).await.to_string()).unwrap();
    // It has been there since it stored the older version.
    let stored = |versions: Value| json!({"status": {"storedVersions": versions}}).to_string();
    let both = stored(json!(["v1alpha1", "v1beta1"]));
    patched(&scene, &both, &["--subresource=status"]).await;
    let refused = kubectl(&scene, &ours).await.unwrap_err();
    assert!(refused.contains("storedVersions"), "{refused}");
    let one = stored(json!(["v1beta1"]));
    patched(&scene, &one, &["--subresource=status"]).await;
    kubectl(&scene, &ours).await.unwrap();
    let convert = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}}).to_string();
    patched(&scene, &convert, &[]).await;
    std::fs::remove_file(&file).unwrap();
    let documented = include_str!("../../../docs/migration.md");
    for words in [one, convert] {
        assert!(documented.contains(&words), "not documented: {words}");
    }

    ground.start_controller().await.unwrap();
    called(&ground).await;
    scene
        .wait("taken over", |rollout| {
            condition(rollout, "Guarded")["status"] == "True"
        })
        .await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(gate.most("v2").await, 1);
    finish(&scene, "v2").await;
    is_tidy(&scene).await;
}

/// Merges a patch into the definition, with these flags.
async fn patched(scene: &Scene<'_>, patch: &str, flags: &[&str]) {
    let patch = ["patch", "crd", DEFINITION, "--type=merge", "-p", patch];
    kubectl(scene, &[&patch, flags].concat()).await.unwrap();
}
