//! What the configurations say: one entry for each governed kind, and one for Rollouts.

use k8s_openapi::ByteString;
use kruise_rollout::names;
use kruise_rollout::workload::{Adapter, GroupKind, adapter_for};
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::webhook::{CONFIRM, MUTATE, VALIDATE};

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

/// The kinds whose updates have to come to us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Governed {
    /// Those that the server has.
    pub(crate) resources: Vec<ApiResource>,
    /// Whether these are all. As long as a kind may be missing, because nobody has looked yet, no entry is given up: without it
    /// updates of guarded workloads would pass unseen.
    pub(crate) complete: bool,
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
    /// The entries of the mutating configuration, which now is `present`.
    pub(super) fn holds(&self, governed: &Governed, present: &Value) -> Value {
        let mut entries: Vec<_> = governed
            .resources
            .iter()
            .filter_map(|resource| self.hold(resource))
            .collect();
        self.keep(&mut entries, governed, ours(present, names::HOLD_WEBHOOK), MUTATE);
        entries.into()
    }

    /// As long as not all kinds are known, entries that are there stay.
    fn keep<'a>(
        &self,
        entries: &mut Vec<Value>,
        governed: &Governed,
        present: impl Iterator<Item = &'a Value>,
        path: &str,
    ) {
        if governed.complete {
            return;
        }
        let named: Vec<_> = entries.iter().map(|entry| entry["name"].clone()).collect();
        let others = present.filter(|entry| !named.contains(&entry["name"])).cloned();
        entries.extend(others.map(|mut entry| {
            entry["clientConfig"] = self.endpoint.client_config(path, self.ca_bundle_pem);
            entry
        }));
    }

    /// The entries of the validating configuration, which now is `present`.
    pub(super) fn reviews(&self, governed: &Governed, present: &Value) -> Value {
        let mut entries: Vec<_> = governed
            .resources
            .iter()
            .filter_map(|resource| self.check(resource))
            .collect();
        self.keep(
            &mut entries,
            governed,
            ours(present, names::CONFIRM_WEBHOOK),
            CONFIRM,
        );
        entries.insert(0, self.review());
        entries.into()
    }

    /// The entry for Rollouts.
    fn review(&self) -> Value {
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
            "clientConfig": self.endpoint.client_config(VALIDATE, self.ca_bundle_pem),
        })
    }

    /// The mutating entry of one kind, which holds.
    fn hold(&self, resource: &ApiResource) -> Option<Value> {
        let adapter = adapter_for(&kind_of(resource))?;
        let mut entry = self.workload(resource, adapter, names::HOLD_WEBHOOK, MUTATE);
        entry["reinvocationPolicy"] = json!("IfNeeded");
        entry["matchConditions"] = hold_conditions(self.username);
        Some(entry)
    }

    /// The validating entry of one kind. It sees what is going to be stored, after all mutating webhooks: where one that comes after
    /// ours changes the template in a write that did not concern us, the API server does not ask ours for the first time.
    fn check(&self, resource: &ApiResource) -> Option<Value> {
        let adapter = adapter_for(&kind_of(resource))?;
        let mut entry = self.workload(resource, adapter, names::CONFIRM_WEBHOOK, CONFIRM);
        entry["matchConditions"] = check_conditions(adapter, self.username);
        Some(entry)
    }

    fn workload(&self, resource: &ApiResource, adapter: &dyn Adapter, name: &str, path: &str) -> Value {
        let excluded: Vec<_> = names::EXCLUDED_NAMESPACES
            .into_iter()
            .chain([self.namespace])
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
            "clientConfig": self.endpoint.client_config(path, self.ca_bundle_pem),
        })
    }
}

/// Group and kind of a resource.
pub(super) fn kind_of(resource: &ApiResource) -> GroupKind {
    GroupKind {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
    }
}

/// Which updates reach the webhook: those that could touch the hold, unless they are the controller's own steps. So a webhook that
/// is down cannot stop a release, and status writes, scaling by `/scale` and metadata of others never wait for it. Outside a
/// release only template and marks matter.
fn hold_conditions(username: &str) -> Value {
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

/// The entries for workloads of a configuration: those whose names end so.
fn ours<'a>(configuration: &'a Value, ending: &'static str) -> impl Iterator<Item = &'a Value> {
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    entries.filter(move |entry| entry["name"].as_str().is_some_and(|name| name.ends_with(ending)))
}

/// What is registered, from a configuration: the group and plural of each entry of ours.
pub(super) fn registered_resources(configuration: &Value) -> Vec<(String, String)> {
    ours(configuration, names::HOLD_WEBHOOK)
        .filter_map(|entry| {
            let rule = entry["rules"].get(0)?;
            let text = |field: &str| rule[field].get(0)?.as_str().map(str::to_owned);
            Some((text("apiGroups")?, text("resources")?))
        })
        .collect()
}

/// Whether `have` has every member of `want` with the same value; lists must have the same length, and the webhooks the same names,
/// in whatever order.
pub(super) fn says(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => want.iter().all(|(name, want)| {
            let have = have.get(name).unwrap_or(&Value::Null);
            match (name.as_str(), have, want) {
                ("webhooks", Value::Array(have), Value::Array(want)) => say_all(by_name(have), by_name(want)),
                _ => says(have, want),
            }
        }),
        (Value::Array(have), Value::Array(want)) => say_all(have.iter().collect(), want.iter().collect()),
        (Value::Null, Value::Array(want)) => want.is_empty(),
        (have, want) => have == want,
    }
}

fn say_all(have: Vec<&Value>, want: Vec<&Value>) -> bool {
    have.len() == want.len() && have.into_iter().zip(want).all(|(have, want)| says(have, want))
}

fn by_name(entries: &[Value]) -> Vec<&Value> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|entry| entry["name"].as_str());
    entries
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
    fn the_order_of_webhooks_does_not_matter() {
        let entry = |name: &str, rule: &str| json!({"name": name, "rules": [{"resources": [rule]}]});
        let want = json!({"webhooks": [entry("a", "x"), entry("b", "y")]});
        assert!(says(
            &json!({"webhooks": [entry("b", "y"), entry("a", "x")]}),
            &want
        ));
        assert!(!says(
            &json!({"webhooks": [entry("b", "x"), entry("a", "y")]}),
            &want
        ));
        assert!(!says(&json!({"webhooks": [entry("a", "x")]}), &want));
    }

    #[test]
    fn no_entry_is_given_up_before_all_kinds_are_known() {
        let resource = |group: &str, plural: &str| {
            let kind = kube::core::GroupVersionKind::gvk(group, "v1", "Kind");
            ApiResource::from_gvk_with_plural(&kind, plural)
        };
        let entries = |port: u16, governed: &Governed, present: &Value| {
            let common = Entries {
                endpoint: &Endpoint::Url(format!("https://127.0.0.1:{port}")),
                ca_bundle_pem: Some("pem"),
                namespace: "ops",
                username: "us",
            };
            common.holds(governed, present)
        };
        let (one, two) = (resource("one.example", "as"), resource("two.example", "bs"));
        let both = Governed {
            resources: vec![one, two.clone()],
            complete: true,
        };
        let present = json!({"webhooks": entries(1, &both, &Value::Null)});
        let none = |complete| Governed {
            resources: Vec::new(),
            complete,
        };
        let some = |complete| Governed {
            resources: vec![two.clone()],
            complete,
        };
        for unsure in [none(false), some(false)] {
            let kept = entries(2, &unsure, &present);
            let text = kept.to_string();
            assert_eq!(kept.as_array().map(Vec::len), Some(2), "{text}");
            assert!(
                !text.contains("127.0.0.1:1") && text.matches("127.0.0.1:2").count() == 2,
                "{text}"
            );
        }
        assert_eq!(
            entries(2, &some(true), &present).as_array().map(Vec::len),
            Some(1)
        );
        assert_eq!(entries(2, &none(true), &present), json!([]));
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
