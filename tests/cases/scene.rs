//! A namespace with one app of the example operator and its Rollout, and the people who work with them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{Identity, Installation, TestNamespace, eventually};

/// How long a reaction may take on a machine that does much else. Times are the business of benchmarks.
pub const SOON: Duration = Duration::from_secs(30);
/// Name of the app.
pub const APP: &str = "my-app";
/// Name of the Rollout.
pub const ROLLOUT: &str = "my-app-rollout";

/// What is in force one after the other in the walk, and how many pods may run the new version.
pub const WALK: [(Option<i64>, usize); 4] = [
    (Some(names::HOLD_PARTITION), 0),
    (Some(4), 1),
    (Some(2), 3),
    (Some(0), 5),
];

pub struct Scene<'a> {
    pub namespace: TestNamespace<'a>,
    resource: ApiResource,
    pub developer: Client,
    pub approver: Client,
    pub admin: Client,
}

/// The steps of the walk, with a timed pause of two seconds.
pub fn walk_steps() -> Value {
    json!([
        {"replicas": 1, "pause": {}},
        {"replicas": "50%", "pause": {"duration": 2}},
        {"replicas": "100%"}
    ])
}

impl<'a> Scene<'a> {
    pub async fn new(installation: &Installation<'a>, prefix: &str) -> Self {
        let gvk = GroupVersionKind::gvk("example.io", "v1", "MyStatefulApp");
        Self::of_kind(
            installation,
            prefix,
            ApiResource::from_gvk_with_plural(&gvk, "mystatefulapps"),
        )
        .await
    }

    pub async fn of_kind(installation: &Installation<'a>, prefix: &str, resource: ApiResource) -> Self {
        let namespace = TestNamespace::create(installation.control_plane(), prefix)
            .await
            .unwrap();
        let client = async |identity| namespace.client(identity).await.unwrap();
        let developer = client(Identity::Developer).await;
        let approver = client(Identity::Approver).await;
        let admin = client(Identity::Admin).await;
        Self {
            namespace,
            resource,
            developer,
            approver,
            admin,
        }
    }

    pub fn apps(&self, client: &Client) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), self.namespace.name(), &self.resource)
    }

    pub fn rollouts(&self, client: &Client) -> Api<Rollout> {
        Api::namespaced(client.clone(), self.namespace.name())
    }

    /// The manifest of the app, as its owner has it in git.
    pub fn manifest(&self, version: &str, partition: Option<i64>) -> Value {
        let mut manifest = json!({
            "apiVersion": self.resource.api_version, "kind": self.resource.kind,
            "metadata": {"name": APP, "namespace": self.namespace.name(),
                "labels": {names::WORKLOAD_TYPE: names::TYPE_STATEFULSET}},
            "spec": {
                "replicas": 5,
                "template": {
                    "metadata": {"labels": {"app": APP}},
                    "spec": {"containers": [{"name": "app", "image": format!("my-registry/my-app:{version}")}]}
                }
            }
        });
        if self.resource.group == "apps" {
            // A StatefulSet of Kubernetes' own needs these too.
            manifest["spec"]["selector"] = json!({"matchLabels": {"app": APP}});
            manifest["spec"]["serviceName"] = json!(APP);
        }
        if let Some(partition) = partition {
            manifest["spec"]["updateStrategy"] =
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        }
        manifest
    }

    pub async fn create_app(&self, manifest: &Value) {
        let object = serde_json::from_value(manifest.clone()).unwrap();
        let params = PostParams {
            field_manager: Some("developer".to_owned()),
            ..PostParams::default()
        };
        self.apps(&self.developer).create(&params, &object).await.unwrap();
    }

    pub fn rollout_manifest(&self, steps: &Value) -> Value {
        json!({
            "apiVersion": names::API_VERSION, "kind": "Rollout",
            "metadata": {"name": ROLLOUT, "namespace": self.namespace.name()},
            "spec": {
                "workloadRef": {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "name": APP},
                "strategy": {"canary": {"steps": steps}}
            }
        })
    }

    pub async fn create_rollout(&self, steps: &Value) {
        let rollout = serde_json::from_value(self.rollout_manifest(steps)).unwrap();
        self.rollouts(&self.developer)
            .create(&PostParams::default(), &rollout)
            .await
            .unwrap();
    }

    /// App of v1 with all pods ready, and its Rollout, guarded and healthy.
    pub async fn set(&self, partition: Option<i64>, steps: &Value) {
        self.create_app(&self.manifest("v1", partition)).await;
        self.wait_pods("v1", 5).await;
        self.create_rollout(steps).await;
        self.wait_phase("Healthy").await;
    }

    /// Changes the image, as `kubectl patch` does.
    pub async fn set_version(&self, version: &str) -> Value {
        self.patch_app(image(version)).await
    }

    /// The same, where the API server may have to refuse because no controller answers.
    pub async fn try_version(&self, version: &str) -> Result<Value, String> {
        let object = self
            .apps(&self.developer)
            .patch(APP, &PatchParams::default(), &Patch::Merge(image(version)))
            .await;
        serde_json::to_value(object.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }

    /// Whether a change of the image would be held now, and otherwise what the server answers.
    pub async fn would_be_held(&self) -> Result<(), String> {
        let params = PatchParams::default().dry_run();
        let apps = self.apps(&self.developer);
        let answer = apps.patch(APP, &params, &Patch::Merge(image("probe"))).await;
        let answer = serde_json::to_value(answer.map_err(|error| error.to_string())?).unwrap();
        if partition(&answer) == names::HOLD_PARTITION {
            Ok(())
        } else {
            Err(format!("{answer:#}"))
        }
    }

    /// A merge patch of the app by the developer; the object as the server answers it.
    pub async fn patch_app(&self, patch: Value) -> Value {
        let params = PatchParams {
            field_manager: Some("developer".to_owned()),
            ..PatchParams::default()
        };
        let object = self
            .apps(&self.developer)
            .patch(APP, &params, &Patch::Merge(patch))
            .await
            .unwrap();
        serde_json::to_value(object).unwrap()
    }

    /// A merge patch of the Rollout by the developer.
    pub async fn patch_rollout(&self, patch: &Value) {
        self.rollouts(&self.developer)
            .patch(ROLLOUT, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn app(&self) -> Value {
        serde_json::to_value(self.apps(&self.admin).get(APP).await.unwrap()).unwrap()
    }

    pub async fn rollout(&self) -> Value {
        serde_json::to_value(self.rollouts(&self.admin).get(ROLLOUT).await.unwrap()).unwrap()
    }

    /// Approves as the existing plugin does: one field, without tests.
    pub async fn approve(&self) {
        assert!(self.approve_if_paused().await, "not paused any more");
    }

    /// The same where the release may go on by itself before the approval is there; whether it was in time.
    pub async fn approve_if_paused(&self) -> bool {
        let patch = json!({"status": {"canaryStatus": {"currentStepState": "StepReady"}}});
        let rollouts = self.rollouts(&self.approver);
        match rollouts
            .patch_status(ROLLOUT, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 403 => false,
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn delete_rollout(&self) {
        self.rollouts(&self.developer)
            .delete(ROLLOUT, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub fn all_pods(&self) -> Api<Pod> {
        Api::namespaced(self.admin.clone(), self.namespace.name())
    }

    /// Names the release, as platforms do.
    pub async fn name_release(&self, id: &str) {
        self.patch_app(json!({"metadata": {"labels": {names::ROLLOUT_ID: id}}}))
            .await;
    }

    /// Names the release, and waits until the controller has taken it over: it has looked at all that was there before.
    pub async fn looked_at(&self, id: &str) -> Value {
        self.name_release(id).await;
        self.wait(&format!("the id {id}"), |rollout| {
            rollout["status"]["canaryStatus"]["observedRolloutID"] == id
        })
        .await
    }

    /// The same, at the pause of a step.
    pub async fn looked_at_in(&self, step: i64, id: &str) -> Value {
        self.wait_state(step, "StepPaused").await;
        let rollout = self.looked_at(id).await;
        assert_eq!(
            rollout["status"]["canaryStatus"]["currentStepState"],
            "StepPaused"
        );
        assert_eq!(rollout["status"]["canaryStatus"]["currentStepIndex"], step);
        rollout
    }

    /// Name, id and batch of the pods that carry any of the two labels, as one text each.
    pub async fn batches(&self) -> Vec<String> {
        let list = self
            .all_pods()
            .list(&kube::api::ListParams::default())
            .await
            .unwrap();
        let labelled = list.items.iter().filter_map(|pod| {
            let labels = pod.metadata.labels.as_ref()?;
            let (id, batch) = (labels.get(names::ROLLOUT_ID), labels.get(names::ROLLOUT_BATCH_ID));
            let text = |label: Option<&String>| label.cloned().unwrap_or_default();
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            (id.or(batch)).map(|_| format!("{name} {} {}", text(id), text(batch)))
        });
        labelled.collect()
    }

    /// Messages of the events with this reason.
    pub async fn events(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), self.namespace.name());
        let fields = ListParams::default().fields(&format!("reason={reason}"));
        let events = events.list(&fields).await.unwrap();
        let messages = events.items.into_iter().filter_map(|event| event.message);
        messages.collect()
    }

    /// Images and readiness of the pods that nobody has asked to leave, by name.
    pub async fn pods(&self) -> Vec<(String, String, bool)> {
        let list = self
            .all_pods()
            .list(&kube::api::ListParams::default())
            .await
            .unwrap();
        let living = list
            .items
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        living
            .map(|pod| {
                let view = serde_json::to_value(&pod).unwrap();
                let ready = view["status"]["conditions"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
                let image = view["spec"]["containers"][0]["image"]
                    .as_str()
                    .unwrap_or_default();
                let version = image.rsplit(':').next().unwrap_or_default().to_owned();
                (pod.metadata.name.unwrap_or_default(), version, ready)
            })
            .collect()
    }

    /// Waits until exactly so many pods run this version, ready, and returns their names.
    pub async fn wait_pods(&self, version: &str, count: usize) -> Vec<String> {
        eventually(SOON, &format!("{count} pods on {version}"), async || {
            let pods = self.pods().await;
            let names: Vec<_> = pods
                .iter()
                .filter(|(_, v, ready)| v == version && *ready)
                .map(|(n, ..)| n.clone())
                .collect();
            if names.len() == count {
                Ok(names)
            } else {
                Err(format!("{pods:?}"))
            }
        })
        .await
    }

    /// Waits until there is a pod of this version, ready or not.
    pub async fn wait_some(&self, version: &str) {
        eventually(SOON, &format!("a pod of the version {version}"), async || {
            let pods = self.pods().await;
            let some = pods.iter().any(|(_, found, _)| found == version);
            if some { Ok(()) } else { Err(format!("{pods:?}")) }
        })
        .await;
    }

    /// Deletes a pod, and waits until there is another one of its name.
    pub async fn lose_pod(&self, name: &str) {
        let pods = self.all_pods();
        let lost = pods.get(name).await.unwrap().metadata.uid;
        pods.delete(name, &DeleteParams::default()).await.unwrap();
        eventually(SOON, &format!("another pod {name}"), async || {
            match pods.get(name).await {
                Ok(pod) if pod.metadata.uid != lost => Ok(()),
                other => Err(format!("{:?}", other.map(|pod| pod.metadata.uid))),
            }
        })
        .await;
    }

    /// Waits until the Rollout satisfies the condition.
    pub async fn wait(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        eventually(SOON, what, async || {
            let rollout = self.rollout().await;
            if condition(&rollout) {
                Ok(rollout)
            } else {
                Err(format!("{:#}", rollout["status"]))
            }
        })
        .await
    }

    pub async fn wait_phase(&self, phase: &str) -> Value {
        self.wait(&format!("phase {phase}"), |rollout| {
            rollout["status"]["phase"] == phase
        })
        .await
    }

    pub async fn wait_state(&self, step: i64, state: &str) -> Value {
        self.wait(&format!("step {step} {state}"), |rollout| {
            let canary = &rollout["status"]["canaryStatus"];
            canary["currentStepIndex"] == step && canary["currentStepState"] == state
        })
        .await
    }

    /// Waits until the app satisfies the condition.
    pub async fn wait_app(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        eventually(SOON, what, async || {
            let app = self.app().await;
            if condition(&app) {
                Ok(app)
            } else {
                Err(format!("{app:#}"))
            }
        })
        .await
    }
}

/// The merge patch that changes the image of a workload to this version.
pub fn image(version: &str) -> Value {
    let image = format!("my-registry/my-app:{version}");
    json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}})
}

/// The condition of a Rollout.
pub fn condition<'a>(rollout: &'a Value, kind: &str) -> &'a Value {
    let conditions = rollout["status"]["conditions"].as_array();
    conditions
        .and_then(|all| all.iter().find(|c| c["type"] == kind))
        .unwrap_or(&Value::Null)
}

/// The partition of an app.
pub fn partition(app: &Value) -> &Value {
    &app["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
}

/// One of our marks on an app.
pub fn mark<'a>(app: &'a Value, name: &str) -> &'a Value {
    &app["metadata"]["annotations"][name]
}

/// No release mark is left.
pub fn assert_free(app: &Value) {
    for name in names::RELEASE_MARKS {
        assert_eq!(mark(app, name), &Value::Null, "{name}");
    }
}
