//! D06 to D08, D10 and D12: what a Rollout refers to, and whether it can be released in steps.

use serde_json::{Value, json};

use super::facts::{Answer, Facts, Looked, Subject};
use super::fitness::{Candidate, Verdict, fitness};
use super::{Check, Finding, commands, or_pass, registration, release};
use crate::admission::rollout::WorkloadClaim;
use crate::api::v1beta1::{Rollout, condition};
use crate::names;
use crate::rollout::why;
use crate::workload::{Adapter, TypeLabel, View};

pub(super) fn findings(facts: &Facts, subject: &Subject) -> Vec<Finding> {
    let mut found = reference(facts, subject);
    let resolves = !found
        .iter()
        .any(|finding| finding.severity == super::Severity::Failure)
        || subject.object().is_some();
    found = or_pass(
        found,
        Check::Reference,
        format!("it names {}, and no other Rollout does", subject.target()),
    );
    if !resolves {
        return found;
    }
    let Some(object) = subject.object() else {
        let why = subject.workload.why_not().unwrap_or_default();
        found.extend(
            [Check::Admission, Check::Label, Check::Fitness, Check::Settings]
                .map(|check| Finding::skip(check, why.clone())),
        );
        return found;
    };
    let Some(adapter) = subject.adapter() else {
        let text = format!("workloads of kind {} are not supported", subject.group_kind());
        let advice = "refer to a workload that updates by partition, such as a StatefulSet";
        found.push(Finding::fail(Check::Fitness, 10, text).advice(advice));
        return found;
    };
    let view = match adapter.view(object) {
        Ok(view) => view,
        Err(error) => {
            let text = format!("{} cannot be read: {error}", subject.target());
            let advice = format!("correct {} of {}", error.path, subject.target());
            found.push(Finding::fail(Check::Fitness, 12, text).advice(advice));
            return found;
        }
    };
    found.push(label(facts, subject, &view, adapter));
    found.extend(fit(subject, &view));
    found.extend(or_pass(
        settings(facts, subject, &view, adapter),
        Check::Settings,
        "updates go by the partition",
    ));
    found.push(admission(facts, subject, &view));
    found
}

/// The names of a workload's Rollouts, and whether it is there.
fn reference(facts: &Facts, subject: &Subject) -> Vec<Finding> {
    let mut found = Vec::new();
    let reference = &subject.rollout.spec.workload_ref;
    if reference.group_version().is_none() {
        let text = format!(
            "spec.workloadRef.apiVersion is {:?}: this is no group and version",
            reference.api_version
        );
        let advice = "copy apiVersion from the workload's manifest, for example apps/v1";
        return vec![Finding::fail(Check::Reference, 10, text).advice(advice)];
    }
    found.extend(rival(facts, subject).or_else(|| kept(subject)));
    if matches!(subject.plural, Looked::Seen(None)) {
        let text = format!(
            "the server has no kind {} in {}",
            reference.kind, reference.api_version
        );
        let advice = format!(
            "install its CRD, or correct spec.workloadRef of {}",
            subject.name()
        );
        found.push(Finding::fail(Check::Reference, 10, text).advice(advice));
        return found;
    }
    match &subject.workload {
        Looked::Seen(None) => {
            let text = format!(
                "there is no {} in namespace {}",
                subject.target(),
                subject.namespace()
            );
            let advice = format!(
                "create it, or correct spec.workloadRef; those that there are: kubectl get {} -n {}",
                subject.resource(),
                subject.namespace()
            );
            found.push(Finding::fail(Check::Reference, 10, text).advice(advice));
        }
        Looked::Seen(Some(object)) if !object["metadata"]["deletionTimestamp"].is_null() => {
            let text = format!("{} is being deleted", subject.target());
            found.push(
                Finding::warn(Check::Reference, 11, text).advice("create it again, or delete the Rollout"),
            );
        }
        _ => {}
    }
    found
}

/// A workload that stays held for a Rollout that has gone: what the controller says of it.
fn kept(subject: &Subject) -> Option<Finding> {
    let stalled = release::stall(subject).filter(|stalled| stalled.reason == why::CONFLICT)?;
    Some(Finding::fail(Check::Reference, 16, stalled.message.clone()).advice("see the message"))
}

/// Another Rollout of the same workload: the one that does not act is to go.
fn rival(facts: &Facts, subject: &Subject) -> Option<Finding> {
    let own = WorkloadClaim::of(&subject.rollout)?;
    let others = facts.rollouts.seen()?;
    let claims = |rollout: &&Rollout| {
        rollout.metadata.deletion_timestamp.is_none()
            && WorkloadClaim::of(rollout).is_some_and(|claim| claim.conflicts_with(&own))
    };
    let other = others.iter().find(claims)?;
    let name = |rollout: &Rollout| rollout.metadata.name.clone().unwrap_or_default();
    let governs = subject
        .view()
        .and_then(Result::ok)
        .and_then(|view| view.guard().map(|guard| guard.rollout.clone()));
    let idle = match &governs {
        Some(acting) if *acting == name(other) => name(&subject.rollout),
        Some(_) => name(other),
        // The younger one is the mistake, as likely as not.
        None => {
            let born = |rollout: &Rollout| rollout.metadata.creation_timestamp.as_ref().map(|time| time.0);
            name(if born(other) > born(&subject.rollout) {
                other
            } else {
                &subject.rollout
            })
        }
    };
    let text = format!(
        "two Rollouts name {}: {} and {}",
        subject.target(),
        name(&subject.rollout),
        name(other)
    );
    let mut finding = Finding::fail(Check::Reference, 15, text);
    if let Some(acting) = governs {
        finding = finding.because(format!("it is governed by {acting}"));
    }
    Some(finding.command(format!(
        "kubectl delete rollouts.{} {idle} -n {}",
        names::GROUP,
        subject.namespace()
    )))
}

fn label(facts: &Facts, subject: &Subject, view: &View, adapter: &dyn Adapter) -> Finding {
    let (name, value) = (names::WORKLOAD_TYPE, adapter.type_label());
    let command = |more: &str| {
        format!(
            "kubectl kruise workload label {} -n {}{more}",
            subject.target(),
            subject.namespace()
        )
    };
    match &view.label {
        TypeLabel::Right => Finding::pass(Check::Label, format!("{name}={value}")),
        TypeLabel::Missing if !subject.group_kind().is_custom() && !super::installation::is_down(facts) => {
            Finding::note(
                Check::Label,
                75,
                format!(
                    "{} has no label {name} yet: the controller sets it",
                    subject.target()
                ),
            )
        }
        TypeLabel::Missing => Finding::fail(
            Check::Label,
            20,
            format!(
                "{} has no label {name}: its updates are not held, they roll at once",
                subject.target()
            ),
        )
        .command(command("")),
        TypeLabel::Wrong(present) => Finding::fail(
            Check::Label,
            20,
            format!(
                "{} has the label {name}={present}, not {value}: its updates are not held",
                subject.target()
            ),
        )
        .command(command(" --overwrite")),
    }
}

fn fit(subject: &Subject, view: &View) -> Vec<Finding> {
    let reference = &subject.rollout.spec.workload_ref;
    let candidate = Candidate {
        kind: &subject.group_kind(),
        version: reference.group_version().map_or("", |(_, version)| version),
        definition: subject.definition.seen().and_then(Option::as_ref),
        object: subject.object(),
        probe: None,
    };
    let mut found = Vec::new();
    let Some(fitness) = fitness(&candidate, &subject.target()) else {
        return found;
    };
    for row in fitness
        .rows
        .into_iter()
        .filter(|row| row.verdict == Verdict::Unfit)
    {
        // What the operator reports is the matter of another check.
        let check = if row.field.starts_with("status.") {
            Check::Operator
        } else {
            Check::Fitness
        };
        if row.field.ends_with("updateStrategy.type") {
            continue;
        }
        let rank = if check == Check::Operator { 40 } else { 30 };
        let text = format!(
            "{} of {}: {}",
            row.field,
            subject.resource(),
            row.why.unwrap_or_default()
        );
        let mut finding = Finding::fail(check, rank, text).because(format!(
            "schema: {}; live: {}",
            row.schema,
            row.live.as_deref().unwrap_or("not seen")
        ));
        finding.remedy = row.remedy;
        found.push(finding);
    }
    let unfit = found.iter().any(|finding| finding.check == Check::Fitness);
    if let Some(refused) = not_guarded(subject).filter(|_| !unfit && view.label == TypeLabel::Right) {
        found.push(refused);
    }
    let why = subject.definition.why_not();
    match why {
        Some(why) if !found.iter().any(|finding| finding.check == Check::Fitness) => {
            found.push(Finding::skip(
                Check::Fitness,
                format!("the schema is not known: {why}"),
            ));
            found
        }
        _ => or_pass(
            found,
            Check::Fitness,
            "its schema has every field that a release needs",
        ),
    }
}

/// What the API server answered when the controller tried whether the workload can be held.
fn not_guarded(subject: &Subject) -> Option<Finding> {
    let conditions = &subject.rollout.status.as_ref()?.conditions;
    let guarded = condition::get(conditions, condition::GUARDED).filter(|c| c.status == condition::FALSE)?;
    let told_elsewhere = [
        why::DISABLED,
        why::LABEL_MISSING,
        why::LABEL_WRONG,
        why::STRATEGY,
        why::CONFLICT,
        why::LEFT,
    ];
    if told_elsewhere.contains(&guarded.reason.as_str()) {
        return None;
    }
    let text = format!("{} cannot be held: {}", subject.target(), guarded.message);
    let check = format!(
        "kubectl kruise workload check {} -n {} --probe",
        subject.target(),
        subject.namespace()
    );
    Some(
        Finding::fail(Check::Fitness, 30, text)
            .because(format!("condition Guarded=False, reason {}", guarded.reason))
            .advice(format!("find the field with: {check}")),
    )
}

fn settings(facts: &Facts, subject: &Subject, view: &View, adapter: &dyn Adapter) -> Vec<Finding> {
    let mut found = Vec::new();
    if let (Some(strategy), Some(path)) = (&view.other_strategy, adapter.strategy_type_path()) {
        let text = format!(
            "{} of {} is {strategy}: its pods do not follow the partition",
            path.join("."),
            subject.target()
        );
        let command = commands::patch_workload(subject, &nested(path, json!("RollingUpdate")));
        found.push(Finding::fail(Check::Settings, 25, text).command(command));
    }
    if let Some(paused) = adapter.paths().paused.as_ref().filter(|_| view.paused) {
        let path = paused.path();
        let text = format!(
            "{} of {} is true: its operator updates no pod",
            path.join("."),
            subject.target()
        );
        let command = commands::patch_workload(subject, &nested(path, json!(false)));
        found.push(Finding::fail(Check::Settings, 26, text).command(command));
    }
    if view.replicas == 0 && view.replicas_known {
        let text = format!(
            "{} has 0 replicas: a release has no pods to update, and every step is done at once",
            subject.target()
        );
        let command = format!(
            "kubectl scale {} -n {} --replicas=1",
            subject.target(),
            subject.namespace()
        );
        found.push(Finding::warn(Check::Settings, 70, text).command(command));
    }
    let object = subject.object().unwrap_or(&Value::Null);
    let id = object["metadata"]["annotations"]
        .get(names::ROLLOUT_ID)
        .and_then(Value::as_str);
    if let Some(id) = id.filter(|id| facts.controller.is_legacy() && !id.is_empty()) {
        let text = format!(
            "the annotation {} stays {id:?}: the installed controller holds a change only if it changes too",
            names::ROLLOUT_ID
        );
        let patch = json!({"metadata": {"annotations": {names::ROLLOUT_ID: null}}});
        found.push(
            Finding::warn(Check::Settings, 72, text).command(commands::patch_workload(subject, &patch)),
        );
    }
    found
}

fn nested(path: &[&str], value: Value) -> Value {
    path.iter().rev().fold(value, |inner, name| json!({*name: inner}))
}

/// What a dry-run of a template change has shown.
fn admission(facts: &Facts, subject: &Subject, view: &View) -> Finding {
    let guarded = subject
        .rollout
        .status
        .as_ref()
        .and_then(|status| condition::get(&status.conditions, condition::GUARDED))
        .is_some_and(|guarded| guarded.status == condition::TRUE);
    match &subject.probe {
        Looked::Seen(Answer::Held) => Finding::pass(Check::Admission, "a dry-run of a template change came back held"),
        Looked::Seen(Answer::NotHeld)
            if !guarded || view.label != TypeLabel::Right || registration::elsewhere(facts).is_some() => Finding::warn(
            Check::Admission,
            38,
            format!("a change of the template of {} would roll at once: it is not guarded", subject.target()),
        )
        .advice("mend what else is found here"),
        Looked::Seen(Answer::NotHeld) => Finding::fail(
            Check::Admission,
            9,
            format!("a change of the template of {} would roll at once, although its Rollout says that it is guarded", subject.target()),
        )
        .because("a dry-run came back with the partition that it was sent with")
        .command(format!("kubectl delete mutatingwebhookconfiguration {}", registration::name_of(facts, names::WEBHOOK_CONFIGURATION))),
        Looked::Seen(Answer::Refused(answer)) => {
            let finding = Finding::fail(Check::Admission, 6, format!("every change of the template of {} is refused", subject.target()))
                .because(answer.clone());
            if answer.contains("failed calling webhook") {
                finding.advice(
                    "the API server does not reach the webhook: start the controller, and let the control plane reach its port 9443",
                )
            } else {
                finding.advice("another admission refuses it: see the answer")
            }
        }
        other => Finding::skip(Check::Admission, other.why_not().unwrap_or_default()),
    }
}
