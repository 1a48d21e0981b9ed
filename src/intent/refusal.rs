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
    /// Another step than the one that was asked for.
    #[error("the release is at step {at}, not at step {asked}: nothing is approved")]
    OtherStep {
        /// Where it is.
        at: i32,
        /// Where the caller thought it to be.
        asked: i32,
    },
    /// The release is not where it was when the command began.
    #[error("the release has moved on meanwhile: nothing is written")]
    MovedOn,
    /// The policy of the status.
    #[error("people may approve the steps of a release here, and not jump")]
    MayNotJump,
    /// Another revision than the one that was asked for.
    #[error("revision {at} is being released, not {asked}: nothing is approved")]
    OtherRevision {
        /// What is being released.
        at: String,
        /// What the caller thought it to be.
        asked: String,
    },
    /// `spec.strategy.paused`.
    #[error(
        "the release is paused by spec.strategy.paused, which an approval does not lift: resume it, then approve"
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

    /// Resume, but what holds the release is the pause of a step.
    #[error("the release is not paused: step {0} waits for an approval, which is another thing")]
    AwaitingApproval(i32),

    /// A step that the plan does not have.
    #[error("there is no step {asked}: possible are 1 to {steps}")]
    NoStep {
        /// The number that was asked for.
        asked: i32,
        /// Number of steps.
        steps: usize,
    },
    /// The step that the release is at.
    #[error("the release is at step {0} already: --force takes the step again")]
    SameStep(i32),

    /// Another release would be cut short.
    #[error(
        "a release is in progress, and a restart would begin it again at the first step: finish or undo it first, or restart with --force"
    )]
    InRelease,
    /// Pods would all be replaced at once.
    #[error(
        "the Rollout is not in force, so all pods would restart without steps: enable it first, or restart with --force"
    )]
    NotHeld,
    /// There is no pod template in the usual place.
    #[error("spec.template is missing: workloads of this kind are not supported")]
    NoTemplate,

    /// Undo, but nothing has been recorded.
    #[error("no earlier template is recorded: {0}")]
    NoRecords(String),
    /// Undo, but no other template is recorded.
    #[error("the present template is the only one that is recorded: {0}")]
    NoOther(String),
    /// Undo in mid-release, but the stable template is not among the records.
    #[error("the stable template {stable} is not recorded: {searched}")]
    StableNotRecorded {
        /// Its identity, or the revision that the operator gave it.
        stable: String,
        /// What was looked through.
        searched: String,
    },
    /// No such revision.
    #[error("no revision {asked} is recorded: {searched}")]
    NoRevision {
        /// The revision that was asked for.
        asked: String,
        /// What was looked through, with the revisions that there are.
        searched: String,
    },
    /// More than one template is called so.
    #[error("revision {asked} is ambiguous: {matching}")]
    AmbiguousRevision {
        /// The revision that was asked for.
        asked: String,
        /// Names of the records.
        matching: String,
    },
    /// A manifest that does not have the workload in it.
    #[error("{file} has no {workload} with a spec.template")]
    NotInFile {
        /// The file.
        file: String,
        /// Kind, group and name.
        workload: String,
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
