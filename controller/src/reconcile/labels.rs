//! Labels of pods: nothing waits for them, so what fails is counted, said and tried again.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::rollout::PodPatch;
use kruise_rollout::workload::PodView;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch};
use tokio::time::Instant;

use super::Error;
use crate::context::{Context, patch_params};
use crate::telemetry::chain;
use crate::triggers::concern;
use crate::world::Key;

/// How long labels that could not be written wait, if nothing else happens.
const AGAIN: Duration = Duration::from_secs(10);
/// Patches that are under way at once.
const AT_ONCE: usize = 8;

/// Patches the pods, and takes the answers into the store, so that the next look sees them. Returns how long labels wait that could
/// not be written, or that somebody takes away again and again.
pub(super) async fn write(context: &Context, key: &Key, pods: &[PodPatch]) -> Option<Duration> {
    let now = Instant::now();
    let rests = |pod: &PodPatch| {
        let until = context
            .world
            .with_pods(|pods| pods.not_labelled_before(&key.namespace, pod, now));
        until.map(|until| until.duration_since(now))
    };
    let (early, due): (Vec<_>, Vec<_>) = pods
        .iter()
        .map(|pod| (pod, rests(pod)))
        .partition(|(_, rest)| rest.is_some());
    let mut again = early.into_iter().filter_map(|(_, rest)| rest).min();
    let api: Api<DynamicObject> = Api::namespaced_with(
        context.client.clone(),
        &key.namespace,
        &ApiResource::erase::<Pod>(&()),
    );
    let patches = due
        .into_iter()
        .map(async |(pod, _)| (pod, patch(&api, pod).await))
        .collect::<Vec<_>>();
    let answers: Vec<_> = stream::iter(patches).buffer_unordered(AT_ONCE).collect().await;
    let mut failure = None;
    for (patched, answer) in answers {
        match answer {
            Ok(pod) => {
                context.metrics.acted("label-pod");
                let concerned = context.world.with_pods(|pods| {
                    pods.labelled(&key.namespace, patched, now);
                    pods.answered(&key.namespace, pod)
                });
                concern(context, concerned);
            }
            // The pod has changed or gone: a watch says so, and it is looked at again.
            Err(Error::Raced(_) | Error::Gone(_)) => context.metrics.failed("label-pod"),
            Err(error) => {
                context.metrics.failed("label-pod");
                failure = Some(error);
            }
        }
    }
    if let Some(error) = failure {
        tracing::warn!(rollout = %key, error = %chain(&error), "Pods cannot be labelled; the release goes on.");
        again = Some(again.map_or(AGAIN, |again| again.min(AGAIN)));
    }
    again
}

async fn patch(api: &Api<DynamicObject>, pod: &PodPatch) -> Result<PodView, Error> {
    let patch: Patch<()> = Patch::Json(pod.patch.clone());
    let mut answer = api.patch(&pod.pod, &patch_params(), &patch).await?;
    answer.metadata.managed_fields = None;
    Ok(PodView::read(&serde_json::to_value(&answer)?))
}
