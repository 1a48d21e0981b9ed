use serde_json::Value;

use super::advanced_daemonset::ADVANCED_DAEMONSET;
use super::cloneset::CLONESET;
use super::daemonset::DAEMONSET;
use super::deployment::DEPLOYMENT;
use super::drive::{Drive, Driven};
use super::means::Means;
use super::paths::{Paths, Replicas};
use super::statefulset::STATEFULSET_LIKE;
use super::{GroupKind, Ordinals, View, read, write};
use crate::lens::{Field, FieldError, PatchBuilder};
use crate::names;

/// In which order a kind updates its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateOrder {
    /// Highest ordinal first: the partition says which pods are kept back. These are the ordinals that there are.
    Ordinal(Ordinals),
    /// Any pod: the partition says how many are kept back.
    Any,
}

impl UpdateOrder {
    /// The place of a pod among the others, which a partition is compared with. `None` where it has none.
    #[must_use]
    pub fn place(&self, ordinal: i64) -> Option<i64> {
        match self {
            Self::Ordinal(ordinals) => ordinals.place(ordinal),
            Self::Any => None,
        }
    }
}

/// What is left on a workload when a release ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// The Rollout goes on governing it: the guard mark stays and names the present template as the stable one.
    Guarded,
    /// No Rollout governs it any more: all marks go.
    Free,
}

/// How one kind of workload is read, held, advanced and handed back. All verbs are pure and total.
///
/// A kind is its paths and its order; the rest follows from these, but for [`Adapter::drive`] of kinds that are held by fields. Every
/// patch tests UID, generation and grant as they were read, so that a late writer loses: a decision for the last step of one template
/// can never open the workload for the next one.
pub trait Adapter: std::fmt::Debug + Send + Sync {
    /// Where the kind has what we read and write.
    fn paths(&self) -> &'static Paths;

    /// The version of the API in which objects are to be read and written; `None`: in any. The API server converts what is written in
    /// others.
    fn version(&self) -> Option<&'static str> {
        self.paths().version
    }

    /// Value that the workload-type label must have.
    fn type_label(&self) -> &'static str {
        self.paths().type_label
    }

    /// Path of the partition that the kind's operator heeds. `None`: it is held by other fields.
    fn partition_path(&self) -> Option<&'static [&'static str]> {
        match &self.paths().means {
            Means::Partition(field) => Some(field.path()),
            Means::Held(_) => None,
        }
    }

    /// Path of the update type that people have to leave at the rolling one; `None` where every type will do.
    fn strategy_type_path(&self) -> Option<&'static [&'static str]> {
        self.paths().strategy_type.as_ref().map(Field::path)
    }

    /// Path of the number of pods, where people write it.
    fn replicas_path(&self) -> Option<&'static [&'static str]> {
        match &self.paths().replicas {
            Replicas::Written(field) => Some(field.path()),
            Replicas::Reported(_) => None,
        }
    }

    /// The order in which the pods of this object are updated.
    fn order(&self, object: &Value) -> UpdateOrder;

    /// Reads the object.
    ///
    /// # Errors
    /// A field that is there but malformed; nothing is guessed then.
    fn view(&self, object: &Value) -> Result<View, FieldError> {
        read::view(self.paths(), self.order(object), object)
    }

    /// Holds a guarded workload that is not held, as admission would have done: nothing more may update.
    fn hold(&self, view: &View) -> PatchBuilder {
        write::hold(self.paths(), view)
    }

    /// Grants this partition, and puts the partition to it. An empty patch when it is so already.
    fn expose(&self, view: &View, partition: i64) -> PatchBuilder {
        write::expose(self.paths(), view, partition)
    }

    /// Restores what people asked for where the hold is, and removes the release marks.
    fn release(&self, view: &View, freedom: Freedom) -> PatchBuilder {
        write::release(self.paths(), view, freedom)
    }

    /// What is to be told of [`Self::release`] where it does not restore what people asked for, since the API server would refuse that.
    fn default_strategy(&self, view: &View) -> Option<String> {
        let means = &self.paths().means;
        let refused = means.refused(&view.skeleton.value(), &view.hold()?.original)?;
        let path = means.strategy()?.join(".");
        Some(format!(
            "{path} gets its default: the API server would refuse what was asked for, {refused}. Write the one that you want"
        ))
    }

    /// Marks a workload that the existing controller has left in the middle of a release: what it exposes is granted, and nothing else.
    /// What people asked for in a partition it does not remember, and at its end there is none; here it is 0 then, which has the
    /// same effect and which every schema takes.
    fn take_over(&self, view: &View, rollout: &str) -> PatchBuilder {
        write::take_over(self.paths(), view, rollout)
    }

    /// Ends what the existing controller has left in the middle of a release: the rest is released.
    fn let_go_of_left(&self, view: &View) -> PatchBuilder {
        write::let_go_of_left(self.paths(), view)
    }

    /// What to move towards what is granted, of a kind whose operator is kept from moving pods. Called again on a world in which all
    /// is done, it wants nothing.
    fn drive(&self, _: &Driven<'_>) -> Drive {
        Drive::default()
    }

    /// How the revision of the present template will be called that [`super::Move::Create`] makes; `None` where others make it.
    fn next_revision(&self, _: &View) -> Option<String> {
        None
    }

    /// The revision that [`super::Move::Create`] asks for, with so many replicas, as it is sent to the API server; `None` for kinds
    /// that are never asked.
    fn revision(&self, _workload: &Value, _replicas: u32) -> Option<Value> {
        None
    }
}

/// All adapters.
pub static ADAPTERS: [&dyn Adapter; 5] = [
    &STATEFULSET_LIKE,
    &CLONESET,
    &ADVANCED_DAEMONSET,
    &DAEMONSET,
    &DEPLOYMENT,
];

/// The adapter of a kind. `None` for built-in kinds that are not supported.
///
/// Kinds of other groups are custom workloads; whether one of them follows the StatefulSet's way of updating is proven on the
/// object, not known by name.
#[must_use]
pub fn adapter_for(kind: &GroupKind) -> Option<&'static dyn Adapter> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps" | "apps.kruise.io", "StatefulSet") => Some(&STATEFULSET_LIKE),
        ("apps", "DaemonSet") => Some(&DAEMONSET),
        ("apps", "Deployment") => Some(&DEPLOYMENT),
        ("apps.kruise.io", "CloneSet") => Some(&CLONESET),
        ("apps.kruise.io", "DaemonSet") => Some(&ADVANCED_DAEMONSET),
        ("apps.kruise.io" | names::GROUP, _) => None,
        _ if kind.is_built_in() => None,
        _ => Some(&STATEFULSET_LIKE),
    }
}
