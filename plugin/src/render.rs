//! From a report to lines. Pure: no terminal, no clock.

use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;
use kruise_rollout::names;
use kruise_rollout::report::{PauseReport, Problem, RolloutReport, State, StepProgress, StepReport, Verdict};

use crate::ui::style::{Role, Theme};

/// The resource and its name, as kubectl writes them.
pub(crate) fn subject(name: &str) -> String {
    format!("rollout.{}/{name}", names::GROUP)
}

/// Text of a server made harmless: control characters could move the cursor or hide what follows.
pub(crate) fn plain(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => harmless.push(' '),
            c if c.is_control() => harmless.extend(c.escape_default()),
            c => harmless.push(c),
        }
    }
    harmless
}

/// How a state looks.
fn role(state: &State) -> Role {
    match state {
        State::Complete => Role::Good,
        State::WorkloadMissing | State::NotIntercepted => Role::Bad,
        State::AwaitingApproval | State::TimedPause | State::Paused => Role::Waiting,
        State::RollingBack | State::RolledBack | State::Superseded => Role::Back,
        State::Disabled | State::Disabling | State::Idle | State::Pending => Role::Quiet,
        State::Deleting
        | State::Approved
        | State::Starting
        | State::Upgrading
        | State::RoutingTraffic
        | State::Analyzing
        | State::Finalising
        | State::Unknown(_) => Role::Busy,
    }
}

fn state_role(report: &RolloutReport) -> Role {
    if report.verdict == Verdict::Failing {
        Role::Bad
    } else {
        role(&report.state)
    }
}

fn icon(report: &RolloutReport, theme: Theme) -> &'static str {
    let (unicode, ascii) = match state_role(report) {
        Role::Good => ("✔", "+"),
        Role::Bad => ("✖", "x"),
        Role::Waiting => ("⏸", "="),
        Role::Back => ("↺", "<"),
        Role::Busy => ("◌", "~"),
        Role::Quiet | Role::Strong => ("•", "-"),
    };
    if theme.unicode { unicode } else { ascii }
}

/// The state in words: `AwaitingApproval, step 1 of 3`, with what is left of a pause.
fn state_text(report: &RolloutReport) -> String {
    let mut text = plain(report.state.word());
    if report.state.is_releasing() && report.step > 0 {
        text.push_str(&format!(", step {} of {}", report.step, report.total()));
    }
    if let Some(left) = remaining(report) {
        text.push_str(&format!(", goes on in {left}"));
    }
    text
}

fn remaining(report: &RolloutReport) -> Option<String> {
    match report.pause {
        Some(PauseReport::Time {
            remaining_seconds, ..
        }) if report.state == State::TimedPause => Some(short(remaining_seconds)),
        _ => None,
    }
}

/// Seconds as `4m59s`.
fn short(seconds: u32) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, s) => format!("{h}h{m:02}m{s:02}s"),
    }
}

fn count(number: Option<u32>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

fn pods_text(report: &RolloutReport) -> String {
    let workload = &report.workload;
    let total = count(workload.replicas);
    let moved = match report.state {
        State::RollingBack | State::RolledBack => "on the stable template",
        _ => "updated",
    };
    format!(
        "{} of {total} {moved}, {} ready",
        count(workload.updated),
        count(workload.ready)
    )
}

fn revisions_text(report: &RolloutReport, theme: Theme) -> Option<String> {
    let arrow = if theme.unicode { "→" } else { "->" };
    let revisions = &report.revisions;
    match (&revisions.stable, &revisions.update) {
        (Some(stable), Some(update)) if stable != update => {
            Some(format!("{} {arrow} {}", plain(stable), plain(update)))
        }
        (_, Some(one)) | (Some(one), None) => Some(plain(one)),
        (None, None) => None,
    }
}

fn breach_text(report: &RolloutReport) -> Option<String> {
    let breach = report.breach?;
    let (noun, verb) = if breach.beyond == 1 {
        ("pod", "runs")
    } else {
        ("pods", "run")
    };
    Some(format!(
        "{} {noun} beyond the step {verb} the new template: {} allowed",
        breach.beyond, breach.allowed
    ))
}

fn problem_text(problem: &Problem) -> String {
    let reason = problem
        .reason
        .as_deref()
        .map_or_else(|| "not ready".to_owned(), plain);
    let which = if problem.updated { "" } else { " (old template)" };
    format!("{} {reason}{which}", problem.pod)
}

fn workload_text(report: &RolloutReport) -> String {
    let workload = &report.workload;
    let group = workload
        .api_version
        .split_once('/')
        .map(|(group, _)| format!(".{group}"))
        .unwrap_or_default();
    format!("{}{group} {}", plain(&workload.kind), plain(&workload.name))
}

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

/// One change, as words that programs can split: `my-app-rollout step=1/3 state=Upgrading updated=0/1 ready=5/5`.
pub(crate) fn change(report: &RolloutReport) -> String {
    let workload = &report.workload;
    let mut line = report.name.clone();
    let mut word = |name: &str, value: &str| {
        let quoted = value.contains([' ', '"']);
        let value = if quoted {
            format!("{value:?}")
        } else {
            value.to_owned()
        };
        line.push_str(&format!(" {name}={value}"));
    };
    let current = report
        .steps
        .iter()
        .find(|step| step.progress == StepProgress::Current);
    if let Some(step) = current {
        word("step", &format!("{}/{}", step.number, report.total()));
    }
    word("state", &plain(report.state.word()));
    if workload.found == Some(true) {
        let of = current.map_or(workload.replicas, |step| step.target);
        word("updated", &format!("{}/{}", count(workload.updated), count(of)));
        word(
            "ready",
            &format!("{}/{}", count(workload.ready), count(workload.replicas)),
        );
    }
    if let Some(revision) = &report.revisions.update {
        word("revision", &plain(revision));
    }
    if let (State::TimedPause, Some(PauseReport::Time { seconds, .. })) = (&report.state, report.pause) {
        word("pause", &format!("{seconds}s"));
    }
    if let Some(breach) = report.breach {
        word("beyond", &breach.beyond.to_string());
    }
    if let Some(problem) = report.problems.iter().find(|problem| problem.is_grave()) {
        word("problem", &problem_text(problem));
    }
    if let Some(next) = &report.next {
        word("hint", next);
    }
    line
}

/// A change with its time, to the second.
pub(crate) fn stamped(now: Timestamp, line: &str) -> String {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    format!("{second} {line}")
}

/// The last line: what it came to.
pub(crate) fn verdict(report: &RolloutReport) -> String {
    let revision = report
        .revisions
        .update
        .as_deref()
        .map_or_else(String::new, |r| format!(" revision {}", plain(r)));
    let text = match report.verdict {
        Verdict::Complete if report.state == State::Idle => {
            "is at rest: nothing has been released yet".to_owned()
        }
        Verdict::Complete => {
            let pods = report
                .workload
                .replicas
                .map_or_else(|| "every pod runs".to_owned(), |n| format!("all {n} pods run"));
            format!(
                "complete: {pods}{}",
                if revision.is_empty() {
                    " the template"
                } else {
                    &revision
                }
            )
        }
        Verdict::RolledBack => format!(
            "rolled back: every pod runs the stable template{}",
            parenthesis(&revision)
        ),
        Verdict::Superseded => "superseded: another template is being released".to_owned(),
        Verdict::Disabled => format!("not in force: {}", or(&report.message, "updates are not held")),
        Verdict::Failing => match report.problems.iter().find(|problem| problem.is_grave()) {
            Some(problem) => format!("failing: {}", problem_text(problem)),
            None => format!("failing: {}", or(&report.message, report.state.word())),
        },
        Verdict::AwaitingApproval if report.state == State::Paused => {
            "paused by spec.strategy.paused".to_owned()
        }
        Verdict::AwaitingApproval => format!(
            "waiting for approval of step {} of {}",
            report.step,
            report.total()
        ),
        Verdict::InProgress => format!("in progress: {}", state_text(report)),
    };
    format!("{} {text}", subject(&report.name))
}

fn parenthesis(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({})", text.trim_start())
    }
}

fn or(text: &str, otherwise: &str) -> String {
    plain(if text.is_empty() { otherwise } else { text })
}

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
const BARS: usize = 10;
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

#[cfg(test)]
mod tests;
