//! The entries of the webhook configurations: which requests reach which of our webhooks.

use kruise_rollout::names;
use kruise_rollout::workload::{Adapter, GroupKind, adapter_for};
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::Endpoint;
use crate::webhook::{CONFIRM, MUTATE, VALIDATE};

/// How long the API server waits for a verdict, in seconds.
const TIMEOUT_SECONDS: u32 = 5;

/// What all entries have in common.
pub(super) struct Entries<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) own_namespace: &'a str,
    /// The controller's user.
    pub(super) username: &'a str,
    /// Certificates of the webhook's authorities.
    pub(super) bundle: &'a str,
}

impl Entries<'_> {
    /// The validating entry for Rollouts.
    pub(super) fn review(&self) -> Value {
        json!({
            "name": names::REVIEW_WEBHOOK,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "matchPolicy": "Equivalent",
            "rules": [{"apiGroups": [names::GROUP], "apiVersions": [names::VERSION],
                "operations": ["CREATE", "UPDATE"], "resources": ["rollouts"], "scope": "Namespaced"}],
            "matchConditions": [{"name": "the-spec-changes",
                "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec"}],
            "clientConfig": self.endpoint.client_config(VALIDATE, self.bundle),
        })
    }

    /// The mutating entry of a kind, which holds.
    pub(super) fn hold(&self, resource: &ApiResource) -> Option<Value> {
        let adapter = adapter_for(&kind_of(resource))?;
        let mut entry = self.workload(resource, adapter, names::HOLD_WEBHOOK, MUTATE);
        entry["reinvocationPolicy"] = json!("IfNeeded");
        entry["matchConditions"] = hold_conditions(self.username);
        Some(entry)
    }

    /// The validating entry of a kind. It sees what is going to be stored, after all mutating webhooks: one that comes after ours
    /// and changes the template in a write that did not concern us does not make the API server ask us.
    pub(super) fn check(&self, resource: &ApiResource) -> Option<Value> {
        let adapter = adapter_for(&kind_of(resource))?;
        let mut entry = self.workload(resource, adapter, names::CONFIRM_WEBHOOK, CONFIRM);
        entry["matchConditions"] = check_conditions(adapter, self.username);
        Some(entry)
    }

    fn workload(&self, resource: &ApiResource, adapter: &dyn Adapter, name: &str, path: &str) -> Value {
        let excluded: Vec<_> = names::EXCLUDED_NAMESPACES
            .into_iter()
            .chain([self.own_namespace])
            .collect();
        let mut resources = vec![resource.plural.clone()];
        if resource.group == "apps" {
            // Status writes of built-in kinds may change metadata too, and so the marks.
            resources.push(format!("{}/status", resource.plural));
        }
        json!({
            "name": format!("{}.{}.{name}", resource.plural, resource.group),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}]},
            "objectSelector": {"matchLabels": {names::WORKLOAD_TYPE: adapter.type_label()}},
            "rules": [{"apiGroups": [resource.group], "apiVersions": [resource.version], "operations": ["UPDATE"],
                "resources": resources, "scope": "Namespaced"}],
            "clientConfig": self.endpoint.client_config(path, self.bundle),
        })
    }
}

pub(super) fn kind_of(resource: &ApiResource) -> GroupKind {
    GroupKind {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
    }
}

/// Which updates reach the mutating webhook: those that could touch the hold, unless they are the controller's own steps. So a
/// webhook that is down cannot stop a release, and status writes, scaling by `/scale` and metadata of others never wait for it.
fn hold_conditions(username: &str) -> Value {
    let marks = [&[names::GUARDED_BY], names::RELEASE_MARKS.as_slice()].concat();
    let list = marks
        .iter()
        .map(|mark| format!("'{mark}'"))
        .collect::<Vec<_>>()
        .join(", ");
    let label = names::WORKLOAD_TYPE;
    json!([
        {
            "name": "the-hold-may-be-touched",
            "expression": format!(
                "['template', 'updateStrategy', 'replicas'].exists(f, object.?spec[?f] != oldObject.?spec[?f]) || \
                 [{list}].exists(k, object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k]) || \
                 object.metadata.?labels[?'{label}'] != oldObject.metadata.?labels[?'{label}']"
            ),
        },
        not_our_own_step(username),
    ])
}

/// Which updates are looked at once more: those of a guarded workload that are not held although the template changes, or whose
/// strategy changes in mid-release. Where no other webhook undoes what ours has made of them, there are none.
fn check_conditions(adapter: &dyn Adapter, username: &str) -> Value {
    let partition = adapter.partition_path().join(".?");
    json!([
        {
            "name": "guarded",
            "expression": format!("oldObject.metadata.?annotations[?'{}'].hasValue()", names::GUARDED_BY),
        },
        {
            "name": "not-held",
            "expression": format!(
                "!object.?{partition}.optMap(p, type(p) == int && p >= {}).orValue(false)",
                names::HOLD_PARTITION
            ),
        },
        {
            "name": "the-hold-may-be-loosened",
            "expression": format!(
                "object.?spec.?template != oldObject.?spec.?template || \
                 (oldObject.metadata.?annotations[?'{}'].hasValue() && \
                 object.?spec.?updateStrategy != oldObject.?spec.?updateStrategy)",
                names::IN_PROGRESSING
            ),
        },
        not_our_own_step(username),
    ])
}

fn not_our_own_step(username: &str) -> Value {
    json!({
        "name": "not-the-controllers-own-step",
        "expression": format!(
            "!(request.userInfo.username == '{username}' && \
             request.?options.?fieldManager.orValue('') == '{}' && \
             object.?spec.?template == oldObject.?spec.?template)",
            names::FIELD_MANAGER
        ),
    })
}
