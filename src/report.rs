//! What a person is told about a Rollout: one [`RolloutReport`], from which every view and every output format is made.
//!
//! Pure: built from the objects as they were read and the time. Counts of pods are live, from workload and pods, since the
//! status of the Rollout has them only as of its last transition.

mod documents;
mod events;
mod history;
mod next;
mod overlays;
mod plain;
mod pods;
mod progress;
mod rows;
mod state;
mod steps;

use jiff::Timestamp;
use serde::Serialize;

pub use documents::{
    Detail, Document, RevisionDetail, RolloutEvents, RolloutHistory, RolloutPods, TemplateDiff,
};
pub use events::{EventReport, fold};
pub use history::{History, Recorded, RevisionReport, RevisionState, Source};
pub use overlays::{Hidden, Overlay, OverlayKind, spec_changed};
pub use plain::PlainStatus;
pub use pods::Problem;
pub use rows::{PodFacts, PodReport, PodRole, pod_reports};
pub use state::{State, Verdict};
pub use steps::{PauseReport, StepProgress, StepReport};

use crate::api::v1beta1::{Rollout, RolloutStatus};
use crate::names;
use crate::plan::Plan;
use crate::workload::{GroupKind, Likeness, PodView, TemplateId, View, adapter_for};
use pods::Counts;
use progress::Progress;

/// Version of the report's own format, in `apiVersion`.
pub const REPORT_VERSION: &str = "kruise.cli/v1";

/// What is known of the workload.
#[derive(Clone, Copy, Debug, Default)]
pub enum Seen<'a> {
    /// It could not be read: forbidden, or its kind is not known.
    #[default]
    Unknown,
    /// There is none.
    Missing,
    /// It is there.
    Present(&'a View),
}

/// What a report is made from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The Rollout.
    pub rollout: &'a Rollout,
    /// Its workload.
    pub workload: Seen<'a>,
    /// The workload's pods; `None` if they could not be read.
    pub pods: Option<&'a [PodView]>,
    /// The template that a watch set out to follow. Another one that is not the stable one supersedes it.
    pub followed: Option<&'a TemplateId>,
    /// What could not be read.
    pub hidden: &'a [Hidden],
    /// When somebody last wrote the workload's spec, where that is known: see [`spec_changed`].
    pub workload_changed: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// The state of a Rollout, for people and programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutReport {
    /// [`REPORT_VERSION`].
    pub api_version: &'static str,
    /// `RolloutReport`.
    pub kind: &'static str,
    /// Name of the Rollout.
    pub name: String,
    /// Namespace of the Rollout.
    pub namespace: String,
    /// When the Rollout was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// `canary` or `blueGreen`; empty where there is none.
    pub strategy: &'static str,
    /// The workload and its counts.
    pub workload: WorkloadReport,
    /// One word for what goes on.
    pub state: State,
    /// `status.phase`.
    pub phase: String,
    /// State of the current step, as in the status.
    pub step_state: String,
    /// What holds beside the state.
    pub overlays: Vec<Overlay>,
    /// Since when the current step is in its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Number of the current step, from 1; 0 when there is none.
    pub step: usize,
    /// All steps.
    pub steps: Vec<StepReport>,
    /// What the present pause waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseReport>,
    /// The revisions.
    pub revisions: Revisions,
    /// What the Rollout says about itself.
    pub message: String,
    /// This release goes back to the stable template, or has gone back.
    pub rolled_back: bool,
    /// More pods run the new template than the step allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
    /// Pods of the workload that are not ready, those of the new template first.
    pub problems: Vec<Problem>,
    /// What it comes to.
    pub verdict: Verdict,
    /// The exit code of that.
    pub exit_code: u8,
    /// The command to type next, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The workload and its counts. Absent counts are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReport {
    /// `apiVersion` of the reference.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Whether it is there; absent if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<bool>,
    /// Pods that there should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Pods on the template that is being released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<u32>,
    /// Those of them that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_ready: Option<u32>,
    /// The partition in force: pods that are kept back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i64>,
}

/// Names of revisions, as the operator gives them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revisions {
    /// The one that pods had before the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<String>,
    /// The one that pods are updated to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
}

/// More pods run the new template than are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breach {
    /// Pods that are allowed.
    pub allowed: u32,
    /// Pods beyond them.
    pub beyond: u32,
}

impl RolloutReport {
    /// Builds the report.
    #[must_use]
    pub fn new(sources: &Sources<'_>) -> Self {
        static NONE: std::sync::LazyLock<RolloutStatus> = std::sync::LazyLock::new(RolloutStatus::default);
        let Sources {
            rollout,
            workload,
            pods,
            now,
            ..
        } = *sources;
        let status = rollout.status.as_ref().unwrap_or(&NONE);
        let progress = Progress::of(status);
        let view = match workload {
            Seen::Present(view) => Some(view),
            Seen::Missing | Seen::Unknown => None,
        };
        let state = state::state(sources, status, &progress);
        let revisions = revisions(view, &progress);
        let counts = view
            .map(|view| Counts::of(view, pods, revisions.update.as_deref()))
            .unwrap_or_default();
        let plan = view.and_then(|view| steps::plan(rollout, view.replicas));
        let (namespace, name) = (rollout.metadata.namespace.clone(), rollout.metadata.name.clone());
        let mut report = Self {
            api_version: REPORT_VERSION,
            kind: "RolloutReport",
            created: rollout.metadata.creation_timestamp.as_ref().map(|time| time.0),
            strategy: strategy(rollout),
            overlays: Vec::new(),
            since: progress.since,
            name: name.unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            workload: workload_report(rollout, workload, counts),
            phase: status.phase.clone(),
            step_state: progress.state.to_owned(),
            step: progress.step,
            steps: steps::steps(rollout, plan.as_ref(), &progress, &state, counts),
            pause: steps::pause(rollout, &progress, now),
            message: message(status, &progress),
            rolled_back: matches!(state, State::RollingBack | State::RolledBack)
                || view.is_some_and(|view| state::in_batches(status, &progress, view)),
            breach: breach(view, plan.as_ref(), progress.step, &state, counts),
            problems: pods::problems(pods, revisions.update.as_deref(), now),
            revisions,
            verdict: Verdict::InProgress,
            exit_code: 0,
            next: None,
            state,
        };
        report.overlays = overlays::overlays(sources, &report);
        report.verdict = Verdict::of(&report, state::stalled(status));
        report.exit_code = report.verdict.exit_code();
        report.next = next::next(&report, rollout, view);
        report
    }

    /// Whether this holds beside the state.
    #[must_use]
    pub fn has(&self, kind: OverlayKind) -> bool {
        self.overlays.iter().any(|overlay| overlay.kind == kind)
    }

    /// The number of steps.
    #[must_use]
    pub fn total(&self) -> usize {
        self.steps.len()
    }
}

fn strategy(rollout: &Rollout) -> &'static str {
    let strategy = &rollout.spec.strategy;
    match (&strategy.canary, &strategy.blue_green) {
        (Some(_), _) => "canary",
        (None, Some(_)) => "blueGreen",
        (None, None) => "",
    }
}

/// The revisions. What the workload reports counts only once its operator has seen the present template; until then the
/// Rollout's memory of this very template does.
fn revisions(view: Option<&View>, progress: &Progress<'_>) -> Revisions {
    let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    let Some(view) = view else {
        return Revisions {
            stable: named(progress.stable),
            update: named(progress.revision),
        };
    };
    let remembered = progress.template.parse::<TemplateId>().ok();
    let same = remembered.is_none_or(|id| id.likeness(&view.template) != Likeness::Different);
    let reported = view
        .reported
        .update_revision
        .clone()
        .filter(|_| view.observed() != Some(false));
    Revisions {
        stable: named(progress.stable).or_else(|| view.reported.current_revision.clone()),
        update: reported.or_else(|| {
            let remembered = named(progress.hash).or_else(|| named(progress.revision));
            remembered.filter(|_| same)
        }),
    }
}

fn workload_report(rollout: &Rollout, workload: Seen<'_>, counts: Counts) -> WorkloadReport {
    let reference = &rollout.spec.workload_ref;
    let mut report = WorkloadReport {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        ..WorkloadReport::default()
    };
    match workload {
        Seen::Unknown => {}
        Seen::Missing => report.found = Some(false),
        Seen::Present(view) => {
            report.found = Some(true);
            report.replicas = view.replicas_known.then_some(view.replicas);
            // What is shown of kinds without an adapter has no partition.
            let group_version = reference.group_version();
            let governable = group_version.and_then(|(group, _)| {
                adapter_for(&GroupKind {
                    group: group.to_owned(),
                    kind: reference.kind.clone(),
                })
            });
            report.partition = governable.map(|_| view.partition_in_force());
            report.ready = counts.ready;
            report.updated = counts.updated;
            report.updated_ready = counts.updated_ready;
        }
    }
    report
}

fn message(status: &RolloutStatus, progress: &Progress<'_>) -> String {
    let said = if status.message.is_empty() {
        progress.message
    } else {
        &status.message
    };
    said.to_owned()
}

/// Compares what runs with what is granted; only while a release goes forward, and only when pods can be told apart. Pods that
/// already run the new template below the partition count for the step, so that its grant may be less than its size.
fn breach(
    view: Option<&View>,
    plan: Option<&Plan>,
    step: usize,
    state: &State,
    counts: Counts,
) -> Option<Breach> {
    let view = view.filter(|_| !matches!(state, State::RollingBack))?;
    let granted = view.hold()?.granted;
    let by_grant = u32::try_from(i64::from(view.replicas) - granted).unwrap_or(0);
    let by_step = plan
        .filter(|_| granted != names::HOLD_PARTITION)
        .map_or(0, |plan| plan.step(step).exposure);
    let allowed = by_grant.max(by_step);
    let beyond = counts
        .updated
        .filter(|_| counts.by_labels)?
        .checked_sub(allowed)?;
    (beyond > 0).then_some(Breach { allowed, beyond })
}

#[cfg(test)]
mod tests;
