//! What the configurations say: one entry for each governed kind, and one for Rollouts.

use k8s_openapi::ByteString;
use kruise_rollout::names;
use kruise_rollout::workload::{GroupKind, adapter_for};
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::webhook::{MUTATE, VALIDATE};

/// How long the API server waits for a verdict, in seconds.
const TIMEOUT_SECONDS: u32 = 5;

/// Where the API server reaches the webhook.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// Through the Service in this namespace.
    Service(String),
    /// At this URL.
    Url(String),
}

impl Endpoint {
    fn client_config(&self, path: &str, ca_bundle_pem: Option<&str>) -> Value {
        let mut config = match self {
            Self::Service(namespace) => json!({
                "service": {"name": names::WEBHOOK_SERVICE, "namespace": namespace, "path": path, "port": 443},
            }),
            Self::Url(base) => json!({"url": format!("{base}{path}")}),
        };
        if let Some(pem) = ca_bundle_pem {
            config["caBundle"] = json!(ByteString(pem.as_bytes().to_vec()));
        }
        config
    }
}

/// What all entries have in common.
pub(super) struct Entries<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// What the API server has to trust; nothing if that is not ours to write.
    pub(super) ca_bundle_pem: Option<&'a str>,
    /// Namespace of the controller.
    pub(super) namespace: &'a str,
    /// User name of the controller.
    pub(super) username: &'a str,
}

impl Entries<'_> {
    /// The entries of the mutating configuration.
    pub(super) fn holds(&self, resources: &[ApiResource]) -> Value {
        resources
            .iter()
            .filter_map(|resource| self.hold(resource))
            .collect()
    }

    /// The entries of the validating configuration.
    pub(super) fn reviews(&self) -> Value {
        json!([{
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
            "clientConfig": self.endpoint.client_config(VALIDATE, self.ca_bundle_pem),
        }])
    }

    /// The entry of one kind.
    fn hold(&self, resource: &ApiResource) -> Option<Value> {
        let kind = GroupKind {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
        };
        let adapter = adapter_for(&kind)?;
        let excluded: Vec<_> = names::EXCLUDED_NAMESPACES
            .into_iter()
            .chain([self.namespace])
            .collect();
        let mut resources = vec![resource.plural.clone()];
        if kind.group == "apps" {
            // Status writes of built-in kinds may change metadata too, and so the marks.
            resources.push(format!("{}/status", resource.plural));
        }
        Some(json!({
            "name": format!("{}.{}.{}", resource.plural, resource.group, names::HOLD_WEBHOOK),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "matchPolicy": "Equivalent",
            "reinvocationPolicy": "IfNeeded",
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}]},
            "objectSelector": {"matchLabels": {names::WORKLOAD_TYPE: adapter.type_label()}},
            "rules": [{"apiGroups": [resource.group], "apiVersions": [resource.version], "operations": ["UPDATE"],
                "resources": resources, "scope": "Namespaced"}],
            "matchConditions": match_conditions(self.username),
            "clientConfig": self.endpoint.client_config(MUTATE, self.ca_bundle_pem),
        }))
    }
}

/// Which updates reach the webhook: those that could touch the hold, unless they are the controller's own steps. So a webhook that
/// is down cannot stop a release, and status writes, scaling by `/scale` and metadata of others never wait for it. Outside a
/// release only template and marks matter.
fn match_conditions(username: &str) -> Value {
    let marks = [&[names::GUARDED_BY], names::RELEASE_MARKS.as_slice()].concat();
    let list = marks
        .iter()
        .map(|mark| format!("'{mark}'"))
        .collect::<Vec<_>>()
        .join(", ");
    let (held, label) = (names::IN_PROGRESSING, names::WORKLOAD_TYPE);
    json!([
        {
            "name": "the-hold-may-be-touched",
            "expression": format!(
                "object.?spec.?template != oldObject.?spec.?template || \
                 [{list}].exists(k, object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k]) || \
                 oldObject.metadata.?annotations[?'{held}'].hasValue() && (\
                 ['updateStrategy', 'replicas'].exists(f, object.?spec[?f] != oldObject.?spec[?f]) || \
                 object.metadata.?labels[?'{label}'] != oldObject.metadata.?labels[?'{label}'])"
            ),
        },
        {
            "name": "not-the-controllers-own-step",
            "expression": format!(
                "!(request.userInfo.username == '{username}' && \
                 request.?options.?fieldManager.orValue('') == '{}' && \
                 object.?spec.?template == oldObject.?spec.?template)",
                names::FIELD_MANAGER
            ),
        },
    ])
}

/// What is registered, from a configuration: the group and plural of each entry of ours.
pub(super) fn registered_resources(configuration: &Value) -> Vec<(String, String)> {
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    entries
        .filter(|entry| {
            entry["name"]
                .as_str()
                .is_some_and(|name| name.ends_with(names::HOLD_WEBHOOK))
        })
        .filter_map(|entry| {
            let rule = entry["rules"].get(0)?;
            let text = |field: &str| rule[field].get(0)?.as_str().map(str::to_owned);
            Some((text("apiGroups")?, text("resources")?))
        })
        .collect()
}

/// Whether `have` has every member of `want` with the same value; lists must have the same length.
pub(super) fn says(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => want
            .iter()
            .all(|(name, want)| says(have.get(name).unwrap_or(&Value::Null), want)),
        (Value::Array(have), Value::Array(want)) => {
            have.len() == want.len() && have.iter().zip(want).all(|(have, want)| says(have, want))
        }
        (Value::Null, Value::Array(want)) => want.is_empty(),
        (have, want) => have == want,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_says_the_same_is_left_alone() {
        let want =
            json!({"metadata": {"name": "a"}, "webhooks": [{"name": "x", "rules": [{"resources": ["b"]}]}]});
        let have = json!({"metadata": {"name": "a", "uid": "u"},
            "webhooks": [{"name": "x", "timeoutSeconds": 5, "rules": [{"resources": ["b"], "scope": "*"}]}]});
        assert!(says(&have, &want));
        assert!(!says(&Value::Null, &want));
        let reset = json!({"metadata": {"name": "a"}, "webhooks": []});
        assert!(!says(&reset, &want));
        assert!(says(&json!({}), &json!({"webhooks": []})));
    }

    #[test]
    fn registrations_are_read_back() {
        let name = format!("mystatefulapps.example.io.{}", names::HOLD_WEBHOOK);
        let rule = json!({"apiGroups": ["example.io"], "resources": ["mystatefulapps"]});
        let configuration = json!({"webhooks": [{"name": "theirs"}, {"name": name, "rules": [rule]}]});
        assert_eq!(
            registered_resources(&configuration),
            [("example.io".to_owned(), "mystatefulapps".to_owned())]
        );
    }
}
