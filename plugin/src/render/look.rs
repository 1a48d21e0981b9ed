use comfy_table::{ContentArrangement, Table, presets};
use kruise_rollout::report::{RolloutReport, StepProgress, StepReport};

use super::{
    Role, Theme, breach_text, count, icon, plain, pods_text, problem_text, revisions_text, state_role,
    state_text, workload_text,
};

/// The whole report, for one look.
pub(crate) fn report(report: &RolloutReport, theme: Theme) -> Vec<String> {
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
    for problem in &report.problems {
        let role = if problem.is_grave() {
            Role::Bad
        } else {
            Role::Quiet
        };
        field("Not ready", theme.paint(role, &problem_text(problem)));
    }
    if !report.steps.is_empty() {
        lines.push(String::new());
        lines.extend(steps(&report.steps, theme));
    }
    if let Some(next) = &report.next {
        lines.push(String::new());
        lines.push(format!("Next: {next}"));
    }
    lines
}

/// The table of steps. Never wrapped; a terminal does that better than a table.
fn steps(steps: &[StepReport], theme: Theme) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["STEP", "REPLICAS", "PODS", "UPDATED", "READY", "PAUSE", "STATE"]);
    for step in steps {
        let state = match step.progress {
            StepProgress::Done => "done",
            StepProgress::Current => "current",
            StepProgress::Ahead => "",
        };
        let reached = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        table.add_row([
            step.number.to_string(),
            plain(&step.replicas),
            count(step.target),
            reached(step.updated),
            reached(step.ready),
            step.pause.clone(),
            state.to_owned(),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let current = steps
        .iter()
        .position(|step| step.progress == StepProgress::Current);
    let lines = table.lines().map(|line| line.trim_end().to_owned()).enumerate();
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
