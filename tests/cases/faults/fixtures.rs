//! What the reports have in common: workloads of other sizes and kinds, and the steps of their Rollouts.

use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::Installation;

use crate::scene::{APP, Scene, condition};

/// Approval after steps 1 and 2.
pub fn approved_steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "60%", "pause": {}}, {"replicas": "100%"}])
}

/// The manifest with so many replicas.
pub fn sized(mut manifest: Value, replicas: u32) -> Value {
    manifest["spec"]["replicas"] = json!(replicas);
    manifest
}

impl<'a> Scene<'a> {
    /// A scene whose workload is a StatefulSet of Kubernetes' own.
    pub async fn with_stateful_set(installation: &Installation<'a>, prefix: &str) -> Self {
        let gvk = GroupVersionKind::gvk("apps", "v1", "StatefulSet");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "statefulsets");
        Self::of_kind(installation, prefix, resource).await
    }

    /// The manifest of a StatefulSet, which needs a selector too.
    pub fn stateful_set(&self, version: &str, replicas: u32) -> Value {
        let mut manifest = sized(self.manifest(version, None), replicas);
        manifest["spec"]["selector"] = json!({"matchLabels": {"app": APP}});
        manifest["spec"]["serviceName"] = json!(APP);
        manifest
    }

    /// The workload of this manifest with all pods ready on v1, and its Rollout, guarded and healthy.
    pub async fn set_to(&self, manifest: &Value, steps: &Value) {
        self.create_app(manifest).await;
        let replicas = manifest["spec"]["replicas"].as_u64().unwrap();
        self.wait_pods("v1", usize::try_from(replicas).unwrap()).await;
        self.create_rollout(steps).await;
        self.wait_phase("Healthy").await;
    }

    /// Waits until the release has ended well.
    pub async fn wait_released(&self) -> Value {
        self.wait("released", |rollout| {
            rollout["status"]["phase"] == "Healthy" && condition(rollout, "Succeeded")["status"] == "True"
        })
        .await
    }
}
