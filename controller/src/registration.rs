//! Our webhook configurations: which writes the API server sends to us.
//!
//! There is one entry for each kind that is governed, so nothing else in the cluster ever waits for us. The controller writes the
//! configurations itself and puts them right when somebody resets them; they are owned by its ClusterRole, so that removing the
//! RBAC removes them. They are also the memory of what is governed: a restarted controller finds marked objects by the kinds that
//! are registered here.

mod entries;

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
use kruise_rollout::workload::GroupKind;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::entries::{Entries, kind_of};
use crate::backoff::WatchBackoff;
use crate::certs::CertState;
use crate::context::Context;
use crate::lease::Leadership;
use crate::telemetry::chain;

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

/// The kinds that an earlier process registered and that the server still has.
pub(crate) async fn registered_before(client: &Client) -> kube::Result<Vec<GroupKind>> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let Some(found) = api.get_opt(names::WEBHOOK_CONFIGURATION).await? else {
        return Ok(Vec::new());
    };
    let mut kinds = Vec::new();
    for (group, plural) in registered_resources(&serde_json::to_value(found).unwrap_or_default()) {
        // A group that is gone has no objects either.
        if let Ok(group) = kube::discovery::group(client, &group).await {
            let resources = group.recommended_resources();
            let of_plural = resources
                .into_iter()
                .find(|(resource, _)| resource.plural == plural);
            kinds.extend(of_plural.map(|(r, _)| GroupKind {
                group: r.group,
                kind: r.kind,
            }));
        }
    }
    Ok(kinds)
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
            let Some(wanted) = self.wanted().await else {
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

    async fn wanted(&mut self) -> Option<Wanted> {
        let bundle = self
            .certificates
            .borrow_and_update()
            .as_ref()?
            .ca_bundle_pem
            .clone();
        let resources = self.kinds.borrow_and_update().clone();
        let owner = owner(&self.context.client).await;
        let metadata = json!({"name": names::WEBHOOK_CONFIGURATION, "ownerReferences": owner});
        let entries = Entries {
            endpoint: &self.endpoint,
            own_namespace: &self.context.namespace,
            username: &self.context.username,
            bundle: &bundle,
        };
        let holds: Vec<_> = resources.iter().filter_map(|kind| entries.hold(kind)).collect();
        let checks = resources.iter().filter_map(|kind| entries.check(kind));
        let checks: Vec<_> = std::iter::once(entries.review()).chain(checks).collect();
        let kinds = resources.iter().map(kind_of).collect();
        Some(Wanted {
            mutating: json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "metadata": metadata, "webhooks": holds,
            }),
            validating: json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": metadata, "webhooks": checks,
            }),
            kinds,
        })
    }
}

/// Reference to the ClusterRole that owns the registrations; none where there is no such role.
async fn owner(client: &Client) -> Value {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let role = roles.get_metadata_opt(names::CLUSTER_ROLE).await.ok().flatten();
    match role.and_then(|role| role.metadata.uid) {
        Some(uid) => json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "name": names::CLUSTER_ROLE, "uid": uid}]),
        None => json!([]),
    }
}

/// The states of our configuration of one kind; null while it is not there.
fn changes<K: Resource<DynamicType = ()>>(client: &Client) -> impl futures::Stream<Item = Value> + use<K> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let field = format!("metadata.name={}", names::WEBHOOK_CONFIGURATION);
    let config = watcher::Config::default().fields(&field).timeout(60);
    let mut found = Value::Null;
    watcher(api, config)
        .backoff(WatchBackoff::default())
        .filter_map(move |event| {
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
    if says(have, want) {
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
