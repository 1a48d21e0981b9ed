//! Moving pods of workloads whose operator is kept from doing it.

use std::time::Duration;

use json_patch::Patch as JsonPatch;
use kruise_rollout::names;
use kruise_rollout::rollout::Workload;
use kruise_rollout::workload::{Move, Premise, adapter_for};
use kube::Api;
use kube::api::{DynamicObject, Patch, PostParams};

use super::Error;
use super::apply::delete_pod;
use super::put_back::put_back;
use crate::context::{Context, patch_params};
use crate::triggers::put_revision;
use crate::world::{Key, Place};

/// Does one move. Returns how long one has to wait that was made not long before.
pub(super) async fn carry_out(
    context: &Context,
    key: &Key,
    workload: &Workload,
    to_move: &Move,
) -> Result<Option<Duration>, Error> {
    match to_move {
        Move::Create { premise, replicas } => create(context, key, workload, premise, *replicas).await?,
        Move::Resize {
            premise,
            revision,
            patch,
        } => {
            holds(context, key, workload, premise).await?;
            resize(context, key, workload, revision, patch).await?;
        }
        Move::Delete {
            premise,
            pod,
            uid,
            resource_version,
        } => {
            holds(context, key, workload, premise).await?;
            delete_pod(context, key, pod, uid, resource_version).await?;
            tracing::info!(rollout = %key, pod, "Replaces a pod.");
            context.metrics.acted("move");
        }
        Move::PutBack(back) => return put_back(context, key, workload, back).await,
    }
    Ok(None)
}

/// Sees that the workload is as it was seen: what its operator makes is of the newest template, and another one was not granted.
pub(super) async fn holds(
    context: &Context,
    key: &Key,
    workload: &Workload,
    premise: &Premise,
) -> Result<(), Error> {
    let place = Place {
        namespace: key.namespace.clone(),
        workload: workload.clone(),
    };
    let api = context.api(&place).ok_or(Error::NoKind)?;
    let object = serde_json::to_value(api.get_metadata(&workload.name).await?)?;
    if premise.holds(&object) {
        Ok(())
    } else {
        Err(Error::Stale)
    }
}

/// Makes the revision of the workload's present template, unless the workload is not as it was seen any more.
async fn create(
    context: &Context,
    key: &Key,
    workload: &Workload,
    premise: &Premise,
    replicas: u32,
) -> Result<(), Error> {
    let adapter = adapter_for(&workload.kind).ok_or(Error::NoKind)?;
    let kind = adapter.paths().revisions.ok_or(Error::NoKind)?;
    let place = Place {
        namespace: key.namespace.clone(),
        workload: workload.clone(),
    };
    let api = context.api(&place).ok_or(Error::NoKind)?;
    let object = serde_json::to_value(api.get(&workload.name).await?)?;
    if !premise.holds(&object) {
        return Err(Error::Stale);
    }
    let Some(revision) = adapter.revision(&object, replicas) else {
        return Ok(());
    };
    let params = PostParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let api: Api<DynamicObject> = context.revisions(&key.namespace, kind);
    let created = api.create(&params, &serde_json::from_value(revision)?).await?;
    tracing::info!(rollout = %key, revision = created.metadata.name, replicas, "Made a revision.");
    context.metrics.acted("move");
    put_revision(context, &key.namespace, kind, created);
    Ok(())
}

async fn resize(
    context: &Context,
    key: &Key,
    workload: &Workload,
    revision: &str,
    patch: &JsonPatch,
) -> Result<(), Error> {
    let kind = adapter_for(&workload.kind).and_then(|adapter| adapter.paths().revisions);
    let kind = kind.ok_or(Error::NoKind)?;
    let patch: Patch<()> = Patch::Json(patch.clone());
    let api: Api<DynamicObject> = context.revisions(&key.namespace, kind);
    let object = api.patch(revision, &patch_params(), &patch).await?;
    tracing::info!(rollout = %key, revision, "Resized a revision.");
    context.metrics.acted("move");
    put_revision(context, &key.namespace, kind, object);
    Ok(())
}
