//! The objects that a control plane starts with: nodes and the rights of people.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Error, Identity};

/// Creates fake nodes `node-0`, `node-1`, … with room for `pods_per_node` pods each.
pub(crate) async fn create_nodes(client: &Client, nodes: u32, pods_per_node: u32) -> Result<(), Error> {
    for index in 0..nodes {
        create::<Node>(client, node(&format!("node-{index}"), pods_per_node)).await?;
    }
    Ok(())
}

fn node(name: &str, pods: u32) -> Value {
    let room =
        json!({"cpu": "100k", "memory": "100Ti", "ephemeral-storage": "100Ti", "pods": pods.to_string()});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
        "status": {"allocatable": room, "capacity": room},
    })
}

/// Gives developer, approver and viewer their rights. Existing roles are left as they are.
///
/// The controller gets none: the product's own manifests have to be enough.
pub(crate) async fn create_rights(client: &Client) -> Result<(), Error> {
    for (identity, rules) in [
        (Identity::Developer, developer()),
        (Identity::Approver, approver()),
        (Identity::Viewer, json!([rule(&["*"], &["*"], READ)])),
    ] {
        let name = format!("local-{}", identity.name());
        let role =
            json!({"apiVersion": RBAC_V1, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        create::<ClusterRole>(client, role).await?;
        let binding = json!({
            "apiVersion": RBAC_V1,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": identity.groups()[0]}],
        });
        create::<ClusterRoleBinding>(client, binding).await?;
    }
    Ok(())
}

const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_V1: &str = "rbac.authorization.k8s.io/v1";
const READ: &[&str] = &["get", "list", "watch"];

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// Everything about workloads, but not the status of Rollouts, which is where approvals are written.
fn developer() -> Value {
    json!([
        rule(&["apps", "apps.kruise.io", "example.io"], &["*"], &["*"]),
        rule(&[""], &["pods", "services", "configmaps", "events"], &["*"]),
        rule(&["rollouts.kruise.io"], &["rollouts"], &["*"]),
        rule(&[""], &["namespaces"], READ),
    ])
}

fn approver() -> Value {
    json!([
        rule(&["rollouts.kruise.io"], &["rollouts"], READ),
        rule(
            &["rollouts.kruise.io"],
            &["rollouts/status"],
            &["get", "patch", "update"]
        ),
        rule(&["apps", "apps.kruise.io", "example.io"], &["*"], READ),
        rule(&[""], &["pods", "events"], READ),
    ])
}

/// Creates a cluster-scoped object that may exist already.
async fn create<K>(client: &Client, object: Value) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    match Api::<K>::all(client.clone())
        .create(&PostParams::default(), &object)
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}
