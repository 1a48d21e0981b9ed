//! Uninstalling: every workload is let go, nothing of ours is left registered, whatever has gone before.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, DeleteParams};
use serde_json::Value;
use support::{ControlPlane, Identity, Installation, Options, eventually};

use crate::scene::{SOON, Scene, assert_free, mark, partition, walk_steps};

/// No mark of ours is left.
fn assert_unmarked(app: &Value) {
    assert_free(app);
    assert_eq!(mark(app, names::GUARDED_BY), &Value::Null);
}

/// Runs `uninstall` as the administrator.
async fn uninstall(installation: &Installation<'_>) {
    let mut command = tokio::process::Command::new(&installation.product().controller);
    command.arg("uninstall").arg("--kubeconfig");
    command.arg(installation.control_plane().kubeconfig(Identity::Admin));
    let output = command.output().await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn assert_nothing_registered(admin: &Client) {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(admin.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(admin.clone());
    assert!(
        mutating
            .get_opt(names::WEBHOOK_CONFIGURATION)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        validating
            .get_opt(names::WEBHOOK_CONFIGURATION)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn workloads_held_or_at_rest_are_let_go() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut installation = Installation::start(&control_plane).await.unwrap();
    let held = Scene::new(&installation, "uninstall-held").await;
    held.set(Some(2), &walk_steps()).await;
    held.set_version("v2").await;
    held.wait_state(1, "StepPaused").await;
    let resting = Scene::new(&installation, "uninstall-rest").await;
    resting.set(None, &walk_steps()).await;
    installation.kill_controller();

    uninstall(&installation).await;
    assert_nothing_registered(&held.admin).await;
    for scene in [&held, &resting] {
        assert_unmarked(&scene.app().await);
    }
    assert_eq!(partition(&held.app().await), 2);
    // Nobody's update waits for us any more.
    held.set_version("v3").await;
    held.wait_pods("v3", 3).await;
    // A second time there is nothing to do.
    uninstall(&installation).await;
}

#[tokio::test]
async fn also_after_rights_and_definition_have_gone() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut installation = Installation::start(&control_plane).await.unwrap();
    let scene = Scene::new(&installation, "uninstall-late").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    installation.kill_controller();

    let roles: Api<ClusterRole> = Api::all(scene.admin.clone());
    roles
        .delete(names::CLUSTER_ROLE, &DeleteParams::default())
        .await
        .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.admin.clone());
    definitions
        .delete("rollouts.rollouts.kruise.io", &DeleteParams::default())
        .await
        .unwrap();
    // The registrations belong to the role, and go with it.
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(scene.admin.clone());
    eventually(
        SOON,
        "the registrations go with the role",
        async || match mutating.get_opt(names::WEBHOOK_CONFIGURATION).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;

    uninstall(&installation).await;
    assert_nothing_registered(&scene.admin).await;
    assert_unmarked(&scene.app().await);
    scene.wait_pods("v2", 5).await;
}
