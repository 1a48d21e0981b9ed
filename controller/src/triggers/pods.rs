use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::workload::PodView;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::watch_config;
use crate::context::Context;

/// Watches pods in exactly the namespaces in which a release is in progress.
pub(crate) async fn follow(context: Arc<Context>, stop: CancellationToken) -> Result<(), Infallible> {
    let mut watched: HashMap<String, CancellationToken> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = context.world.releasing_namespaces();
        watched.retain(|namespace, token| {
            let keep = wanted.contains(namespace);
            if !keep {
                token.cancel();
            }
            keep
        });
        for namespace in wanted {
            if let Entry::Vacant(entry) = watched.entry(namespace) {
                let token = stop.child_token();
                tasks.spawn(watch(context.clone(), entry.key().clone(), token.clone()));
                entry.insert(token);
            }
        }
        while tasks.try_join_next().is_some() {}
        if stop
            .run_until_cancelled(context.releases_changed.notified())
            .await
            .is_none()
        {
            break;
        }
    }
    tasks.shutdown().await;
    Ok(())
}

async fn watch(context: Arc<Context>, namespace: String, stop: CancellationToken) {
    let resource = ApiResource::erase::<Pod>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &resource);
    let mut events = pin!(watcher(api, watch_config()).default_backoff());
    let mut listed: HashSet<String> = HashSet::new();
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(pod)) => {
                listed.insert(pod.name_any());
                put(&context, &namespace, pod);
            }
            Ok(watcher::Event::InitDone) => {
                context.world.with_pods(|pods| pods.complete(&namespace, &listed));
                listed = HashSet::new();
                context.look_at(context.world.keys_in(&namespace));
            }
            Ok(watcher::Event::Apply(pod)) => put(&context, &namespace, pod),
            Ok(watcher::Event::Delete(pod)) => {
                let owner = context
                    .world
                    .with_pods(|pods| pods.remove(&namespace, &pod.name_any()));
                concern(&context, owner);
            }
            Err(error) => {
                tracing::warn!(
                    namespace,
                    error = &error as &dyn std::error::Error,
                    "Pods cannot be watched."
                );
            }
        }
    }
    context.world.with_pods(|pods| pods.forget(&namespace));
}

fn put(context: &Context, namespace: &str, mut pod: DynamicObject) {
    pod.metadata.managed_fields = None;
    if let Ok(pod) = serde_json::to_value(&pod) {
        let view = PodView::read(&pod);
        let owners = context.world.with_pods(|pods| pods.put(namespace, view));
        concern(context, owners);
    }
}

fn concern(context: &Context, owners: impl IntoIterator<Item = String>) {
    for owner in owners {
        context.look_at(context.world.concerned_by_owner(&owner));
    }
}
