use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use crate::connect::follow_objects;
use crate::context::Context;
use crate::telemetry::chain;

/// Follows CustomResourceDefinitions, metadata only: a new one may be the kind that a Rollout waits for, a changed one may have
/// gained or lost the partition.
pub(crate) async fn follow(context: Arc<Context>, stop: CancellationToken) -> Result<(), Infallible> {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(context.client.clone());
    let mut events = pin!(follow_objects(api, watcher::Config::default()));
    // The specs that were seen last: their generations, by name.
    let mut specs: HashMap<String, Option<i64>> = HashMap::new();
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
            Ok(watcher::Event::InitApply(definition) | watcher::Event::Apply(definition)) => {
                let (name, generation) = (definition.name_any(), definition.metadata.generation);
                let before = specs.insert(name.clone(), generation);
                if before.is_some_and(|before| before != generation) {
                    changed(&context, &name);
                }
                context.definitions.send_modify(|count| *count += 1);
            }
            Ok(watcher::Event::Delete(definition)) => {
                specs.remove(&definition.name_any());
                context.definitions.send_modify(|count| *count += 1);
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "Definitions cannot be watched.");
            }
        }
    }
    Ok(())
}

/// The schema of a kind changed. A definition is named `<plural>.<group>`.
fn changed(context: &Context, name: &str) {
    for kind in context.world.wanted_kinds() {
        let resource = context.world.resource(&kind);
        if resource.is_some_and(|resource| name == format!("{}.{}", resource.plural, resource.group)) {
            context.look_at(context.world.outdate(&kind));
        }
    }
}
