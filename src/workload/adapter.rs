use serde_json::Value;

use super::statefulset::STATEFULSET_LIKE;
use super::{GroupKind, View};
use crate::lens::{FieldError, PatchBuilder};
use crate::names;

/// In which order a kind updates its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOrder {
    /// Highest ordinal first; the partition names ordinals.
    Ordinal,
    /// Any pod; the partition is a number.
    Any,
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
/// Every patch tests UID, generation and grant as they were read, so that a late writer loses: a decision for the last step of
/// one template can never open the workload for the next one.
pub trait Adapter: std::fmt::Debug + Send + Sync {
    /// Reads the object.
    ///
    /// # Errors
    /// A field that is there but malformed; nothing is guessed then.
    fn view(&self, object: &Value) -> Result<View, FieldError>;

    /// Holds a guarded workload that is not held, as admission would have done: nothing more may update.
    fn hold(&self, view: &View) -> PatchBuilder;

    /// Grants this partition, and puts the partition to it. An empty patch when it is so already.
    fn expose(&self, view: &View, partition: i64) -> PatchBuilder;

    /// Restores the partition that people asked for and removes the release marks.
    fn release(&self, view: &View, freedom: Freedom) -> PatchBuilder;

    /// The order of updates.
    fn order(&self) -> UpdateOrder;

    /// Value that the workload-type label must have.
    fn type_label(&self) -> &'static str;

    /// Path of the partition, for admission and for what is told to people.
    fn partition_path(&self) -> &'static [&'static str];

    /// Path of the update type.
    fn strategy_type_path(&self) -> &'static [&'static str];
}

/// All adapters.
pub static ADAPTERS: [&dyn Adapter; 1] = [&STATEFULSET_LIKE];

/// The adapter of a kind. `None` for built-in kinds that are not supported.
///
/// Kinds of other groups are custom workloads; whether one of them follows the StatefulSet's way of updating is proven on the
/// object, not known by name.
#[must_use]
pub fn adapter_for(kind: &GroupKind) -> Option<&'static dyn Adapter> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "StatefulSet") | ("apps.kruise.io", "StatefulSet") => Some(&STATEFULSET_LIKE),
        ("" | "apps" | "batch" | "apps.kruise.io" | names::GROUP, _) => None,
        _ => Some(&STATEFULSET_LIKE),
    }
}
