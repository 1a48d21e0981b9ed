//! Building the next status, and telling what changed.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::observed::Workload;
use super::{Action, Announcement, Decision, EditKind, Wake};
use crate::api::v1beta1::condition::{self, Condition, reason};
use crate::api::v1beta1::{CanaryStatus, Rollout, RolloutStatus, phase, step_state};
use crate::lens::PatchBuilder;
use crate::names;

/// Something is wrong that does not mend itself: the words of the condition Stalled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stall {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The decision in the making.
pub(super) struct Draft<'a> {
    before: &'a RolloutStatus,
    /// The status to be.
    pub(super) status: RolloutStatus,
    /// The time.
    pub(super) now: Timestamp,
    /// The release waits for pods or for the operator, and not for a person or a pause.
    pub(super) held_up: bool,
    actions: Vec<Action>,
    told: Vec<Announcement>,
    wake: Wake,
}

static NO_STATUS: std::sync::LazyLock<RolloutStatus> = std::sync::LazyLock::new(RolloutStatus::default);

impl<'a> Draft<'a> {
    pub(super) fn new(rollout: &'a Rollout, now: Timestamp) -> Self {
        let before = rollout.status.as_ref().unwrap_or(&NO_STATUS);
        let mut status = before.clone();
        if let (Some(canary), 1..) = (&mut status.canary_status, before.current_step_index) {
            // The copy outside is what we wrote last: another number inside it is no jump, since that has a field of its own.
            canary.current_step_index = before.current_step_index;
        }
        status.observed_generation = rollout.metadata.generation.unwrap_or_default();
        Self {
            before,
            status,
            now,
            held_up: false,
            actions: Vec::new(),
            told: Vec::new(),
            wake: Wake::OnChange,
        }
    }

    /// The status as it was read.
    pub(super) fn before(&self) -> &'a RolloutStatus {
        self.before
    }

    pub(super) fn say(&mut self, phase: &str, message: impl Into<String>) {
        phase.clone_into(&mut self.status.phase);
        self.status.message = message.into();
    }

    pub(super) fn condition(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let status = if holds { condition::TRUE } else { condition::FALSE };
        condition::set(
            &mut self.status.conditions,
            type_,
            status,
            reason,
            message,
            &Time(self.now),
        );
    }

    pub(super) fn drop_condition(&mut self, type_: &str) {
        condition::remove(&mut self.status.conditions, type_);
    }

    pub(super) fn stalled(&mut self, reason: &str, message: &str) {
        self.condition(condition::STALLED, true, reason, message);
    }

    /// Says what is wrong that does not mend itself, or that nothing is. Once in a decision: taken away and set again, the
    /// condition would look as if it had changed.
    pub(super) fn stall(&mut self, stall: Option<Stall>) {
        match stall {
            Some(Stall { reason, message }) => self.stalled(reason, &message),
            None => self.drop_condition(condition::STALLED),
        }
    }

    /// Whether a workload is going to be written.
    pub(super) fn edits(&self) -> bool {
        let edit = |action: &Action| matches!(action, Action::Edit { .. });
        self.actions.iter().any(edit)
    }

    /// Whether the workload is going to be held, since admission did not do it.
    pub(super) fn holds(&self) -> bool {
        let kind = EditKind::Hold;
        let hold = |action: &Action| matches!(action, Action::Edit { kind: edit, .. } if *edit == kind);
        self.actions.iter().any(hold)
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Tells people once, beside what follows from the change of state.
    pub(super) fn tell(&mut self, warning: bool, reason: &'static str, message: String) {
        self.told.push(Announcement {
            warning,
            reason,
            message,
        });
    }

    /// Tells people this, if anything, in the same way.
    pub(super) fn tell_of(&mut self, announcement: Option<Announcement>) {
        self.told.extend(announcement);
    }

    /// Adds an edit unless it changes nothing.
    pub(super) fn edit(&mut self, workload: &Workload, kind: EditKind, patch: PatchBuilder) {
        if !patch.is_empty() {
            self.actions.push(Action::Edit {
                workload: workload.clone(),
                kind,
                patch: patch.build(),
            });
        }
    }

    /// Writes no workload after all.
    pub(super) fn withhold_edits(&mut self) {
        self.actions
            .retain(|action| !matches!(action, Action::Edit { .. }));
    }

    /// Looks again at `at`, or before.
    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake = self.wake.sooner(at);
    }

    /// Ends the draft: mirrors, the conditions that follow from the phase, events, and whether anything is worth a write.
    pub(super) fn finish(mut self) -> Decision {
        if let Some(canary) = &mut self.status.canary_status {
            // Tools read either message; neither may go on asking for an approval when the release has ended.
            canary.message.clone_from(&self.status.message);
        }
        let (index, state) = match &self.status.canary_status {
            // An approval that has not been acted on: that it was written over a pause must not be forgotten.
            Some(canary) if canary.current_step_state == step_state::STEP_READY => {
                (canary.current_step_index, self.before.current_step_state.clone())
            }
            Some(canary) => (canary.current_step_index, canary.current_step_state.clone()),
            None => (0, String::new()),
        };
        (self.status.current_step_index, self.status.current_step_state) = (index, state);
        self.derive_conditions();
        self.announce();
        // What is being proven is told once it is known.
        let proving = self.actions.contains(&Action::Guard);
        let changed = !proving && significant(&self.status, self.before) != *self.before;
        Decision {
            actions: self.actions,
            status: changed.then_some(self.status),
            wake: self.wake,
        }
    }

    /// kstatus: Ready when there is nothing to do, Reconciling while there is.
    fn derive_conditions(&mut self) {
        let at_work =
            [phase::PROGRESSING, phase::DISABLING, phase::TERMINATING].contains(&self.status.phase.as_str());
        let stalled = holds(&self.status.conditions, condition::STALLED);
        let ready = self.status.phase == phase::HEALTHY && !stalled;
        if self.status.phase.is_empty() {
            return;
        }
        let (reason, message) = (self.doing().to_owned(), self.status.message.clone());
        if self.status.phase != phase::PROGRESSING {
            self.drop_condition(condition::JUMP);
        }
        self.condition(condition::READY, ready, &reason, &message);
        if at_work && !stalled {
            self.condition(condition::RECONCILING, true, &reason, &message);
        } else {
            self.drop_condition(condition::RECONCILING);
        }
    }

    /// One word for what it does, by which tools tell a release that waits from one that works: the phase, and in a release the
    /// state of its step, or that it is paused.
    fn doing(&self) -> &str {
        let RolloutStatus {
            phase,
            conditions,
            current_step_state: state,
            ..
        } = &self.status;
        let paused = condition::get(conditions, condition::PROGRESSING)
            .is_some_and(|progressing| progressing.reason == reason::PAUSED);
        match state.as_str() {
            _ if phase != phase::PROGRESSING => phase,
            _ if paused => reason::PAUSED,
            step_state::STEP_UPGRADE | step_state::STEP_PAUSED => state,
            _ => phase,
        }
    }

    fn announce(&mut self) {
        let (before, after) = (self.before, &self.status);
        let mut events = std::mem::take(&mut self.told);
        let mut say = |warning: bool, reason: &'static str, message: &str| {
            events.push(Announcement {
                warning,
                reason,
                message: message.to_owned(),
            });
        };
        for (type_, good, bad) in [
            (condition::GUARDED, "Guarded", "NotGuarded"),
            (condition::STALLED, "Stalled", "Stalled"),
        ] {
            let (was, is) = (
                condition::get(&before.conditions, type_),
                condition::get(&after.conditions, type_),
            );
            let Some(is) =
                is.filter(|is| was.is_none_or(|was| was.status != is.status || was.reason != is.reason))
            else {
                continue;
            };
            let warning = (type_ == condition::STALLED) == (is.status == condition::TRUE);
            say(warning, if warning { bad } else { good }, &is.message);
        }
        let (was, is) = (State::of(before), State::of(after));
        if was != is
            && let Some(reason) = is.reason_after(&was)
        {
            say(false, reason, &after.message);
        }
        self.actions.extend(events.into_iter().map(Action::Announce));
    }
}

/// What events are about.
#[derive(PartialEq)]
struct State<'a> {
    phase: &'a str,
    step: i32,
    state: &'a str,
    template: &'a str,
    back: bool,
}

impl<'a> State<'a> {
    fn of(status: &'a RolloutStatus) -> Self {
        let canary = status.canary_status.as_ref();
        Self {
            phase: &status.phase,
            step: canary.map_or(0, |c| c.current_step_index),
            state: canary.map_or("", |c| &c.current_step_state),
            template: canary.map_or("", |c| &c.template_id),
            back: canary.is_some_and(|c| c.rolled_back),
        }
    }

    fn reason_after(&self, was: &Self) -> Option<&'static str> {
        match (self.phase, self.state) {
            (phase::PROGRESSING, _) if self.back && !was.back => Some("RollingBack"),
            (phase::PROGRESSING, _)
                if !self.back && (was.phase != phase::PROGRESSING || self.template != was.template) =>
            {
                Some("ReleaseStarted")
            }
            (phase::PROGRESSING, step_state::STEP_PAUSED) => Some("StepPaused"),
            (phase::PROGRESSING, _) if self.step != was.step => Some("StepStarted"),
            (phase::HEALTHY, _) if was.phase == phase::PROGRESSING => Some(if self.back {
                "RolledBack"
            } else {
                "ReleaseCompleted"
            }),
            (phase::DISABLED, _) if was.phase != phase::DISABLED => Some("Disabled"),
            _ => None,
        }
    }
}

pub(super) fn holds(conditions: &[Condition], type_: &str) -> bool {
    condition::get(conditions, type_).is_some_and(|c| c.status == condition::TRUE)
}

/// The status with the counters of the old one: counters are written with a transition, never alone.
fn significant(status: &RolloutStatus, before: &RolloutStatus) -> RolloutStatus {
    let mut status = status.clone();
    if let (Some(canary), Some(was)) = (&mut status.canary_status, &before.canary_status) {
        canary.canary_replicas = was.canary_replicas;
        canary.canary_ready_replicas = was.canary_ready_replicas;
        canary.observed_workload_generation = was.observed_workload_generation;
    }
    status
}

/// The status of a workload at rest, which platforms read as "done" also on the first day.
pub(super) fn settled(canary: &mut CanaryStatus, steps: usize) {
    canary.current_step_index = i32::try_from(steps).unwrap_or(i32::MAX);
    canary.next_step_index = -1;
    canary.current_step_state = step_state::COMPLETED.to_owned();
    canary.finalising_step = String::new();
    canary.observed_workload_replicas = None;
}

/// The command that sets the workload-type label.
pub(super) fn label_command(workload: &Workload, namespace: &str, value: &str) -> String {
    let resource = format!("{}/{}", workload.kind.to_string().to_lowercase(), workload.name);
    format!(
        "kubectl label {resource} -n {namespace} {}={value} --overwrite",
        names::WORKLOAD_TYPE
    )
}

/// The message of a Guarded condition that holds.
pub(super) fn guarded_message(workload: &Workload) -> String {
    format!("a template change of {workload} is held: proven by a dry-run")
}

/// The status after the API server refused a write, as against a race that was lost: the answer, in the condition Stalled.
/// `None` if it says so already.
#[must_use]
pub fn refused(rollout: &Rollout, answer: &str, now: Timestamp) -> Option<RolloutStatus> {
    let mut draft = Draft::new(rollout, now);
    let remedy = missing_right(rollout, answer)
        .map(|kind| format!(". Let the controller govern the kind: kubectl kruise workload enable {kind}"))
        .unwrap_or_default();
    draft.stalled(
        why::REFUSED,
        &format!("the API server refuses a write of the controller: {answer}{remedy}"),
    );
    draft.finish().status
}

/// The resource of the Rollout's workload, if the answer says that a right to it is missing: `… cannot patch resource "apps" in API
/// group "example.io" …`.
fn missing_right(rollout: &Rollout, answer: &str) -> Option<String> {
    let (_, rest) = answer.split_once(" cannot ")?;
    let (_, rest) = rest.split_once(" resource \"")?;
    let (plural, rest) = rest.split_once("\" in API group \"")?;
    let (group, _) = rest.split_once('"')?;
    let governed = rollout.spec.workload_ref.group_version()?.0;
    (group == governed && !plural.contains('/')).then(|| format!("{plural}.{group}"))
}

/// Reasons of our own, beside those of [`crate::api::v1beta1::condition::reason`].
pub(crate) mod why {
    pub(crate) const LABEL_MISSING: &str = "LabelMissing";
    pub(crate) const LABEL_WRONG: &str = "LabelWrong";
    pub(crate) const STRATEGY: &str = "UnsupportedUpdateStrategy";
    pub(crate) const PROVEN: &str = "Proven";
    pub(crate) const DISABLED: &str = "Disabled";
    pub(crate) const NO_OBSERVED_GENERATION: &str = "NoObservedGeneration";
    pub(crate) const SILENT: &str = "OperatorSilent";
    pub(crate) const MALFORMED: &str = "MalformedWorkload";
    pub(crate) const UNREADABLE: &str = "WorkloadUnreadable";
    pub(crate) const UNSUPPORTED: &str = "Unsupported";
    pub(crate) const NO_KIND: &str = "KindNotFound";
    pub(crate) const CONFLICT: &str = "Conflict";
    pub(crate) const LEFT: &str = "ReleaseOfAnotherController";
    pub(crate) const REFUSED: &str = "WriteRefused";
    pub(crate) const PLAN: &str = "InvalidPlan";
    pub(crate) const REWRITTEN: &str = "TemplateRewritten";
    pub(crate) const DEADLINE: &str = "ProgressDeadlineExceeded";
    pub(crate) const IN_THE_WAY: &str = "PodInTheWay";
    /// Of an event.
    pub(crate) const AWAY: &str = "ChangedWhileAway";
}

pub(super) fn progressing(draft: &mut Draft<'_>, reason: &str) {
    let message = draft.status.message.clone();
    let holds = reason != reason::COMPLETED;
    draft.condition(condition::PROGRESSING, holds, reason, &message);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_right_to_the_workload_is_told_with_its_remedy() {
        let rollout: Rollout = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"strategy": {}, "workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "web"}},
        }))
        .unwrap();
        let told = |answer: &str| {
            let status = refused(&rollout, answer, Timestamp::UNIX_EPOCH).unwrap();
            condition::get(&status.conditions, condition::STALLED)
                .unwrap()
                .message
                .clone()
        };
        let may_not = "mystatefulapps.example.io \"web\" is forbidden: User \"system:x\" cannot patch resource \"mystatefulapps\" in API \
             group \"example.io\" in the namespace \"shop\"";
        let message = told(may_not);
        assert!(
            message.ends_with("kubectl kruise workload enable mystatefulapps.example.io"),
            "{message}"
        );
        for other in [
            "pods \"web-1\" is forbidden: User \"system:x\" cannot delete resource \"pods\" in API group \"\" in the namespace \"shop\"",
            "admission webhook denied the request",
        ] {
            assert!(!told(other).contains("workload enable"), "{other}");
        }
    }
}
