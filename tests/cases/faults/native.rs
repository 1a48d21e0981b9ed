//! The same workload, be it of a custom kind or a StatefulSet of Kubernetes' own.

use serde_json::{Value, json};

use crate::scene::{APP, Scene};

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
