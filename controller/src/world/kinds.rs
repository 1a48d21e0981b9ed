//! Kinds of workloads: how far their watches have come, and which are needed.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use kruise_rollout::rollout::Proof;
use kruise_rollout::workload::{GroupKind, adapter_for};
use kube::api::ApiResource;

use super::World;
use super::place::{Key, Place, target_of};

/// How long the API server goes on serving the watches that began before a change of a schema. They show objects by the old
/// schema, so an operator may not see a partition that is stored: a second, after which it ends them; and a margin.
const SCHEMA_SETTLES: Duration = Duration::from_secs(2);

/// How far the watch of a kind has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Not filled yet.
    Starting,
    /// Filled and following.
    Following,
    /// The server has no such kind.
    NoKind,
    /// The server refuses: what it says.
    Refused(String),
}

impl World {
    /// The state of a kind's watch changed.
    pub(crate) fn set_watch(
        &self,
        kind: &GroupKind,
        watch: Watch,
        resource: Option<ApiResource>,
    ) -> Vec<Key> {
        let mut inner = self.lock();
        let entry = inner.kinds.entry(kind.clone()).or_default();
        let lost = watch == Watch::NoKind;
        if resource.is_some() {
            entry.resource = resource;
        }
        if entry.watch == watch {
            return Vec::new();
        }
        entry.watch = watch;
        if lost {
            inner.clear_kind(kind);
        }
        inner.concerned_by_kind(kind)
    }

    /// The kind is no longer watched.
    pub(crate) fn forget_kind(&self, kind: &GroupKind) {
        let mut inner = self.lock();
        inner.clear_kind(kind);
        inner.kinds.remove(kind);
    }

    /// The kind's schema changed: what was proven has to be proven again, once the change is in force everywhere.
    pub(crate) fn outdate(&self, kind: &GroupKind) -> Vec<Key> {
        let mut inner = self.lock();
        let keys = inner.concerned_by_kind(kind);
        inner.changed.insert(kind.clone(), Instant::now());
        for key in &keys {
            if let Some(uid) = inner.target_view(key).map(|view| view.uid.clone()) {
                inner.proofs.insert(key.clone(), (uid, Proof::Outdated));
            }
        }
        keys
    }

    /// How long until a change of the kind's schema is in force everywhere; zero if it is.
    pub(crate) fn settles_in(&self, kind: &GroupKind) -> Duration {
        let changed = self.lock().changed.get(kind).copied();
        changed.map_or(Duration::ZERO, |at| SCHEMA_SETTLES.saturating_sub(at.elapsed()))
    }

    /// The kind is registered now: what could not be guarded before is tried again.
    pub(crate) fn retry(&self, kind: &GroupKind) -> Vec<Key> {
        let mut inner = self.lock();
        let keys = inner.concerned_by_kind(kind);
        for key in &keys {
            if let Some((_, proof @ Proof::Refused { .. })) = inner.proofs.get_mut(key) {
                *proof = Proof::Outdated;
            }
        }
        keys
    }

    /// Whether the server has been asked for a kind, and has answered.
    pub(crate) fn is_looked_up(&self, kind: &GroupKind) -> bool {
        let inner = self.lock();
        let of_kind = inner.kinds.get(kind);
        of_kind.is_some_and(|kind| kind.resource.is_some() || kind.watch == Watch::NoKind)
    }

    /// Resource of a kind, once it is known.
    pub(crate) fn resource(&self, kind: &GroupKind) -> Option<ApiResource> {
        self.lock().kinds.get(kind)?.resource.clone()
    }

    /// Names of the workloads of a kind that the store has.
    pub(crate) fn workload_names(&self, kind: &GroupKind) -> HashSet<(String, String)> {
        let inner = self.lock();
        inner
            .kinds
            .get(kind)
            .map(|kind| kind.workloads.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Kinds that must be watched and registered: those that Rollouts refer to, and those with a marked object.
    pub(crate) fn wanted_kinds(&self) -> BTreeSet<GroupKind> {
        let inner = self.lock();
        let referred = inner.rollouts.values().map(|rollout| target_of(rollout).kind);
        let marked = inner
            .marked
            .values()
            .flatten()
            .map(|workload| workload.kind.clone());
        referred
            .chain(marked)
            .filter(|kind| adapter_for(kind).is_some())
            .collect()
    }

    /// Some workloads of the kind that carry marks, at most `limit`.
    pub(crate) fn guarded_places(&self, kind: &GroupKind, limit: usize) -> Vec<Place> {
        let inner = self.lock();
        let marked = inner.marked.iter().flat_map(|(key, workloads)| {
            workloads.iter().map(|workload| Place {
                namespace: key.namespace.clone(),
                workload: workload.clone(),
            })
        });
        marked
            .filter(|place| place.workload.kind == *kind)
            .take(limit)
            .collect()
    }

    /// Whether the kind's watch has been filled.
    pub(crate) fn is_followed(&self, kind: &GroupKind) -> bool {
        self.lock()
            .kinds
            .get(kind)
            .is_some_and(|kind| kind.watch == Watch::Following)
    }
}
