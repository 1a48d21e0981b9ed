use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kruise_rollout::workload::PodView;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{concern, revisions};
use crate::backoff::WatchBackoff;
use crate::connect::{Object, follow_objects};
use crate::context::Context;
use crate::telemetry::chain;
use crate::world::Sight;

/// Watches what releases in progress need, in exactly their namespaces.
pub(crate) async fn follow(context: Arc<Context>, stop: CancellationToken) -> Result<(), Infallible> {
    let mut watched: HashMap<(String, Sight), CancellationToken> = HashMap::new();
    let mut turns: HashMap<(String, Sight), Arc<Mutex<()>>> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = context.world.sights();
        watched.retain(|sight, token| {
            let keep = wanted.contains(sight);
            if !keep {
                token.cancel();
            }
            keep
        });
        for sight in wanted {
            if let Entry::Vacant(entry) = watched.entry(sight) {
                let token = stop.child_token();
                let turn = turns.entry(entry.key().clone()).or_default().clone();
                tasks.spawn(watch(context.clone(), entry.key().clone(), turn, token.clone()));
                entry.insert(token);
            }
        }
        while tasks.try_join_next().is_some() {}
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
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

/// Watches one sort of objects in a namespace until the stop, and forgets them. `turn` is held meanwhile: a watch that has not quite
/// ended would forget what the next one finds, and nobody would list it again.
async fn watch(
    context: Arc<Context>,
    (namespace, sight): (String, Sight),
    turn: Arc<Mutex<()>>,
    stop: CancellationToken,
) {
    let _turn = turn.lock().await;
    match sight {
        Sight::Pods => {
            stop.run_until_cancelled(take_in(&context, &namespace)).await;
            context.world.with_pods(|pods| pods.forget(&namespace));
        }
        Sight::Revisions(kind) => {
            stop.run_until_cancelled(revisions::take_in(&context, &namespace, kind))
                .await;
            context
                .world
                .with_revisions(|revisions| revisions.forget(&namespace, kind));
        }
    }
}

async fn take_in(context: &Arc<Context>, namespace: &str) {
    let resource = ApiResource::erase::<Pod>(&());
    let api: Api<Object> = Api::namespaced_with(context.client.clone(), namespace, &resource);
    let mut events = pin!(follow_objects(api, watcher::Config::default()));
    let mut listed: HashSet<String> = HashSet::new();
    let mut owners = Owners::new(context.clone(), namespace.to_owned());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(pod)) => {
                listed.insert(pod.name_any());
                owners.put(pod.content()).await;
            }
            Ok(watcher::Event::InitDone) => {
                context.world.with_pods(|pods| pods.complete(namespace, &listed));
                listed = HashSet::new();
                context.look_at(context.world.keys_in(namespace));
            }
            Ok(watcher::Event::Apply(pod)) => owners.put(pod.content()).await,
            Ok(watcher::Event::Delete(pod)) => {
                let owner = context
                    .world
                    .with_pods(|pods| pods.remove(namespace, &pod.name_any()));
                concern(context, owner);
            }
            Err(error) => {
                tracing::warn!(namespace, error = %chain(&error), "Pods cannot be watched.");
            }
        }
    }
}

/// Finds the workload that a pod belongs to: its controller owner, or that one's controller owner. An operator may have its pods
/// made by a StatefulSet or a ReplicaSet.
struct Owners {
    context: Arc<Context>,
    namespace: String,
    /// UID of an intermediate owner → UID of its controller owner.
    parents: HashMap<String, Option<String>>,
}

impl Owners {
    fn new(context: Arc<Context>, namespace: String) -> Self {
        Self {
            context,
            namespace,
            parents: HashMap::new(),
        }
    }

    async fn put(&mut self, pod: &Value) {
        let mut view = PodView::read(pod);
        if let Some(owner) = &view.owner
            && !self.context.world.is_workload(owner)
            && let Some(owner) = controller_of(pod)
            && let Some(parent) = self.parent(&owner).await
        {
            view.owner = Some(parent);
        }
        let owners = self
            .context
            .world
            .with_pods(|pods| pods.put(&self.namespace, view));
        concern(&self.context, owners);
    }

    async fn parent(&mut self, owner: &OwnerReference) -> Option<String> {
        if let Some(known) = self.parents.get(&owner.uid) {
            return known.clone();
        }
        let resource = match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("apps/v1", "StatefulSet") => ApiResource::erase::<StatefulSet>(&()),
            ("apps/v1", "ReplicaSet") => ApiResource::erase::<ReplicaSet>(&()),
            _ => return None,
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.context.client.clone(), &self.namespace, &resource);
        let mut pauses = WatchBackoff::default();
        let parent = loop {
            match api.get_metadata_opt(&owner.name).await {
                Ok(object) => {
                    let owners = object.and_then(|object| object.metadata.owner_references);
                    let mut owners = owners.into_iter().flatten();
                    break owners
                        .find(|owner| owner.controller == Some(true))
                        .map(|owner| owner.uid);
                }
                Err(error) => {
                    tracing::warn!(namespace = self.namespace, error = %chain(&error), "An owner of pods cannot be read.");
                    if matches!(&error, kube::Error::Api(status) if status.code == 403) {
                        return None;
                    }
                    // Nothing else would ever have the pod counted, if nothing happens to it.
                    tokio::time::sleep(pauses.next().unwrap_or_default()).await;
                }
            }
        };
        self.parents.insert(owner.uid.clone(), parent.clone());
        parent
    }
}

fn controller_of(pod: &Value) -> Option<OwnerReference> {
    let mut owners = pod["metadata"]["ownerReferences"].as_array()?.iter();
    let owner = owners.find(|owner| owner["controller"] == true)?;
    serde_json::from_value(owner.clone()).ok()
}
