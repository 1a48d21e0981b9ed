//! Stand-ins for the controllers of OpenKruise: CloneSet, Advanced DaemonSet and Advanced StatefulSet, as far as their fields,
//! counters, labels and the meaning of their partitions go.

pub(crate) mod cloneset;
pub(crate) mod crd;
pub(crate) mod daemonset;
pub(crate) mod in_place;
mod nodes;
mod spec;
pub(crate) mod statefulset;

use clap::ValueEnum;

pub(crate) use nodes::Nodes;
pub(crate) use spec::read;

/// Group of the kinds.
const GROUP: &str = "apps.kruise.io";
/// The version that all of them have.
const OLDER: &str = "v1alpha1";
/// The version that those which have had it for long are stored in.
const NEWER: &str = "v1beta1";

/// A kind of OpenKruise, by its plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kruise {
    Clonesets,
    Daemonsets,
    Statefulsets,
}

impl Kruise {
    /// The version that it is stored in, and operated in.
    fn stored(self) -> &'static str {
        match self {
            Kruise::Clonesets => OLDER,
            Kruise::Daemonsets | Kruise::Statefulsets => NEWER,
        }
    }

    /// Group and version, kind, and plural.
    pub(crate) fn names(self) -> ((String, String), String, String) {
        let (kind, plural) = match self {
            Kruise::Clonesets => ("CloneSet", "clonesets"),
            Kruise::Daemonsets => ("DaemonSet", "daemonsets"),
            Kruise::Statefulsets => ("StatefulSet", "statefulsets"),
        };
        (
            (GROUP.to_owned(), self.stored().to_owned()),
            kind.to_owned(),
            plural.to_owned(),
        )
    }
}
