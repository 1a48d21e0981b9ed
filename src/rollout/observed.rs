//! What `decide` sees.

use jiff::Timestamp;

use crate::api::v1beta1::Rollout;
use crate::lens::FieldError;
use crate::workload::{Adapter, GroupKind, PodView, Revision, View};

/// A workload in the Rollout's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload {
    /// Group and kind.
    pub kind: GroupKind,
    /// Name.
    pub name: String,
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The pods of a workload.
#[derive(Clone, Copy, Debug)]
pub enum Children<'a> {
    /// Not watched (yet): nothing is known.
    Unknown,
    /// All pods whose controller is the workload.
    Pods(&'a [PodView]),
}

/// Whether the workload has been seen to be held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Not tried by this process: a condition that says so is believed.
    Unknown,
    /// The kind has changed since: to be proven again.
    Outdated,
    /// A template change came back held.
    Proven,
    /// It cannot be held.
    Refused {
        /// Reason of the condition.
        reason: &'static str,
        /// What the server answered, and the remedy.
        message: String,
        /// When to try again without a change.
        retry: Timestamp,
    },
}

/// A workload that carries our guard mark but is not the target any more.
#[derive(Clone, Copy, Debug)]
pub struct Stray<'a> {
    /// Which one.
    pub workload: &'a Workload,
    /// Its kind's adapter.
    pub adapter: &'a dyn Adapter,
    /// Its state.
    pub view: &'a View,
}

/// What `workloadRef` refers to.
#[derive(Clone, Debug)]
pub enum Target<'a> {
    /// The stores are not filled yet: nothing can be said.
    Pending,
    /// A built-in kind that is not supported.
    Unsupported,
    /// The server has no such kind.
    NoKind,
    /// The kind cannot be read: what the server answered.
    Unreadable(String),
    /// No such object.
    Missing,
    /// The object has a field that cannot be read.
    Malformed(FieldError),
    /// The object.
    Present {
        /// Its kind's adapter.
        adapter: &'a dyn Adapter,
        /// Its state.
        view: &'a View,
        /// Its pods.
        children: Children<'a>,
        /// Its revisions, where its kind has objects that stand for them and the pods are known.
        revisions: &'a [Revision],
        /// Whether it can be held.
        proof: &'a Proof,
    },
}

/// One Rollout and its world at one moment.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The Rollout; `None` when it is gone and only its marks are left.
    pub rollout: Option<&'a Rollout>,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// The workload that it names. [`Target::Missing`] without a Rollout.
    pub workload: Option<&'a Workload>,
    /// What that is.
    pub target: Target<'a>,
    /// Other workloads that carry its mark.
    pub strays: Vec<Stray<'a>>,
    /// An older Rollout for the same workload.
    pub rival: Option<&'a str>,
    /// Namespace of the controller, where Rollouts are refused.
    pub own_namespace: &'a str,
    /// The existing controller is registered with the API server: it may be at work beside us.
    pub beside_another: bool,
    /// Pods in the way are replaced, as against named with the command that does it.
    pub replace_stuck_pods: bool,
    /// A workload whose Rollout is deleted in mid-release stays held, as against let go.
    pub keeps_held: bool,
    /// Since this process leads it has carried out no decision on this Rollout with the workload in sight: what differs from the
    /// status was changed while no controller was at work.
    pub first_look: bool,
    /// The time.
    pub now: Timestamp,
}
