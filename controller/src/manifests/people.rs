//! What people may do: roles that nobody is bound to yet.

use kruise_rollout::names;
use serde_json::{Value, json};

use super::rbac::{RBAC, cluster_role};

/// People who may look, as a part of the cluster's `view`.
pub(super) fn viewer() -> Value {
    let rules = json!([
        { "apiGroups": [names::GROUP], "resources": ["rollouts"], "verbs": ["get", "list", "watch"] },
    ]);
    cluster_role(
        "kruise-rollout-viewer",
        &[&format!("{RBAC}/aggregate-to-view")],
        rules,
    )
}

/// People who may write Rollouts, as a part of the cluster's `edit`. Approval is not among it.
pub(super) fn editor() -> Value {
    let verbs = [
        "get",
        "list",
        "watch",
        "create",
        "patch",
        "update",
        "delete",
        "deletecollection",
    ];
    let rules = json!([{ "apiGroups": [names::GROUP], "resources": ["rollouts"], "verbs": verbs }]);
    cluster_role(
        "kruise-rollout-editor",
        &[&format!("{RBAC}/aggregate-to-edit")],
        rules,
    )
}

/// People who may see what waits for approval, and approve it. That the right to patch the status comes to no more than that is
/// the business of the policy in [`kruise_rollout::admission::approval`].
pub(super) fn approver() -> Value {
    let rules = json!([
        { "apiGroups": [names::GROUP], "resources": ["rollouts"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [names::GROUP], "resources": ["rollouts/status"], "verbs": ["get", "patch"] },
    ]);
    cluster_role(names::APPROVER_ROLE, &[], rules)
}
