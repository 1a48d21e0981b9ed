//! Whether the existing controller of Rollouts is there too. It registers with the API server under a name of its own, and whoever stops it
//! for good removes that registration.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kruise_rollout::names;
use kruise_rollout::rollout::{Announcement, why};
use kube::runtime::watcher;
use kube::{Api, Resource as _};
use tokio_util::sync::CancellationToken;

use crate::connect::follow_objects;
use crate::context::Context;
use crate::events::Event;
use crate::telemetry::chain;

/// Follows the registration of the existing controller, the one object of its name.
pub(crate) async fn follow(context: Arc<Context>, stop: CancellationToken) -> Result<(), Infallible> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(context.client.clone());
    let name = format!("metadata.name={}", names::LEGACY_WEBHOOK_CONFIGURATION);
    let mut events = pin!(follow_objects(api, watcher::Config::default().fields(&name)));
    let mut found = None;
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init) => found = None,
            Ok(watcher::Event::InitApply(other)) => found = Some(other),
            Ok(watcher::Event::InitDone) => see(&context, found.take().as_ref()),
            Ok(watcher::Event::Apply(other)) => see(&context, Some(&other)),
            Ok(watcher::Event::Delete(_)) => see(&context, None),
            Err(error) => {
                tracing::debug!(error = %chain(&error), "The registration of another controller cannot be watched.");
            }
        }
    }
    Ok(())
}

/// Tells of another controller that has come, and looks at everything anew when it has gone.
fn see(context: &Context, other: Option<&MutatingWebhookConfiguration>) {
    context.metrics.has_beside(other.is_some());
    if context.beside_another.send_replace(other.is_some()) == other.is_some() {
        return;
    }
    let Some(other) = other else {
        tracing::info!("The other controller of Rollouts is not registered any more.");
        let registered = context.registered.borrow().clone();
        let refused = registered.iter().flat_map(|kind| context.world.retry(kind));
        let all = context.world.rollout_keys(None);
        return context.look_at(all.into_iter().chain(refused));
    };
    let message = warning(other);
    tracing::warn!("{message}");
    let announcement = Announcement {
        warning: true,
        reason: why::event::TWO_CONTROLLERS,
        message,
    };
    // A full backlog drops the event: it only tells.
    let _ = context
        .events
        .try_send(Event::new(other.object_ref(&()), announcement));
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
