//! Rights that the controller lacks for a while: once they are there it goes on by itself.

use kruise_rollout::names;
use serde_json::json;
use support::{Installation, installed};

use crate::kinds::OwnKind;
use crate::scene::{Scene, walk_steps};

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
