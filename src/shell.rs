//! Lines for a shell, as they are printed for people.

use serde_json::Value;

use crate::api::v1beta1::Rollout;
use crate::names;

/// A word as a shell takes it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%,+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// `kubectl patch` with a merge patch.
pub(crate) fn merge(resource: &str, name: &str, namespace: &str, patch: &Value) -> String {
    format!(
        "kubectl patch {resource} {name} -n {namespace} --type=merge -p {}",
        quoted(&patch.to_string())
    )
}

/// A merge patch of a Rollout. The kind is named in full: others are called Rollout too.
pub(crate) fn patch_rollout(rollout: &Rollout, patch: &Value) -> String {
    let metadata = &rollout.metadata;
    let (name, namespace) = (metadata.name.as_deref(), metadata.namespace.as_deref());
    let resource = format!("rollouts.{}", names::GROUP);
    merge(
        &resource,
        name.unwrap_or_default(),
        namespace.unwrap_or_default(),
        patch,
    )
}
