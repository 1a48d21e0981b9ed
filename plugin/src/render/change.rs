use jiff::Timestamp;
use kruise_rollout::report::{PauseReport, RolloutReport, State, StepProgress, Verdict};

use super::{count, plain, problem_text, state_text, subject};
use crate::cluster::Happening;

/// One change, as words that programs can split: `my-app-rollout step=1/3 state=Upgrading updated=0/1 ready=5/5`.
pub(crate) fn change(report: &RolloutReport) -> String {
    let workload = &report.workload;
    let mut line = report.name.clone();
    let mut word = |name: &str, value: &str| line.push_str(&word(name, value));
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

/// ` name=value`, in quotes where it has to be.
fn word(name: &str, value: &str) -> String {
    if value.is_empty() || value.contains([' ', '"', '\\']) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!(" {name}=\"{value}\"")
    } else {
        format!(" {name}={value}")
    }
}

/// An event, in the same words: `my-app-rollout event=FailedCreate type=Warning object=StatefulSet/web message="…"`.
pub(crate) fn happening(rollout: &str, event: &Happening) -> String {
    let mut line = rollout.to_owned();
    let kind = if event.warning { "Warning" } else { "Normal" };
    line.push_str(&word("event", &plain(&event.reason)));
    line.push_str(&word("type", kind));
    line.push_str(&word("object", &plain(&event.object)));
    if event.count > 1 {
        line.push_str(&word("count", &event.count.to_string()));
    }
    line.push_str(&word("message", &plain(&event.message)));
    line
}

/// A change with its time, to the second.
pub(crate) fn stamped(now: Timestamp, line: &str) -> String {
    format!("{} {line}", second(now))
}

/// A time to the second, as RFC 3339 has it.
pub(crate) fn second(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
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
