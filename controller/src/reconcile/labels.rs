//! Labels of pods: nothing waits for them, so what fails is counted, said and tried again.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::rollout::PodPatch;
use kruise_rollout::workload::PodView;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch};

use super::Error;
use crate::context::{Context, patch_params};
use crate::telemetry::chain;
use crate::world::Key;

/// How long labels that could not be written wait, if nothing else happens.
pub(super) const AGAIN: Duration = Duration::from_secs(10);
/// Patches that are under way at once.
const AT_ONCE: usize = 8;

/// Some labels could not be written.
#[derive(Debug)]
pub(super) struct Owed;

/// Patches the pods, and takes the answers into the store, so that the next look sees them.
pub(super) async fn write(context: &Context, key: &Key, pods: &[PodPatch]) -> Result<(), Owed> {
    let api: Api<DynamicObject> = Api::namespaced_with(
        context.client.clone(),
        &key.namespace,
        &ApiResource::erase::<Pod>(&()),
    );
    let patches = pods.iter().map(|pod| patch(&api, pod)).collect::<Vec<_>>();
    let answers: Vec<_> = stream::iter(patches).buffer_unordered(AT_ONCE).collect().await;
    let mut failure = None;
    for answer in answers {
        match answer {
            Ok(pod) => {
                context.metrics.acted("label-pod");
                context.world.with_pods(|pods| pods.relabel(&key.namespace, &pod));
            }
            // The pod has changed or gone: a watch says so, and it is looked at again.
            Err(Error::Raced(_) | Error::Gone(_)) => context.metrics.failed("label-pod"),
            Err(error) => {
                context.metrics.failed("label-pod");
                failure = Some(error);
            }
        }
    }
    match failure {
        None => Ok(()),
        Some(error) => {
            tracing::warn!(rollout = %key, error = %chain(&error), "Pods cannot be labelled; the release goes on.");
            Err(Owed)
        }
    }
}

async fn patch(api: &Api<DynamicObject>, pod: &PodPatch) -> Result<PodView, Error> {
    let patch: Patch<()> = Patch::Json(pod.patch.clone());
    let mut answer = api.patch(&pod.pod, &patch_params(), &patch).await?;
    answer.metadata.managed_fields = None;
    Ok(PodView::read(&serde_json::to_value(&answer)?))
}
