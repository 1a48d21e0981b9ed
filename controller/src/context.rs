//! What every part of the controller shares.

use std::sync::Arc;

use kruise_rollout::area::Area;
use kruise_rollout::names;
use kruise_rollout::workload::{GroupKind, RevisionKind};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PatchParams};
use kube::core::{DynamicResourceScope, GroupVersionKind};
use tokio::sync::{Notify, mpsc, watch};

use crate::events::Event;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::world::{Key, Place, World};

/// What every part of the controller shares.
pub(crate) struct Context {
    pub(crate) client: Client,
    /// What this controller governs, and where its own objects are.
    pub(crate) area: Area,
    /// User name of this process, asked of the server once.
    pub(crate) username: String,
    /// Pods in the way of a release are replaced.
    pub(crate) replace_stuck_pods: bool,
    /// Workloads whose Rollout is deleted in mid-release stay held.
    pub(crate) keeps_held: bool,
    pub(crate) world: Arc<World>,
    pub(crate) queue: Queue<Key>,
    pub(crate) metrics: Arc<Metrics>,
    /// The set of kinds that are referred to, or marked, may have changed.
    pub(crate) kinds_changed: Notify,
    /// The set of namespaces with a release in progress may have changed.
    pub(crate) releases_changed: Notify,
    /// A CustomResourceDefinition changed.
    pub(crate) definitions: watch::Sender<u64>,
    /// Kinds whose updates the API server sends to us.
    pub(crate) registered: watch::Sender<Vec<GroupKind>>,
    /// The existing controller is registered with the API server.
    pub(crate) beside_another: watch::Sender<bool>,
    pub(crate) events: mpsc::Sender<Event>,
}

impl Context {
    /// Queues Rollouts.
    pub(crate) fn look_at(&self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            self.queue.push(key);
        }
    }

    /// The API of a workload, once its kind is known.
    pub(crate) fn api(&self, place: &Place) -> Option<Api<DynamicObject>> {
        let resource = self.world.resource(&place.workload.kind)?;
        Some(Api::namespaced_with(
            self.client.clone(),
            &place.namespace,
            &resource,
        ))
    }

    /// The API of the objects that stand for revisions in a namespace.
    pub(crate) fn revisions<K>(&self, namespace: &str, kind: RevisionKind) -> Api<K>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let (kind, plural) = kind.names();
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("apps", "v1", kind), plural);
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }
}

/// Parameters of every patch: our field manager.
pub(crate) fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// The same as a dry-run.
pub(crate) fn dry_run_params() -> PatchParams {
    PatchParams {
        dry_run: true,
        ..patch_params()
    }
}
