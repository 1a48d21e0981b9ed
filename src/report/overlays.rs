use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::{PauseReport, RolloutReport, Seen, Sources, State};

/// How long a controller or an operator may take to look at a change.
const LOOKING: SignedDuration = SignedDuration::from_secs(30);
/// How long a timed pause may be over before somebody is to look.
const OVERDUE: SignedDuration = SignedDuration::from_secs(60);

/// What holds beside the state, whichever that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum OverlayKind {
    /// A pod of the new template does not come up.
    Degraded,
    /// The controller or the operator of the workload has not looked at the present spec.
    Stale,
    /// A timed pause is over, and the release does not go on.
    Overdue,
    /// The reader may not see everything.
    PartialView,
}

/// Something that holds beside the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overlay {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: OverlayKind,
    /// What it means, for people. Does not change with the clock.
    pub message: String,
}

/// A part that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hidden {
    /// What is not shown: `pods`, `events`, `history`, or `the workload and its pods`.
    pub part: &'static str,
    /// The right that is missing, with its verb: `list pods in namespace shop`.
    pub right: String,
}

impl std::fmt::Display for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.part == "history" { "is" } else { "are" };
        write!(f, "{} {verb} not shown: you may not {}", self.part, self.right)
    }
}

/// When somebody last wrote anything but the status of an object, by its `metadata.managedFields`. `None` where they are not kept.
#[must_use]
pub fn spec_changed(managed_fields: &Value) -> Option<Timestamp> {
    let entries = managed_fields.as_array()?.iter();
    let of_spec = entries.filter(|entry| entry["subresource"].as_str().is_none_or(str::is_empty));
    of_spec
        .filter_map(|entry| entry["time"].as_str()?.parse().ok())
        .max()
}

pub(super) fn overlays(sources: &Sources<'_>, report: &RolloutReport) -> Vec<Overlay> {
    let of = |kind: OverlayKind, message: Option<String>| message.map(|message| Overlay { kind, message });
    let mut overlays: Vec<_> = [
        of(OverlayKind::Degraded, degraded(report)),
        of(OverlayKind::Stale, stale_rollout(sources)),
        of(OverlayKind::Stale, stale_workload(sources)),
        of(OverlayKind::Overdue, overdue(sources, report)),
    ]
    .into_iter()
    .flatten()
    .collect();
    overlays.extend(sources.hidden.iter().map(|hidden| Overlay {
        kind: OverlayKind::PartialView,
        message: hidden.to_string(),
    }));
    overlays
}

/// The first pod in name and words, and how many more there are.
fn degraded(report: &RolloutReport) -> Option<String> {
    let mut grave = report.problems.iter().filter(|problem| problem.is_grave());
    let first = grave.next()?;
    let why = first
        .detail
        .as_deref()
        .or(first.reason.as_deref())
        .unwrap_or("is not ready");
    Some(match grave.count() {
        0 => format!("{}: {why}", first.pod),
        more => format!("{}: {why}; and {more} more", first.pod),
    })
}

fn stale_rollout(sources: &Sources<'_>) -> Option<String> {
    let metadata = &sources.rollout.metadata;
    let observed = sources.rollout.status.as_ref()?.observed_generation;
    let fields = serde_json::to_value(&metadata.managed_fields).unwrap_or_default();
    let behind = metadata.generation? > observed && observed > 0;
    (behind && has_lasted(spec_changed(&fields), sources.now))
        .then(|| "the controller has not looked at the last change of the Rollout: is it running?".to_owned())
}

fn stale_workload(sources: &Sources<'_>) -> Option<String> {
    let Seen::Present(view) = sources.workload else {
        return None;
    };
    let behind = view.observed() == Some(false);
    (behind && has_lasted(sources.workload_changed, sources.now))
        .then(|| "the operator of the workload has not looked at its last change: is it running?".to_owned())
}

/// Where nobody knows since when, it is taken for recent: a change is seen every day, and an operator that is gone stays gone.
fn has_lasted(since: Option<Timestamp>, now: Timestamp) -> bool {
    since.is_some_and(|since| now.duration_since(since) > LOOKING)
}

fn overdue(sources: &Sources<'_>, report: &RolloutReport) -> Option<String> {
    let (State::TimedPause, Some(PauseReport::Time { seconds, .. })) = (&report.state, report.pause) else {
        return None;
    };
    let end = report.since? + SignedDuration::from_secs(seconds.into());
    (sources.now.duration_since(end) > OVERDUE).then(|| {
        format!(
            "the pause of step {} is over, and the release does not go on: is the controller running?",
            report.step
        )
    })
}
