//! D11: what a release does, and what it waits for.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::facts::{Facts, Looked, Subject};
use super::{Check, Finding, commands, or_pass, registration};
use crate::api::v1beta1::{Condition, condition, step_state};
use crate::names;
use crate::report::{PauseReport, Problem, RolloutReport, Seen, Sources, State};
use crate::rollout::why;
use crate::workload::View;

/// A state that the controller leaves at once has lasted too long after this time.
const LATE: SignedDuration = SignedDuration::from_secs(30);
/// A timed pause that is over so long is overdue.
const OVERDUE: SignedDuration = SignedDuration::from_secs(60);
/// How many pods are named.
const NAMED: usize = 3;

pub(super) fn findings(facts: &Facts, subject: &Subject) -> Vec<Finding> {
    let view = subject.view().and_then(Result::ok);
    let report = report(facts, subject, view.as_ref());
    let mut found = broken_pods(subject, &report);
    found.extend(unseen(facts, subject));
    found.extend(stalled(subject));
    found.extend(breach(subject, &report));
    found.extend(state(facts, subject, &report, view.as_ref()));
    or_pass(found, Check::Progress, report.state.word())
}

/// The report that every view is made from.
pub(super) fn report(facts: &Facts, subject: &Subject, view: Option<&View>) -> RolloutReport {
    let workload = match (&subject.workload, view) {
        (_, Some(view)) => Seen::Present(view),
        (Looked::Seen(None), None) => Seen::Missing,
        // Where there is no such kind there is nothing of it.
        _ if matches!(subject.plural, Looked::Seen(None)) => Seen::Missing,
        _ => Seen::Unknown,
    };
    RolloutReport::new(&Sources {
        rollout: &subject.rollout,
        workload,
        pods: subject.pods.seen().map(Vec::as_slice),
        followed: None,
        hidden: &[],
        workload_changed: None,
        now: facts.now,
    })
}

fn named(problems: &[&Problem]) -> String {
    let mut names: Vec<_> = problems
        .iter()
        .take(NAMED)
        .map(|problem| problem.pod.clone())
        .collect();
    if problems.len() > NAMED {
        names.push(format!("{} more", problems.len() - NAMED));
    }
    names.join(", ")
}

/// Pods that will not be ready by waiting.
fn broken_pods(subject: &Subject, report: &RolloutReport) -> Vec<Finding> {
    let mut found = Vec::new();
    let namespace = subject.namespace();
    let why = |problem: &Problem| {
        let pods = subject.pods.seen().into_iter().flatten();
        let pod = pods.into_iter().find(|pod| pod.name == problem.pod);
        let trouble = pod
            .and_then(|pod| pod.trouble.as_ref())
            .map(|trouble| trouble.why.clone());
        trouble.or_else(|| problem.reason.clone()).unwrap_or_default()
    };
    let grave: Vec<_> = report
        .problems
        .iter()
        .filter(|problem| problem.is_grave())
        .collect();
    if let Some(first) = grave.first().filter(|_| report.state.is_releasing()) {
        let text = format!(
            "pods of the new template do not start ({}): {}",
            named(&grave),
            why(first)
        );
        found.push(
            Finding::fail(Check::Progress, 45, text)
                .because(format!(
                    "their log: kubectl logs {} -n {namespace} --previous",
                    first.pod
                ))
                .command(format!("{} --yes", commands::ours(subject, "rollout undo"))),
        );
    }
    let stuck = report
        .problems
        .iter()
        .find(|problem| problem.broken && !problem.updated);
    if let Some(pod) = stuck.filter(|_| report.state == State::RollingBack) {
        let text = format!(
            "pod {} of the abandoned template is in the way: {}",
            pod.pod,
            why(pod)
        );
        let command = format!("kubectl delete pod {} -n {namespace}", pod.pod);
        found.push(Finding::warn(Check::Progress, 46, text).command(command));
    }
    let unscheduled: Vec<_> = report
        .problems
        .iter()
        .filter(|problem| problem.reason.as_deref() == Some("Unschedulable"))
        .collect();
    if let Some(first) = unscheduled.first() {
        let text = format!("no node takes these pods: {}", named(&unscheduled));
        let advice = format!(
            "make room, or lower their requests: kubectl describe pod {} -n {namespace}",
            first.pod
        );
        found.push(Finding::fail(Check::Progress, 50, text).advice(advice));
    }
    found
}

/// A change of the Rollout that nobody has looked at.
fn unseen(facts: &Facts, subject: &Subject) -> Option<Finding> {
    let metadata = &subject.rollout.metadata;
    let generation = metadata.generation?;
    let seen = subject
        .rollout
        .status
        .as_ref()
        .map_or(-1, |status| status.observed_generation);
    if seen >= generation {
        return None;
    }
    let writes = metadata.managed_fields.iter().flatten();
    let times = writes.filter(|write| write.subresource.as_deref() != Some("status"));
    let changed = times
        .filter_map(|write| write.time.as_ref().map(|time| time.0))
        .max();
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = changed.or(created)?;
    (facts.now.duration_since(since) > LATE).then(|| {
        let text = format!(
            "the controller has not looked at {} since it was changed at {since:.0}",
            subject.name()
        );
        down(facts, Finding::fail(Check::Progress, 3, text)).because(format!(
            "metadata.generation {generation}, status.observedGeneration {seen}"
        ))
    })
}

/// What to do about a controller that does not do its work.
fn down(facts: &Facts, finding: Finding) -> Finding {
    if registration::elsewhere(facts).is_some() {
        return finding.advice("no controller was found that governs the namespace: mend this first");
    }
    let namespace = &facts.controller.namespace;
    let name = if facts.controller.is_legacy() {
        names::LEGACY_DEPLOYMENT
    } else {
        names::CONTROLLER
    };
    match facts.controller.deployment(name) {
        Some(deployment) if deployment["spec"]["replicas"] != 0 => {
            finding.command(commands::restart(name, namespace))
        }
        Some(_) => finding.command(commands::scale(name, namespace, 2)),
        None => finding.advice(format!("start {} run", names::CONTROLLER)),
    }
}

/// What keeps the release where it is, as the controller says.
pub(super) fn stall(subject: &Subject) -> Option<&Condition> {
    let conditions = &subject.rollout.status.as_ref()?.conditions;
    condition::get(conditions, condition::STALLED).filter(|stalled| stalled.status == condition::TRUE)
}

/// What the controller says is wrong, where no rule of ours says it better.
fn stalled(subject: &Subject) -> Option<Finding> {
    let stalled = stall(subject)?;
    let text = stalled.message.clone();
    let finding = match stalled.reason.as_str() {
        why::LABEL_MISSING
        | why::LABEL_WRONG
        | why::STRATEGY
        | why::CONFLICT
        | why::NO_KIND
        | why::MALFORMED
        | why::UNREADABLE
        | why::NO_OBSERVED_GENERATION
        | why::SILENT
        | why::IN_THE_WAY => return None,
        why::LEFT => {
            Finding::fail(Check::Progress, 13, text).command(commands::ours(subject, "rollout disable"))
        }
        why::DEADLINE => Finding::fail(Check::Progress, 51, text)
            .advice("mend what holds the pods up, or go back with kubectl kruise rollout undo"),
        why::PLAN => {
            let lint = format!(
                "kubectl get rollouts.{} {} -n {} -o yaml | kubectl kruise rollout lint -f -",
                names::GROUP,
                subject.rollout_name(),
                subject.namespace()
            );
            Finding::fail(Check::Progress, 14, text)
                .advice(format!("correct the steps; all problems: {lint}"))
        }
        _ if guarded_is_false(subject) => return None,
        _ => Finding::fail(Check::Progress, 35, text).advice("see the message"),
    };
    Some(finding.because(format!("condition Stalled=True, reason {}", stalled.reason)))
}

fn guarded_is_false(subject: &Subject) -> bool {
    let conditions = subject.rollout.status.as_ref().map(|status| &status.conditions);
    conditions
        .and_then(|conditions| condition::get(conditions, condition::GUARDED))
        .is_some_and(|guarded| guarded.status == condition::FALSE)
}

fn breach(subject: &Subject, report: &RolloutReport) -> Option<Finding> {
    let breach = report.breach?;
    let text = format!(
        "{} more pods run the new template than the step allows: its operator does not heed the partition, or somebody opened it",
        breach.beyond
    );
    Some(
        Finding::warn(Check::Operator, 42, text)
            .because(format!("{} are allowed", breach.allowed))
            .advice(format!(
                "the operator of {} must keep pods below the partition on the current revision",
                subject.group_kind()
            )),
    )
}

/// When the step came into its present state.
fn entered(subject: &Subject) -> Option<Timestamp> {
    let canary = subject.rollout.status.as_ref()?.canary_status.as_ref()?;
    canary.last_update_time.as_ref().map(|time| time.0)
}

fn state(facts: &Facts, subject: &Subject, report: &RolloutReport, view: Option<&View>) -> Option<Finding> {
    // Nobody takes it further, whatever its state says.
    if stall(subject).is_some_and(|stalled| [why::LEFT, why::CONFLICT].contains(&stalled.reason.as_str())) {
        return None;
    }
    let lasted = entered(subject).map(|since| facts.now.duration_since(since));
    let late = lasted.is_some_and(|lasted| lasted > LATE);
    let seconds = lasted.map_or(0, |lasted| lasted.as_secs());
    let step = format!("step {} of {}", report.step, report.total());
    let note = |rank, text: String| Finding::note(Check::Progress, rank, text);
    Some(match &report.state {
        State::AwaitingApproval => note(65, format!("{step} is done and waits for approval"))
            .command(commands::ours(subject, "rollout approve")),
        State::Paused => note(64, "the release is paused by spec.strategy.paused".to_owned())
            .command(commands::ours(subject, "rollout resume")),
        State::Disabled if subject.rollout.spec.disabled => note(
            63,
            "the Rollout is disabled by spec.disabled: updates are not held, they roll at once".to_owned(),
        )
        .command(commands::ours(subject, "rollout enable")),
        State::Blocked => Finding::fail(
            Check::Progress,
            36,
            "another template came in mid-release, and a blue-green release takes none".to_owned(),
        )
        .command(commands::ours(subject, "rollout undo")),
        State::TimedPause => timed(facts, subject, report, &step),
        State::NotIntercepted => Finding::fail(
            Check::Progress,
            37,
            format!(
                "the template of {} changed, and nobody holds its update",
                subject.target()
            ),
        )
        .advice("mend what else is found here; the next change is held then"),
        State::Pending => {
            let text = format!(
                "{} is held, and the controller has not taken the change up",
                subject.target()
            );
            if report.phase.is_empty() || late {
                down(facts, Finding::fail(Check::Progress, 4, text))
            } else {
                note(74, text)
            }
        }
        State::Approved | State::Starting if late => {
            let text = format!("{step} has been {} for {seconds} s", report.state.word());
            down(facts, Finding::fail(Check::Progress, 4, text))
        }
        State::Upgrading | State::Starting | State::Approved | State::Finalising => note(
            73,
            format!(
                "{step}: {} of {} pods are updated",
                counted(report.workload.updated),
                target(report)
            ),
        ),
        State::RollingBack => note(73, "pods return to the stable template, without steps".to_owned()),
        State::RoutingTraffic | State::Analyzing => note(73, format!("{step} is {}", report.state.word())),
        State::Deleting => deleting(subject),
        State::Disabling => note(73, "the Rollout lets go of its workload".to_owned()),
        State::Complete | State::RolledBack => note(85, resting(subject, report, view)),
        State::Idle if report.phase.is_empty() => {
            let text = "the controller has not looked at the Rollout yet".to_owned();
            note(84, text)
        }
        State::Idle => note(85, resting(subject, report, view)),
        State::Unknown(word) => Finding::warn(
            Check::Progress,
            76,
            format!("the state {word:?} is not known to this plugin"),
        )
        .advice("update the plugin"),
        State::Disabled | State::WorkloadMissing | State::Superseded => return None,
    })
}

fn counted(count: Option<u32>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

fn target(report: &RolloutReport) -> String {
    let step = report.steps.get(report.step.saturating_sub(1));
    counted(step.and_then(|step| step.target))
}

fn resting(subject: &Subject, report: &RolloutReport, view: Option<&View>) -> String {
    let last = match report.state {
        State::RolledBack => "; the last release went back",
        _ if report.step_state == step_state::COMPLETED => "; the last release is done",
        _ => "",
    };
    match view {
        Some(_) => format!(
            "nothing is being released{last}: a release begins with a change of the template of {}",
            subject.target()
        ),
        None => format!("nothing is being released{last}"),
    }
}

/// A pause that ends by itself, unless nobody is there to end it.
fn timed(facts: &Facts, subject: &Subject, report: &RolloutReport, step: &str) -> Finding {
    let (seconds, remaining) = match report.pause {
        Some(PauseReport::Time {
            seconds,
            remaining_seconds,
        }) => (seconds, remaining_seconds),
        _ => (0, 0),
    };
    if remaining > 0 {
        return Finding::note(
            Check::Progress,
            66,
            format!("{step} is done and goes on by itself in {remaining} s"),
        )
        .command(commands::ours(subject, "rollout approve"));
    }
    let end =
        entered(subject).and_then(|since| since.checked_add(SignedDuration::from_secs(seconds.into())).ok());
    let over = end.map(|end| facts.now.duration_since(end));
    match over.filter(|over| *over > OVERDUE) {
        Some(over) => {
            let text = format!(
                "the pause of {step} is over since {} s, and nobody has gone on",
                over.as_secs()
            );
            down(facts, Finding::fail(Check::Progress, 4, text))
        }
        None => Finding::note(
            Check::Progress,
            66,
            format!("the pause of {step} is over; it goes on now"),
        ),
    }
}

/// Deletion waits for finalizers of somebody.
fn deleting(subject: &Subject) -> Finding {
    let finalizers = subject.rollout.metadata.finalizers.clone().unwrap_or_default();
    if finalizers.is_empty() {
        return Finding::note(
            Check::Progress,
            73,
            "the Rollout is being deleted; its workload is released",
        );
    }
    let text = format!(
        "the Rollout is being deleted and waits for {}",
        finalizers.join(", ")
    );
    Finding::warn(Check::Progress, 61, text).command(commands::patch_rollout(
        subject,
        &json!({"metadata": {"finalizers": null}}),
    ))
}
