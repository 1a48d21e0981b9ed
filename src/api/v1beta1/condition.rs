//! Conditions of a Rollout and their algebra.
//!
//! Writing the same words again changes nothing, so a reconcile that learnt nothing makes no write; a new reason or
//! message moves `lastUpdateTime`; only a new status moves `lastTransitionTime`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A release is in progress.
pub const PROGRESSING: &str = "Progressing";
/// The last release ended on the new template (True) or went back to the stable one (False).
pub const SUCCEEDED: &str = "Succeeded";
/// The Rollout is being deleted.
pub const TERMINATING: &str = "Terminating";
/// Admission has been seen to hold the workload's updates.
pub const GUARDED: &str = "Guarded";
/// kstatus: something is wrong that does not mend itself.
pub const STALLED: &str = "Stalled";
/// kstatus: the controller is at work.
pub const RECONCILING: &str = "Reconciling";
/// What `kubectl wait --for=condition=Ready` waits for: nothing is left to do.
pub const READY: &str = "Ready";

/// Status of a condition that holds.
pub const TRUE: &str = "True";
/// Status of a condition that does not hold.
pub const FALSE: &str = "False";
/// Status of a condition that could not be looked at.
pub const UNKNOWN: &str = "Unknown";

/// Reasons of conditions, as existing tools know them.
pub mod reason {
    /// Progressing: the release begins.
    pub const INITIALIZING: &str = "Initializing";
    /// Progressing: steps are being taken.
    pub const IN_ROLLING: &str = "InRolling";
    /// Progressing: the last step is done, the workload is handed back.
    pub const FINALISING: &str = "Finalising";
    /// Progressing, Terminating: done.
    pub const COMPLETED: &str = "Completed";
    /// Progressing: the release goes back to the stable template.
    pub const CANCELLING: &str = "Cancelling";
    /// Progressing: `spec.strategy.paused` is set.
    pub const PAUSED: &str = "Paused";
    /// Terminating: the workload is being handed back.
    pub const IN_TERMINATING: &str = "InTerminating";
    /// The release ended on the new template.
    pub const SUCCESS: &str = "Success";
    /// The release is ended by a rollback.
    pub const ROLLBACK: &str = "Rollback";
    /// The release is ended by a newer one.
    pub const CONTINUOUS: &str = "Continuous";
    /// The release is ended because the Rollout was disabled.
    pub const ROLLOUT_DISABLED: &str = "RolloutDisabled";
    /// The release is ended because the Rollout was deleted.
    pub const ROLLOUT_DELETING: &str = "RolloutDeleting";
    /// Succeeded=False: every pod is back on the stable template.
    pub const ROLLED_BACK: &str = "RolledBack";
}

/// One condition.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(required)]
    pub type_: String,
    /// True, False or Unknown.
    #[schemars(required)]
    pub status: String,
    /// When status, reason or message last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// One word for why.
    #[schemars(required)]
    pub reason: String,
    /// What it means, for people.
    #[schemars(required)]
    pub message: String,
}

/// The condition of this type, if there is one.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Makes the condition of this type say the given words, as of `now`. Returns whether anything changed.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &Time,
) -> bool {
    let said = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let Some(present) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
        conditions.push(said);
        return true;
    };
    if (&*present.status, &*present.reason, &*present.message) == (status, reason, message) {
        return false;
    }
    let kept = (present.status == status)
        .then(|| present.last_transition_time.take())
        .flatten();
    *present = Condition {
        last_transition_time: kept.or(said.last_transition_time),
        ..said
    };
    true
}

/// Takes the condition of this type away. Returns whether there was one.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}
