use kruise_rollout::report::{RolloutReport, State, StepProgress, StepReport, Verdict};

use super::{
    Role, Theme, breach_text, count, icon, plain, pods_text, problem_text, revisions_text, state_role,
    state_text, workload_text,
};

/// One picture of the live view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Frame {
    /// Above the bars.
    pub(crate) head: Vec<String>,
    /// One per step, or one for the way back.
    pub(crate) bars: Vec<Bar>,
    /// Below the bars.
    pub(crate) foot: Vec<String>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    /// In front of it.
    pub(crate) label: String,
    /// Pods that are there.
    pub(crate) done: u32,
    /// Pods that there should be.
    pub(crate) of: u32,
    /// Behind it.
    pub(crate) text: String,
    /// Its colour.
    pub(crate) role: Role,
}

/// Steps that are drawn at most; a longer plan shows those around the present one.
pub(super) const BARS: usize = 10;
/// Pods that are named at most.
const PROBLEMS: usize = 4;

/// The live view.
pub(crate) fn frame(report: &RolloutReport, theme: Theme) -> Frame {
    let revisions = revisions_text(report, theme)
        .map(|text| format!("  {text}"))
        .unwrap_or_default();
    let head = vec![
        format!(
            "{}  {}  {}{revisions}",
            theme.paint(Role::Strong, &report.name),
            report.namespace,
            workload_text(report)
        ),
        theme.paint(
            state_role(report),
            &format!("{} {}", icon(report, theme), state_text(report)),
        ),
    ];
    let mut foot = Vec::new();
    if report.workload.found == Some(true) {
        foot.push(format!("pods: {}", pods_text(report)));
    }
    if let Some(breach) = breach_text(report) {
        foot.push(theme.paint(Role::Bad, &breach));
    }
    for problem in report.problems.iter().take(PROBLEMS) {
        let role = if problem.is_grave() {
            Role::Bad
        } else {
            Role::Quiet
        };
        foot.push(theme.paint(role, &problem_text(problem)));
    }
    if report.problems.len() > PROBLEMS {
        foot.push(theme.paint(
            Role::Quiet,
            &format!("and {} more pods not ready", report.problems.len() - PROBLEMS),
        ));
    }
    match (&report.next, report.verdict) {
        (Some(next), _) => foot.push(theme.paint(Role::Waiting, next)),
        (None, Verdict::Failing) if !report.message.is_empty() => foot.push(plain(&report.message)),
        _ => {}
    }
    Frame {
        head,
        bars: bars(report, theme),
        foot,
    }
}

fn bars(report: &RolloutReport, theme: Theme) -> Vec<Bar> {
    let workload = &report.workload;
    if matches!(report.state, State::RollingBack | State::RolledBack) {
        let label = if report.state == State::RollingBack {
            "restoring"
        } else {
            "restored"
        };
        return vec![Bar {
            label: label.to_owned(),
            done: workload.updated.unwrap_or(0),
            of: workload.replicas.unwrap_or(0),
            text: format!(
                "{}/{} on the stable template",
                count(workload.updated),
                count(workload.replicas)
            ),
            role: Role::Back,
        }];
    }
    let current = report
        .steps
        .iter()
        .position(|step| step.progress == StepProgress::Current)
        .unwrap_or(0);
    let first = current
        .saturating_sub(BARS / 2)
        .min(report.steps.len().saturating_sub(BARS));
    let width = report
        .steps
        .iter()
        .map(|step| step.replicas.len())
        .max()
        .unwrap_or(0);
    report
        .steps
        .iter()
        .skip(first)
        .take(BARS)
        .map(|step| bar(step, report, width, theme))
        .collect()
}

fn bar(step: &StepReport, report: &RolloutReport, width: usize, theme: Theme) -> Bar {
    let (mark, role) = match (step.progress, theme.unicode) {
        (StepProgress::Done, true) => ("✔", Role::Good),
        (StepProgress::Done, false) => ("+", Role::Good),
        (StepProgress::Current, true) => ("▸", state_role(report)),
        (StepProgress::Current, false) => (">", state_role(report)),
        (StepProgress::Ahead, _) => (" ", Role::Quiet),
    };
    let ready = step.ready.filter(|_| step.progress == StepProgress::Current);
    let ready = ready.map(|ready| format!(", {ready} ready")).unwrap_or_default();
    let pause = match (step.progress, step.pause.as_str()) {
        (StepProgress::Done, _) | (_, "none") => String::new(),
        (_, "approval") => "  then approval".to_owned(),
        (_, pause) => format!("  then {pause}"),
    };
    let reached = match (step.updated, step.progress) {
        (None, StepProgress::Ahead) => format!("{} pods", count(step.target)),
        (updated, _) => format!("{}/{}", count(updated), count(step.target)),
    };
    Bar {
        label: format!("{:>2} {mark} {:<width$}", step.number, plain(&step.replicas)),
        done: step.updated.unwrap_or(0),
        of: step.target.unwrap_or(0),
        text: format!("{reached}{ready}{pause}"),
        role,
    }
}
