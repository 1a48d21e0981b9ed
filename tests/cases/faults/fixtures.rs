//! What the reports have in common: workloads of other sizes and kinds, and the steps of their Rollouts.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{Identity, Installation, eventually};

use crate::plugin::kruise;
use crate::scene::{APP, ROLLOUT, SOON, Scene, assert_free, condition};

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

    /// The workload of this manifest with all pods ready on v1, and its Rollout, guarded and healthy.
    pub async fn set_to(&self, manifest: &Value, steps: &Value) {
        self.create_app(manifest).await;
        let replicas = manifest["spec"]["replicas"].as_u64().unwrap();
        self.wait_pods("v1", usize::try_from(replicas).unwrap()).await;
        self.create_rollout(steps).await;
        self.wait_phase("Healthy").await;
    }

    /// Scales by the subresource, as `kubectl scale` and autoscalers do.
    pub async fn scale(&self, replicas: u32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let apps = self.apps(&self.admin);
        apps.patch_scale(APP, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Deletes the workload.
    pub async fn delete_app(&self) {
        let apps = self.apps(&self.developer);
        apps.delete(APP, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until the release has ended well.
    pub async fn wait_released(&self) -> Value {
        self.wait("released", |rollout| {
            rollout["status"]["phase"] == "Healthy" && condition(rollout, "Succeeded")["status"] == "True"
        })
        .await
    }

    /// What `rollout status -o json` says now.
    pub async fn report(&self) -> Value {
        let target = format!("rollout/{ROLLOUT}");
        let arguments = ["rollout", "status", &target, "--watch=false", "-o", "json"];
        let said = kruise(self, Identity::Viewer, &arguments).await;
        assert_eq!(said.code, 0, "{said:?}");
        serde_json::from_str(&said.answer).unwrap()
    }

    /// The Rollouts of the namespace, as objects without a schema.
    pub fn untyped_rollouts(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<kruise_rollout::api::v1beta1::Rollout>(&());
        Api::namespaced_with(self.developer.clone(), self.namespace.name(), &resource)
    }
}

/// Waits until the message of the Rollout has this text.
pub async fn wait_message(scene: &Scene<'_>, text: &str) -> Value {
    scene
        .wait(&format!("the message {text:?}"), |rollout| {
            let message = rollout["status"]["message"].as_str();
            message.is_some_and(|message| message.contains(text))
        })
        .await
}

/// Approves at every pause until the release has ended with so many pods on the version.
pub async fn walk_on(scene: &Scene<'_>, version: &str, pods: usize) {
    eventually(SOON, "the end of the release", async || {
        let rollout = scene.rollout().await;
        let status = &rollout["status"];
        if status["canaryStatus"]["currentStepState"] == "StepPaused" {
            scene.approve_if_paused().await;
        }
        if status["phase"] == "Healthy" {
            Ok(())
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
    scene.wait_pods(version, pods).await;
    assert_free(&scene.app().await);
}
