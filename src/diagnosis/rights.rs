//! D14 and D15: the caller, and the caller's own machine.

use super::facts::{Facts, Right, qualified};
use super::{Check, Finding, PROGRAM};
use crate::{names, shell};

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = rights(facts);
    findings.extend(programs(facts));
    findings
}

fn rights(facts: &Facts) -> Vec<Finding> {
    if facts.rights.is_empty() {
        return vec![Finding::skip(Check::Rights, "the server was not asked")];
    }
    let denied = facts.rights.iter().filter(|right| !right.allowed);
    let found = denied.map(|right| {
        let resource = qualified_resource(right);
        let text = format!(
            "you ({}) may not {} {resource} in namespace {}: {} is not for you",
            facts.user, right.verb, facts.namespace, right.purpose
        );
        Finding::warn(Check::Rights, 88, text).command(grant(facts, right, &resource))
    });
    let count = facts.rights.len();
    super::or_pass(
        found.collect(),
        Check::Rights,
        format!(
            "you ({}) may do all {count} things that commands need",
            facts.user
        ),
    )
}

/// `plural.group/subresource`.
fn qualified_resource(right: &Right) -> String {
    match right.resource.split_once('/') {
        None => qualified(&right.resource, &right.group),
        Some((plural, sub)) => format!("{}/{sub}", qualified(plural, &right.group)),
    }
}

/// The command that gives the right, for somebody who may.
fn grant(facts: &Facts, right: &Right, resource: &str) -> String {
    let namespace = &facts.namespace;
    let user = shell::quoted(&facts.user);
    // Names of roles may have no colon on some file systems, but on no API server any other of these.
    let owner: String = facts
        .user
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let owner = owner.trim_matches('-');
    if right.group == names::GROUP && right.resource == "rollouts/status" {
        let role = names::APPROVER_ROLE;
        return format!(
            "kubectl create rolebinding {role}-{owner} -n {namespace} --clusterrole={role} --user={user}"
        );
    }
    let plural = right.resource.replace('/', "-");
    let role = format!("{}-{plural}-{owner}", right.verb);
    format!(
        "kubectl create role {role} -n {namespace} --verb={} --resource={resource} && \
         kubectl create rolebinding {role} -n {namespace} --role={role} --user={user}",
        right.verb
    )
}

fn programs(facts: &Facts) -> Vec<Finding> {
    let programs = &facts.programs;
    let mut found = Vec::new();
    if let Some(home) = &programs.krew {
        let text = "krew has installed another plugin of the name kruise, which kubectl may call instead of this one";
        found.push(
            Finding::warn(Check::Program, 91, text)
                .because(home.clone())
                .command("kubectl krew uninstall kruise"),
        );
    }
    match programs.found.first() {
        Some(first) if *first != programs.running && !programs.running.is_empty() => {
            let text = format!("kubectl kruise calls another {PROGRAM} than this one");
            found.push(
                Finding::warn(Check::Program, 92, text)
                    .because(format!("first in PATH: {first}; this one: {}", programs.running))
                    .advice(format!(
                        "put the folder of this one first in PATH, or remove {first}"
                    )),
            );
        }
        None => {
            let text = format!("{PROGRAM} is in no folder of PATH: kubectl kruise does not find it");
            let advice = format!("put {} into a folder of PATH", programs.running);
            found.push(Finding::warn(Check::Program, 92, text).advice(advice));
        }
        Some(_) if programs.found.len() > 1 => {
            let text = format!(
                "{} programs of the name {PROGRAM} are in PATH",
                programs.found.len()
            );
            found.push(
                Finding::note(Check::Program, 93, text)
                    .because(programs.found.join(", "))
                    .advice("remove those that are not wanted"),
            );
        }
        Some(_) => {}
    }
    super::or_pass(found, Check::Program, programs.running.clone())
}
