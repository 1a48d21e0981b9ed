use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use kruise_rollout::api::v1beta1::Rollout;
use kube::Api;
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use crate::connect::follow_objects;
use crate::context::Context;
use crate::gates::Gate;
use crate::telemetry::chain;
use crate::world::{Key, key_of};

/// Follows all Rollouts.
pub(crate) async fn follow(
    context: Arc<Context>,
    known: Gate,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let api: Api<Rollout> = Api::all(context.client.clone());
    let mut events = pin!(follow_objects(api, watcher::Config::default()));
    let mut listed: HashSet<Key> = HashSet::new();
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(rollout)) => {
                listed.insert(key_of(&rollout));
                context.look_at(context.world.put_rollout(rollout));
            }
            Ok(watcher::Event::InitDone) => {
                for gone in context.world.rollout_keys().difference(&listed) {
                    context.look_at(context.world.drop_rollout(gone));
                }
                listed = HashSet::new();
                context.look_at(context.world.rollouts_known());
                known.open();
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
