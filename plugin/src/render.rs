//! From a report to lines. Pure: no terminal, no clock.

mod age;
mod change;
mod detail;
mod diagnosis;
mod diff;
mod fit;
mod frame;
mod list;
mod look;
mod parts;
mod pods;
mod scene;
mod steps;
pub(crate) mod table;
mod tree;

use kruise_rollout::names;
use kruise_rollout::report::{PauseReport, Problem, RolloutReport, State, Verdict};

pub(crate) use age::age;
pub(crate) use change::{change, happening, second, stamped, verdict};
pub(crate) use detail::detail;
pub(crate) use diagnosis::{diagnosis, explanation, fitness, preview, problem, workloads};
pub(crate) use diff::diff;
pub(crate) use frame::{frame, rows};
pub(crate) use list::Columns;
pub(crate) use look::{report, report_wide};
pub(crate) use parts::{event, events, kept_by, pods, revisions};
pub(crate) use scene::{Scene, Shown, Size};

use crate::ui::style::{Role, Theme};

/// What stands in a cell that has nothing.
const NONE: &str = "-";

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
            c if c.is_control() || is_invisible(c) => harmless.extend(c.escape_default()),
            c => harmless.push(c),
        }
    }
    harmless
}

/// Characters that turn the direction of text, break lines or have no width: what is read is not what is there.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// How a state looks.
fn role(state: &State) -> Role {
    match state {
        State::Complete => Role::Good,
        State::WorkloadMissing | State::NotIntercepted | State::Blocked => Role::Bad,
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
    let which = match (&problem.revision, problem.updated) {
        (Some(revision), false) => format!(" (revision {})", plain(revision)),
        _ => String::new(),
    };
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

#[cfg(test)]
mod tests;
