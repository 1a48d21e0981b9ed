//! Rights that the controller lacks for a while: once they are there it goes on by itself.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kruise_rollout::names;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use support::{Identity, Installation, eventually, installed};

use crate::kinds::OwnKind;
use crate::scene::{SOON, Scene, walk_steps};

/// Stands for a right that is missing, in this namespace alone. It takes a moment until it is in force.
pub(crate) async fn refuse_to_controller(installation: &Installation<'_>, namespace: &str, rule: &Value) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "resourceRules": [rule]},
            "validations": [{"reason": "Forbidden",
                "expression": "!request.userInfo.username.endsWith(':kruise-rollout-controller')"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace}, "spec": {"policyName": namespace, "validationActions": ["Deny"]},
    });
    for object in [policy, binding] {
        installation.kubectl_apply(&object.to_string()).await.unwrap();
    }
}

/// The role that `enable_kind` makes, without `watch`.
async fn may_not_watch(installation: &Installation<'_>, kind: &OwnKind) {
    let (group, plural) = (&kind.resource.group, &kind.resource.plural);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("kruise-rollout-controller-{plural}.{group}"),
            "labels": {names::AGGREGATE_TO_CONTROLLER: "true"}},
        "rules": [{"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "patch"]}],
    });
    installation.kubectl_apply(&role.to_string()).await.unwrap();
}

/// The list is read and the watch is refused, as when a right is withdrawn, or in the first moments of an API server. Allowed
/// again, the watch would go on where it ended, and with nothing to tell.
#[tokio::test]
async fn a_watch_that_is_allowed_again() {
    let installation = installed().await;
    let kind = OwnKind::new("UnwatchedApp");
    may_not_watch(installation, &kind).await;
    kind.define(installation, &[]).await;
    let operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "rights", kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    scene
        .wait("the missing right is named", |rollout| {
            rollout["status"]["message"]
                .as_str()
                .is_some_and(|message| message.contains("may not watch UnwatchedApp.example.io"))
        })
        .await;
    // From here on nothing happens to the app.
    drop(operator);
    kind.enable(installation).await;
    scene.wait_phase("Healthy").await;
}

/// Templates are recorded for undo. Where a quota or a policy refuses that, a release goes through its steps all the same.
#[tokio::test]
async fn a_template_that_may_not_be_recorded_is_released() {
    let installation = installed().await;
    let scene = Scene::new(installation, "unrecorded").await;
    let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}]);
    scene.set(Some(0), &steps).await;
    let name = scene.namespace.name();
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["controllerrevisions"],
        "operations": ["CREATE"]});
    refuse_to_controller(installation, name, &rule).await;
    let by_controller = scene.namespace.client(Identity::Controller).await.unwrap();
    let records: Api<ControllerRevision> = Api::namespaced(by_controller, name);
    let probe: ControllerRevision =
        serde_json::from_value(json!({"metadata": {"name": "probe"}, "revision": 1})).unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually(SOON, "the policy is in force", async || {
        match records.create(&dry_run, &probe).await {
            Err(_) => Ok(()),
            Ok(_) => Err("not yet"),
        }
    })
    .await;

    scene.set_version("v2").await;
    let paused = scene.wait_state(1, "StepPaused").await;
    assert!(
        !paused["status"]["conditions"].to_string().contains("Stalled"),
        "{paused}"
    );
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2", 5).await;
}
