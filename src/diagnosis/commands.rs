//! Lines for a shell.

use serde_json::Value;

use super::Subject;
use crate::{names, shell};

/// A merge patch of the Rollout.
pub(super) fn patch_rollout(subject: &Subject, patch: &Value) -> String {
    shell::patch_rollout(&subject.rollout, patch)
}

/// A merge patch of the workload.
pub(super) fn patch_workload(subject: &Subject, patch: &Value) -> String {
    let name = &subject.rollout.spec.workload_ref.name;
    shell::merge(&subject.resource(), name, subject.namespace(), patch)
}

/// A command of this plugin on the Rollout.
pub(super) fn ours(subject: &Subject, words: &str) -> String {
    format!(
        "kubectl kruise {words} {} -n {}",
        subject.name(),
        subject.namespace()
    )
}

/// Installs what is missing.
pub(super) fn install(what: &str) -> String {
    let space = if what.is_empty() { "" } else { " " };
    format!(
        "{} manifests{space}{what} | kubectl apply --server-side -f -",
        names::CONTROLLER
    )
}

/// Starts the pods of a Deployment anew.
pub(super) fn restart(deployment: &str, namespace: &str) -> String {
    format!("kubectl rollout restart deployment/{deployment} -n {namespace}")
}

pub(super) fn scale(deployment: &str, namespace: &str, replicas: u32) -> String {
    format!("kubectl scale deployment/{deployment} -n {namespace} --replicas={replicas}")
}

/// Lets the controller govern a custom kind.
pub(super) fn enable_kind(plural: &str, group: &str) -> String {
    format!(
        "kubectl kruise workload enable {}",
        super::facts::qualified(plural, group)
    )
}
