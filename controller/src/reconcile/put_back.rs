//! Putting pods of a DaemonSet back to an earlier revision.
//!
//! Its controller makes no pod on a node that another one has not quite left, and that pod it would make of the newest template. So
//! ours is made in the moment after the deletion of the other. Where the other is gone sooner, as one that has not been scheduled is,
//! the DaemonSet controller may come first; then it removes the pod that came later, which is ours, and we try again, more slowly
//! each time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::names;
use kruise_rollout::rollout::Workload;
use kruise_rollout::workload::daemonset::{Spot, of_revision};
use kruise_rollout::workload::{PutBack, RevisionKind};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use tokio::time::Instant;

use super::Error;
use super::apply::delete_pod;
use super::moves::holds;
use crate::context::Context;
use crate::world::Key;

/// Has another pod come where one leaves. Returns how long that has to wait where it was done not long before.
pub(super) async fn put_back(
    context: &Context,
    key: &Key,
    workload: &Workload,
    back: &PutBack,
) -> Result<Option<Duration>, Error> {
    let PutBack {
        premise,
        revision,
        node,
        pod,
        uid,
        resource_version,
    } = back;
    let now = Instant::now();
    let spot = (premise.uid.clone(), node.clone());
    let rests = context
        .world
        .with_pods(|pods| pods.not_put_back_before(&key.namespace, &spot, revision, now));
    if let Some(until) = rests {
        return Ok(Some(until.duration_since(now)));
    }
    let records: Api<DynamicObject> = context.revisions(&key.namespace, RevisionKind::ControllerRevision);
    let record = records.get(revision).await?;
    let made = of_revision(
        &serde_json::to_value(record)?,
        &Spot {
            daemonset: &workload.name,
            uid: &premise.uid,
            node,
            instead_of: uid,
        },
    );
    // Untyped: a template may have members of a newer Kubernetes.
    let made: DynamicObject = serde_json::from_value(made.ok_or(Error::Stale)?)?;
    let resource = ApiResource::erase::<Pod>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &key.namespace, &resource);
    if resource_version.is_some() {
        // A pod that the API server will not have is none to delete another one for.
        api.create(&params(true), &made).await?;
    }
    holds(context, key, workload, premise).await?;
    if let Some(resource_version) = resource_version {
        delete_pod(context, key, pod, uid, resource_version).await?;
    }
    match api.create(&params(false), &made).await {
        Ok(_) => {}
        // By us, as its name tells, and the watch has not told yet.
        Err(kube::Error::Api(status)) if status.is_already_exists() => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    tracing::info!(rollout = %key, pod, node, revision, "Puts a pod back.");
    context.metrics.acted("put-back");
    context
        .world
        .with_pods(|pods| pods.was_put_back(&key.namespace, spot, revision, now));
    Ok(None)
}

fn params(dry_run: bool) -> PostParams {
    PostParams {
        dry_run,
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
    }
}
