//! D01 to D04: API server, kind, controller, and the kinds that it may govern.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::facts::{Facts, Looked, Subject, qualified};
use super::{Check, Finding, commands};
use crate::api::v1beta1::condition;
use crate::names;
use crate::rollout::why;
use crate::shell;

/// The oldest minor version whose webhooks take the conditions that ours have.
const OLDEST: u32 = 30;
/// From this one on the server holds by itself.
const HOLDS_ITSELF: u32 = 36;
/// A lease that has not been renewed for so long is nobody's, whatever its own duration.
const STALE: SignedDuration = SignedDuration::from_secs(15);

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![server(&facts.server.version)];
    findings.extend(definition(&facts.definition));
    findings.extend(controller(facts));
    findings.extend(kinds(facts));
    findings
}

fn server(version: &str) -> Finding {
    match minor(version) {
        Some(minor) if minor < OLDEST => Finding::fail(
            Check::Server,
            2,
            format!("the API server is {version}: admission needs Kubernetes 1.{OLDEST} or later"),
        )
        .advice(format!("upgrade the cluster to 1.{OLDEST} or later")),
        Some(minor) if minor < HOLDS_ITSELF => Finding::pass(
            Check::Server,
            format!(
                "{version}; before 1.{HOLDS_ITSELF} updates of governed workloads wait for the controller's webhook"
            ),
        ),
        Some(_) => Finding::pass(Check::Server, version),
        None => Finding::warn(
            Check::Server,
            90,
            format!("the version of the API server, {version:?}, cannot be read"),
        )
        .advice(format!("make sure that it is Kubernetes 1.{OLDEST} or later")),
    }
}

fn minor(version: &str) -> Option<u32> {
    let (major, rest) = version.trim_start_matches('v').split_once('.')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (major == "1").then(|| digits.parse().ok()).flatten()
}

fn definition(definition: &Looked<Option<Value>>) -> Vec<Finding> {
    let found = match definition {
        Looked::Seen(Some(found)) => found,
        Looked::Seen(None) => {
            let missing = Finding::fail(
                Check::Definition,
                1,
                format!("the server has no Rollouts ({})", names::API_VERSION),
            );
            return vec![missing.command(commands::install(""))];
        }
        other => {
            let why = other.why_not().unwrap_or_default();
            return vec![Finding::skip(Check::Definition, why)];
        }
    };
    let versions = found["spec"]["versions"].as_array().into_iter().flatten();
    let ours = versions
        .into_iter()
        .find(|version| version["name"] == names::VERSION);
    let Some(version) = ours.filter(|version| version["served"] == true) else {
        let missing = format!("Rollouts are not served in version {}", names::VERSION);
        return vec![Finding::fail(Check::Definition, 1, missing).command(commands::install("crds"))];
    };
    if !version["subresources"]["status"].is_object() {
        let missing = "the definition of Rollouts has no status subresource: nothing can be approved";
        return vec![Finding::fail(Check::Definition, 1, missing).command(commands::install("crds"))];
    }
    if version["storage"] != true {
        let other = format!("Rollouts are not stored in version {}", names::VERSION);
        return vec![Finding::warn(Check::Definition, 80, other).command(commands::install("crds"))];
    }
    vec![Finding::pass(
        Check::Definition,
        format!("{} is served and stored", names::API_VERSION),
    )]
}

fn replicas(deployment: &Value) -> i64 {
    deployment["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// What the controller's Deployment and Lease say.
fn controller(facts: &Facts) -> Vec<Finding> {
    let controller = &facts.controller;
    let namespace = &controller.namespace;
    let (deployments, leases) = (&controller.deployments, &controller.leases);
    if let (None, None) = (deployments.seen(), leases.seen()) {
        let why = deployments.why_not().or(leases.why_not()).unwrap_or_default();
        return vec![Finding::skip(
            Check::Controller,
            format!("{why} in namespace {namespace}"),
        )];
    }
    let legacy = controller
        .deployment(names::LEGACY_DEPLOYMENT)
        .filter(|deployment| replicas(deployment) > 0);
    let own = controller.deployment(names::CONTROLLER);
    let mut findings = Vec::new();
    if controller.is_legacy() {
        return of_deployment(facts, names::LEGACY_DEPLOYMENT);
    }
    let leads = controller
        .lease(names::CONTROLLER)
        .is_some_and(|lease| fresh(lease, facts.now));
    if legacy.is_some() && (leads || own.is_some_and(|own| replicas(own) > 0)) {
        let two = format!(
            "two controllers run in namespace {namespace}: both write the same Rollouts and workloads"
        );
        findings.push(
            Finding::fail(Check::Controller, 0, two)
                .because(format!(
                    "deployments {} and {}",
                    names::CONTROLLER,
                    names::LEGACY_DEPLOYMENT
                ))
                .command(commands::scale(names::LEGACY_DEPLOYMENT, namespace, 0)),
        );
    }
    if own.is_some() {
        let broken = of_deployment(facts, names::CONTROLLER);
        if broken
            .iter()
            .any(|finding| finding.severity == super::Severity::Failure)
        {
            findings.extend(broken);
            return findings;
        }
    }
    findings.extend(of_lease(facts, own.is_some()));
    findings
}

fn of_deployment(facts: &Facts, name: &str) -> Vec<Finding> {
    let namespace = &facts.controller.namespace;
    let Some(deployment) = facts.controller.deployment(name) else {
        return Vec::new();
    };
    let (wanted, available) = (
        replicas(deployment),
        deployment["status"]["availableReplicas"].as_i64().unwrap_or(0),
    );
    if wanted == 0 {
        let usual = if name == names::CONTROLLER { 2 } else { 1 };
        let none =
            format!("the controller is scaled to 0 replicas (deployment {namespace}/{name}): nothing moves");
        return vec![
            Finding::fail(Check::Controller, 0, none).command(commands::scale(name, namespace, usual)),
        ];
    }
    if available == 0 {
        let none = format!(
            "no replica of the controller is available (deployment {namespace}/{name}): nothing moves"
        );
        return vec![
            Finding::fail(Check::Controller, 0, none)
                .because(format!("0 of {wanted} replicas are available"))
                .because(format!("its log: kubectl logs deployment/{name} -n {namespace}"))
                .command(commands::restart(name, namespace)),
        ];
    }
    vec![Finding::pass(
        Check::Controller,
        format!("{available} of {wanted} replicas of {namespace}/{name} are available"),
    )]
}

fn of_lease(facts: &Facts, deployed: bool) -> Vec<Finding> {
    let namespace = &facts.controller.namespace;
    let mend = |finding: Finding| {
        if deployed {
            finding.command(commands::restart(names::CONTROLLER, namespace))
        } else {
            finding.advice(format!("start {} run", names::CONTROLLER))
        }
    };
    let Some(leases) = facts.controller.leases.seen() else {
        let why = facts.controller.leases.why_not().unwrap_or_default();
        let text = format!("the deployment is available; who leads is not known: {why}");
        return vec![Finding::pass(Check::Controller, text)];
    };
    let Some(lease) = leases
        .iter()
        .find(|lease| lease["metadata"]["name"] == names::CONTROLLER)
    else {
        if deployed {
            let text = "the deployment is available; it runs without a lease";
            return vec![Finding::pass(Check::Controller, text)];
        }
        if facts.controller.deployments.seen().is_none() {
            let why = facts.controller.deployments.why_not().unwrap_or_default();
            return vec![Finding::skip(Check::Controller, format!("no lease, and {why}"))];
        }
        let none = format!("no controller is installed in namespace {namespace}");
        let none = Finding::fail(Check::Controller, 0, none).because("no deployment and no lease");
        return vec![none.command(commands::install(""))];
    };
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let renewed = renewed(lease);
    let said = format!(
        "lease {namespace}/{}: holder {holder:?}, renewed {}",
        names::CONTROLLER,
        renewed.map_or_else(|| "never".to_owned(), |at| format!("at {at:.0}"))
    );
    if fresh(lease, facts.now) {
        return vec![Finding::pass(Check::Controller, format!("{holder} leads"))];
    }
    let none = Finding::fail(
        Check::Controller,
        0,
        "the controller is not running: nobody holds its lease, so nothing moves",
    );
    vec![mend(none.because(said))]
}

fn renewed(lease: &Value) -> Option<Timestamp> {
    lease["spec"]["renewTime"].as_str()?.parse().ok()
}

/// Whether somebody holds the lease now.
pub(super) fn fresh(lease: &Value, now: Timestamp) -> bool {
    let held = lease["spec"]["holderIdentity"]
        .as_str()
        .is_some_and(|holder| !holder.is_empty());
    let seconds = lease["spec"]["leaseDurationSeconds"].as_i64().unwrap_or_default();
    let lasts = SignedDuration::from_secs(seconds.saturating_mul(2)).max(STALE);
    held && renewed(lease).is_some_and(|at| now.duration_since(at) <= lasts)
}

/// Whether the controller is known not to run, so that what it would do is not asked for once more.
pub(super) fn is_down(facts: &Facts) -> bool {
    controller(facts)
        .iter()
        .any(|finding| finding.severity == super::Severity::Failure)
}

fn kinds(facts: &Facts) -> Vec<Finding> {
    let custom: Vec<_> = facts
        .subjects
        .iter()
        .filter(|subject| subject.group_kind().is_custom() && matches!(subject.plural, Looked::Seen(Some(_))))
        .collect();
    if custom.is_empty() {
        if let (true, Some(why)) = (facts.subjects.is_empty(), facts.rollouts.why_not()) {
            return vec![Finding::skip(Check::Kinds, why)];
        }
        return vec![Finding::pass(Check::Kinds, "no custom kind is referred to")];
    }
    if facts.controller.is_legacy() {
        return vec![legacy_kinds(facts)];
    }
    let mut findings: Vec<Finding> = Vec::new();
    for subject in custom {
        let finding = match facts.registrations.roles.seen() {
            Some(roles) => enabled(subject, roles),
            None => refused(subject).or_else(|| {
                let why = facts.registrations.roles.why_not().unwrap_or_default();
                Some(Finding::skip(Check::Kinds, why))
            }),
        };
        let finding = finding.unwrap_or_else(|| {
            Finding::pass(
                Check::Kinds,
                format!("the controller may govern {}", subject.resource()),
            )
        });
        if !findings.iter().any(|known| known.message == finding.message) {
            findings.push(finding);
        }
    }
    findings
}

fn may_not(subject: &Subject) -> Finding {
    let (kind, plural) = (subject.group_kind(), subject.plural.seen().cloned().flatten());
    let plural = plural.unwrap_or_default();
    let resource = qualified(&plural, &kind.group);
    Finding::fail(
        Check::Kinds,
        5,
        format!("the controller has no right to {resource}: its updates are not held, and its releases do not move"),
    )
    .command(commands::enable_kind(&plural, &kind.group))
}

fn enabled(subject: &Subject, roles: &[Value]) -> Option<Finding> {
    let plural = subject.plural.seen().cloned().flatten()?;
    let group = subject.group_kind().group;
    let has = |values: &Value, wanted: &str| {
        let values = values.as_array().into_iter().flatten();
        values
            .filter_map(Value::as_str)
            .any(|value| value == wanted || value == "*")
    };
    let rules = || roles.iter().filter_map(|role| role["rules"].as_array()).flatten();
    let allowed = |verb: &str| {
        rules().any(|rule| {
            has(&rule["apiGroups"], &group) && has(&rule["resources"], &plural) && has(&rule["verbs"], verb)
        })
    };
    let missing: Vec<_> = names::KIND_VERBS
        .into_iter()
        .filter(|verb| !allowed(verb))
        .collect();
    (!missing.is_empty()).then(|| {
        may_not(subject).because(format!(
            "no ClusterRole with the label {}=true gives it: {}",
            names::AGGREGATE_TO_CONTROLLER,
            missing.join(", ")
        ))
    })
}

/// What the controller says itself, where the roles may not be read.
fn refused(subject: &Subject) -> Option<Finding> {
    let conditions = &subject.rollout.status.as_ref()?.conditions;
    let stalled = condition::get(conditions, condition::STALLED)?;
    (stalled.reason == why::UNREADABLE).then(|| may_not(subject).because(stalled.message.clone()))
}

/// The existing controller refuses kinds that it does not know, unless it is told not to.
fn legacy_kinds(facts: &Facts) -> Finding {
    let (namespace, name) = (&facts.controller.namespace, names::LEGACY_DEPLOYMENT);
    let flag = names::LEGACY_KINDS_FLAG;
    let containers = facts
        .controller
        .deployment(name)
        .and_then(|d| d["spec"]["template"]["spec"]["containers"].as_array());
    let manager = containers
        .into_iter()
        .flatten()
        .enumerate()
        .find(|(_, container)| {
            let args = container["args"].as_array().into_iter().flatten();
            container["name"] == "manager" || args.filter_map(Value::as_str).any(|arg| arg.starts_with(flag))
        });
    let Some((index, container)) = manager else {
        return Finding::skip(
            Check::Kinds,
            format!("the deployment {namespace}/{name} has no container manager"),
        );
    };
    let args: Vec<_> = container["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let wanted = format!("{flag}=false");
    if args.contains(&wanted.as_str()) {
        return Finding::pass(Check::Kinds, format!("custom kinds are allowed by {wanted}"));
    }
    let folder = format!("/spec/template/spec/containers/{index}/args");
    let operation = match args.iter().position(|arg| arg.starts_with(flag)) {
        Some(at) => serde_json::json!([{"op": "replace", "path": format!("{folder}/{at}"), "value": wanted}]),
        None if args.is_empty() => serde_json::json!([{"op": "add", "path": folder, "value": [wanted]}]),
        None => serde_json::json!([{"op": "add", "path": format!("{folder}/-"), "value": wanted}]),
    };
    Finding::fail(
        Check::Kinds,
        5,
        format!("the controller refuses custom kinds: it runs without {wanted}"),
    )
    .command(format!(
        "kubectl patch deployment {name} -n {namespace} --type=json -p {}",
        shell::quoted(&operation.to_string())
    ))
}
