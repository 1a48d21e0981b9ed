use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use super::watch_config;
use crate::context::Context;
use crate::telemetry::chain;

/// Follows CustomResourceDefinitions, metadata only: a new one may be the kind that a Rollout waits for, a changed one may have
/// gained or lost the partition.
pub(crate) async fn follow(context: Arc<Context>, stop: CancellationToken) -> Result<(), Infallible> {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(context.client.clone());
    let mut events = pin!(watcher(api, watch_config()).default_backoff());
    let mut first = true;
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
            Ok(watcher::Event::InitDone) => {
                // After a gap anything may have changed.
                if !std::mem::take(&mut first) {
                    changed(&context, None);
                }
            }
            Ok(watcher::Event::Apply(definition) | watcher::Event::Delete(definition)) => {
                changed(&context, Some(&definition.name_any()));
            }
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "Definitions cannot be watched."
                );
            }
        }
    }
    Ok(())
}

/// A definition is named `<plural>.<group>`.
fn changed(context: &Context, name: Option<&str>) {
    context.definitions.send_modify(|count| *count += 1);
    for kind in context.world.wanted_kinds() {
        let resource = context.world.resource(&kind);
        let concerned = resource.is_none_or(|resource| {
            name.is_none_or(|name| name == format!("{}.{}", resource.plural, resource.group))
        });
        if concerned {
            context.look_at(context.world.outdate(&kind));
        }
    }
}
