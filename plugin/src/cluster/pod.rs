//! Pods, with only the parts that are looked at.

use std::borrow::Cow;

use kruise_rollout::workload::PodView;
use kube::api::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

/// A pod without its spec.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Pod {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Value,
}

impl Pod {
    /// What is kept of it, if the object with this UID is its controller.
    pub(super) fn of(self, owner: &str) -> Option<PodView> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.find(|reference| reference.controller == Some(true) && reference.uid == owner)?;
        let metadata = json!({
            "name": self.metadata.name,
            "labels": self.metadata.labels,
            "ownerReferences": self.metadata.owner_references,
            "deletionTimestamp": self.metadata.deletion_timestamp,
        });
        Some(PodView::read(
            &json!({ "metadata": metadata, "status": self.status }),
        ))
    }

    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
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
