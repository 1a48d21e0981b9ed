//! Patches of workloads and of the Rollout's metadata.

use json_patch::{Patch as JsonPatch, PatchOperation, RemoveOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_rollout::admission::policy::is_refused_unheld;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kruise_rollout::rollout::{EditKind, Workload};
use kruise_rollout::workload::{View, adapter_for};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{Error, asked};
use crate::context::{Context, patch_params};
use crate::triggers::put_answer;
use crate::world::{Key, Place, Snapshot};

/// Patches a workload, and takes the answer into the stores, so that the next look sees it.
pub(super) async fn edit(
    context: &Context,
    key: &Key,
    workload: &Workload,
    kind: EditKind,
    patch: &JsonPatch,
) -> Result<(), Error> {
    let place = Place {
        namespace: key.namespace.clone(),
        workload: workload.clone(),
    };
    let api = context.api(&place).ok_or(Error::NoKind)?;
    let adapter = adapter_for(&workload.kind).ok_or(Error::NoKind)?;
    let before = context.world.view_of(&place);
    let patch: Patch<()> = Patch::Json(patch.clone());
    let object = match api.patch(&workload.name, &patch_params(), &patch).await {
        // The answer names the webhook that refused.
        Err(kube::Error::Api(status)) if is_refused_unheld(&status.message) => {
            return Err(rewritten(context, before.as_deref()));
        }
        answer => answer?,
    };
    tracing::info!(rollout = %key, %workload, edit = kind.name(), "Wrote the workload.");
    context.metrics.acted(kind.name());
    let template = &object.data["spec"]["template"];
    let after = adapter.paths().template_id(template);
    let let_go = !object.annotations().contains_key(names::GUARDED_BY);
    let version = object.resource_version();
    put_answer(context, &place, object);
    context.releases_changed.notify_one();
    context.kinds_changed.notify_one();
    let Some(before) = before else {
        return Ok(());
    };
    if before.template != after && !let_go {
        return Err(rewritten(context, Some(&before)));
    }
    context.world.wrote(&before.uid, false);
    // The policies of a controller that ran as another user undo the write until they have been rewritten. No event would ever say
    // that it has to be made again.
    if version.is_some_and(|version| version == before.resource_version) {
        return Err(Error::Refused(format!(
            "it takes a write of {workload}, and then nothing of it is there: a mutating webhook or policy undoes it. They are listed by: \
             kubectl get mutatingwebhookconfigurations,mutatingadmissionpolicies"
        )));
    }
    Ok(())
}

/// Remembers that another webhook changed the template in a write that leaves it alone.
fn rewritten(context: &Context, before: Option<&View>) -> Error {
    if let Some(before) = before {
        context.world.wrote(&before.uid, true);
    }
    Error::Rewritten
}

/// Drops our entries in the workload's managed fields, and takes the answer into the stores.
pub(super) async fn disown(context: &Context, key: &Key, workload: &Workload) -> Result<(), Error> {
    let place = Place {
        namespace: key.namespace.clone(),
        workload: workload.clone(),
    };
    let api = context.api(&place).ok_or(Error::NoKind)?;
    let Some(object) = drop_entries(&api, &workload.name).await? else {
        return Ok(());
    };
    context.metrics.acted("disown");
    put_answer(context, &place, object);
    Ok(())
}

/// Drops our entries in an object's managed fields. They would make the next apply of its owner conflict, although all that was ours
/// has been handed back; the server does not allow it in the same patch. Returns the object, or nothing where there were none.
///
/// # Errors
/// Among others: somebody has written meanwhile, and an entry is at another place in the list.
pub(crate) async fn drop_entries(
    api: &Api<DynamicObject>,
    name: &str,
) -> kube::Result<Option<DynamicObject>> {
    let found = api.get_metadata(name).await?;
    let Some(patch) = disowning(&found.metadata) else {
        return Ok(None);
    };
    let patch: Patch<()> = Patch::Json(patch);
    api.patch(name, &patch_params(), &patch).await.map(Some)
}

/// The patch that drops our entries in an object's managed fields; none if there are none.
fn disowning(metadata: &ObjectMeta) -> Option<JsonPatch> {
    let entries = metadata.managed_fields.iter().flatten().enumerate();
    let ours = entries.filter(|(_, entry)| {
        entry.manager.as_deref() == Some(names::FIELD_MANAGER) && entry.operation.as_deref() == Some("Update")
    });
    let ours: Vec<_> = ours.map(|(index, _)| index.to_string()).collect();
    // From the end, so that the places of the others stay.
    let operations = ours.iter().rev().flat_map(|index| {
        let entry = PointerBuf::from_tokens(["metadata", "managedFields", index]);
        let manager = PointerBuf::from_tokens(["metadata", "managedFields", index, "manager"]);
        [
            PatchOperation::Test(TestOperation {
                path: manager,
                value: json!(names::FIELD_MANAGER),
            }),
            PatchOperation::Remove(RemoveOperation { path: entry }),
        ]
    });
    (!ours.is_empty()).then(|| JsonPatch(operations.collect()))
}

/// Deletes a pod that is in the way.
pub(super) async fn replace(
    context: &Context,
    key: &Key,
    pod: &str,
    uid: &str,
    resource_version: &str,
) -> Result<(), Error> {
    delete_pod(context, key, pod, uid, resource_version).await?;
    tracing::info!(rollout = %key, pod, "Replaces a stuck pod.");
    context.metrics.acted("replace");
    Ok(())
}

/// Deletes a pod, if it is still this very one in this very state; what has been asked to leave is not asked again.
pub(super) async fn delete_pod(
    context: &Context,
    key: &Key,
    pod: &str,
    uid: &str,
    resource_version: &str,
) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &key.namespace);
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: Some(resource_version.to_owned()),
        }),
        ..DeleteParams::default()
    };
    let _ = api.delete(pod, &params).await?;
    context
        .world
        .with_pods(|pods| pods.leaves(&key.namespace, pod, uid));
    Ok(())
}

/// Asks the API server for the Rollout, and fails unless it is the one of the snapshot.
pub(super) async fn confirm(context: &Context, key: &Key, snapshot: &Snapshot) -> Result<(), Error> {
    let api: Api<Rollout> = Api::namespaced(context.client.clone(), &key.namespace);
    let stored = match api.get(&key.name).await {
        Ok(rollout) => Some(rollout),
        // Also where Rollouts are not served any more, which is answered in other words.
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => return Err(error.into()),
    };
    if stored.as_ref().map(asked) == snapshot.rollout.as_deref().map(asked) {
        return Ok(());
    }
    if let Some(rollout) = stored {
        context.look_at(context.world.put_answered_rollout(rollout));
    }
    Err(Error::Back)
}

/// Removes what the existing controller has left of its own: first its object of the release, then the finalizer of the Rollout, by
/// which that is found.
pub(super) async fn drop_finalizer(context: &Context, key: &Key, snapshot: &Snapshot) -> Result<(), Error> {
    let Some(rollout) = &snapshot.rollout else {
        return Ok(());
    };
    let Some(patch) = without_finalizer(&rollout.metadata, names::LEGACY_FINALIZER) else {
        return Ok(());
    };
    drop_release(context, key, rollout).await?;
    let api: Api<Rollout> = Api::namespaced(context.client.clone(), &key.namespace);
    let rollout = api.patch(&key.name, &patch_params(), &patch).await?;
    context.look_at(context.world.put_answered_rollout(rollout));
    Ok(())
}

/// Removes the object that the existing controller makes of a release, with its finalizer: nobody else would, and neither it nor its
/// namespace could ever go.
async fn drop_release(context: &Context, key: &Key, rollout: &Rollout) -> Result<(), Error> {
    let gvk = GroupVersionKind::gvk(names::GROUP, names::VERSION, "BatchRelease");
    let kind = ApiResource::from_gvk_with_plural(&gvk, names::LEGACY_RELEASES);
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &key.namespace, &kind);
    let found = match api.get_metadata(&key.name).await {
        Ok(found) => found,
        // Nor is there such a kind where the existing controller has been removed, nor always the right to it.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut owners = found.owner_references().iter();
    if !owners.any(|owner| Some(&owner.uid) == rollout.metadata.uid.as_ref()) {
        return Ok(());
    }
    let only = DeleteParams::default().preconditions(Preconditions {
        uid: found.metadata.uid.clone(),
        resource_version: None,
    });
    // Where it has no finalizer, it is gone with the first request.
    let gone = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
    if let Some(patch) = without_finalizer(&found.metadata, names::LEGACY_RELEASE_FINALIZER) {
        api.patch(&key.name, &patch_params(), &patch)
            .await
            .map(drop)
            .or_else(|error| if gone(&error) { Ok(()) } else { Err(error) })?;
    }
    match api.delete(&key.name, &only).await {
        Err(error) if !gone(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The patch that takes a finalizer away; `None` where it is not there.
fn without_finalizer(metadata: &ObjectMeta, finalizer: &str) -> Option<Patch<()>> {
    let mut finalizers = metadata.finalizers.iter().flatten();
    let index = finalizers.position(|present| present == finalizer)?;
    let path = PointerBuf::from_tokens(["metadata", "finalizers", &index.to_string()]);
    let test = TestOperation {
        path: path.clone(),
        value: Value::from(finalizer),
    };
    Some(Patch::Json(JsonPatch(vec![
        PatchOperation::Test(test),
        PatchOperation::Remove(RemoveOperation { path }),
    ])))
}
