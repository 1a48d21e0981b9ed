//! What a Rollout does next: [`decide`].
//!
//! `decide` is total and deterministic: from what was observed it says what to do, what to remember and when to look again. It
//! reads no clock and makes no call. Called twice on the same world it wants nothing the second time, and what cannot go on is a
//! state with a reason, not an error.
//!
//! [`states::TRANSITIONS`] has every state, what leads there, and the way on from it. In Progressing the step states are
//! StepUpgrade (pods are replaced and become ready), StepPaused (waits for its seconds or for approval), StepReady (written by a
//! person: approved), Completed.

mod away;
mod back;
mod course;
mod deadline;
mod decide;
mod forward;
mod grant;
mod inherited;
mod labels;
mod observed;
mod passed;
mod release;
mod rest;
pub mod states;
mod status;
mod stuck;
pub mod why;

pub(crate) use back::believes;
pub use decide::decide;
pub(crate) use decide::way_on;
pub use inherited::is_left;
pub use observed::{Children, Observed, Proof, Stray, Target, Workload};
pub use passed::{Ending, Part, ending, part};
pub use status::refused;

use jiff::Timestamp;
use json_patch::Patch;

use crate::api::v1beta1::RolloutStatus;
use crate::workload::Move;

/// What an edit of a workload is for; the name in logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EditKind {
    /// The workload is held, since admission did not do it.
    Hold,
    /// A step's partition is granted.
    Grant,
    /// Everything is granted: the last step, a rollback, or the end of governing.
    Open,
    /// The partition that people asked for is restored and the release marks go.
    Release,
    /// The workload-type label is set on a kind that is known by name, or put back in mid-release.
    Label,
}

impl EditKind {
    /// The name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Grant => "grant",
            Self::Open => "open",
            Self::Release => "release",
            Self::Label => "label",
        }
    }
}

/// Something to be done, in order; a failure ends the list, except where it says otherwise, and the world is looked at again.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Prove that the target can be held, and mark it.
    Guard,
    /// Record the target's present template for undo.
    Record,
    /// See that the Rollout is still the one that was seen, in the same generation, or still gone. A workload's patch cannot test
    /// that, and what follows lets go of the workload.
    Confirm,
    /// Patch a workload. The patch tests what it was built from.
    Edit {
        /// Name of the workload in the Rollout's namespace.
        workload: Workload,
        /// What for.
        kind: EditKind,
        /// The patch.
        patch: Patch,
    },
    /// Label pods with their release and batch. A patch that fails is tried again later and holds nothing up.
    LabelPods(Vec<PodPatch>),
    /// Drop our entry in the workload's managed fields, so that later applies of its owner need no force.
    Disown(Workload),
    /// Move pods of a workload whose operator is kept from doing it. What fails is decided anew.
    Move(Workload, Move),
    /// Delete a pod that stands in the way, if it is still the very pod in the very state that was seen: never one that has become
    /// ready meanwhile.
    Replace {
        /// Name of the pod in the Rollout's namespace.
        pod: String,
        /// Its UID.
        uid: String,
        /// Its resource version.
        resource_version: String,
    },
    /// Remove the finalizer that another controller left on the Rollout.
    DropFinalizer,
    /// Tell people, as an event on the Rollout.
    Announce(Announcement),
    /// Tell people, as an event on a workload, since its Rollout is gone or means another one.
    AnnounceOn(Workload, Announcement),
}

/// A patch of a pod's labels. It tests the pod's UID.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPatch {
    /// Name of the pod in the Rollout's namespace.
    pub pod: String,
    /// The patch.
    pub patch: Patch,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Type Warning rather than Normal.
    pub warning: bool,
    /// One word.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

/// When to look again if nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// On the next change.
    OnChange,
    /// At this time.
    At(Timestamp),
}

impl Wake {
    /// The same, or at `at` where that is sooner.
    #[must_use]
    pub fn sooner(self, at: Timestamp) -> Self {
        match self {
            Self::At(sooner) if sooner <= at => self,
            _ => Self::At(at),
        }
    }
}

/// What to do, what to remember, when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// To be done first.
    pub actions: Vec<Action>,
    /// To be written after the actions; `None` when nothing has changed or there is no Rollout.
    pub status: Option<RolloutStatus>,
    /// When to look again.
    pub wake: Wake,
}

#[cfg(test)]
mod tests;
