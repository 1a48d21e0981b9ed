//! Uninstalling: every workload is let go, nothing of ours is left registered, whatever has gone before.

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options, eventually};

use crate::outage::wait_failure_policy;
use crate::scene::{SOON, Scene, assert_free, mark, partition, walk_steps};

/// Name of the definition of Rollouts.
const DEFINITION: &str = "rollouts.rollouts.kruise.io";

/// No mark of ours is left.
pub fn assert_unmarked(app: &Value) {
    assert_free(app);
    assert_eq!(mark(app, names::GUARDED_BY), &Value::Null);
}

/// Runs `uninstall` as the administrator, with further arguments; what it answers.
pub async fn uninstall(installation: &Installation<'_>, arguments: &[&str]) -> String {
    let mut command = tokio::process::Command::new(&installation.product().controller);
    command.arg("uninstall").args(arguments).arg("--kubeconfig");
    command.arg(installation.control_plane().kubeconfig(Identity::Admin));
    let output = command.output().await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The sorts of registrations, and the names of those of ours that there are.
pub async fn registered(admin: &Client) -> Vec<String> {
    let mut found = Vec::new();
    for kind in [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ] {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(admin.clone(), &ApiResource::from_gvk(&gvk));
        for object in api.list(&ListParams::default()).await.unwrap().items {
            if object.name_any().contains("kruise-rollout") {
                found.push(format!("{kind} {}", object.name_any()));
            }
        }
    }
    found
}

pub async fn wait_nothing_registered(admin: &Client, after: &str) {
    eventually(
        SOON,
        &format!("nothing is registered after {after}"),
        async || {
            let left = registered(admin).await;
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            }
        },
    )
    .await;
}

async fn delete<K>(admin: &Client, name: &str)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(admin.clone());
    api.delete(name, &DeleteParams::default()).await.unwrap();
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
    wait_failure_policy(&held.admin, "Ignore").await;
    installation.kill_controller();

    // First only told: who is held, and who is governed.
    let since = control_plane.audit().mark();
    let told = uninstall(&installation, &["--dry-run"]).await;
    let line = |scene: &Scene<'_>, what: &str| {
        format!(
            "{}/MyStatefulApp.example.io/my-app: {what}\n",
            scene.namespace.name()
        )
    };
    let would = [
        line(&held, "held, would be released"),
        line(&resting, "guarded, would be let go"),
    ];
    assert!(would.iter().all(|line| told.contains(line)), "{told}");
    let stored: Vec<_> = control_plane
        .audit()
        .since(since)
        .into_iter()
        .filter(support::Entry::is_write)
        .filter(|entry| entry.user == Identity::Admin.user())
        .collect();
    assert!(stored.is_empty(), "{stored:#?}");
    assert_eq!(registered(&held.admin).await.len(), 10);

    let told = uninstall(&installation, &[]).await;
    let done = [
        line(&held, "held, is released"),
        line(&resting, "guarded, is let go"),
    ];
    assert!(done.iter().all(|line| told.contains(line)), "{told}");
    assert_eq!(registered(&held.admin).await, [""; 0]);
    for scene in [&held, &resting] {
        assert_unmarked(&scene.app().await);
    }
    assert_eq!(partition(&held.app().await), 2);
    // Nobody's update waits for us any more.
    held.set_version("v3").await;
    held.wait_pods("v3", 3).await;
    // A second time there is nothing to do.
    assert_eq!(uninstall(&installation, &[]).await, "");
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

    delete::<ClusterRole>(&scene.admin, names::CLUSTER_ROLE).await;
    delete::<CustomResourceDefinition>(&scene.admin, DEFINITION).await;
    // The registrations belong to the role, and go with it.
    wait_nothing_registered(&scene.admin, "the role").await;

    uninstall(&installation, &[]).await;
    assert_eq!(registered(&scene.admin).await, [""; 0]);
    assert_unmarked(&scene.app().await);
    scene.wait_pods("v2", 5).await;
}

/// What the user removes first, while the controller runs or after it has ended.
#[derive(Clone, Copy, Debug)]
enum First {
    Rollouts,
    Definition,
    Role,
    Controller,
}

/// Whatever goes first: nobody's update is refused or waits for us, nothing is Terminating, nothing stays registered, and what is
/// held is released by one command at the latest.
async fn removed_in_this_order(orders: &[&[First]]) {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    for order in orders {
        let mut installation = Installation::start(&control_plane).await.unwrap();
        let scene = Scene::new(&installation, "removal").await;
        scene.set(Some(0), &walk_steps()).await;
        scene.set_version("v2").await;
        scene.wait_state(1, "StepPaused").await;
        wait_failure_policy(&scene.admin, "Ignore").await;
        for first in *order {
            match first {
                First::Rollouts => scene.delete_rollout().await,
                First::Definition => delete::<CustomResourceDefinition>(&scene.admin, DEFINITION).await,
                First::Role => delete::<ClusterRole>(&scene.admin, names::CLUSTER_ROLE).await,
                First::Controller => installation.kill_controller(),
            }
            // Held or not, it is stored, and at once.
            let note = json!({"spec": {"template": {"metadata": {"labels": {"app": "my-app", "after": format!("{first:?}")}}}}});
            scene.patch_app(note).await;
        }
        installation.kill_controller();
        uninstall(&installation, &[]).await;
        assert_eq!(registered(&scene.admin).await, [""; 0], "{order:?}");
        assert_unmarked(&scene.app().await);
        let definitions: Api<CustomResourceDefinition> = Api::all(scene.admin.clone());
        eventually(SOON, "nothing is Terminating", async || {
            match definitions.get_opt(DEFINITION).await.unwrap() {
                Some(found) if found.metadata.deletion_timestamp.is_some() => Err("the definition is"),
                _ => Ok(()),
            }
        })
        .await;
        // Nobody holds it any more.
        scene.set_version("v3").await;
        scene.wait_pods("v3", 5).await;
    }
}

#[tokio::test]
async fn every_order_of_removal_ends_without_a_trace() {
    use First::{Controller, Definition, Role, Rollouts};
    removed_in_this_order(&[
        &[Controller, Role, Rollouts, Definition],
        &[Definition, Controller, Role],
        &[Role, Rollouts, Controller, Definition],
        &[Rollouts, Role, Definition, Controller],
        &[Definition, Role, Controller],
    ])
    .await;
}
