//! Workloads that stand beside their Rollout.

use serde_json::Value;

use super::{Problem, Rule};
use crate::admission::rollout::WorkloadClaim;
use crate::api::v1beta1::Rollout;
use crate::names;
use crate::workload::{GroupKind, adapter_for};

/// The workload of a Rollout among the documents, and its place.
pub(super) fn of<'a>(
    documents: &'a [Value],
    rollout: &Rollout,
    namespace: &str,
) -> Option<(usize, &'a Value)> {
    let claim = WorkloadClaim::of(rollout)?;
    documents.iter().enumerate().find(|(_, object)| {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let metadata = &object["metadata"];
        group == claim.group
            && object["kind"] == claim.kind.as_str()
            && metadata["name"] == claim.workload.as_str()
            && metadata["namespace"].as_str().unwrap_or(namespace) == claim.namespace
    })
}

/// Whether it can be released in steps.
pub(super) fn judge(document: usize, object: &Value, rollout: &Rollout) -> Vec<Problem> {
    let reference = &rollout.spec.workload_ref;
    let kind = GroupKind {
        group: reference
            .group_version()
            .map_or("", |(group, _)| group)
            .to_owned(),
        kind: reference.kind.clone(),
    };
    let Some(adapter) = adapter_for(&kind) else {
        let text =
            format!("workloads of kind {kind} are not supported: refer to one that updates by partition");
        return vec![Problem::error(document, "kind", Rule::Shape, text)];
    };
    let mut problems = Vec::new();
    if kind.is_custom() {
        problems.extend(label(document, object, adapter.type_label()));
        for part in ["metadata", "spec"] {
            if !object["spec"]["template"][part].is_object() {
                let text = format!(
                    "spec.template.{part} is missing: the template of the pods is what is rolled out"
                );
                problems.push(Problem::error(document, "spec.template", Rule::Shape, text));
            }
        }
    }
    match adapter.view(object) {
        Err(error) => problems.push(Problem::error(
            document,
            &error.path,
            Rule::Shape,
            error.to_string(),
        )),
        Ok(view) => {
            if let (Some(strategy), Some(path)) = (view.other_strategy, adapter.strategy_type_path()) {
                let path = path.join(".");
                let text =
                    format!("{path} is {strategy:?}, which does not heed the partition: write RollingUpdate");
                problems.push(Problem::error(document, &path, Rule::Shape, text));
            }
        }
    }
    problems
}

fn label(document: usize, object: &Value, wanted: &str) -> Option<Problem> {
    let name = names::WORKLOAD_TYPE;
    let found = object["metadata"]["labels"].get(name);
    if found.is_some_and(|found| found == wanted) {
        return None;
    }
    let (last, text) = match found {
        None => (
            "labels",
            format!("the label {name} is missing, so updates are not held: write {name}: {wanted}"),
        ),
        Some(found) => (
            name,
            format!("the label {name} is {found}, so updates are not held: write {wanted}"),
        ),
    };
    let mut problem = Problem::warning(document, "metadata.labels", Rule::Label, text);
    if last != "labels" {
        problem.path.push(name.to_owned());
    }
    Some(problem)
}
