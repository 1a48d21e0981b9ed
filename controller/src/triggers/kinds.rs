use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kruise_rollout::names;
use kruise_rollout::rollout::Workload;
use kruise_rollout::workload::GroupKind;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::connect::{Listings, Object, Scope, follow_each, scopes};
use crate::context::Context;
use crate::registration::{Governed, found_group, resources};
use crate::telemetry::chain;
use crate::world::{Place, Watch};

/// How long a kind that is not there is waited for before the server is asked again although no definition changed: kinds of
/// aggregated API servers have none.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Pause after a look-up that failed.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(1);

/// Watches exactly the kinds that Rollouts refer to or that have a marked object, and says which they are to `watched`.
/// `at_first` are the kinds that were registered by an earlier process: their marked objects are found by watching them once.
pub(crate) async fn follow(
    context: Arc<Context>,
    at_first: Vec<GroupKind>,
    watched: watch::Sender<Governed>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let mut running: BTreeMap<GroupKind, CancellationToken> = BTreeMap::new();
    let mut unexplored: HashSet<GroupKind> = at_first.into_iter().collect();
    let mut tasks = JoinSet::new();
    loop {
        // Before all Rollouts are known, a kind that nobody seems to refer to is not to be dropped.
        if !context.world.knows_rollouts() {
            if stop
                .run_until_cancelled(context.kinds_changed.notified())
                .await
                .is_none()
            {
                return Ok(());
            }
            continue;
        }
        let mut wanted = context.world.wanted_kinds();
        unexplored.retain(|kind| !context.world.is_followed(kind));
        wanted.extend(unexplored.iter().cloned());
        running.retain(|kind, token| {
            let keep = wanted.contains(kind);
            if !keep {
                token.cancel();
                context.world.forget_kind(kind);
            }
            keep
        });
        for kind in &wanted {
            if !running.contains_key(kind) {
                let token = stop.child_token();
                tasks.spawn(follow_kind(context.clone(), kind.clone(), token.clone()));
                running.insert(kind.clone(), token);
            }
        }
        while tasks.try_join_next().is_some() {}
        context.metrics.watches(running.len());
        let governed = Governed {
            resources: running
                .keys()
                .filter_map(|kind| context.world.resource(kind))
                .collect(),
            complete: running.keys().all(|kind| context.world.is_looked_up(kind)),
        };
        watched.send_if_modified(|now| (*now != governed).then(|| *now = governed).is_some());
        if stop
            .run_until_cancelled(context.kinds_changed.notified())
            .await
            .is_none()
        {
            break;
        }
    }
    tasks.shutdown().await;
    Ok(())
}

/// Follows one kind: finds its resource, then watches it until the kind is gone, and begins anew.
async fn follow_kind(context: Arc<Context>, kind: GroupKind, stop: CancellationToken) {
    let mut definitions = context.definitions.subscribe();
    while !stop.is_cancelled() {
        definitions.mark_unchanged();
        match find(&context, &kind).await {
            Ok(Some(resource)) => {
                // Until the list is read the kind counts as starting, also when it comes back.
                context.look_at(
                    context
                        .world
                        .set_watch(&kind, Watch::Starting, Some(resource.clone())),
                );
                context.kinds_changed.notify_one();
                watch_kind(&context, &kind, &resource, &stop).await;
                continue;
            }
            Ok(None) => {
                context.look_at(context.world.set_watch(&kind, Watch::NoKind, None));
                context.kinds_changed.notify_one();
            }
            Err(error) => {
                // Nothing is known of the kind now; what was known stays.
                tracing::warn!(%kind, error = %chain(&error), "A kind cannot be looked up.");
                let _ = stop.run_until_cancelled(tokio::time::sleep(LOOK_UP_AGAIN)).await;
                continue;
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            _ = definitions.changed() => {}
            () = tokio::time::sleep(ASK_AGAIN) => {}
        }
    }
}

/// The resource of a kind.
async fn find(context: &Context, kind: &GroupKind) -> kube::Result<Option<ApiResource>> {
    let group = found_group(&context.client, &kind.group).await?;
    let resources = group.as_ref().map(resources).unwrap_or_default();
    let mut resources = resources.into_iter().map(|(resource, _)| resource);
    Ok(resources.find(|resource| resource.kind == kind.kind))
}

/// Watches until the stop, or until the server says that there is no such resource.
async fn watch_kind(context: &Context, kind: &GroupKind, resource: &ApiResource, stop: &CancellationToken) {
    let scopes = scopes(&context.area);
    let api = |scope: &Scope| match scope {
        Some(namespace) => Api::namespaced_with(context.client.clone(), namespace, resource),
        None => Api::all_with(context.client.clone(), resource),
    };
    let begin = || {
        follow_each(scopes.iter().map(|scope| {
            let api: Api<Object> = api(scope);
            (scope.clone(), api)
        }))
    };
    let mut events = pin!(begin());
    let mut listings: Listings<(String, String)> = Listings::of(scopes.iter().cloned());
    while let Some(Some((scope, event))) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init) => listings.begin(scope),
            Ok(watcher::Event::InitApply(object)) => {
                listings.has(scope, (object.namespace().unwrap_or_default(), object.name_any()));
                put(context, kind, &object);
            }
            Ok(watcher::Event::InitDone) => {
                let listed = listings.end(&scope);
                let known = context.world.workload_names(kind, scope.as_deref());
                for (namespace, name) in known.difference(&listed) {
                    let gone = place(kind, namespace.clone(), name.clone());
                    context.look_at(context.world.drop_workload(&gone));
                }
                if listings.all_read() {
                    context.look_at(context.world.set_watch(kind, Watch::Following, None));
                }
                context.kinds_changed.notify_one();
                context.releases_changed.notify_one();
            }
            Ok(watcher::Event::Apply(object)) => {
                put(context, kind, &object);
                context.releases_changed.notify_one();
            }
            Ok(watcher::Event::Delete(object)) => {
                let gone = place_of(kind, &object);
                context.look_at(context.world.drop_workload(&gone));
                context.kinds_changed.notify_one();
                context.releases_changed.notify_one();
            }
            Err(error) => match status_of(&error) {
                Some(404) => {
                    context.look_at(context.world.set_watch(kind, Watch::NoKind, None));
                    return;
                }
                code => {
                    tracing::warn!(%kind, error = %chain(&error), "A kind cannot be watched.");
                    if code == Some(403) {
                        let watch = Watch::Refused(refusal(kind, resource, &error));
                        context.look_at(context.world.set_watch(kind, watch, None));
                        // A watch that is allowed again would go on in silence where it ended: only a list tells that it is.
                        let _ = stop.run_until_cancelled(tokio::time::sleep(LOOK_UP_AGAIN)).await;
                        listings = Listings::of(scopes.iter().cloned());
                        events.set(begin());
                    }
                }
            },
        }
    }
}

fn refusal(kind: &GroupKind, resource: &ApiResource, error: &watcher::Error) -> String {
    format!(
        "the controller may not watch {kind}: {}. Let it: kubectl kruise workload enable {}.{}, which makes a ClusterRole \
         with the label {}=true that allows {}",
        chain(error),
        resource.plural,
        resource.group,
        names::AGGREGATE_TO_CONTROLLER,
        names::KIND_VERBS.join(", "),
    )
}

fn status_of(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// Puts an object into the stores, from a watch.
fn put(context: &Context, kind: &GroupKind, object: &Object) {
    let place = place_of(kind, object);
    context.look_at(context.world.put_workload(&place, object.content()));
}

/// Puts an object that answered a call of ours into the stores and looks at the Rollouts that it concerns.
pub(crate) fn put_answer(context: &Context, place: &Place, object: DynamicObject) {
    if let Some(value) = projectable(object) {
        context.look_at(context.world.put_answered_workload(place, &value));
    }
}

/// What of an answer is projected: all but the managed fields of others.
fn projectable(object: DynamicObject) -> Option<Value> {
    let DynamicObject {
        mut metadata,
        data: mut content,
        ..
    } = object;
    if let Some(entries) = &mut metadata.managed_fields {
        entries.retain(|entry| entry.manager.as_deref() == Some(names::FIELD_MANAGER));
    }
    let metadata = serde_json::to_value(metadata).ok()?;
    content.as_object_mut()?.insert("metadata".to_owned(), metadata);
    Some(content)
}

fn place_of(kind: &GroupKind, object: &Object) -> Place {
    place(kind, object.namespace().unwrap_or_default(), object.name_any())
}

fn place(kind: &GroupKind, namespace: String, name: String) -> Place {
    let workload = Workload {
        kind: kind.clone(),
        name,
    };
    Place { namespace, workload }
}
