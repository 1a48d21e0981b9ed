//! D13: what an earlier release has left on a workload.

use serde_json::{Value, json};

use super::facts::{Facts, Labelled, qualified};
use super::{Check, Finding, Severity, installation};
use crate::admission::rollout::WorkloadClaim;
use crate::api::v1beta1::Rollout;
use crate::names;
use crate::rollout::way_on;
use crate::shell;
use crate::workload::{Original, View, adapter_for};

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let (Some(labelled), Some(rollouts)) = (facts.labelled.seen(), facts.rollouts.seen()) else {
        let why = facts.labelled.why_not().or(facts.rollouts.why_not());
        return vec![Finding::skip(Check::Leftovers, why.unwrap_or_default())];
    };
    let claims: Vec<_> = rollouts
        .iter()
        .filter(|rollout| !rollout.spec.disabled)
        .filter_map(WorkloadClaim::of)
        .collect();
    let left = labelled
        .iter()
        .filter_map(|workload| leftover(facts, workload, rollouts, &claims));
    super::or_pass(
        left.collect(),
        Check::Leftovers,
        "no workload is held without a Rollout",
    )
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// A workload that is held, and that no Rollout will let go.
fn leftover(
    facts: &Facts,
    workload: &Labelled,
    rollouts: &[Rollout],
    claims: &[WorkloadClaim],
) -> Option<Finding> {
    let (kind, object) = (&workload.kind, &workload.object);
    let adapter = adapter_for(kind)?;
    let view = adapter.view(object).ok()?;
    let marked = view.marks.hold.is_some();
    let parked = view.partition.and_then(|partition| partition.count()) == Some(names::HOLD_PARTITION);
    let claimed = claims.iter().any(|claim| {
        (&claim.group, &claim.kind, claim.workload.as_str()) == (&kind.group, &kind.kind, name(object))
    });
    if claimed || !(marked || parked) {
        return None;
    }
    let resource = qualified(&workload.plural, &kind.group);
    let subject = format!("{resource}/{}", name(object));
    let what = match (marked, parked) {
        (true, true) => "carries the marks of a release and the partition that holds",
        (true, false) => "carries the marks of a release",
        _ => "has the partition that holds",
    };
    let finding = Finding::new(
        Check::Leftovers,
        Severity::Failure,
        60,
        format!("{subject} {what}, but no Rollout is in force for it: its updates reach no pod"),
    )
    .because(seen(&view))
    .of(subject);
    // Admission puts the marks of a governed workload back; only the controller lets go of it. What holds other kinds than those with a
    // partition is more than one field.
    let Some(path) = adapter.partition_path().filter(|_| view.guard().is_none()) else {
        let down = installation::is_down(facts);
        let gone = view
            .guard()
            .filter(|_| marked)
            .map(|guard| guard.rollout.as_str());
        let exists = |name: &str| {
            rollouts
                .iter()
                .any(|rollout| rollout.metadata.name.as_deref() == Some(name))
        };
        return Some(finding.advice(match gone {
            _ if down => "start the controller: it lets go of workloads whose Rollout has gone".to_owned(),
            // A controller that is at work keeps it held on purpose.
            Some(name) if !exists(name) => format!("rollout/{name} has gone: {}", way_on(name)),
            _ => format!("let go of all workloads with: {} uninstall", names::CONTROLLER),
        }));
    };
    let command = shell::merge(&resource, name(object), namespace(object), &release(&view, path));
    Some(finding.command(command))
}

fn seen(view: &View) -> String {
    let partition = view.partition.map_or_else(
        || names::NO_PARTITION.to_owned(),
        |partition| partition.to_string(),
    );
    match &view.marks.hold {
        Some(hold) => format!("partition {partition}, granted {}", hold.granted),
        None => format!("partition {partition}, no marks"),
    }
}

/// The patch that takes the marks away and gives back the partition that people asked for.
fn release(view: &View, path: &[&str]) -> Value {
    let partition = match view.marks.hold.as_ref().map(|hold| &hold.original) {
        Some(Original::Partition(partition)) => partition.value(),
        // Fields are of kinds without a partition.
        Some(Original::Absent | Original::Fields(_)) | None => Value::Null,
    };
    let mut patch = path
        .iter()
        .rev()
        .fold(partition, |inner, name| json!({*name: inner}));
    let marks = names::RELEASE_MARKS.iter().chain([&names::GUARDED_BY]);
    let annotations: serde_json::Map<_, _> = marks.map(|mark| ((*mark).to_owned(), Value::Null)).collect();
    patch["metadata"] = json!({ "annotations": annotations });
    patch
}
