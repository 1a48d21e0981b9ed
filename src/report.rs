//! What a person is told about a Rollout: one [`RolloutReport`], from which every view and every output format is made.
//!
//! Pure: built from the objects as they were read and the time. Counts of pods are live, from workload and pods, since the
//! status of the Rollout has them only as of its last transition.

mod pods;
mod state;
mod steps;

use jiff::Timestamp;
use serde::Serialize;

pub use pods::Problem;
pub use state::{State, Verdict};
pub use steps::{PauseReport, StepProgress, StepReport};

use crate::api::v1beta1::{Rollout, RolloutStatus, step_state};
use crate::names;
use crate::plan::Plan;
use crate::workload::pod::names_revision;
use crate::workload::{Likeness, PodView, TemplateId, TypeLabel, View};
use pods::Counts;

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
    /// The workload and its counts.
    pub workload: WorkloadReport,
    /// One word for what goes on.
    pub state: State,
    /// `status.phase`.
    pub phase: String,
    /// State of the current step, as in the status.
    pub step_state: String,
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
            problems: pods::problems(pods, revisions.update.as_deref()),
            revisions,
            verdict: Verdict::InProgress,
            exit_code: 0,
            next: None,
            state,
        };
        report.verdict = Verdict::of(&report, state::stalled(status));
        report.exit_code = report.verdict.exit_code();
        report.next = next(&report, rollout, view);
        report
    }

    /// The number of steps.
    #[must_use]
    pub fn total(&self) -> usize {
        self.steps.len()
    }
}

/// The release's own part of the status, of either style.
struct Progress<'a> {
    step: usize,
    state: &'a str,
    since: Option<Timestamp>,
    revision: &'a str,
    stable: &'a str,
    template: &'a str,
    message: &'a str,
    rolled_back: bool,
    release: &'a str,
}

impl<'a> Progress<'a> {
    fn of(status: &'a RolloutStatus) -> Self {
        let step = |index: i32| usize::try_from(index).unwrap_or_default();
        match (&status.canary_status, &status.blue_green_status) {
            (Some(canary), _) => Self {
                step: step(canary.current_step_index),
                state: &canary.current_step_state,
                since: canary.last_update_time.as_ref().map(|time| time.0),
                revision: &canary.canary_revision,
                stable: &canary.stable_revision,
                template: &canary.template_id,
                message: &canary.message,
                rolled_back: canary.rolled_back,
                release: &canary.observed_rollout_id,
            },
            (None, Some(green)) => Self {
                step: step(green.current_step_index),
                state: &green.current_step_state,
                since: green.last_update_time.as_ref().map(|time| time.0),
                revision: &green.updated_revision,
                stable: &green.stable_revision,
                template: "",
                message: &green.message,
                rolled_back: false,
                release: &green.observed_rollout_id,
            },
            (None, None) => Self {
                step: 0,
                state: "",
                since: None,
                revision: "",
                stable: "",
                template: "",
                message: "",
                rolled_back: false,
                release: "",
            },
        }
    }

    fn paused(&self) -> bool {
        self.state == step_state::STEP_PAUSED
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
        update: reported.or_else(|| named(progress.revision).filter(|_| same)),
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
            report.partition = Some(view.partition_in_force());
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

/// The command that takes this state further.
fn next(report: &RolloutReport, rollout: &Rollout, view: Option<&View>) -> Option<String> {
    let (name, namespace) = (&report.name, &report.namespace);
    match report.state {
        State::AwaitingApproval => Some(format!(
            "kubectl kruise rollout approve rollout/{name} -n {namespace}"
        )),
        State::Paused => Some(format!(
            "kubectl kruise rollout resume rollout/{name} -n {namespace}"
        )),
        State::Disabled if rollout.spec.disabled => Some(format!(
            "kubectl kruise rollout enable rollout/{name} -n {namespace}"
        )),
        State::Disabled | State::NotIntercepted => view
            .filter(|view| view.label != TypeLabel::Right)
            .map(|_| format!("kubectl kruise workload label rollout/{name} -n {namespace}")),
        State::RollingBack | State::Upgrading => {
            in_the_way(report).map(|problem| format!("kubectl delete pod {} -n {namespace}", problem.pod))
        }
        _ => None,
    }
}

/// A broken pod of a template that nobody wants any more. Operators that update in order wait until it is ready, which it never
/// will be; only deleting it helps. The controller does so after a while, unless it may not; a person need not wait.
fn in_the_way(report: &RolloutReport) -> Option<&Problem> {
    let stable = report.revisions.stable.as_deref().unwrap_or_default();
    let held_back = |problem: &Problem| {
        let label = problem.revision.as_deref().unwrap_or_default();
        report.state == State::Upgrading && names_revision(label, stable)
    };
    report
        .problems
        .iter()
        .find(|problem| problem.is_broken() && !problem.updated && !held_back(problem))
}

#[cfg(test)]
mod tests;
