use serde::{Serialize, Serializer};

use super::{OverlayKind, Progress, RolloutReport, Seen, Sources};
use crate::api::v1beta1::{Rollout, RolloutStatus, condition, phase, step_state};
use crate::workload::pod::names_revision;
use crate::workload::{Hold, Likeness, View};

/// What goes on, in one word. The first that fits, from top to bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The Rollout is being deleted.
    Deleting,
    /// The Rollout does not govern its workload.
    Disabled,
    /// The Rollout lets go of its workload.
    Disabling,
    /// The workload is not there.
    WorkloadMissing,
    /// Another template than the followed one is being released.
    Superseded,
    /// Pods return to the stable template.
    RollingBack,
    /// The last release went back to the stable template.
    RolledBack,
    /// The existing controller refuses to go on: another template came in the middle of a blue-green release.
    Blocked,
    /// `spec.strategy.paused`.
    Paused,
    /// The step is done and waits for a person.
    AwaitingApproval,
    /// The step is done and waits for its time.
    TimedPause,
    /// The step has been approved; the next one is about to begin.
    Approved,
    /// The release begins.
    Starting,
    /// The step's pods are being replaced.
    Upgrading,
    /// Requests are being moved.
    RoutingTraffic,
    /// Metrics are being looked at.
    Analyzing,
    /// All steps are done; the workload is being handed back.
    Finalising,
    /// The template changed, but its update is not held.
    NotIntercepted,
    /// The template changed; the controller has not taken it up yet.
    Pending,
    /// Every pod runs the template.
    Complete,
    /// Nothing has been released yet.
    Idle,
    /// A word of the status that is not known here.
    Unknown(String),
}

impl State {
    /// All words but those that are not known here.
    pub const WORDS: [&'static str; 22] = [
        "Deleting",
        "Disabled",
        "Disabling",
        "WorkloadMissing",
        "Superseded",
        "RollingBack",
        "RolledBack",
        "Blocked",
        "Paused",
        "AwaitingApproval",
        "TimedPause",
        "Approved",
        "Starting",
        "Upgrading",
        "RoutingTraffic",
        "Analyzing",
        "Finalising",
        "NotIntercepted",
        "Pending",
        "Complete",
        "Idle",
        "Unknown",
    ];

    /// The word.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Deleting => "Deleting",
            Self::Disabled => "Disabled",
            Self::Disabling => "Disabling",
            Self::WorkloadMissing => "WorkloadMissing",
            Self::Superseded => "Superseded",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::Blocked => "Blocked",
            Self::Paused => "Paused",
            Self::AwaitingApproval => "AwaitingApproval",
            Self::TimedPause => "TimedPause",
            Self::Approved => "Approved",
            Self::Starting => "Starting",
            Self::Upgrading => "Upgrading",
            Self::RoutingTraffic => "RoutingTraffic",
            Self::Analyzing => "Analyzing",
            Self::Finalising => "Finalising",
            Self::NotIntercepted => "NotIntercepted",
            Self::Pending => "Pending",
            Self::Complete => "Complete",
            Self::Idle => "Idle",
            Self::Unknown(word) => word,
        }
    }

    /// Whether a release is under way, so that its steps mean something.
    #[must_use]
    pub fn is_releasing(&self) -> bool {
        match self {
            Self::Paused
            | Self::AwaitingApproval
            | Self::TimedPause
            | Self::Approved
            | Self::Starting
            | Self::Upgrading
            | Self::RoutingTraffic
            | Self::Analyzing
            | Self::Finalising => true,
            Self::Deleting
            | Self::Disabled
            | Self::Disabling
            | Self::WorkloadMissing
            | Self::Superseded
            | Self::RollingBack
            | Self::RolledBack
            | Self::Blocked
            | Self::NotIntercepted
            | Self::Pending
            | Self::Complete
            | Self::Idle
            | Self::Unknown(_) => false,
        }
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// What a report comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// It goes on by itself.
    InProgress,
    /// It goes on when somebody approves, or lifts the pause.
    AwaitingApproval,
    /// Every pod runs the template.
    Complete,
    /// Something is wrong that does not mend itself.
    Failing,
    /// The Rollout does not govern its workload.
    Disabled,
    /// The release went back.
    RolledBack,
    /// Another release took its place.
    Superseded,
}

impl Verdict {
    pub(super) fn of(report: &RolloutReport, stalled: bool) -> Self {
        match report.state {
            State::Disabled if !stalled => Self::Disabled,
            State::RolledBack => Self::RolledBack,
            State::Superseded => Self::Superseded,
            State::Blocked => Self::Failing,
            _ if stalled || report.has(OverlayKind::Degraded) => Self::Failing,
            State::Complete | State::Idle => Self::Complete,
            State::Paused | State::AwaitingApproval => Self::AwaitingApproval,
            _ => Self::InProgress,
        }
    }

    /// The exit code of a command that ends with this verdict.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::InProgress | Self::AwaitingApproval | Self::Complete => 0,
            Self::Failing | Self::Disabled => 3,
            Self::RolledBack | Self::Superseded => 6,
        }
    }
}

/// Whether the controller says that something is wrong that does not mend itself.
pub(super) fn stalled(status: &RolloutStatus) -> bool {
    is(status, condition::STALLED, condition::TRUE)
}

fn is(status: &RolloutStatus, type_: &str, value: &str) -> bool {
    condition::get(&status.conditions, type_).is_some_and(|condition| condition.status == value)
}

fn progressing(status: &RolloutStatus) -> &str {
    condition::get(&status.conditions, condition::PROGRESSING).map_or("", |condition| &condition.reason)
}

pub(super) fn state(sources: &Sources<'_>, status: &RolloutStatus, progress: &Progress<'_>) -> State {
    let rollout = sources.rollout;
    let view = match sources.workload {
        Seen::Present(view) => Some(view),
        Seen::Missing | Seen::Unknown => None,
    };
    if rollout.metadata.deletion_timestamp.is_some() || status.phase == phase::TERMINATING {
        return State::Deleting;
    }
    match status.phase.as_str() {
        phase::DISABLED => return State::Disabled,
        phase::DISABLING => return State::Disabling,
        _ => {}
    }
    if matches!(sources.workload, Seen::Missing) {
        return State::WorkloadMissing;
    }
    if let Some(view) = view {
        if held(view).is_some()
            && (back_to_stable(view) || returns(view))
            && !in_batches(status, progress, view)
        {
            return State::RollingBack;
        }
        if sources
            .followed
            .is_some_and(|followed| followed.likeness(&view.template) == Likeness::Different)
            && !back_to_stable(view)
        {
            return State::Superseded;
        }
    }
    match status.phase.as_str() {
        phase::PROGRESSING => releasing(rollout, status, progress, view),
        phase::HEALTHY => at_rest(status, progress, view),
        "" | phase::INITIAL => match view.and_then(held) {
            Some(_) => State::Pending,
            None => State::Idle,
        },
        other => State::Unknown(other.to_owned()),
    }
}

/// The release marks, unless they came along with a copy. The existing controller marks without a guard.
fn held(view: &View) -> Option<&Hold> {
    let ours = view.marks.guard.is_none() || view.guard().is_some();
    view.marks.hold.as_ref().filter(|_| ours)
}

/// Whether this is a workload of the existing controller, which leaves no marks of ours: its state is told by revisions alone.
fn unmarked(view: &View) -> bool {
    view.marks.guard.is_none()
}

/// Whether a workload of the existing controller goes back: its operator updates towards the revision that it came from.
fn returns(view: &View) -> bool {
    let reported = &view.reported;
    let (current, update) = (&reported.current_revision, &reported.update_revision);
    let unfinished = reported
        .updated_replicas
        .is_some_and(|updated| updated != view.replicas);
    unmarked(view) && view.observed() != Some(false) && update.is_some() && current == update && unfinished
}

/// Whether another template than the one of a blue-green release has come, which the existing controller does not take up.
fn blocked(status: &RolloutStatus, progress: &Progress<'_>, view: &View) -> bool {
    status.canary_status.is_none()
        && status.blue_green_status.is_some()
        && !progress.message.is_empty()
        && progress.is_of_another_revision(view)
}

/// Whether the present template is the one that was stable before the release.
fn back_to_stable(view: &View) -> bool {
    let stable = view.stable();
    stable.is_some_and(|stable| stable.likeness(&view.template) != Likeness::Different)
}

fn releasing(
    rollout: &Rollout,
    status: &RolloutStatus,
    progress: &Progress<'_>,
    view: Option<&View>,
) -> State {
    let reason = progressing(status);
    let reverted = view.is_none_or(|view| back_to_stable(view) || view.guard().is_none());
    let by_steps = view.is_some_and(|view| in_batches(status, progress, view));
    if (progress.rolled_back && reverted && !by_steps)
        || reason == condition::reason::CANCELLING
        || progress.release.starts_with("rollback-")
    {
        return State::RollingBack;
    }
    if view.is_some_and(|view| blocked(status, progress, view)) {
        return State::Blocked;
    }
    if rollout.spec.strategy.paused || reason == condition::reason::PAUSED {
        return State::Paused;
    }
    if reason == condition::reason::FINALISING {
        return State::Finalising;
    }
    match progress.state {
        step_state::STEP_PAUSED if super::steps::seconds(rollout, progress.step).is_some() => {
            State::TimedPause
        }
        step_state::STEP_PAUSED => State::AwaitingApproval,
        step_state::STEP_READY => State::Approved,
        step_state::STEP_UPGRADE => State::Upgrading,
        step_state::STEP_TRAFFIC_ROUTING => State::RoutingTraffic,
        step_state::STEP_METRICS_ANALYSIS => State::Analyzing,
        step_state::COMPLETED => State::Finalising,
        step_state::BEFORE_STEP_UPGRADE | "" => State::Starting,
        other => State::Unknown(other.to_owned()),
    }
}

/// Whether the status speaks of a way back to the workload's present template that takes the steps of the plan.
pub(super) fn in_batches(status: &RolloutStatus, progress: &Progress<'_>, view: &View) -> bool {
    status.goes_back_in_batches() && progress.template == view.template.to_string()
}

fn at_rest(status: &RolloutStatus, progress: &Progress<'_>, view: Option<&View>) -> State {
    if let Some(view) = view {
        if held(view).is_some() {
            return State::Pending;
        }
        if ungated(view) {
            return State::NotIntercepted;
        }
    }
    if is(status, condition::SUCCEEDED, condition::FALSE) {
        return State::RolledBack;
    }
    if view.is_some_and(|view| unmarked(view) && progress.is_of_another_revision(view)) {
        return State::NotIntercepted;
    }
    if view.is_some_and(|view| unmarked(view) && progress.is_of_an_older_generation(view)) {
        return State::Pending;
    }
    if progress.state.is_empty() {
        State::Idle
    } else {
        State::Complete
    }
}

impl Progress<'_> {
    /// Whether the operator updates to another revision than the one that the status speaks of.
    fn is_of_another_revision(&self, view: &View) -> bool {
        let update = view.reported.update_revision.as_deref();
        view.observed() != Some(false)
            && !self.revision.is_empty()
            && update.is_some_and(|update| !names_revision(self.revision, update))
    }

    /// Whether the workload has changed since the status was written.
    fn is_of_an_older_generation(&self, view: &View) -> bool {
        (1..view.generation).contains(&self.generation)
    }
}

/// Whether a template is on its way to the pods that nobody holds.
fn ungated(view: &View) -> bool {
    let reported = &view.reported;
    let unfinished = reported
        .updated_replicas
        .is_some_and(|updated| updated < view.replicas);
    let (current, update) = (&reported.current_revision, &reported.update_revision);
    unfinished && view.partition_in_force() == 0 && current.is_some() && update.is_some() && current != update
}
