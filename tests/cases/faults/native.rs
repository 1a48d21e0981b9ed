//! A StatefulSet of Kubernetes' own under a Rollout, and what the controller did to its pods.

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use serde_json::{Value, json};
use support::{Identity, Mark};

use crate::scene::Scene;

/// The manifest of a StatefulSet whose pods are managed in this way.
pub fn managed(scene: &Scene<'_>, version: &str, management: &str) -> Value {
    let mut manifest = scene.manifest(version, None);
    manifest["spec"]["podManagementPolicy"] = json!(management);
    manifest
}

/// Creates a Rollout with these steps and this deadline, and waits until it guards the app.
pub async fn govern(scene: &Scene<'_>, steps: &Value, deadline: i64) {
    let mut rollout = scene.rollout_manifest(steps);
    rollout["spec"]["strategy"]["canary"]["progressDeadlineSeconds"] = json!(deadline);
    let rollout = serde_json::from_value(rollout).unwrap();
    let rollouts = scene.rollouts(&scene.developer);
    rollouts.create(&Default::default(), &rollout).await.unwrap();
    scene.wait_phase("Healthy").await;
}

/// The pods of the scene.
pub fn pods(scene: &Scene<'_>) -> Api<Pod> {
    Api::namespaced(scene.admin.clone(), scene.namespace.name())
}

/// Names of the pods that the controller has deleted in the scene.
pub fn deleted_by_the_controller(scene: &Scene<'_>, since: Mark) -> Vec<String> {
    let entries = scene.namespace.control_plane().audit().since(since);
    entries
        .into_iter()
        .filter(|entry| entry.resource == "pods" && entry.verb.starts_with("delete") && entry.succeeded())
        .filter(|entry| {
            entry.namespace == scene.namespace.name() && entry.user == Identity::Controller.user()
        })
        .map(|entry| entry.name)
        .collect()
}
