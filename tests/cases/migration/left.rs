//! What the existing controller leaves in a state: the Rollout's status and finalizer, its object of the release, and the workload.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{Identity, Installation, eventually};

use crate::ground::unregister;
use crate::scene::{APP, ROLLOUT, SOON, Scene};

/// A state that it may be stopped in. What is not said is as in the pause of step 1.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The version that the workload is to run.
    pub version: &'static str,
    pub partition: Option<i64>,
    /// The annotation of its admission, and that of its object of the release, which is there too then.
    pub marks: (bool, bool),
    pub phase: &'static str,
    /// Reason of the condition Progressing.
    pub reason: &'static str,
    pub step: i64,
    pub state: &'static str,
    /// The version that the status says is being released.
    pub releases: &'static str,
}

pub const STEP_1: Left = Left {
    version: "v2",
    partition: Some(4),
    marks: (true, true),
    phase: "Progressing",
    reason: "InRolling",
    step: 1,
    state: "StepPaused",
    releases: "v2",
};

/// An approval after each of the first two steps.
pub fn steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}])
}

fn batch_releases(scene: &Scene<'_>) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(names::GROUP, names::VERSION, "BatchRelease");
    let kind = ApiResource::from_gvk_with_plural(&gvk, "batchreleases");
    Api::namespaced_with(scene.admin.clone(), scene.namespace.name(), &kind)
}

/// Its definition of the objects of releases.
pub async fn define_batch_releases(installation: &Installation<'_>) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "batchreleases.rollouts.kruise.io"},
        "spec": {"group": names::GROUP, "scope": "Namespaced",
            "names": {"kind": "BatchRelease", "listKind": "BatchReleaseList", "plural": "batchreleases", "singular": "batchrelease"},
            "versions": [{"name": names::VERSION, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    installation.kubectl_apply(&definition.to_string()).await.unwrap();
}

/// Nothing of ours is registered, as where it has never run. No controller of ours may run.
pub async fn nothing_registered(installation: &Installation<'_>) {
    let admin = installation
        .control_plane()
        .client(Identity::Admin)
        .await
        .unwrap();
    unregister::<MutatingWebhookConfiguration>(&admin).await;
    unregister::<ValidatingWebhookConfiguration>(&admin).await;
}

impl Left {
    /// Brings a new scene into the state, with neither of the two controllers at work.
    pub async fn in_scene(&self, scene: &Scene<'_>) {
        scene.create_app(&scene.manifest("v1", None)).await;
        scene.wait_pods("v1", 5).await;
        let stable = self.revision(scene).await;
        let mut released = stable.clone();
        if self.releases != "v1" || self.version != "v1" {
            // As far as it had got, before people asked for what is there now.
            let got = self.partition.filter(|at| *at < 5).unwrap_or(4);
            self.write(scene, "v2", Some(got)).await;
            scene.wait_pods("v2", usize::try_from(5 - got).unwrap()).await;
            if self.releases == "v2" {
                released = self.revision(scene).await;
            }
        }
        self.write(scene, self.version, self.partition).await;
        self.revision(scene).await;
        self.mark(scene, &stable, &released).await;
    }

    async fn write(&self, scene: &Scene<'_>, version: &str, partition: Option<i64>) {
        let container = json!({"name": "app", "image": format!("my-registry/my-app:{version}")});
        let mut patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        patch["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(partition);
        scene.patch_app(patch).await;
    }

    /// The operator's name of the template that is there, once it has seen it.
    async fn revision(&self, scene: &Scene<'_>) -> String {
        let app = scene
            .wait_app("the operator has seen it", |app| {
                app["status"]["observedGeneration"] == app["metadata"]["generation"]
            })
            .await;
        app["status"]["updateRevision"].as_str().unwrap().to_owned()
    }

    async fn mark(&self, scene: &Scene<'_>, stable: &str, released: &str) {
        let mut rollout = scene.rollout_manifest(&steps());
        rollout["metadata"]["finalizers"] = json!([names::LEGACY_FINALIZER]);
        rollout["metadata"]["annotations"] = json!({"rollouts.kruise.io/hash": "theirs"});
        let rollout = serde_json::from_value(rollout).unwrap();
        let rollouts = scene.rollouts(&scene.admin);
        let created = rollouts.create(&PostParams::default(), &rollout).await.unwrap();
        let uid = created.metadata.uid.unwrap();
        let status = Patch::Merge(json!({"status": self.status(stable, released)}));
        rollouts
            .patch_status(ROLLOUT, &PatchParams::default(), &status)
            .await
            .unwrap();
        let release = if self.marks.1 {
            let release = self.batch_release(scene, &uid);
            let release = serde_json::from_value(release).unwrap();
            let created = batch_releases(scene)
                .create(&PostParams::default(), &release)
                .await
                .unwrap();
            json!({"apiVersion": names::API_VERSION, "kind": "BatchRelease", "name": ROLLOUT, "uid": created.metadata.uid,
                "controller": true, "blockOwnerDeletion": true})
        } else {
            Value::Null
        };
        let text = |is: bool, value: &Value| if is { json!(value.to_string()) } else { Value::Null };
        let annotations = json!({
            names::IN_PROGRESSING: text(self.marks.0, &json!({"rolloutName": ROLLOUT})),
            names::LEGACY_CONTROL_INFO: text(self.marks.1, &release),
        });
        let labels = json!({names::WORKLOAD_TYPE: names::TYPE_STATEFULSET});
        scene
            .patch_app(json!({"metadata": {"annotations": annotations, "labels": labels}}))
            .await;
    }

    fn batch_release(&self, scene: &Scene<'_>, rollout: &str) -> Value {
        json!({
            "apiVersion": names::API_VERSION, "kind": "BatchRelease",
            "metadata": {"name": ROLLOUT, "namespace": scene.namespace.name(),
                "finalizers": ["rollouts.kruise.io/batch-release-finalizer"],
                "ownerReferences": [{"apiVersion": names::API_VERSION, "kind": "Rollout", "name": ROLLOUT, "uid": rollout,
                    "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": APP},
                "releasePlan": {"batches": [{"canaryReplicas": 1}, {"canaryReplicas": "50%"}, {"canaryReplicas": "100%"}],
                    "batchPartition": self.step - 1, "rollingStyle": "Partition"}},
        })
    }

    fn status(&self, stable: &str, released: &str) -> Value {
        let next = if self.step < 3 { self.step + 1 } else { -1 };
        let at = "2025-01-01T00:00:00Z";
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": "theirs", "lastUpdateTime": at,
                "lastTransitionTime": at})
        };
        let mut conditions = vec![condition(
            "Progressing",
            if self.reason == "Completed" {
                "False"
            } else {
                "True"
            },
            self.reason,
        )];
        if self.phase == "Terminating" {
            conditions.push(condition("Terminating", "True", "InTerminating"));
        }
        // An approval is written into the state of the release alone.
        let told = if self.state == "StepReady" {
            "StepPaused"
        } else {
            self.state
        };
        json!({
            "observedGeneration": 1, "phase": self.phase, "message": "theirs", "conditions": conditions,
            "currentStepIndex": self.step, "currentStepState": told,
            "canaryStatus": {
                "observedWorkloadGeneration": 2, "observedRolloutID": released, "rolloutHash": "theirs",
                "stableRevision": stable, "podTemplateHash": released, "canaryRevision": released,
                "currentStepIndex": self.step, "nextStepIndex": next, "finalisingStep": "",
                "currentStepState": self.state, "message": "theirs", "lastUpdateTime": at,
                "canaryReplicas": 1, "canaryReadyReplicas": 1
            }
        })
    }
}

/// Nothing of the existing controller is left that could hold anything up.
pub async fn is_tidy(scene: &Scene<'_>) {
    eventually(SOON, "its leftovers are gone", async || {
        let release = batch_releases(scene).get_opt(ROLLOUT).await.unwrap();
        let rollout = scene.rollouts(&scene.admin).get_opt(ROLLOUT).await.unwrap();
        let finalizers = rollout.and_then(|rollout| rollout.metadata.finalizers);
        let app = scene.app().await;
        let control = &app["metadata"]["annotations"][names::LEGACY_CONTROL_INFO];
        if release.is_none() && finalizers.is_none_or(|all| all.is_empty()) && control.is_null() {
            Ok(())
        } else {
            Err(format!("{release:?} {control}"))
        }
    })
    .await;
}
