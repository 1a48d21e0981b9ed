//! KR012: what only the cluster knows.

use serde_json::Value;

use super::super::fitness::{Candidate, Verdict, fitness};
use super::super::{Looked, Remedy};
use super::{Problem, Rule};
use crate::admission::rollout::WorkloadClaim;
use crate::api::v1beta1::Rollout;
use crate::workload::GroupKind;

/// What the cluster has answered about one Rollout of the documents.
#[derive(Clone, Debug, Default)]
pub struct Online {
    /// Place of the document.
    pub document: usize,
    /// The Rollout.
    pub rollout: Rollout,
    /// The Rollouts of its namespace.
    pub others: Looked<Vec<Rollout>>,
    /// Whether the server has the workload's kind.
    pub kind_served: Looked<bool>,
    /// The workload, in the cluster.
    pub workload: Looked<Option<Value>>,
    /// Whether the workload stands among the documents.
    pub comes_along: bool,
    /// The definition of the workload's kind.
    pub definition: Looked<Option<Value>>,
    /// What a server dry-run of the Rollout was refused with.
    pub refused: Looked<Option<String>>,
}

/// Judges a Rollout by what the cluster has answered.
#[must_use]
pub fn online(facts: &Online) -> Vec<Problem> {
    let error = |path: &str, text: String| Problem::error(facts.document, path, Rule::Cluster, text);
    let reference = &facts.rollout.spec.workload_ref;
    let mut problems = Vec::new();
    if let (Some(own), Some(others)) = (WorkloadClaim::of(&facts.rollout), facts.others.seen()) {
        let claims = others.iter().filter_map(WorkloadClaim::of);
        if let Some(other) = claims.into_iter().find(|claim| claim.conflicts_with(&own)) {
            let text = format!(
                "Rollout {:?} governs this workload already: change or delete it, or name another workload",
                other.rollout
            );
            problems.push(error("spec.workloadRef", text));
        }
    }
    let named = format!("{} {}", reference.kind, reference.name);
    if facts.kind_served.seen() == Some(&false) {
        let text = format!(
            "the server has no kind {} in {}: install its CRD first",
            reference.kind, reference.api_version
        );
        problems.push(error("spec.workloadRef.kind", text));
    } else if matches!(facts.workload, Looked::Seen(None)) && !facts.comes_along {
        let text = format!(
            "there is no {named} in namespace {}: create it first, or correct the name",
            facts.rollout.metadata.namespace.as_deref().unwrap_or_default()
        );
        problems.push(error("spec.workloadRef.name", text));
    }
    problems.extend(unfit(facts));
    if let Some(Some(answer)) = facts.refused.seen() {
        let told = problems
            .iter()
            .any(|problem| problem.path.first().is_some_and(|first| first == "spec"));
        // The server refuses a second Rollout of a workload in words of its own.
        if !told {
            problems.push(error(
                "metadata.name",
                format!("the API server refuses it: {}", answer.trim_end_matches('.')),
            ));
        }
    }
    problems
}

/// The schema of the workload's kind.
fn unfit(facts: &Online) -> Vec<Problem> {
    let reference = &facts.rollout.spec.workload_ref;
    let Some((group, version)) = reference.group_version() else {
        return Vec::new();
    };
    let kind = GroupKind {
        group: group.to_owned(),
        kind: reference.kind.clone(),
    };
    let candidate = Candidate {
        kind: &kind,
        version,
        definition: facts.definition.seen().and_then(Option::as_ref),
        object: None,
        probe: None,
    };
    let rows = fitness(&candidate, "")
        .into_iter()
        .flat_map(|fitness| fitness.rows);
    rows.filter(|row| row.verdict == Verdict::Unfit)
        .map(|row| {
            let mend = match &row.remedy {
                Some(Remedy::Command(text) | Remedy::Advice(text)) => format!(": {text}"),
                None => String::new(),
            };
            let text = format!(
                "{} of kind {kind}: {}{mend}",
                row.field,
                row.why.unwrap_or_default()
            );
            Problem::error(facts.document, "spec.workloadRef.kind", Rule::Cluster, text)
        })
        .collect()
}
