//! Kubernetes' own StatefulSets as workloads.

use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::Installation;

use crate::scene::{APP, Scene};

/// A scene whose workload is a StatefulSet.
pub async fn native<'a>(installation: &Installation<'a>, prefix: &str) -> Scene<'a> {
    let gvk = GroupVersionKind::gvk("apps", "v1", "StatefulSet");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "statefulsets");
    Scene::of_kind(installation, prefix, resource).await
}

/// The manifest of the scene's workload; a StatefulSet needs a selector too.
pub fn manifest(scene: &Scene<'_>, version: &str, partition: Option<i64>) -> Value {
    let mut manifest = scene.manifest(version, partition);
    if manifest["kind"] == "StatefulSet" {
        manifest["spec"]["selector"] = json!({"matchLabels": {"app": APP}});
        manifest["spec"]["serviceName"] = json!(APP);
    }
    manifest
}

/// The workload on v1 with all pods ready, and its Rollout, guarded and healthy.
pub async fn set(scene: &Scene<'_>, steps: &Value) {
    scene.create_app(&manifest(scene, "v1", Some(0))).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(steps).await;
    scene.wait_phase("Healthy").await;
}
