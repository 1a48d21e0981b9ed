//! D05: whether writes to the workloads come by admission.

use serde_json::Value;

use super::facts::{Facts, Subject};
use super::{Check, Finding, commands, installation};
use crate::admission::policy::{Governed, Names};
use crate::area::{Area, in_part, is_registration, overlap, registered_selector};
use crate::names;
use crate::workload::TypeLabel;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let registrations = &facts.registrations;
    if registrations.webhooks.seen().is_none() {
        let why = registrations.webhooks.why_not().unwrap_or_default();
        return vec![Finding::skip(Check::Registration, why)];
    }
    if facts.controller.is_legacy() {
        return vec![legacy(facts)];
    }
    let Some(configuration) = registrations.configuration(&name_of(facts, names::WEBHOOK_CONFIGURATION))
    else {
        return vec![missing(facts)];
    };
    if let Some(elsewhere) = elsewhere(facts) {
        return vec![elsewhere];
    }
    let entries = || configuration["webhooks"].as_array().into_iter().flatten();
    let mut found = Vec::new();
    if let Some(entry) = entries().find(|entry| trusts_nobody(entry)) {
        let name = entry["name"].as_str().unwrap_or_default();
        let text =
            format!("the webhook entry {name} has no caBundle: the API server trusts nobody behind it");
        found.push(rewrite(facts, Finding::fail(Check::Registration, 33, text)));
    }
    found.extend(
        facts
            .subjects
            .iter()
            .filter_map(|subject| of_kind(facts, subject, configuration)),
    );
    found.extend(unreachable(facts, configuration));
    found.extend(beside(facts));
    found.extend(overlapping(facts, configuration));
    if found.is_empty() {
        let kinds = entries()
            .filter(|entry| {
                entry["name"]
                    .as_str()
                    .is_some_and(|name| name.ends_with(names::HOLD_WEBHOOK))
            })
            .count();
        let needless = entries()
            .filter(|entry| entry["failurePolicy"] == "Ignore")
            .count();
        let text = match needless {
            0 => format!("{kinds} kinds are registered; their updates need the webhook"),
            _ => format!("{kinds} kinds are registered; policies of the API server hold without the webhook"),
        };
        found.push(Finding::pass(Check::Registration, text));
    }
    found
}

/// The controller that was looked at governs a part of the cluster, and not the namespace that was looked at.
pub(super) fn elsewhere(facts: &Facts) -> Option<Finding> {
    let configuration = facts
        .registrations
        .configuration(&name_of(facts, names::WEBHOOK_CONFIGURATION))?;
    let governed = Area::selected(registered_selector(configuration)?)?;
    let (installed, namespace) = (&facts.controller.namespace, &facts.namespace);
    if governed.contains(&namespace.as_str()) {
        return None;
    }
    let text = format!(
        "the controller in namespace {installed} does not govern namespace {namespace}: no update is held there, and no release moves"
    );
    let finding = Finding::fail(Check::Registration, 2, text)
        .because(format!("it governs {}", governed.join(", ")))
        .advice(
            "name the controller that governs it by --controller-namespace; if there is none, add it to --watch-namespaces of one",
        );
    Some(finding)
}

/// Name of one of the registrations of the controller that was looked at. Where it governs a part of the cluster, it has named them
/// after its namespace.
pub(super) fn name_of(facts: &Facts, plain: &str) -> String {
    let namespace = &facts.controller.namespace;
    let of_part = in_part(names::WEBHOOK_CONFIGURATION, namespace);
    match facts.registrations.configuration(&of_part) {
        Some(_) => in_part(plain, namespace),
        None => plain.to_owned(),
    }
}

/// The controller writes its configuration anew when there is none.
fn rewrite(facts: &Facts, finding: Finding) -> Finding {
    if installation::is_down(facts) {
        finding.advice("start the controller: it writes its registrations itself")
    } else {
        finding.command(format!(
            "kubectl delete mutatingwebhookconfiguration {}",
            name_of(facts, names::WEBHOOK_CONFIGURATION)
        ))
    }
}

fn missing(facts: &Facts) -> Finding {
    let text = format!(
        "there is no mutating webhook configuration {}: no update is held",
        names::WEBHOOK_CONFIGURATION
    );
    let finding = Finding::fail(Check::Registration, 8, text);
    let namespace = &facts.controller.namespace;
    match facts.controller.deployment(names::CONTROLLER) {
        Some(_) if !installation::is_down(facts) => {
            finding.command(commands::restart(names::CONTROLLER, namespace))
        }
        _ => finding.advice("start the controller: it writes its registrations itself"),
    }
}

fn trusts_nobody(entry: &Value) -> bool {
    entry["clientConfig"]["caBundle"]
        .as_str()
        .is_none_or(str::is_empty)
}

/// The entry of the subject's kind, where there has to be one.
fn of_kind(facts: &Facts, subject: &Subject, configuration: &Value) -> Option<Finding> {
    let plural = subject.plural.seen().cloned().flatten()?;
    let view = subject.view()?.ok()?;
    if view.label != TypeLabel::Right || subject.rollout.spec.disabled {
        return None;
    }
    let group = subject.group_kind().group;
    let has = |values: &Value, wanted: &str| {
        let mut values = values.as_array().into_iter().flatten();
        values.any(|value| value == wanted || value == "*")
    };
    let covers = |entry: &&Value| {
        let rules = entry["rules"].as_array().into_iter().flatten();
        entry["name"]
            .as_str()
            .is_some_and(|name| name.ends_with(names::HOLD_WEBHOOK))
            && rules.into_iter().any(|rule| {
                has(&rule["apiGroups"], &group)
                    && has(&rule["resources"], &plural)
                    && has(&rule["operations"], "UPDATE")
            })
    };
    let resource = subject.resource();
    let entry = configuration["webhooks"]
        .as_array()
        .into_iter()
        .flatten()
        .find(covers);
    let finding = match entry {
        None => Finding::fail(
            Check::Registration,
            9,
            format!("updates of {resource} do not come by admission: no webhook entry has a rule for them"),
        ),
        Some(entry)
            if entry["objectSelector"]["matchLabels"]
                .get(names::WORKLOAD_TYPE)
                .is_none() =>
        {
            Finding::fail(
                Check::Registration,
                9,
                format!(
                    "the webhook entry for {resource} does not select the label {}",
                    names::WORKLOAD_TYPE
                ),
            )
        }
        Some(entry) if entry["failurePolicy"] == "Ignore" => {
            return policies(facts, subject, &plural);
        }
        Some(_) => return None,
    };
    Some(rewrite(facts, finding).of(subject.name()))
}

/// An entry may only fail while policies hold in its place.
fn policies(facts: &Facts, subject: &Subject, plural: &str) -> Option<Finding> {
    let whole = Area::whole(&facts.controller.namespace);
    let name = name_of(facts, &Names::of(subject.adapter()?, &whole)?.hold);
    let (policies, bindings) = (
        facts.registrations.policies.seen()?.as_ref()?,
        facts.registrations.bindings.seen()?.as_ref()?,
    );
    let group = subject.group_kind().group;
    let holds = policies.iter().any(|policy| {
        policy["metadata"]["name"] == name.as_str()
            && Governed::read_all(&policy["spec"])
                .iter()
                .any(|kind| kind.group == group && kind.plural == plural)
    });
    let bound = bindings
        .iter()
        .any(|binding| binding["spec"]["policyName"] == name.as_str());
    if holds && bound {
        return None;
    }
    let text = format!(
        "the webhook of {} may fail, but the policy {name} that holds in its place is not in force",
        subject.resource()
    );
    Some(rewrite(facts, Finding::fail(Check::Registration, 9, text)).of(subject.name()))
}

/// The Service in front of the webhook has nobody behind it.
fn unreachable(facts: &Facts, configuration: &Value) -> Option<Finding> {
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    let service = entries
        .into_iter()
        .map(|entry| &entry["clientConfig"]["service"])
        .find(|service| service.is_object())?;
    let slices = facts.registrations.endpoints.seen()?;
    let endpoints = slices
        .iter()
        .filter_map(|slice| slice["endpoints"].as_array())
        .flatten();
    let ready = endpoints
        .into_iter()
        .any(|endpoint| endpoint["conditions"]["ready"] != false);
    if ready {
        return None;
    }
    let text = |part: &str| service[part].as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (text("name"), text("namespace"));
    let none = format!("the Service {namespace}/{name} of the webhook has no ready endpoint");
    let deployment = if facts.controller.is_legacy() {
        names::LEGACY_DEPLOYMENT
    } else {
        names::CONTROLLER
    };
    Some(Finding::fail(Check::Registration, 7, none).command(commands::restart(deployment, &namespace)))
}

/// The registration of the existing controller, beside ours.
fn beside(facts: &Facts) -> Option<Finding> {
    let name = names::LEGACY_WEBHOOK_CONFIGURATION;
    facts.registrations.configuration(name)?;
    let text = format!(
        "the controller of OpenKruise Rollouts is registered too, by {name}: where it runs, both write the same workloads, and where it \
         does not, updates of labelled workloads are refused"
    );
    let command = format!("kubectl delete mutatingwebhookconfiguration {name}");
    Some(Finding::fail(Check::Registration, 6, text).command(command))
}

/// Other controllers of ours that govern a namespace of this one's.
fn overlapping(facts: &Facts, own: &Value) -> Vec<Finding> {
    let Some(selector) = registered_selector(own) else {
        return Vec::new();
    };
    let all = facts.registrations.webhooks.seen().into_iter().flatten();
    let others = all.filter(|other| other["metadata"]["name"] != own["metadata"]["name"]);
    let said = others.filter_map(|other| {
        let name = other["metadata"]["name"]
            .as_str()
            .filter(|name| is_registration(name))?;
        let overlap = overlap(selector, name, registered_selector(other)?)?;
        Some(Finding::fail(Check::Registration, 6, overlap.text).advice(overlap.remedy))
    });
    said.collect()
}

/// The existing controller has one entry for all labelled objects.
fn legacy(facts: &Facts) -> Finding {
    let name = names::LEGACY_WEBHOOK_CONFIGURATION;
    let Some(configuration) = facts.registrations.configuration(name) else {
        return Finding::fail(
            Check::Registration,
            8,
            format!("there is no mutating webhook configuration {name}: no update is held"),
        )
        .advice("apply the manifests of the installed controller again");
    };
    if let Some(finding) = unreachable(facts, configuration) {
        return finding;
    }
    let mut entries = configuration["webhooks"].as_array().into_iter().flatten();
    if entries.any(trusts_nobody) {
        let text =
            format!("an entry of {name} has no caBundle: every update of a labelled workload is refused");
        let restart = commands::restart(names::LEGACY_DEPLOYMENT, &facts.controller.namespace);
        return Finding::fail(Check::Registration, 33, text).command(restart);
    }
    Finding::pass(
        Check::Registration,
        format!("{name} sends every labelled workload to the controller"),
    )
}
