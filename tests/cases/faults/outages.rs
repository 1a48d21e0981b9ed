//! What is needed is taken away in mid-release, and comes back: servers, rights, definitions, marks.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{Component, Identity, Installation, eventually, installed};

use crate::gate::Gate;
use crate::ground::{Ground, finish, two_steps, unregister};
use crate::kinds::OwnKind;
use crate::scene::{APP, SOON, Scene, assert_free, mark, partition};

/// Two approvals, then all.
fn three_steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}])
}

#[tokio::test]
async fn api_server_and_etcd_restart_in_mid_release() {
    let ground = Ground::with_controller().await;
    let scene = Scene::new(&ground, "restarts").await;
    scene.set(Some(2), &three_steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    gate.steps("v2").await;

    // Its restart ends all watches, also the one that measures. Pods of v2 stay, so a later look still sees one too many.
    let control_plane = ground.control_plane();
    let seen = gate.steps("v2").await;
    assert_eq!(seen.last(), Some(&(Some(4), 1)), "{seen:?}");
    drop(gate);
    control_plane
        .restart_component(Component::ApiServer)
        .await
        .unwrap();
    let gate = Gate::open(&scene).await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;

    control_plane.restart_component(Component::Etcd).await.unwrap();
    finish(&scene, "v2").await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(partition(&app), 2);
    drop(gate);
}

/// Waits until the API server has refused the controller something of this plural.
async fn refused(installation: &Installation<'_>, since: support::Mark, plural: &str) {
    eventually(SOON, "the controller is refused", async || {
        let entries = installation.control_plane().audit().since(since);
        let refused = entries.iter().any(|entry| {
            entry.user == Identity::Controller.user() && entry.code == 403 && entry.resource == plural
        });
        if refused { Ok(()) } else { Err("no 403") }
    })
    .await;
}

/// The API server takes a moment to take notice of rights that have gone.
async fn without_rights(scene: &Scene<'_>) {
    let controller = scene.namespace.client(Identity::Controller).await.unwrap();
    let apps = scene.apps(&controller);
    let params = PatchParams::default().dry_run();
    eventually(SOON, "the rights are gone", async || {
        match apps.patch(APP, &params, &Patch::Merge(json!({}))).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            other => Err(format!("{:?}", other.map(drop))),
        }
    })
    .await;
}

#[tokio::test]
async fn rights_that_are_withdrawn_and_given_back_in_mid_release() {
    let ground = Ground::with_controller().await;
    let scene = Scene::new(&ground, "rights").await;
    scene.set(Some(0), &three_steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let audit = ground.control_plane().audit();

    // All of them.
    let bindings: Api<ClusterRoleBinding> = Api::all(scene.admin.clone());
    let mut binding = bindings.get(names::CLUSTER_ROLE).await.unwrap();
    let since = audit.mark();
    bindings
        .delete(names::CLUSTER_ROLE, &DeleteParams::default())
        .await
        .unwrap();
    without_rights(&scene).await;
    scene.approve().await;
    refused(&ground, since, "mystatefulapps").await;
    assert_eq!(partition(&scene.app().await), 4);
    // The webhook asks nobody.
    let held = scene
        .patch_app(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}))
        .await;
    assert_eq!(partition(&held), 4);
    binding.metadata.resource_version = None;
    bindings.create(&Default::default(), &binding).await.unwrap();
    scene.wait_state(2, "StepPaused").await;

    // Those on the kind.
    let roles: Api<ClusterRole> = Api::all(scene.admin.clone());
    let since = audit.mark();
    roles
        .delete(
            "kruise-rollout-controller-mystatefulapps.example.io",
            &DeleteParams::default(),
        )
        .await
        .unwrap();
    without_rights(&scene).await;
    scene.approve().await;
    refused(&ground, since, "mystatefulapps").await;
    assert_eq!(partition(&scene.app().await), 2);
    ground.enable_kind("example.io", "mystatefulapps").await.unwrap();
    finish(&scene, "v2").await;
    gate.within_grants("v2").await;
}

async fn delete_definition(scene: &Scene<'_>, name: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.admin.clone());
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    eventually(SOON, "the definition is gone", async || {
        match definitions.get_opt(name).await {
            Ok(None) => Ok(()),
            other => Err(format!(
                "{:?}",
                other.map(|found| found.map(|found| found.metadata))
            )),
        }
    })
    .await;
}

/// The kind goes with all its objects: a workload that is made again is a new one.
#[tokio::test]
async fn a_kind_that_is_deleted_and_made_again_in_mid_release() {
    let installation = installed().await;
    let kind = OwnKind::new("VanishingApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let _operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "vanishing", kind.resource.clone()).await;
    scene.set(Some(2), &two_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    delete_definition(&scene, "vanishingapps.example.io").await;
    let gone = scene.wait_phase("Initial").await;
    let message = gone["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("VanishingApp"), "{message}");
    // Nobody collects pods whose owner's kind is not known.
    let pods: Api<Pod> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    scene.wait_pods("v1", 0).await;
    kind.define(installation, &[]).await;
    scene.create_app(&scene.manifest("v3", Some(2))).await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v3", 5).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v4").await;
    scene.wait_state(1, "StepPaused").await;
    finish(&scene, "v4").await;
    let held = Some(names::HOLD_PARTITION);
    assert_eq!(
        gate.steps("v4").await,
        [(Some(2), 0), (held, 0), (Some(4), 1), (Some(0), 5), (Some(2), 5)]
    );
}

/// The definition of Rollouts goes with all Rollouts: as if each had been deleted, the rest is released.
#[tokio::test]
async fn the_definition_of_rollouts_is_deleted_and_made_again_in_mid_release() {
    let ground = Ground::with_controller().await;
    let scene = Scene::new(&ground, "definition").await;
    scene.set(Some(2), &two_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    delete_definition(&scene, "rollouts.rollouts.kruise.io").await;
    let app = scene
        .wait_app("freed", |app| mark(app, names::GUARDED_BY).is_null())
        .await;
    assert_free(&app);
    assert_eq!(partition(&app), 2);
    scene.wait_pods("v2", 5).await;
    assert_eq!(partition(&scene.set_version("v3").await), 2);
    scene.wait_pods("v3", 3).await;

    let output = tokio::process::Command::new(&ground.product().controller)
        .args(["manifests", "crds"])
        .output()
        .await
        .unwrap();
    let definitions = String::from_utf8(output.stdout).unwrap();
    ground.kubectl_apply(&definitions).await.unwrap();
    eventually(SOON, "Rollouts are served", async || {
        scene
            .rollouts(&scene.admin)
            .list(&Default::default())
            .await
            .map(drop)
    })
    .await;
    scene.create_rollout(&two_steps()).await;
    scene.wait_phase("Healthy").await;
    assert_eq!(partition(&scene.set_version("v4").await), names::HOLD_PARTITION);
    scene.wait_state(1, "StepPaused").await;
    finish(&scene, "v4").await;
}

/// Writes annotations of the app past the webhook, as nobody can while it is registered.
async fn mark_past_the_webhook(ground: &mut Ground, scene: &Scene<'_>, annotations: Value) {
    ground.kill_controller();
    unregister::<MutatingWebhookConfiguration>(&scene.admin).await;
    // Nor would the webhook that looks at what is going to be stored let it pass.
    unregister::<ValidatingWebhookConfiguration>(&scene.admin).await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    // A policy of a case before may be in force for another second, and puts it right.
    eventually(SOON, "the mark is written", async || {
        let apps = scene.apps(&scene.admin);
        let written = apps.patch(APP, &PatchParams::default(), &patch).await;
        let written = written.map_err(|error| error.to_string())?;
        let app = serde_json::to_value(written).unwrap();
        if mark(&app, names::GUARDED_BY) == &annotations[names::GUARDED_BY] {
            Ok(())
        } else {
            Err(format!("{app:#}"))
        }
    })
    .await;
    ground.start_controller().await.unwrap();
}

/// Marks that an older or a newer version of us may have left.
#[tokio::test]
async fn marks_of_other_versions() {
    const FOREIGN: &str = "rollouts.kruise.io/of-a-later-version";
    // Past a policy nobody writes such marks.
    let mut ground = Ground::with_webhook_alone().await;
    let scene = Scene::new(&ground, "versions").await;
    scene.set(Some(2), &two_steps()).await;
    let right = mark(&scene.app().await, names::GUARDED_BY).clone();

    // One that cannot be read is put right, one that is not known stays.
    for unreadable in ["", "v2:unreadable", "a/b/c/d"] {
        let marks = json!({names::GUARDED_BY: unreadable, FOREIGN: "x"});
        mark_past_the_webhook(&mut ground, &scene, marks).await;
        let app = scene
            .wait_app("the mark is right", |app| mark(app, names::GUARDED_BY) == &right)
            .await;
        assert_eq!(mark(&app, FOREIGN), "x");
        scene.wait_phase("Healthy").await;
    }
    // The API server may not know yet that the kind is registered again.
    eventually(SOON, "held again", async || scene.would_be_held().await).await;

    let gate = Gate::open(&scene).await;
    assert_eq!(partition(&scene.set_version("v2").await), names::HOLD_PARTITION);
    scene.wait_state(1, "StepPaused").await;
    // The stable template in a form that is not known, and a grant that is no number.
    let uid = scene.app().await["metadata"]["uid"].as_str().unwrap().to_owned();
    let marks = json!({names::GUARDED_BY: format!("{uid}/my-app-rollout/sha512:abc"), names::GRANTED_PARTITION: "four"});
    mark_past_the_webhook(&mut ground, &scene, marks).await;
    finish(&scene, "v2").await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!((partition(&app), mark(&app, FOREIGN)), (&json!(2), &json!("x")));
    for (partition, pods) in gate.steps("v2").await {
        let most = match partition {
            Some(2) => 5,
            Some(at) => 5 - usize::try_from(at.min(5)).unwrap(),
            None => 0,
        };
        assert!(pods <= most, "{pods} pods at {partition:?}");
    }
}
