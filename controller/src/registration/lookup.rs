//! What is asked of the cluster once, or seldom: the kinds of an earlier process, and who owns the registrations.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kruise_rollout::area::Area;
use kruise_rollout::names;
use kruise_rollout::workload::{GroupKind, adapter_for};
use kube::Client;
use kube::api::{Api, ApiResource};
use kube::discovery::{ApiCapabilities, ApiGroup};
use serde_json::{Value, json};

use super::entries::registered_resources;

/// The kinds that an earlier process registered and that the server still has.
pub(crate) async fn registered_before(client: &Client, area: &Area) -> kube::Result<Vec<GroupKind>> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let Some(found) = api.get_opt(&area.name(names::WEBHOOK_CONFIGURATION)).await? else {
        return Ok(Vec::new());
    };
    let mut kinds = Vec::new();
    for (group, plural) in registered_resources(&serde_json::to_value(found).unwrap_or_default()) {
        // A group that is gone has no objects either.
        let Some(group) = found_group(client, &group).await? else {
            continue;
        };
        let resources = group.resources_by_stability();
        let of_plural = resources
            .into_iter()
            .find(|(resource, _)| resource.plural == plural);
        kinds.extend(of_plural.map(|(r, _)| GroupKind {
            group: r.group,
            kind: r.kind,
        }));
    }
    Ok(kinds)
}

/// A group of the API; none if the server has no such group.
pub(crate) async fn found_group(client: &Client, group: &str) -> kube::Result<Option<ApiGroup>> {
    match kube::discovery::group(client, group).await {
        Ok(group) => Ok(Some(group)),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The resources of a group, each in the version that its adapter wants, else in the most stable one. The group may prefer another one,
/// which need not have all kinds.
pub(crate) fn resources(group: &ApiGroup) -> Vec<(ApiResource, ApiCapabilities)> {
    let resources = group.resources_by_stability().into_iter();
    let wanted = |(resource, capabilities): (ApiResource, ApiCapabilities)| {
        let kind = GroupKind {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
        };
        let version = adapter_for(&kind).and_then(|adapter| adapter.version());
        let in_version = version
            .into_iter()
            .flat_map(|version| group.versioned_resources(version))
            .find(|(other, _)| other.kind == resource.kind);
        in_version.unwrap_or((resource, capabilities))
    };
    resources.map(wanted).collect()
}

/// Reference to the ClusterRole that owns the registrations; none where there is no such role, or none that we may read.
pub(super) async fn owner(client: &Client, area: &Area) -> kube::Result<Value> {
    let name = area.name(names::CLUSTER_ROLE);
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let uid = match roles.get_metadata_opt(&name).await {
        Ok(role) => role.and_then(|role| role.metadata.uid),
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        Err(error) => return Err(error),
    };
    Ok(match uid {
        Some(uid) => json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "name": name, "uid": uid}]),
        None => json!([]),
    })
}
