//! What a Rollout says, by the review that it will meet, and by its plan.

use super::{Problem, Rule};
use crate::admission::rollout::review as reviewed;
use crate::api::v1beta1::Rollout;
use crate::names;
use crate::plan::Plan;

/// Reviews a Rollout; `replicas` is how many pods its workload has, where that is known.
pub(super) fn review(document: usize, rollout: &Rollout, replicas: Option<u32>) -> Vec<Problem> {
    let review = reviewed(rollout, None, &[], names::DEFAULT_NAMESPACE);
    let custom = rollout.spec.workload_ref.is_custom();
    let both = rollout.spec.strategy.canary.is_some();
    let mut problems: Vec<_> = review
        .refusals
        .iter()
        .map(|refusal| {
            let rule = rule(&refusal.field, custom, both);
            let text = format!(
                "{} is {}: {}. {}",
                refusal.field, refusal.value, refusal.problem, refusal.remedy
            );
            Problem::error(document, &refusal.field, rule, text)
        })
        .collect();
    for warning in &review.warnings {
        // Each begins with the field that it is about.
        let field = warning.split_whitespace().next().unwrap_or_default();
        let rule = if warning.contains("has no effect") {
            Rule::Schema
        } else {
            Rule::Remainder
        };
        problems.push(Problem::warning(
            document,
            field,
            rule,
            warning.trim_end_matches('.'),
        ));
    }
    if problems
        .iter()
        .all(|problem| problem.level != super::Level::Error)
    {
        problems.extend(idle(document, rollout, replicas));
    }
    problems
}

/// The rule that a refused field belongs to.
fn rule(field: &str, custom: bool, both: bool) -> Rule {
    let leaf = field.rsplit('.').next().unwrap_or_default();
    match leaf {
        "canary" | "steps" => Rule::Strategy,
        "blueGreen" if both => Rule::Strategy,
        "blueGreen"
        | "trafficRoutings"
        | "traffic"
        | "matches"
        | "requestHeaderModifier"
        | "enableExtraWorkloadForCanary"
            if custom =>
        {
            Rule::Custom
        }
        "blueGreen" => Rule::BlueGreen,
        "trafficRoutings"
        | "traffic"
        | "matches"
        | "requestHeaderModifier"
        | "enableExtraWorkloadForCanary" => Rule::Traffic,
        "replicas" | "duration" | "failureThreshold" | "progressDeadlineSeconds" => Rule::Amount,
        _ => Rule::Schema,
    }
}

/// Steps that update no pod.
fn idle(document: usize, rollout: &Rollout, replicas: Option<u32>) -> Vec<Problem> {
    let (Some(canary), Some(replicas)) = (
        &rollout.spec.strategy.canary,
        replicas.filter(|replicas| *replicas > 0),
    ) else {
        return Vec::new();
    };
    let Ok(plan) = Plan::new(canary, replicas) else {
        return Vec::new();
    };
    let mut before = 0;
    let mut problems = Vec::new();
    for number in 1..=canary.steps.len() {
        let step = plan.step(number);
        let field = format!("spec.strategy.canary.steps[{}].replicas", number - 1);
        let written = canary.steps[number - 1]
            .replicas
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        if step.raised {
            let text = format!(
                "step {number} is {written}, fewer than the {before} pods of the step before it: it updates no pod of {replicas}"
            );
            problems.push(Problem::warning(document, &field, Rule::Idle, text));
        } else if step.exposure == before {
            let text = format!(
                "step {number} is {written}, the same {before} of {replicas} pods as the step before it: it updates no pod"
            );
            problems.push(Problem::warning(document, &field, Rule::Idle, text));
        }
        before = step.exposure;
    }
    problems
}
