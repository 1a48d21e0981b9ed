//! Workloads: what is read of them, and how each kind is held, exposed and released.
//!
//! A kind is one adapter of five total verbs; nothing outside this module asks for the kind. An adapter's paths are data, and the
//! verbs follow from them. The adapter of StatefulSet-like workloads serves every custom kind.

mod adapter;
mod advanced_daemonset;
mod cloneset;
pub mod daemonset;
mod deployment;
mod drive;
pub mod marks;
mod means;
#[cfg(test)]
pub(crate) mod native;
mod ordinals;
mod partition;
mod paths;
pub mod pod;
mod read;
pub mod release_id;
mod revision;
mod statefulset;
mod strategy;
pub mod template;
pub mod trouble;
mod write;

use crate::lens::AtRest;
use crate::names;

pub use adapter::{ADAPTERS, Adapter, Freedom, UpdateOrder, adapter_for};
pub use drive::{Drive, Driven, Move, Premise, PutBack};
pub use marks::{Guard, Hold, Marks, Original};
pub(crate) use means::parts;
pub use means::{Fixed, Held, HeldField, Means, NotKept};
pub use ordinals::Ordinals;
pub use partition::Partition;
pub use paths::{Paths, Replicas, StatusPaths};
pub use pod::PodView;
pub use revision::{Revision, RevisionKind, revision_of, with_revisions};
pub use template::{Likeness, TemplateId};
pub use trouble::Trouble;

/// Group and kind of a workload; its version is the server's matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
}

impl GroupKind {
    /// Whether the kind is one of Kubernetes itself: groups of one's own have a dot in their name, and `k8s.io` is reserved.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        !self.group.contains('.') || self.group.ends_with(".k8s.io")
    }

    /// Whether the kind is known by its shape alone, so that the workload-type label is for its users to set.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        !names::NATIVE_GROUPS.contains(&self.group.as_str())
    }
}

impl std::fmt::Display for GroupKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            write!(f, "{}", self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// The workload-type label as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeLabel {
    /// No such label.
    Missing,
    /// The value that the adapter wants.
    Right,
    /// Another value.
    Wrong(String),
}

/// What an operator reports about its workload. Absent is not zero: an operator may report less than others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Generation that the rest speaks of.
    pub observed_generation: Option<i64>,
    /// Pods that exist.
    pub replicas: Option<u32>,
    /// Pods that are ready, of any revision.
    pub ready_replicas: Option<u32>,
    /// Pods on the update revision.
    pub updated_replicas: Option<u32>,
    /// Pods on nodes that want none, beside those that there should be.
    pub misplaced: Option<u32>,
    /// Revision that held-back pods have.
    pub current_revision: Option<String>,
    /// Revision that pods are updated to.
    pub update_revision: Option<String>,
}

/// A workload, reduced to what decisions need. Templates and managed fields are not kept.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// UID, the workload's identity.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: Option<jiff::Timestamp>,
    /// `metadata.resourceVersion`, for telling older from newer copies.
    pub resource_version: String,
    /// Deletion has been asked for.
    pub deleting: bool,
    /// The workload-type label.
    pub label: TypeLabel,
    /// How many pods there should be: `spec.replicas`, where an absent one is 1, or what the operator reports.
    pub replicas: u32,
    /// Whether that is known. Where it is for the operator to report, and it has not yet, `replicas` is 0 and says nothing.
    pub replicas_known: bool,
    /// The order in which its pods are updated.
    pub order: UpdateOrder,
    /// The partition, in pods that are kept back. Absent and zero have the same effect, but are not the same manifest. Of a kind that
    /// is held by fields it is the grant while these are as they are held, and absent otherwise.
    pub partition: Option<Partition>,
    /// Our field manager owns a part of the hold: an apply by somebody else that changes it would conflict.
    pub partition_is_ours: bool,
    /// Update type that people ask for where it is not the rolling one, so that the partition has no effect.
    pub other_strategy: Option<String>,
    /// People have told the operator to update nothing.
    pub paused: bool,
    /// Pods are made and replaced one after the other, each once all others are ready.
    pub in_order: bool,
    /// How long a pod has to be ready before it counts.
    pub min_ready_seconds: u32,
    /// Identity of `spec.template`.
    pub template: TemplateId,
    /// How people name the release; see [`release_id::given`].
    pub release_id: Option<String>,
    /// Our marks.
    pub marks: Marks,
    /// The operator's report.
    pub reported: Reported,
    /// Writes of ours come back with another template, since another webhook changes it in each: nothing is granted before this
    /// time. No fact of the object, but one that those remember who write it.
    pub rewritten: Option<jiff::Timestamp>,
    /// The parts of the object that our patches touch, for [`crate::lens::PatchBuilder`].
    pub skeleton: AtRest,
}

impl View {
    /// The guard mark, unless void.
    #[must_use]
    pub fn guard(&self) -> Option<&Guard> {
        self.marks.guard_of(&self.uid)
    }

    /// The template that is stable, by the guard mark.
    #[must_use]
    pub fn stable(&self) -> Option<&TemplateId> {
        self.guard()?.stable.as_ref()
    }

    /// The release marks, unless the guard mark is void: then they came along with a copy.
    #[must_use]
    pub fn hold(&self) -> Option<&Hold> {
        self.guard().and(self.marks.hold.as_ref())
    }

    /// The identity of the release, a valid label value: the name that people gave, else what the operator's revision leaves, which
    /// may be nothing. `None` while the operator has not said.
    #[must_use]
    pub fn release_id(&self) -> Option<&str> {
        let revision = self.reported.update_revision.as_deref();
        let named_by_operator = revision.filter(|_| self.observed() != Some(false));
        self.release_id.as_deref().or_else(|| {
            named_by_operator.map(|revision| release_id::of_revision(revision).unwrap_or_default())
        })
    }

    /// The partition in force.
    #[must_use]
    pub fn partition_in_force(&self) -> i64 {
        self.partition
            .map_or(0, |partition| partition.pods(self.replicas))
    }

    /// Whether the operator has seen the present generation. `None`: it does not say.
    #[must_use]
    pub fn observed(&self) -> Option<bool> {
        self.reported
            .observed_generation
            .map(|seen| seen >= self.generation)
    }
}

#[cfg(test)]
mod tests;
