//! Words for why: reasons of conditions beside those of [`crate::api::v1beta1::condition::reason`], and reasons of events.
//!
//! A word that people may see stands here, and in the documentation of what to do about it.

/// Guarded=True: a dry-run came back held.
pub const PROVEN: &str = "Proven";
/// Guarded=False: the Rollout is disabled, being deleted or refused.
pub const DISABLED: &str = "Disabled";
/// Guarded=False, Stalled: the workload lacks the label by which admission knows it.
pub const LABEL_MISSING: &str = "LabelMissing";
/// Guarded=False, Stalled: that label has another value.
pub const LABEL_WRONG: &str = "LabelWrong";
/// Guarded=False, Stalled: the update type of the workload does not heed the partition.
pub const STRATEGY: &str = "UnsupportedUpdateStrategy";
/// Guarded=False, Stalled: an older Rollout governs the workload.
pub const CONFLICT: &str = "Conflict";
/// Guarded=False, Stalled: another controller has begun a release of the workload that is not carried on.
pub const LEFT: &str = "ReleaseOfAnotherController";
/// Guarded=False, Stalled: the workload has no `spec.template`.
pub const NO_TEMPLATE: &str = "NoTemplate";
/// Guarded=False, Stalled: the kind could not be registered with admission.
pub const NOT_REGISTERED: &str = "NotRegistered";
/// Guarded=False, Stalled: the partition that holds came back from a dry-run as another one, or not at all.
pub const PARTITION_NOT_KEPT: &str = "PartitionNotKept";
/// Guarded=False, Stalled: the API server refuses the partition that holds.
pub const PARTITION_REFUSED: &str = "PartitionRefused";
/// Guarded=False, Stalled: the API server drops a change of the template.
pub const TEMPLATE_NOT_KEPT: &str = "TemplateNotKept";
/// Guarded=False, Stalled: a change of the template came back from a dry-run without being held.
pub const TEMPLATE_NOT_HELD: &str = "TemplateNotHeld";
/// Guarded=False, Stalled: the API server answered a change of the template with an error.
pub const PROBE_REFUSED: &str = "ProbeRefused";
/// Stalled: the operator reports a status without `observedGeneration`.
pub const NO_OBSERVED_GENERATION: &str = "NoObservedGeneration";
/// Stalled: the operator reports no status.
pub const SILENT: &str = "OperatorSilent";
/// Stalled: a field of the workload cannot be read.
pub const MALFORMED: &str = "MalformedWorkload";
/// Stalled: the API server does not let the controller read the workload.
pub const UNREADABLE: &str = "WorkloadUnreadable";
/// Stalled: what the Rollout asks for is not carried out: its kind, its strategy or its namespace.
pub const UNSUPPORTED: &str = "Unsupported";
/// Stalled: the API server has no such kind.
pub const NO_KIND: &str = "KindNotFound";
/// Stalled: the API server refuses a write of the controller.
pub const REFUSED: &str = "WriteRefused";
/// Stalled: the steps cannot be carried out.
pub const PLAN: &str = "InvalidPlan";
/// Stalled: another webhook changes the template with every write.
pub const REWRITTEN: &str = "TemplateRewritten";
/// Stalled: a step or a rollback has made no progress for `progressDeadlineSeconds`.
pub const DEADLINE: &str = "ProgressDeadlineExceeded";
/// Stalled: a pod blocks the way that the controller is not to delete.
pub const IN_THE_WAY: &str = "PodInTheWay";

/// Reasons of events.
pub mod event {
    /// The workload is guarded.
    pub const GUARDED: &str = "Guarded";
    /// It is not; the reason of the condition Guarded says why.
    pub const NOT_GUARDED: &str = "NotGuarded";
    /// Something is wrong that does not mend itself; the reason of the condition Stalled says what.
    pub const STALLED: &str = "Stalled";
    /// A new template is held, and its release begins.
    pub const RELEASE_STARTED: &str = "ReleaseStarted";
    /// A step begins.
    pub const STEP_STARTED: &str = "StepStarted";
    /// A step is done and pauses.
    pub const STEP_PAUSED: &str = "StepPaused";
    /// The release has gone to another step, as somebody asked.
    pub const STEP_JUMP: &str = "StepJump";
    /// The steps were edited in mid-release.
    pub const PLAN_CHANGED: &str = "PlanChanged";
    /// Every pod runs the new template.
    pub const RELEASE_COMPLETED: &str = "ReleaseCompleted";
    /// The stable template has come back.
    pub const ROLLING_BACK: &str = "RollingBack";
    /// Every pod is back on it.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// The Rollout governs nothing any more.
    pub const DISABLED: &str = "Disabled";
    /// On a workload: its Rollout has gone or means another one, so the rest of the release goes on without steps.
    pub const RELEASED: &str = "Released";
    /// On a workload: its Rollout has gone, and it stays held, as the controller was told.
    pub const KEPT_HELD: &str = "KeptHeld";
    /// A release ends with the default strategy, since the API server would refuse the one that was asked for.
    pub const DEFAULT_STRATEGY: &str = "DefaultStrategy";
    /// On the registration of another controller of Rollouts: both would write the same objects.
    pub const TWO_CONTROLLERS: &str = "TwoControllers";
    /// A pod that blocked the way was deleted.
    pub const STUCK_POD_REPLACED: &str = "StuckPodReplaced";
    /// A template could not be recorded for undo.
    pub const TEMPLATE_NOT_RECORDED: &str = "TemplateNotRecorded";
    /// The workload is not as the status remembers it.
    pub const CHANGED_WHILE_AWAY: &str = "ChangedWhileAway";
}
