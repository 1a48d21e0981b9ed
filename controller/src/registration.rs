//! Our webhook configurations: which writes the API server sends to us.
//!
//! There is one entry for each kind that is governed, so nothing else in the cluster ever waits for us. The controller writes the
//! configurations itself and puts them right when somebody resets them; they are owned by its ClusterRole, so that removing the
//! RBAC removes them. They are also the memory of what is governed: a restarted controller finds marked objects by the kinds that
//! are registered here.
//!
//! [`entries`] has what they say, [`crate::pace`] keeps two writers from outshouting each other. Every replica looks at the configurations,
//! because a certificate is served only where they trust it; the leading one writes.

mod entries;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kruise_rollout::names;
use kruise_rollout::workload::GroupKind;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PostParams};
use kube::discovery::ApiGroup;
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::entries::{Entries, kind_of, registered_resources, says};
use crate::certs::{CertState, Trusted};
use crate::connect::follow_objects;
use crate::context::{Context, patch_params};
use crate::lease::Leadership;
use crate::pace::Pace;
use crate::telemetry::chain;

pub(crate) use self::entries::{Endpoint, Governed};

/// Pause after a failed write.
const RETRY: Duration = Duration::from_secs(1);
/// Annotations by which cert-manager is asked to write the `caBundle`s of a configuration; they differ in where it takes them from.
const INJECTED: &str = "cert-manager.io/inject-";

/// The kinds that an earlier process registered and that the server still has.
pub(crate) async fn registered_before(client: &Client) -> kube::Result<Vec<GroupKind>> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let Some(found) = api.get_opt(names::WEBHOOK_CONFIGURATION).await? else {
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

/// One of the two configurations.
struct Configuration {
    /// As it was last seen or written: nothing before the first look, null while it is not there.
    seen: Option<Value>,
    pace: Pace<Value>,
}

impl Configuration {
    fn new() -> Self {
        Self {
            seen: None,
            pace: Pace::default(),
        }
    }

    /// Takes what the watch says, unless it is older than the answer to a write of ours.
    fn see(&mut self, new: Value) {
        let version =
            |of: &Value| -> Option<u64> { of["metadata"]["resourceVersion"].as_str()?.parse().ok() };
        let older = self.seen.as_ref().is_some_and(|old| {
            old["metadata"]["uid"] == new["metadata"]["uid"]
                && matches!((version(&new), version(old)), (Some(new), Some(old)) if new < old)
        });
        if !older {
            self.seen = Some(new);
        }
    }

    /// Whether cert-manager writes its `caBundle`s, so that we must not.
    fn is_injected(&self) -> bool {
        let annotations = self
            .seen
            .as_ref()
            .and_then(|seen| seen["metadata"]["annotations"].as_object());
        annotations.is_some_and(|annotations| annotations.keys().any(|name| name.starts_with(INJECTED)))
    }

    /// The `caBundle`s of our entries in PEM.
    fn bundles(&self) -> impl Iterator<Item = String> {
        let entries = self.seen.iter().filter_map(|seen| seen["webhooks"].as_array());
        entries.flatten().map(|entry| {
            let bundle = serde_json::from_value(entry["clientConfig"]["caBundle"].clone());
            bundle.map_or_else(
                |_| String::new(),
                |ByteString(pem)| String::from_utf8_lossy(&pem).into_owned(),
            )
        })
    }

    /// These entries with the `caBundle`s that the present ones have.
    fn with_present_bundles(&self, mut entries: Value) -> Value {
        let present = self.seen.as_ref().and_then(|seen| seen["webhooks"].as_array());
        for entry in entries.as_array_mut().into_iter().flatten() {
            let same =
                present.and_then(|present| present.iter().find(|other| other["name"] == entry["name"]));
            if let Some(bundle) = same.and_then(|same| same["clientConfig"].get("caBundle")) {
                entry["clientConfig"]["caBundle"] = bundle.clone();
            }
        }
        entries
    }

    /// Writes it unless it says already what it should; when to look again, if not now.
    ///
    /// The list of entries is written as a whole, over the very state that was seen. An apply would leave entries behind that
    /// others have applied too, and the API server refuses what is left of them.
    async fn ensure<K: Resource<DynamicType = ()>>(
        &mut self,
        client: &Client,
        owner: &Value,
        entries: Value,
    ) -> kube::Result<Option<Instant>> {
        let kind = K::kind(&());
        let want = json!({
            "apiVersion": K::api_version(&()), "kind": kind,
            "metadata": {"name": names::WEBHOOK_CONFIGURATION, "ownerReferences": owner},
            "webhooks": entries,
        });
        let have = self.seen.as_ref().unwrap_or(&Value::Null);
        // An object from a list does not say of what kind it is.
        if ["metadata", "webhooks"]
            .iter()
            .all(|part| says(&have[part], &want[part]))
        {
            return Ok(None);
        }
        let now = Instant::now();
        if let Some(later) = self.pace.must_wait(&want, now) {
            return Ok(Some(later));
        }
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
        let written = if have.is_null() {
            let params = PostParams {
                field_manager: Some(names::FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            };
            let object = serde_json::from_value(want.clone()).map_err(kube::Error::SerdeError)?;
            api.create(&params, &object).await
        } else {
            let mut patch = want.clone();
            patch["metadata"]["resourceVersion"] = have["metadata"]["resourceVersion"].clone();
            let patch = Patch::Merge(&patch);
            api.patch(names::WEBHOOK_CONFIGURATION, &patch_params(), &patch)
                .await
        };
        match written {
            Ok(answer) => self.seen = serde_json::to_value(answer).ok(),
            // Somebody else was faster; the watch is about to tell what they wrote.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                return Ok(Some(now + RETRY));
            }
            Err(error) => return Err(error),
        }
        if self.pace.wrote(want, now) {
            tracing::warn!(%kind, "Put the webhook configuration right again: somebody else writes it, too.");
        } else {
            tracing::info!(%kind, "Wrote the webhook configuration.");
        }
        Ok(None)
    }
}

/// Keeps the configurations right.
pub(crate) struct Registrar {
    context: Arc<Context>,
    endpoint: Endpoint,
    leadership: Leadership,
    kinds: watch::Receiver<Governed>,
    certificates: watch::Receiver<Option<CertState>>,
    trusted: watch::Sender<Trusted>,
    mutating: Configuration,
    validating: Configuration,
}

impl Registrar {
    /// Registers `kinds` with what `certificates` has to be trusted, and tells what is by `trusted`.
    pub(crate) fn new(
        context: Arc<Context>,
        endpoint: Endpoint,
        leadership: Leadership,
        kinds: watch::Receiver<Governed>,
        certificates: watch::Receiver<Option<CertState>>,
        trusted: watch::Sender<Trusted>,
    ) -> Self {
        Self {
            context,
            endpoint,
            leadership,
            kinds,
            certificates,
            trusted,
            mutating: Configuration::new(),
            validating: Configuration::new(),
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
        let mut again: Option<Instant> = None;
        loop {
            tokio::select! {
                Some(seen) = mutating.next() => self.mutating.see(seen),
                Some(seen) = validating.next() => self.validating.see(seen),
                Ok(()) = self.kinds.changed() => {}
                Ok(()) = self.certificates.changed() => {}
                () = self.leadership.changed() => {}
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
            again = None;
            if self.mutating.seen.is_none() || self.validating.seen.is_none() {
                continue;
            }
            self.tell_trusted();
            // Of several replicas the one that leads writes.
            if !self.leadership.holds() {
                continue;
            }
            again = match self.write().await {
                Ok(later) => later,
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "The webhook configurations cannot be written.");
                    Some(Instant::now() + RETRY)
                }
            };
            self.tell_trusted();
        }
    }

    fn tell_trusted(&self) {
        let bundles: BTreeSet<_> = self.mutating.bundles().chain(self.validating.bundles()).collect();
        self.trusted.send_if_modified(|trusted| {
            let new = trusted.0 != bundles;
            trusted.0 = bundles;
            new
        });
    }

    /// Writes what is not as it should be; when to look again, if something has to wait.
    async fn write(&mut self) -> kube::Result<Option<Instant>> {
        let Some(CertState { ca_bundle_pem }) = self.certificates.borrow_and_update().clone() else {
            return Ok(None);
        };
        let governed = self.kinds.borrow_and_update().clone();
        let client = &self.context.client;
        let owner = owner(client).await?;
        let entries = |of: &Configuration| Entries {
            endpoint: &self.endpoint,
            ca_bundle_pem: ca_bundle_pem.as_deref().filter(|_| !of.is_injected()),
            namespace: &self.context.namespace,
            username: &self.context.username,
        };
        let present = self.mutating.seen.as_ref().unwrap_or(&Value::Null);
        let mut holds = entries(&self.mutating).holds(&governed, present);
        let present = self.validating.seen.as_ref().unwrap_or(&Value::Null);
        let mut reviews = entries(&self.validating).reviews(&governed, present);
        for (of, entries) in [(&self.mutating, &mut holds), (&self.validating, &mut reviews)] {
            if of.is_injected() {
                *entries = of.with_present_bundles(entries.take());
            }
        }
        let mutating = &mut self.mutating;
        let held = mutating
            .ensure::<MutatingWebhookConfiguration>(client, &owner, holds)
            .await?;
        if held.is_none() {
            self.publish(&governed.resources);
        }
        let validating = &mut self.validating;
        let reviewed = validating
            .ensure::<ValidatingWebhookConfiguration>(client, &owner, reviews)
            .await?;
        Ok(held.into_iter().chain(reviewed).min())
    }

    /// Says which kinds are registered, and looks again at the Rollouts of new ones.
    fn publish(&self, resources: &[ApiResource]) {
        let kinds: Vec<_> = resources.iter().map(kind_of).collect();
        let before = self.context.registered.send_replace(kinds.clone());
        for kind in kinds.iter().filter(|kind| !before.contains(kind)) {
            self.context.look_at(self.context.world.retry(kind));
        }
    }
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
