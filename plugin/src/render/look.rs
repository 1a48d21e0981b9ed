use kruise_rollout::report::{OverlayKind, RolloutReport, StepProgress, StepReport};

use super::table::Table;
use super::{
    Role, Theme, breach_text, count, icon, plain, pods_text, problem_text, revisions_text, state_role,
    state_text, workload_text,
};

/// The whole report, for one look.
pub(crate) fn report(report: &RolloutReport, theme: Theme) -> Vec<String> {
    whole(report, false, theme)
}

/// The same with more columns.
pub(crate) fn report_wide(report: &RolloutReport, theme: Theme) -> Vec<String> {
    whole(report, true, theme)
}

fn whole(report: &RolloutReport, wide: bool, theme: Theme) -> Vec<String> {
    let mut lines = head(report, theme);
    if !report.steps.is_empty() {
        lines.push(String::new());
        lines.extend(steps(report, wide, theme));
    }
    if let Some(next) = next(report) {
        lines.extend([String::new(), next]);
    }
    lines
}

/// The command to type next.
pub(super) fn next(report: &RolloutReport) -> Option<String> {
    report.next.as_ref().map(|next| format!("Next: {next}"))
}

/// One line for each fact.
pub(super) fn head(report: &RolloutReport, theme: Theme) -> Vec<String> {
    let mut lines = Vec::new();
    let mut field = |name: &str, text: String| lines.push(format!("{:<12}{text}", format!("{name}:")));
    field("Name", theme.paint(Role::Strong, &report.name));
    field("Namespace", report.namespace.clone());
    field("Workload", workload_text(report));
    let state = format!("{} {}", icon(report, theme), state_text(report));
    field("State", theme.paint(state_role(report), &state));
    if let Some(revisions) = revisions_text(report, theme) {
        field("Revision", revisions);
    }
    if report.workload.found == Some(true) {
        field("Pods", pods_text(report));
    }
    if !report.message.is_empty() {
        field("Message", plain(&report.message));
    }
    if let Some(breach) = breach_text(report) {
        field("Warning", theme.paint(Role::Bad, &breach));
    }
    for overlay in &report.overlays {
        if matches!(overlay.kind, OverlayKind::Stale | OverlayKind::Overdue) {
            field("Warning", theme.paint(Role::Bad, &plain(&overlay.message)));
        }
    }
    for problem in &report.problems {
        let role = if problem.is_grave() {
            Role::Bad
        } else {
            Role::Quiet
        };
        field("Not ready", theme.paint(role, &problem_text(problem)));
    }
    lines
}

/// The table of steps, the current one in bold.
pub(super) fn steps(report: &RolloutReport, wide: bool, theme: Theme) -> Vec<String> {
    let mut header = vec!["STEP", "REPLICAS", "PODS", "UPDATED", "READY", "PAUSE", "STATE"];
    if wide {
        header.push("PARTITION");
    }
    let rows: Vec<_> = report.steps.iter().map(|step| row(step, wide)).collect();
    let current = report
        .steps
        .iter()
        .position(|step| step.progress == StepProgress::Current);
    let lines = Table::lines(&header, &rows, true).into_iter().enumerate();
    lines
        .map(|(index, line)| {
            if index > 0 && current == Some(index - 1) {
                theme.paint(Role::Strong, &line)
            } else {
                line
            }
        })
        .collect()
}

fn row(step: &StepReport, wide: bool) -> Vec<String> {
    let state = match step.progress {
        StepProgress::Done => "done",
        StepProgress::Current => "current",
        StepProgress::Ahead => "",
    };
    let reached = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let mut row = vec![
        step.number.to_string(),
        plain(&step.replicas),
        count(step.target),
        reached(step.updated),
        reached(step.ready),
        step.pause.clone(),
        state.to_owned(),
    ];
    if wide {
        row.push(
            step.partition
                .map(|partition| partition.to_string())
                .unwrap_or_default(),
        );
    }
    row
}
