//! Stand-ins for the controllers of OpenKruise: CloneSet, Advanced DaemonSet and Advanced StatefulSet, as far as their fields,
//! counters, labels and the meaning of their partitions go. Pods are always replaced, never updated in place.

pub(crate) mod cloneset;
pub(crate) mod crd;
pub(crate) mod daemonset;
mod nodes;
mod spec;
pub(crate) mod statefulset;

use clap::ValueEnum;

pub(crate) use nodes::Nodes;
pub(crate) use spec::read;

/// Group of the kinds.
const GROUP: &str = "apps.kruise.io";
/// The version that they are stored in.
const STORED: &str = "v1beta1";
/// The older version, which is served too.
const OLDER: &str = "v1alpha1";

/// A kind of OpenKruise, by its plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kruise {
    Clonesets,
    Daemonsets,
    Statefulsets,
}

impl Kruise {
    /// Group and version, kind, and plural.
    pub(crate) fn names(self) -> ((String, String), String, String) {
        let (kind, plural) = match self {
            Kruise::Clonesets => ("CloneSet", "clonesets"),
            Kruise::Daemonsets => ("DaemonSet", "daemonsets"),
            Kruise::Statefulsets => ("StatefulSet", "statefulsets"),
        };
        (
            (GROUP.to_owned(), STORED.to_owned()),
            kind.to_owned(),
            plural.to_owned(),
        )
    }
}
