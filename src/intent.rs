//! What a person may ask for, and what is written for it: approve a step, undo to a recorded template, label a workload.
//!
//! Everything here is pure: from objects as they were read to a patch, or to a [`Refusal`] that says why not and what to do
//! instead. Every patch tests what it was built from, so that an answer to an old question changes nothing.

mod approve;
mod label;
mod undo;

pub use approve::{Approval, approve};
pub use label::{Labelling, label, unlabel};
pub use undo::{Record, Undo, undo};

/// Why nothing is written. The text is a clause with the reason and the way on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing is being released.
    #[error("no release is in progress: it begins with a change of the workload's pod template")]
    NoRelease,
    /// The step has not reached its pause.
    #[error("step {step} of {steps} is still updating{pods}: it can be approved once it is paused")]
    StillUpdating {
        /// Number of the step, from 1.
        step: i32,
        /// Number of steps.
        steps: usize,
        /// How far it is, `" (…)"` or empty.
        pods: String,
    },
    /// The approval is there already and has not been acted upon yet.
    #[error("step {0} is approved already: the controller takes the next step")]
    AlreadyApproved(i32),
    /// Another step than the one that was asked for.
    #[error("the release is at step {at}, not at step {asked}: nothing is approved")]
    OtherStep {
        /// Where it is.
        at: i32,
        /// Where the caller thought it to be.
        asked: i32,
    },
    /// `spec.strategy.paused`.
    #[error(
        "the release is paused by spec.strategy.paused, which an approval does not lift: set it to false, then approve"
    )]
    SpecPaused,
    /// The Rollout does not govern its workload.
    #[error("the Rollout is not in force, so nothing waits for approval: {0}")]
    Disabled(String),
    /// The release goes back.
    #[error(
        "the release is being rolled back: pods return to the stable template without steps, nothing waits for approval"
    )]
    RollingBack,
    /// The Rollout is being deleted.
    #[error("the Rollout is being deleted: the workload is released without approval")]
    Deleting,

    /// Undo, but nothing has been recorded.
    #[error("no template is recorded for this Rollout: its controller records one with each release")]
    NoRecords,
    /// Undo, but no other template is recorded.
    #[error("the present template is the only one recorded: there is nothing to go back to")]
    NoOther,
    /// Undo in mid-release, but the stable template is not among the records.
    #[error("the stable template {0} is not recorded: choose a recorded one with --to-revision")]
    StableNotRecorded(String),
    /// No such revision.
    #[error("no revision {asked} is recorded: there {}", listed(.known))]
    NoRevision {
        /// The revision that was asked for.
        asked: i64,
        /// The revisions that are recorded.
        known: Vec<i64>,
    },

    /// The kind has no workload-type label.
    #[error("workloads of kind {0} are not supported")]
    UnsupportedKind(String),
    /// The kind needs another value of the label.
    #[error("the label of kind {kind} is {value}, not {asked}: leave --type out")]
    OtherType {
        /// The kind.
        kind: String,
        /// The value that it needs.
        value: &'static str,
        /// The value that was asked for.
        asked: String,
    },
    /// The label is to go in mid-release.
    #[error(
        "a release is in progress, and the label is part of what holds it: let the release end, or undo it"
    )]
    Held,
    /// The kind cannot be released in steps.
    #[error("{field}: {why}")]
    Unfit {
        /// The field of its schema.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// The label has another value.
    #[error("{name} has the value {value:?}: replace it with --overwrite")]
    OtherLabel {
        /// Name of the label.
        name: &'static str,
        /// Its value.
        value: String,
    },
}

fn listed(revisions: &[i64]) -> String {
    match revisions {
        [] => "is none".to_owned(),
        [one] => format!("is {one}"),
        many => {
            let texts: Vec<_> = many.iter().map(ToString::to_string).collect();
            format!("are {}", texts.join(", "))
        }
    }
}
