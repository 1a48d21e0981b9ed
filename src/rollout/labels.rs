//! Labels by which people find the pods of a release and of each of its batches.

use serde_json::{Map, Value, json};

use super::observed::Children;
use super::release::Release;
use super::status::Draft;
use super::{Action, PodPatch};
use crate::lens::PatchBuilder;
use crate::names;
use crate::plan::Plan;
use crate::workload::PodView;
use crate::workload::marks::read_count;

const ID: [&str; 3] = ["metadata", "labels", names::ROLLOUT_ID];
const BATCH: [&str; 3] = ["metadata", "labels", names::ROLLOUT_BATCH_ID];

/// Labels the pods that the release has come to at this step. Pods whose revision nobody tells are left alone.
pub(super) fn label_pods(draft: &mut Draft<'_>, release: &Release<'_>, step: usize) {
    let view = release.present.view;
    let (Some(true), Some(revision), Children::Pods(pods)) = (
        view.observed(),
        &view.reported.update_revision,
        release.present.children,
    ) else {
        return;
    };
    let Some(id) = view.release_id().filter(|id| !id.is_empty()) else {
        return;
    };
    let updated = pods.iter().filter(|pod| pod.runs(revision)).collect();
    let patches: Vec<_> = batches(updated, id, release.plan, step)
        .into_iter()
        .filter_map(|(pod, batch)| relabel(pod, id, batch))
        .collect();
    if !patches.is_empty() {
        draft.act(Action::LabelPods(patches));
    }
}

/// The batch of each pod: a batch has as many pods as its step adds. What a pod carries already stays where there is room, first
/// of this release, then of one that has been renamed; the others fill what is free, the highest ordinal the earliest batch. Pods
/// beyond the plan, as a scale-up makes them, have none.
fn batches<'p>(
    mut pods: Vec<&'p PodView>,
    id: &str,
    plan: &Plan,
    step: usize,
) -> Vec<(&'p PodView, Option<usize>)> {
    pods.sort_by(|one, other| {
        let ordinals = other.ordinal().cmp(&one.ordinal());
        ordinals.then_with(|| one.name.cmp(&other.name))
    });
    let mut placed: Vec<(&PodView, Option<usize>)> = pods.into_iter().map(|pod| (pod, None)).collect();
    let mut free: Vec<u32> = (1..=step).map(|step| planned(plan, step)).collect();
    for of_this_release in [true, false] {
        for (pod, batch) in placed.iter_mut().filter(|(_, batch)| batch.is_none()) {
            let carried = carried(pod).filter(|_| (pod.rollout_id.as_deref() == Some(id)) == of_this_release);
            if let Some(number) = carried
                && let Some(room) = free.get_mut(number - 1).filter(|room| **room > 0)
            {
                *room -= 1;
                *batch = Some(number);
            }
        }
    }
    let rooms = free.iter().enumerate();
    let mut rooms = rooms.flat_map(|(index, room)| std::iter::repeat_n(index + 1, *room as usize));
    for (_, batch) in placed.iter_mut().filter(|(_, batch)| batch.is_none()) {
        *batch = rooms.next();
    }
    placed
}

/// The pods that a step adds.
fn planned(plan: &Plan, step: usize) -> u32 {
    let before = if step > 1 { plan.step(step - 1).exposure } else { 0 };
    plan.step(step).exposure.saturating_sub(before)
}

/// The batch that a pod carries, counted from 1.
fn carried(pod: &PodView) -> Option<usize> {
    let number = usize::try_from(read_count(pod.batch_id.as_deref()?)?).ok()?;
    (number > 0).then_some(number)
}

/// The patch that gives a pod the labels of its batch, or takes them away; `None` when they are right.
fn relabel(pod: &PodView, id: &str, batch: Option<usize>) -> Option<PodPatch> {
    let mut labels = Map::new();
    for (name, value) in [
        (names::ROLLOUT_ID, &pod.rollout_id),
        (names::ROLLOUT_BATCH_ID, &pod.batch_id),
    ] {
        if let Some(value) = value {
            labels.insert(name.to_owned(), Value::from(value.as_str()));
        }
    }
    let patch = PatchBuilder::new(json!({"metadata": {"labels": labels}}))
        .test(["metadata", "uid"], Value::from(pod.uid.as_str()));
    let patch = match batch {
        Some(batch) => patch.set(&ID, id.into()).set(&BATCH, batch.to_string().into()),
        None => patch.remove(&ID).remove(&BATCH),
    };
    (!patch.is_empty()).then(|| PodPatch {
        pod: pod.name.clone(),
        patch: patch.build(),
    })
}
