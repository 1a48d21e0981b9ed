use super::{Problem, RolloutReport, State};
use crate::api::v1beta1::{Rollout, condition};
use crate::rollout::why;
use crate::workload::pod::names_revision;
use crate::workload::{TypeLabel, View};

/// The command that takes this state further.
pub(super) fn next(report: &RolloutReport, rollout: &Rollout, view: Option<&View>) -> Option<String> {
    let (name, namespace) = (&report.name, &report.namespace);
    let conditions = rollout.status.as_ref().map(|status| status.conditions.as_slice());
    let stalled = conditions.and_then(|conditions| condition::get(conditions, condition::STALLED));
    if stalled.is_some_and(|stalled| stalled.status == condition::TRUE && stalled.reason == why::LEFT) {
        // An approval would move nothing.
        return Some(format!(
            "kubectl kruise rollout disable rollout/{name} -n {namespace}"
        ));
    }
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
        .find(|problem| problem.broken && !problem.updated && !held_back(problem))
}
