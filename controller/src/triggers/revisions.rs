//! The objects that stand for revisions: ReplicaSets of Deployments, ControllerRevisions of DaemonSets.

use std::collections::HashSet;
use std::pin::pin;

use futures::StreamExt as _;
use kruise_rollout::workload::{Revision, RevisionKind};
use kube::api::DynamicObject;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::concern;
use crate::connect::{Object, follow_objects};
use crate::context::Context;
use crate::telemetry::chain;

/// Watches those of one kind in a namespace.
pub(super) async fn take_in(context: &Context, namespace: &str, kind: RevisionKind) {
    let api: Api<Object> = context.revisions(namespace, kind);
    let mut events = pin!(follow_objects(api, watcher::Config::default()));
    let mut listed: HashSet<String> = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                listed.insert(object.name_any());
                take(context, namespace, kind, object.content());
            }
            Ok(watcher::Event::InitDone) => {
                context
                    .world
                    .with_revisions(|revisions| revisions.complete(namespace, kind, &listed));
                listed = HashSet::new();
                context.look_at(context.world.keys_in(namespace));
            }
            Ok(watcher::Event::Apply(object)) => take(context, namespace, kind, object.content()),
            Ok(watcher::Event::Delete(object)) => {
                let owner = context
                    .world
                    .with_revisions(|revisions| revisions.remove(namespace, kind, &object.name_any()));
                concern(context, owner);
            }
            Err(error) => {
                let (_, plural) = kind.names();
                tracing::warn!(namespace, plural, error = %chain(&error), "Revisions cannot be watched.");
            }
        }
    }
}

/// Puts a revision into the stores, from the answer to a call of ours.
pub(crate) fn put_revision(
    context: &Context,
    namespace: &str,
    kind: RevisionKind,
    mut object: DynamicObject,
) {
    object.metadata.managed_fields = None;
    if let Ok(value) = serde_json::to_value(&object) {
        take(context, namespace, kind, &value);
    }
}

fn take(context: &Context, namespace: &str, kind: RevisionKind, object: &Value) {
    let revision = Revision::read(kind, object);
    let owners = context
        .world
        .with_revisions(|revisions| revisions.put(namespace, kind, revision));
    concern(context, owners);
}
