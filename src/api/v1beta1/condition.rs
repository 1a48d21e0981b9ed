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
/// False: somebody wrote a `nextStepIndex` that is no step. It stays until the next step begins.
pub const JUMP: &str = "StepJump";
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
    /// StepJump=False: the number that was written is none of a step.
    pub const NO_SUCH_STEP: &str = "NoSuchStep";
    /// Succeeded=False: every pod is back on the stable template.
    pub const ROLLED_BACK: &str = "RolledBack";
}

/// One condition.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "status", "reason", "message"]))]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// When status, reason or message last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// One word for why.
    pub reason: String,
    /// What it means, for people.
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    fn times(condition: &Condition) -> (i64, i64) {
        let second = |time: &Option<Time>| time.as_ref().unwrap().0.as_second();
        (
            second(&condition.last_update_time),
            second(&condition.last_transition_time),
        )
    }

    #[rstest]
    #[case::same_words(TRUE, reason::IN_ROLLING, "step 1", false, (1, 1))]
    #[case::new_message(TRUE, reason::IN_ROLLING, "step 2", true, (2, 1))]
    #[case::new_reason(TRUE, reason::PAUSED, "step 1", true, (2, 1))]
    #[case::new_status(FALSE, reason::IN_ROLLING, "step 1", true, (2, 2))]
    fn set_again(
        #[case] status: &str,
        #[case] reason: &str,
        #[case] message: &str,
        #[case] changes: bool,
        #[case] expected: (i64, i64),
    ) {
        let mut conditions = Vec::new();
        assert!(set(
            &mut conditions,
            SUCCEEDED,
            TRUE,
            reason::COMPLETED,
            "other",
            &at(1)
        ));
        assert!(set(
            &mut conditions,
            PROGRESSING,
            TRUE,
            reason::IN_ROLLING,
            "step 1",
            &at(1)
        ));
        assert_eq!(
            set(&mut conditions, PROGRESSING, status, reason, message, &at(2)),
            changes
        );
        assert_eq!(conditions.len(), 2);
        let condition = get(&conditions, PROGRESSING).unwrap();
        assert_eq!(
            (&*condition.status, &*condition.reason, &*condition.message),
            (status, reason, message)
        );
        assert_eq!(times(condition), expected);
    }

    #[test]
    fn status_without_a_time_gets_one() {
        let mut conditions = vec![Condition {
            type_: READY.to_owned(),
            status: TRUE.to_owned(),
            ..Condition::default()
        }];
        assert!(set(&mut conditions, READY, TRUE, "", "now", &at(3)));
        assert_eq!(times(&conditions[0]), (3, 3));
    }

    #[test]
    fn remove_takes_only_that_type() {
        let mut conditions = Vec::new();
        set(&mut conditions, PROGRESSING, TRUE, "", "", &at(1));
        set(&mut conditions, READY, TRUE, "", "", &at(1));
        assert!(remove(&mut conditions, PROGRESSING));
        assert!(!remove(&mut conditions, PROGRESSING));
        assert!(get(&conditions, PROGRESSING).is_none());
        assert!(get(&conditions, READY).is_some());
    }
}
