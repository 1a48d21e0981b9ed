//! Our webhook configurations: which writes the API server sends to us.
//!
//! There is one entry for each kind that is governed, so nothing else in the cluster ever waits for us. The controller writes the
//! configurations itself and puts them right when somebody resets them; they are owned by its ClusterRole, so that removing the
//! RBAC removes them. They are also the memory of what is governed: a restarted controller finds marked objects by the kinds that
//! are registered here.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kruise_rollout::names;
use kruise_rollout::workload::{GroupKind, adapter_for};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::discovery::ApiGroup;
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::certs::CertState;
use crate::connect::follow_objects;
use crate::context::Context;
use crate::lease::Leadership;
use crate::telemetry::chain;
use crate::webhook::{MUTATE, VALIDATE};

/// How long the API server waits for a verdict, in seconds.
const TIMEOUT_SECONDS: u32 = 5;
/// Pause after a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// Where the API server reaches the webhook.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// Through the Service in this namespace.
    Service(String),
    /// At this URL.
    Url(String),
}

impl Endpoint {
    fn client_config(&self, path: &str, ca_bundle_pem: &str) -> Value {
        let bundle = json!(k8s_openapi::ByteString(ca_bundle_pem.as_bytes().to_vec()));
        match self {
            Self::Service(namespace) => json!({
                "service": {"name": names::WEBHOOK_SERVICE, "namespace": namespace, "path": path, "port": 443},
                "caBundle": bundle,
            }),
            Self::Url(base) => json!({"url": format!("{base}{path}"), "caBundle": bundle}),
        }
    }
}

/// What is registered, from a configuration: the group and plural of each entry of ours.
fn registered_resources(configuration: &Value) -> Vec<(String, String)> {
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

/// The resources that an earlier process registered and that the server still has.
pub(crate) async fn registered_before(client: &Client) -> kube::Result<Vec<ApiResource>> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let Some(found) = api.get_opt(names::WEBHOOK_CONFIGURATION).await? else {
        return Ok(Vec::new());
    };
    let mut found_again = Vec::new();
    for (group, plural) in registered_resources(&serde_json::to_value(found).unwrap_or_default()) {
        // A group that is gone has no objects either.
        let Some(group) = found_group(client, &group).await? else {
            continue;
        };
        let resources = group.recommended_resources().into_iter();
        found_again.extend(
            resources
                .map(|(resource, _)| resource)
                .find(|r| r.plural == plural),
        );
    }
    Ok(found_again)
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

/// The two configurations as they should be.
struct Wanted {
    mutating: Value,
    validating: Value,
    kinds: Vec<GroupKind>,
}

/// Keeps the configurations right.
pub(crate) struct Registrar {
    context: Arc<Context>,
    endpoint: Endpoint,
    leadership: Leadership,
    kinds: watch::Receiver<Vec<ApiResource>>,
    certificates: watch::Receiver<Option<CertState>>,
}

impl Registrar {
    pub(crate) const fn new(
        context: Arc<Context>,
        endpoint: Endpoint,
        leadership: Leadership,
        kinds: watch::Receiver<Vec<ApiResource>>,
        certificates: watch::Receiver<Option<CertState>>,
    ) -> Self {
        Self {
            context,
            endpoint,
            leadership,
            kinds,
            certificates,
        }
    }

    /// Runs until `stop`.
    pub(crate) async fn keep(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.run_until_cancelled(self.turn()).await;
        Ok(())
    }

    async fn turn(&mut self) -> Infallible {
        let mut mutating = pin!(changes::<MutatingWebhookConfiguration>(&self.context.client));
        let mut validating = pin!(changes::<ValidatingWebhookConfiguration>(&self.context.client));
        let (mut seen_mutating, mut seen_validating) = (None, None);
        let mut failed = true;
        loop {
            tokio::select! {
                Some(seen) = mutating.next() => seen_mutating = Some(seen),
                Some(seen) = validating.next() => seen_validating = Some(seen),
                Ok(()) = self.kinds.changed() => {}
                Ok(()) = self.certificates.changed() => {}
                () = tokio::time::sleep(RETRY), if failed => {}
            }
            let (Some(have_mutating), Some(have_validating)) = (&seen_mutating, &seen_validating) else {
                continue;
            };
            // Of several replicas the one that leads writes; it goes on here when it begins to.
            self.leadership.gained().await;
            let owner = match owner(&self.context.client).await {
                Ok(owner) => owner,
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "The owner of the webhook configurations cannot be read.");
                    failed = true;
                    continue;
                }
            };
            let Some(wanted) = self.wanted(&owner) else {
                continue;
            };
            let written = async {
                ensure::<MutatingWebhookConfiguration>(&self.context.client, have_mutating, &wanted.mutating)
                    .await?;
                ensure::<ValidatingWebhookConfiguration>(
                    &self.context.client,
                    have_validating,
                    &wanted.validating,
                )
                .await
            };
            failed = match written.await {
                Ok(()) => {
                    self.publish(wanted.kinds);
                    false
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "The webhook configurations cannot be written.");
                    true
                }
            };
        }
    }

    /// Says which kinds are registered, and looks again at the Rollouts of new ones.
    fn publish(&self, kinds: Vec<GroupKind>) {
        let before = self.context.registered.send_replace(kinds.clone());
        for kind in kinds.iter().filter(|kind| !before.contains(kind)) {
            self.context.look_at(self.context.world.retry(kind));
        }
    }

    fn wanted(&mut self, owner: &Value) -> Option<Wanted> {
        let bundle = self
            .certificates
            .borrow_and_update()
            .as_ref()?
            .ca_bundle_pem
            .clone();
        let resources = self.kinds.borrow_and_update().clone();
        let metadata = json!({"name": names::WEBHOOK_CONFIGURATION, "ownerReferences": owner});
        let entries: Vec<_> = resources
            .iter()
            .filter_map(|resource| self.entry(resource, &bundle))
            .collect();
        let kinds = resources
            .iter()
            .map(|resource| GroupKind {
                group: resource.group.clone(),
                kind: resource.kind.clone(),
            })
            .collect();
        Some(Wanted {
            mutating: json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "metadata": metadata, "webhooks": entries,
            }),
            validating: json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": metadata,
                "webhooks": [{
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
                    "clientConfig": self.endpoint.client_config(VALIDATE, &bundle),
                }],
            }),
            kinds,
        })
    }

    /// The entry of one kind.
    fn entry(&self, resource: &ApiResource, bundle: &str) -> Option<Value> {
        let kind = GroupKind {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
        };
        let adapter = adapter_for(&kind)?;
        let excluded: Vec<_> = names::EXCLUDED_NAMESPACES
            .into_iter()
            .chain([self.context.namespace.as_str()])
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
            "matchConditions": match_conditions(&self.context.username),
            "clientConfig": self.endpoint.client_config(MUTATE, bundle),
        }))
    }
}

/// Which updates reach the webhook: those that could touch the hold, unless they are the controller's own steps. So a webhook that
/// is down cannot stop a release, and status writes, scaling by `/scale` and metadata of others never wait for it.
fn match_conditions(username: &str) -> Value {
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

/// Reference to the ClusterRole that owns the registrations; none where there is no such role, or none that we may read.
async fn owner(client: &Client) -> kube::Result<Value> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let uid = match roles.get_metadata_opt(names::CLUSTER_ROLE).await {
        Ok(role) => role.and_then(|role| role.metadata.uid),
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        Err(error) => return Err(error),
    };
    Ok(match uid {
        Some(uid) => json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "name": names::CLUSTER_ROLE, "uid": uid}]),
        None => json!([]),
    })
}

/// The states of our configuration of one kind; null while it is not there.
fn changes<K: Resource<DynamicType = ()>>(client: &Client) -> impl futures::Stream<Item = Value> + use<K> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let field = format!("metadata.name={}", names::WEBHOOK_CONFIGURATION);
    let config = watcher::Config::default().fields(&field);
    let mut found = Value::Null;
    follow_objects(api, config).filter_map(move |event| {
        let state = match event {
            Ok(watcher::Event::Init) => {
                found = Value::Null;
                None
            }
            Ok(watcher::Event::InitApply(object)) => {
                found = serde_json::to_value(object).unwrap_or_default();
                None
            }
            Ok(watcher::Event::InitDone) => Some(std::mem::take(&mut found)),
            Ok(watcher::Event::Apply(object)) => Some(serde_json::to_value(object).unwrap_or_default()),
            Ok(watcher::Event::Delete(_)) => Some(Value::Null),
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "A webhook configuration cannot be watched."
                );
                None
            }
        };
        futures::future::ready(state)
    })
}

/// Writes a configuration unless it says already what it should.
async fn ensure<K: Resource<DynamicType = ()>>(
    client: &Client,
    have: &Value,
    want: &Value,
) -> kube::Result<()> {
    // An object from a list does not say of what kind it is.
    if ["metadata", "webhooks"]
        .iter()
        .all(|part| says(&have[part], &want[part]))
    {
        return Ok(());
    }
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let params = PatchParams::apply(names::FIELD_MANAGER).force();
    api.patch(names::WEBHOOK_CONFIGURATION, &params, &Patch::Apply(want))
        .await?;
    tracing::info!(kind = %K::kind(&()), "Wrote the webhook configuration.");
    Ok(())
}

/// Whether `have` has every member of `want` with the same value; lists must have the same length.
fn says(have: &Value, want: &Value) -> bool {
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
