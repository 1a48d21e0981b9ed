//! What the configurations say: one entry for each governed kind, and one for Rollouts.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use kruise_rollout::admission::policy::{
    Governed as Rule, may_be_loosened, may_touch_the_hold, no_probe_of_the_policies, not_our_own_step,
};
use kruise_rollout::area::Area;
use kruise_rollout::names;
use kruise_rollout::workload::{Adapter, GroupKind, adapter_for};
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::standing::Plural;
use crate::webhook::{CONFIRM, MUTATE, VALIDATE};

/// How long the API server waits for a verdict that it needs, in seconds.
const TIMEOUT_SECONDS: u32 = 5;
/// How long it waits for one that it can do without.
const DISPENSABLE_SECONDS: u32 = 1;

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
    /// What the controller governs.
    pub(super) area: &'a Area,
    /// User name of the controller.
    pub(super) username: &'a str,
    /// The kinds that the API server holds by itself, so that their entries may fail.
    pub(super) dispensed: &'a BTreeSet<Plural>,
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
            let (policy, timeout) = self.need(&registered_resource(&entry).unwrap_or_default());
            entry["failurePolicy"] = json!(policy);
            entry["timeoutSeconds"] = json!(timeout);
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
        let mut entry = json!({
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
        });
        if let Some(selector) = self.area.selector_of_rollouts() {
            entry["namespaceSelector"] = selector;
        }
        entry
    }

    /// The mutating entry of one kind, which holds.
    fn hold(&self, resource: &ApiResource) -> Option<Value> {
        let adapter = adapter_for(&kind_of(resource))?;
        let mut entry = self.workload(resource, adapter, names::HOLD_WEBHOOK, MUTATE);
        entry["reinvocationPolicy"] = json!("IfNeeded");
        entry["matchConditions"] = json!([
            may_touch_the_hold(adapter),
            not_our_own_step(self.username),
            no_probe_of_the_policies(self.username),
        ]);
        Some(entry)
    }

    /// The validating entry of one kind. It sees what is going to be stored, after all mutating webhooks: where one that comes after
    /// ours changes the template in a write that did not concern us, the API server does not ask ours for the first time.
    fn check(&self, resource: &ApiResource) -> Option<Value> {
        let adapter = adapter_for(&kind_of(resource))?;
        let mut entry = self.workload(resource, adapter, names::CONFIRM_WEBHOOK, CONFIRM);
        let guarded = json!({
            "name": "guarded",
            "expression": format!("oldObject.metadata.?annotations[?'{}'].hasValue()", names::GUARDED_BY),
        });
        let [not_held, loosened] = may_be_loosened(adapter);
        entry["matchConditions"] = json!([guarded, not_held, loosened, not_our_own_step(self.username)]);
        Some(entry)
    }

    /// What is to happen when the webhook does not answer, and how many seconds it has for that.
    fn need(&self, kind: &Plural) -> (&'static str, u32) {
        if self.dispensed.contains(kind) {
            ("Ignore", DISPENSABLE_SECONDS)
        } else {
            ("Fail", TIMEOUT_SECONDS)
        }
    }

    fn workload(&self, resource: &ApiResource, adapter: &dyn Adapter, name: &str, path: &str) -> Value {
        let (policy, timeout) = self.need(&plural_of(resource));
        let rule = rule_of(resource);
        json!({
            "name": format!("{}.{}.{name}", resource.plural, resource.group),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": policy,
            "timeoutSeconds": timeout,
            "matchPolicy": "Equivalent",
            "namespaceSelector": self.area.selector(),
            "objectSelector": {"matchLabels": {names::WORKLOAD_TYPE: adapter.type_label()}},
            "rules": [{"apiGroups": [rule.group], "apiVersions": [rule.version], "operations": ["UPDATE"],
                "resources": rule.resources(), "scope": "Namespaced"}],
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

/// Group and plural of a resource.
pub(super) fn plural_of(resource: &ApiResource) -> Plural {
    (resource.group.clone(), resource.plural.clone())
}

/// A kind as the rules of policies name it.
pub(super) fn rule_of(resource: &ApiResource) -> Rule {
    Rule {
        group: resource.group.clone(),
        plural: resource.plural.clone(),
        version: resource.version.clone(),
    }
}

/// The entries for workloads of a configuration: those whose names end so.
fn ours<'a>(configuration: &'a Value, ending: &'static str) -> impl Iterator<Item = &'a Value> {
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    entries.filter(move |entry| entry["name"].as_str().is_some_and(|name| name.ends_with(ending)))
}

/// What is registered, from a configuration: the group and plural of each entry of ours.
pub(super) fn registered_resources(configuration: &Value) -> Vec<Plural> {
    ours(configuration, names::HOLD_WEBHOOK)
        .filter_map(registered_resource)
        .collect()
}

/// The group and plural of an entry.
fn registered_resource(entry: &Value) -> Option<Plural> {
    let rule = entry["rules"].get(0)?;
    let text = |field: &str| rule[field].get(0)?.as_str().map(str::to_owned);
    Some((text("apiGroups")?, text("resources")?))
}

/// The kinds of which a configuration says that the API server can do without us.
pub(super) fn dispensed(configuration: &Value) -> impl Iterator<Item = Plural> {
    let entries = ours(configuration, names::HOLD_WEBHOOK);
    entries
        .filter(|entry| entry["failurePolicy"] == "Ignore")
        .filter_map(registered_resource)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                area: &Area::whole("ops"),
                username: "us",
                dispensed: &BTreeSet::new(),
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
