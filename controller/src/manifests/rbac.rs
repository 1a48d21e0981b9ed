//! Who may do what: the controller's own rights, and roles for people.
//!
//! The ClusterRole of the controller has no rules of its own: it gathers those of every ClusterRole with a certain label. So a
//! custom kind is enabled by applying one more labelled ClusterRole, which needs no change of ours and goes with the operator
//! that brings the kind. Rights in the controller's namespace are a Role, so that it reads no other Secret of the cluster.

use kruise_rollout::admission::policy;
use kruise_rollout::names;
use serde_json::{Value, json};

use super::{APP, Document, Error, yaml};
use crate::args::Manifests;

/// API group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

/// ServiceAccount, roles and bindings.
pub(super) fn documents(args: &Manifests) -> Result<Vec<Document>, Error> {
    let namespace = args.namespace.as_str();
    Ok(vec![
        service_account(namespace).into(),
        gathering_role().into(),
        base_role(args.pods.replace_stuck_pods).into(),
        Document {
            comment: Some(DAEMONSETS_HINT.to_owned()),
            object: daemonsets(),
        },
        Document {
            comment: Some(custom_kind_hint()?),
            object: workloads("statefulsets", "apps", &["statefulsets"]),
        },
        deployments().into(),
        workloads(
            "kruise",
            "apps.kruise.io",
            &["clonesets", "daemonsets", "statefulsets"],
        )
        .into(),
        cluster_role_binding(namespace).into(),
        namespace_role(namespace).into(),
        role_binding(namespace).into(),
        viewer().into(),
        editor().into(),
        approver().into(),
    ])
}

/// A ClusterRole. Each label has the value `true`.
fn cluster_role(name: &str, labels: &[&str], rules: Value) -> Value {
    let mut role = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": { "name": name, "labels": { APP.0: APP.1 } },
        "rules": rules,
    });
    for label in labels {
        role["metadata"]["labels"][*label] = json!("true");
    }
    role
}

/// The ClusterRole that owns what the controller registers. It is written without `rules`: those belong to the cluster's
/// aggregation, and an empty list here would take all rights away for a moment whenever the manifests are applied again.
fn gathering_role() -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": { "name": names::CLUSTER_ROLE, "labels": { APP.0: APP.1 } },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { names::AGGREGATE_TO_CONTROLLER: "true" } }] },
    })
}

/// What the controller needs whatever kinds it governs. It deletes pods only where it is to replace stuck ones.
fn base_role(replace_stuck_pods: bool) -> Value {
    let mut pods = vec!["get", "list", "watch", "patch"];
    if replace_stuck_pods {
        pods.push("delete");
    }
    let webhooks = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let policies = [
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    let rules = json!([
        { "apiGroups": [names::GROUP], "resources": ["rollouts"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": [names::GROUP], "resources": ["rollouts/status"], "verbs": ["get", "patch", "update"] },
        { "apiGroups": [names::GROUP], "resources": ["rollouts/finalizers"], "verbs": ["update"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": pods },
        { "apiGroups": ["apps"], "resources": ["replicasets", "statefulsets"], "verbs": ["get"] },
        { "apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create"] },
        {
            "apiGroups": ["apps"],
            "resources": ["controllerrevisions"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
        { "apiGroups": ["admissionregistration.k8s.io"], "resources": webhooks, "verbs": ["get", "list", "watch", "create"] },
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": webhooks,
            "resourceNames": [names::WEBHOOK_CONFIGURATION],
            "verbs": ["patch", "delete"],
        },
        { "apiGroups": ["admissionregistration.k8s.io"], "resources": policies, "verbs": ["get", "list", "watch", "create"] },
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": policies,
            "resourceNames": policy::all_names(),
            "verbs": ["patch", "delete"],
        },
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["get", "list", "watch"],
        },
        { "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": [names::CLUSTER_ROLE], "verbs": ["get"] },
        { "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"] },
    ]);
    cluster_role(
        &format!("{}-base", names::CLUSTER_ROLE),
        &[names::AGGREGATE_TO_CONTROLLER],
        rules,
    )
}

/// Enables kinds of one group: those that are known by name, from the start. A kind that the cluster does not have costs nothing.
fn workloads(name: &str, group: &str, plurals: &[&str]) -> Value {
    cluster_role(
        &format!("{}-{name}", names::CLUSTER_ROLE),
        &[names::AGGREGATE_TO_CONTROLLER],
        json!([{ "apiGroups": [group], "resources": plurals, "verbs": ["get", "list", "watch", "patch"] }]),
    )
}

/// Enables Deployments, whose ReplicaSets are made and sized by the controller.
fn deployments() -> Value {
    let mut role = workloads("deployments", "apps", &["deployments"]);
    let sets = json!({
        "apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch", "create", "patch"],
    });
    if let Some(rules) = role["rules"].as_array_mut() {
        rules.push(sets);
    }
    role
}

const DAEMONSETS_HINT: &str = "DaemonSets have no partition, so their pods are replaced by the controller.\n\
     Where none is released by a Rollout, this ClusterRole may be left out.";

/// Enables DaemonSets. A pod's owner reference blocks the deletion of its owner, which some API servers allow only to those who may
/// finalize that one.
fn daemonsets() -> Value {
    cluster_role(
        &format!("{}-daemonsets", names::CLUSTER_ROLE),
        &[names::AGGREGATE_TO_CONTROLLER],
        json!([
            { "apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "list", "watch", "patch"] },
            { "apiGroups": ["apps"], "resources": ["daemonsets/finalizers"], "verbs": ["update"] },
            { "apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"] },
        ]),
    )
}

/// Says how a custom kind is enabled, with an example.
fn custom_kind_hint() -> Result<String, Error> {
    let example = workloads("mystatefulapps", "example.io", &["mystatefulapps"]);
    Ok(format!(
        "Every ClusterRole with the label {} adds its rules to the controller's.\n\
         One more such ClusterRole enables a custom kind, for example:\n\n{}",
        names::AGGREGATE_TO_CONTROLLER,
        yaml(&example)?
    ))
}

fn service_account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": names::CONTROLLER, "namespace": namespace, "labels": { APP.0: APP.1 } },
    })
}

fn cluster_role_binding(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": { "name": names::CLUSTER_ROLE, "labels": { APP.0: APP.1 } },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": names::CLUSTER_ROLE },
        "subjects": [subject(namespace)],
    })
}

fn role_binding(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": { "name": names::CONTROLLER, "namespace": namespace, "labels": { APP.0: APP.1 } },
        "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": names::CONTROLLER },
        "subjects": [subject(namespace)],
    })
}

fn subject(namespace: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": names::CONTROLLER, "namespace": namespace })
}

/// Rights in the controller's own namespace: its certificate and its lease. A create cannot be bound to a name.
fn namespace_role(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "Role",
        "metadata": { "name": names::CONTROLLER, "namespace": namespace, "labels": { APP.0: APP.1 } },
        "rules": [
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "resourceNames": [names::WEBHOOK_SERVICE],
                "verbs": ["get", "list", "watch", "patch", "update"],
            },
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["get", "list", "watch", "create", "patch", "update"],
            },
        ],
    })
}

/// People who may look, as a part of the cluster's `view`.
fn viewer() -> Value {
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
fn editor() -> Value {
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
fn approver() -> Value {
    let rules = json!([
        { "apiGroups": [names::GROUP], "resources": ["rollouts"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [names::GROUP], "resources": ["rollouts/status"], "verbs": ["get", "patch"] },
    ]);
    cluster_role(names::APPROVER_ROLE, &[], rules)
}
