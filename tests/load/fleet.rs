//! Many workloads of one kind, each with its Rollout, and what people do to them all at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{ControlPlane, Identity, eventually};

use crate::Kind;

/// Namespace of the workloads.
pub(crate) const NAMESPACE: &str = "load";
/// Namespace of pods that belong to nobody.
const ELSEWHERE: &str = "elsewhere";
/// Requests of people that are under way at the same time.
const AT_ONCE: usize = 16;
/// How long a few pods may take.
const SCALED: Duration = Duration::from_secs(60);

/// The workloads. A Rollout has the name of its workload.
pub(crate) struct Fleet {
    pub(crate) names: Vec<String>,
    pub(crate) replicas: i64,
    resource: ApiResource,
    sets: Api<DynamicObject>,
    rollouts: Api<Rollout>,
    approvals: Api<Rollout>,
    admin: Client,
}

/// The resource of a kind.
pub(crate) fn resource(kind: Kind) -> ApiResource {
    let (group, kind, plural) = match kind {
        Kind::Statefulset => ("apps", "StatefulSet", "statefulsets"),
        Kind::Mystatefulapp => ("example.io", "MyStatefulApp", "mystatefulapps"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
}

/// The image of a version.
pub(crate) fn image(version: &str) -> String {
    format!("my-registry/my-app:{version}")
}

impl Fleet {
    /// So many workloads of so many pods, none of which is there yet, and their namespace.
    pub(crate) async fn new(
        control_plane: &ControlPlane,
        kind: Kind,
        count: u32,
        replicas: u32,
    ) -> anyhow::Result<Self> {
        let admin = control_plane.client(Identity::Admin).await?;
        let developer = control_plane.client(Identity::Developer).await?;
        let approver = control_plane.client(Identity::Approver).await?;
        create_namespace(&admin, NAMESPACE).await?;
        let resource = resource(kind);
        Ok(Self {
            names: (0..count).map(|number| format!("app-{number:05}")).collect(),
            replicas: i64::from(replicas),
            sets: Api::namespaced_with(developer.clone(), NAMESPACE, &resource),
            rollouts: Api::namespaced(developer, NAMESPACE),
            approvals: Api::namespaced(approver, NAMESPACE),
            resource,
            admin,
        })
    }

    /// Creates the workloads in version 1.
    pub(crate) async fn create_sets(&self) -> anyhow::Result<()> {
        each(&self.names, async |name| {
            let set = serde_json::from_value(self.set(name))?;
            self.sets.create(&PostParams::default(), &set).await?;
            Ok(())
        })
        .await
    }

    fn set(&self, name: &str) -> Value {
        let containers = json!([{"name": "app", "image": image("v1")}]);
        let mut set = json!({
            "apiVersion": self.resource.api_version, "kind": self.resource.kind,
            "metadata": {"name": name, "labels": {names::WORKLOAD_TYPE: names::TYPE_STATEFULSET}},
            "spec": {
                "replicas": self.replicas,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}},
            }
        });
        if self.resource.group == "apps" {
            set["spec"]["selector"] = json!({"matchLabels": {"app": name}});
            set["spec"]["serviceName"] = json!(name);
        }
        set
    }

    /// Creates the Rollouts, with this pause after each of the first two steps.
    pub(crate) async fn create_rollouts(&self, pause: &Value) -> anyhow::Result<()> {
        each(&self.names, async |name| {
            let rollout = json!({
                "apiVersion": names::API_VERSION, "kind": "Rollout",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "workloadRef": {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "name": name},
                    "strategy": {"canary": {"steps": steps(pause, pause)}},
                }
            });
            let rollout = serde_json::from_value(rollout)?;
            self.rollouts.create(&PostParams::default(), &rollout).await?;
            Ok(())
        })
        .await
    }

    /// Writes the status of these Rollouts, where no controller does.
    pub(crate) async fn tell(&self, names: &[String], status: &Value) -> anyhow::Result<()> {
        self.patch_statuses(names, status).await.map(drop)
    }

    /// Gives one workload so many pods, and waits until they are ready.
    pub(crate) async fn scale(&self, name: &str, replicas: i64) -> anyhow::Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.sets
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        eventually(SCALED, "the pods are ready", async || {
            let set = self.sets.get(name).await.map_err(|error| error.to_string())?;
            let ready = &set.data["status"]["readyReplicas"];
            (*ready == replicas)
                .then_some(())
                .ok_or_else(|| format!("{ready} are ready"))
        })
        .await;
        Ok(())
    }

    /// Lets the first step of every Rollout wait for a person.
    pub(crate) async fn wait_for_people(&self, pause: &Value) -> anyhow::Result<()> {
        let patch = json!({"spec": {"strategy": {"canary": {"steps": steps(&json!({}), pause)}}}});
        each(&self.names, async |name| {
            let params = PatchParams::default();
            self.rollouts.patch(name, &params, &Patch::Merge(&patch)).await?;
            Ok(())
        })
        .await
    }

    /// Changes the image of these workloads, and tells when each was asked for.
    pub(crate) async fn set_version(
        &self,
        names: &[String],
        version: &str,
    ) -> anyhow::Result<BTreeMap<String, Instant>> {
        let containers = json!([{"name": "app", "image": image(version)}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let params = PatchParams::default();
        timed(names, async |name| {
            // The list of containers is merged by name in both ways of patching, because there is but one.
            self.sets.patch(name, &params, &Patch::Merge(&patch)).await?;
            Ok(())
        })
        .await
    }

    /// Approves the present step of these Rollouts, as the existing plugin does, and tells when each was asked for.
    pub(crate) async fn approve(&self, names: &[String]) -> anyhow::Result<BTreeMap<String, Instant>> {
        let status = json!({"canaryStatus": {"currentStepState": "StepReady"}});
        self.patch_statuses(names, &status).await
    }

    /// Writes members of the status of these Rollouts, and tells when each was begun.
    async fn patch_statuses(
        &self,
        names: &[String],
        status: &Value,
    ) -> anyhow::Result<BTreeMap<String, Instant>> {
        let patch = json!({ "status": status });
        let params = PatchParams::default();
        timed(names, async |name| {
            self.approvals
                .patch_status(name, &params, &Patch::Merge(&patch))
                .await?;
            Ok(())
        })
        .await
    }

    /// Creates pods that belong to nobody, in another namespace.
    pub(crate) async fn create_pods(&self, count: u32) -> anyhow::Result<()> {
        create_namespace(&self.admin, ELSEWHERE).await?;
        let pods: Api<Pod> = Api::namespaced(self.admin.clone(), ELSEWHERE);
        let names: Vec<_> = (0..count).map(|number| format!("pod-{number:05}")).collect();
        each(&names, async |name| {
            let pod = json!({"metadata": {"name": name, "labels": {"app": "elsewhere"}},
                "spec": {"containers": [{"name": "app", "image": image("v1")}]}});
            pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
                .await?;
            Ok(())
        })
        .await
    }
}

fn steps(first: &Value, second: &Value) -> Value {
    json!([
        {"replicas": 1, "pause": first},
        {"replicas": "50%", "pause": second},
        {"replicas": "100%"}
    ])
}

async fn create_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await?;
    Ok(())
}

/// Does the same to all, several at a time.
async fn each(names: &[String], work: impl AsyncFn(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    timed(names, work).await.map(drop)
}

/// The same, and tells when each was begun.
async fn timed(
    names: &[String],
    work: impl AsyncFn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<BTreeMap<String, Instant>> {
    let all = names.iter().map(async |name| {
        let began = Instant::now();
        work(name).await?;
        Ok((name.clone(), began))
    });
    stream::iter(all).buffer_unordered(AT_ONCE).try_collect().await
}
