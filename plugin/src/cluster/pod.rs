//! Pods, with only the parts that are looked at, and whose they are.

use std::borrow::Cow;
use std::collections::HashMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kruise_rollout::report::PodFacts;
use kruise_rollout::workload::PodView;
use kube::api::{Api, ApiResource, ObjectMeta};
use kube::core::{DynamicObject, GroupVersionKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Cluster;

/// A pod with its place, without the rest of its spec.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Pod {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Place,
    #[serde(default)]
    status: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    node_name: Option<String>,
}

impl Pod {
    /// All that is shown of it.
    pub(super) fn facts(&self) -> PodFacts {
        PodFacts::read(&json!({
            "metadata": self.metadata, "spec": {"nodeName": self.spec.node_name}, "status": self.status,
        }))
    }

    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// What is kept of it.
    pub(super) fn kept(self) -> Kept {
        let owner = controller(&self.metadata).cloned();
        let metadata = json!({
            "name": self.metadata.name,
            "labels": self.metadata.labels,
            "ownerReferences": self.metadata.owner_references,
            "creationTimestamp": self.metadata.creation_timestamp,
            "deletionTimestamp": self.metadata.deletion_timestamp,
            "deletionGracePeriodSeconds": self.metadata.deletion_grace_period_seconds,
        });
        Kept {
            view: PodView::read(&json!({ "metadata": metadata, "status": self.status })),
            owner,
        }
    }
}

fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata
        .owner_references
        .iter()
        .flatten()
        .find(|reference| reference.controller == Some(true))
}

/// A pod and its controller.
#[derive(Debug)]
pub(super) struct Kept {
    view: PodView,
    owner: Option<OwnerReference>,
}

/// Finds the pods of one workload: those that it controls, or else those of a StatefulSet or ReplicaSet that it controls. An
/// operator makes pods in one of these ways, not in both.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    /// UID of the workload.
    pub(super) uid: String,
    /// It controls pods itself, so nobody else is asked about.
    direct: bool,
    /// UID of an object in between → whether the workload controls it.
    between: HashMap<String, bool>,
}

impl Owners {
    pub(super) fn new(uid: String) -> Self {
        Self {
            uid,
            direct: false,
            between: HashMap::new(),
        }
    }

    /// Those of a whole list that belong to the workload, by name.
    pub(super) async fn pick(&mut self, cluster: &Cluster, pods: Vec<Kept>) -> Vec<PodView> {
        self.direct = pods.iter().any(|pod| self.controls(pod));
        let mut picked = Vec::new();
        for pod in pods {
            if self.has(cluster, &pod).await {
                picked.push(pod.view);
            }
        }
        picked.sort_by(|one, other| one.name.cmp(&other.name));
        picked
    }

    /// The pod, if it belongs to the workload.
    pub(super) async fn take(&mut self, cluster: &Cluster, pod: Kept) -> Option<PodView> {
        self.direct |= self.controls(&pod);
        self.has(cluster, &pod).await.then_some(pod.view)
    }

    /// Whether there is any reason to keep this pod of a list.
    pub(super) fn may_have(&self, pod: &Kept) -> bool {
        self.controls(pod) || pod.owner.as_ref().is_some_and(|owner| between(owner).is_some())
    }

    fn controls(&self, pod: &Kept) -> bool {
        pod.owner.as_ref().is_some_and(|owner| owner.uid == self.uid)
    }

    async fn has(&mut self, cluster: &Cluster, pod: &Kept) -> bool {
        let Some(owner) = &pod.owner else { return false };
        if owner.uid == self.uid || self.direct {
            return owner.uid == self.uid;
        }
        if let Some(known) = self.between.get(&owner.uid) {
            return *known;
        }
        let Some(resource) = between(owner) else {
            return false;
        };
        let api: Api<DynamicObject> = cluster.objects(&resource);
        // Whoever may not read it is not shown these pods.
        let object = cluster
            .call("", api.get_metadata_opt(&owner.name))
            .await
            .ok()
            .flatten();
        let mine =
            object.is_some_and(|object| controller(&object.metadata).is_some_and(|c| c.uid == self.uid));
        self.between.insert(owner.uid.clone(), mine);
        mine
    }
}

/// The resource of an object that may stand between a workload and its pods.
fn between(owner: &OwnerReference) -> Option<ApiResource> {
    let plural = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("apps/v1", "StatefulSet") => "statefulsets",
        ("apps/v1", "ReplicaSet") => "replicasets",
        _ => return None,
    };
    Some(ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("apps", "v1", &owner.kind),
        plural,
    ))
}

impl kube::Resource for Pod {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
