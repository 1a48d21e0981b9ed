use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use kruise_rollout::api::v1beta1::Rollout;
use kube::Api;
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use crate::connect::{Listings, Scope, follow_each, scopes};
use crate::context::Context;
use crate::gates::Gate;
use crate::telemetry::chain;
use crate::world::{Key, key_of};

/// Follows all Rollouts of the area.
pub(crate) async fn follow(
    context: Arc<Context>,
    known: Gate,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let scopes = scopes(&context.area);
    let mut listings: Listings<Key> = Listings::of(scopes.clone());
    let api = |scope: &Scope| match scope {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    };
    let mut events = pin!(follow_each(scopes.into_iter().map(|scope| {
        let api: Api<Rollout> = api(&scope);
        (scope, api)
    })));
    while let Some(Some((scope, event))) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init) => listings.begin(scope),
            Ok(watcher::Event::InitApply(rollout)) => {
                listings.has(scope, key_of(&rollout));
                context.look_at(context.world.put_rollout(rollout));
            }
            Ok(watcher::Event::InitDone) => {
                let listed = listings.end(&scope);
                for gone in context.world.rollout_keys(scope.as_deref()).difference(&listed) {
                    context.look_at(context.world.drop_rollout(gone));
                }
                if listings.all_read() {
                    context.look_at(context.world.rollouts_known());
                    known.open();
                }
            }
            Ok(watcher::Event::Apply(rollout)) => context.look_at(context.world.put_rollout(rollout)),
            Ok(watcher::Event::Delete(rollout)) => {
                context.look_at(context.world.drop_rollout(&key_of(&rollout)));
            }
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "Rollouts cannot be watched."
                );
                continue;
            }
        }
        context.kinds_changed.notify_one();
    }
    Ok(())
}
