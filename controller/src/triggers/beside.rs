//! Whether other controllers are there too: the existing one of Rollouts, or one of ours that governs a namespace of this one's. Each
//! registers with the API server under a name of its own, and whoever stops it for good removes that registration.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kruise_rollout::area::{Area, is_registration, overlap, registered_selector};
use kruise_rollout::names;
use kruise_rollout::rollout::{Announcement, why};
use kube::runtime::watcher;
use kube::{Api, Resource as _, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use crate::connect::follow_objects;
use crate::context::Context;
use crate::events::Event;
use crate::telemetry::chain;

/// Follows the registrations of all controllers, those of others among them.
pub(crate) async fn follow(context: Arc<Context>, stop: CancellationToken) -> Result<(), Infallible> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(context.client.clone());
    let mut events = pin!(follow_objects(api, watcher::Config::default()));
    let mut told = Told::default();
    let mut listed = BTreeSet::new();
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(other)) => {
                listed.insert(other.name_any());
                told.see(&context, &other);
            }
            Ok(watcher::Event::InitDone) => told.keep(&context, &listed),
            Ok(watcher::Event::Apply(other)) => told.see(&context, &other),
            Ok(watcher::Event::Delete(other)) => told.forget(&context, &other.name_any()),
            Err(error) => {
                tracing::debug!(error = %chain(&error), "The registrations of other controllers cannot be watched.");
            }
        }
    }
    Ok(())
}

/// What has been said of other controllers, by the names of their registrations.
#[derive(Default)]
struct Told(BTreeMap<String, String>);

impl Told {
    /// Tells of another controller that has come, or governs something else now.
    fn see(&mut self, context: &Context, other: &MutatingWebhookConfiguration) {
        let name = other.name_any();
        let Some(message) = judged(&context.area, other) else {
            return self.forget(context, &name);
        };
        if self.0.get(&name) == Some(&message) {
            return;
        }
        tracing::warn!("{message}");
        let announcement = Announcement {
            warning: true,
            reason: why::event::TWO_CONTROLLERS,
            message: message.clone(),
        };
        // A full backlog drops the event: it only tells.
        let _ = context
            .events
            .try_send(Event::new(other.object_ref(&()), announcement));
        self.0.insert(name, message);
        self.publish(context);
    }

    /// Forgets those that are not registered any more.
    fn keep(&mut self, context: &Context, registered: &BTreeSet<String>) {
        let gone: Vec<_> = self
            .0
            .keys()
            .filter(|name| !registered.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            self.forget(context, &name);
        }
    }

    /// Looks at everything anew when the existing controller has gone.
    fn forget(&mut self, context: &Context, name: &str) {
        if self.0.remove(name).is_none() {
            return;
        }
        tracing::info!(
            registration = name,
            "The other controller is not beside this one any more."
        );
        self.publish(context);
        if name == names::LEGACY_WEBHOOK_CONFIGURATION {
            let registered = context.registered.borrow().clone();
            let refused = registered.iter().flat_map(|kind| context.world.retry(kind));
            let all = context.world.rollout_keys(None);
            context.look_at(all.into_iter().chain(refused));
        }
    }

    fn publish(&self, context: &Context) {
        context.metrics.has_beside(!self.0.is_empty());
        let legacy = self.0.contains_key(names::LEGACY_WEBHOOK_CONFIGURATION);
        context.beside_another.send_replace(legacy);
    }
}

/// What there is to say of a registration.
fn judged(area: &Area, other: &MutatingWebhookConfiguration) -> Option<String> {
    let name = other.name_any();
    if name == names::LEGACY_WEBHOOK_CONFIGURATION {
        return Some(warning(other));
    }
    if !is_registration(&name) || name == area.name(names::WEBHOOK_CONFIGURATION) {
        return None;
    }
    let registered = serde_json::to_value(other).ok()?;
    let overlap = overlap(&area.selector(), &name, registered_selector(&registered)?)?;
    Some(format!("{}. {}", overlap.text, overlap.remedy))
}

fn warning(other: &MutatingWebhookConfiguration) -> String {
    let entries = other.webhooks.iter().flatten();
    let mut services = entries.filter_map(|entry| entry.client_config.service.as_ref());
    let namespace = services.next().map(|service| service.namespace.as_str());
    let namespace = namespace.unwrap_or(names::DEFAULT_NAMESPACE);
    let (deployment, configuration) = (names::LEGACY_DEPLOYMENT, names::LEGACY_WEBHOOK_CONFIGURATION);
    format!(
        "another controller of Rollouts is registered, by the MutatingWebhookConfiguration {configuration}: both would write the same \
         Rollouts and workloads. Stop it: kubectl -n {namespace} scale deployment {deployment} --replicas=0; once each Rollout is \
         Guarded, remove its registration: kubectl delete mutatingwebhookconfiguration {configuration}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_remedy_names_where_the_other_one_runs() {
        let registered = |client: serde_json::Value| {
            let configuration = json!({"metadata": {"name": "x"}, "webhooks": [{"name": "a.kb.io", "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "clientConfig": client}]});
            warning(&serde_json::from_value(configuration).unwrap())
        };
        let service = json!({"service": {"namespace": "delivery", "name": "w"}});
        for (client, namespace) in [
            (service, "delivery"),
            (json!({"url": "https://x"}), "kruise-rollout"),
        ] {
            let stop = format!(
                "kubectl -n {namespace} scale deployment kruise-rollout-controller-manager --replicas=0"
            );
            assert!(registered(client).contains(&stop), "{namespace}");
        }
    }
}
