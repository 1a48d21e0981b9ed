//! What is written to a workload, from the paths of its kind.

use serde_json::json;

use super::marks::{self, Guard};
use super::paths::Paths;
use super::{Freedom, View};
use crate::lens::PatchBuilder;
use crate::names;

fn annotation(name: &str) -> [&str; 3] {
    ["metadata", "annotations", name]
}

/// See [`super::Adapter::hold`].
pub(super) fn hold(paths: &Paths, view: &View) -> PatchBuilder {
    let rollout = view
        .guard()
        .map(|guard| guard.rollout.as_str())
        .unwrap_or_default();
    paths
        .means
        .put(guarded_write(view), names::HOLD_PARTITION)
        .set(
            &annotation(names::IN_PROGRESSING),
            json!(marks::in_progressing(rollout)),
        )
        .set(
            &annotation(names::GRANTED_PARTITION),
            json!(names::HOLD_PARTITION.to_string()),
        )
        .set(
            &annotation(names::ORIGINAL_PARTITION),
            json!(paths.means.original(&view.skeleton.value()).text()),
        )
}

/// See [`super::Adapter::expose`].
pub(super) fn expose(paths: &Paths, view: &View, partition: i64) -> PatchBuilder {
    paths.means.put(guarded_write(view), partition).set(
        &annotation(names::GRANTED_PARTITION),
        json!(partition.to_string()),
    )
}

/// See [`super::Adapter::release`].
pub(super) fn release(paths: &Paths, view: &View, freedom: Freedom) -> PatchBuilder {
    let mut patch = guarded_write(view);
    // Asking for another partition in mid-release moves this mark alone, and neither generation nor grant.
    patch = tested(patch, &[names::ORIGINAL_PARTITION]);
    if let Some(hold) = view.hold() {
        patch = paths.means.restore(patch, &hold.original);
    }
    for mark in names::RELEASE_MARKS {
        patch = patch.remove(&annotation(mark));
    }
    match (freedom, view.guard()) {
        (Freedom::Guarded, Some(guard)) => {
            let text = Guard::text(&view.uid, &guard.rollout, &view.template);
            patch.set(&annotation(names::GUARDED_BY), json!(text))
        }
        _ => patch.remove(&annotation(names::GUARDED_BY)),
    }
}

/// See [`super::Adapter::take_over`].
pub(super) fn take_over(paths: &Paths, view: &View, rollout: &str) -> PatchBuilder {
    let exposed = view.partition_in_force() < i64::from(view.replicas);
    let (granted, mut patch) = if exposed {
        (view.partition_in_force(), left_write(view))
    } else {
        let hold = names::HOLD_PARTITION;
        (hold, paths.means.put(left_write(view), hold))
    };
    for (mark, value) in [
        (names::GUARDED_BY, Guard::text_of_left(&view.uid, rollout)),
        (names::IN_PROGRESSING, marks::in_progressing(rollout)),
        (names::GRANTED_PARTITION, granted.to_string()),
        (
            names::ORIGINAL_PARTITION,
            paths.means.left(&view.skeleton.value()).text(),
        ),
    ] {
        patch = patch.set(&annotation(mark), json!(value));
    }
    without_left(patch)
}

/// See [`super::Adapter::let_go_of_left`].
pub(super) fn let_go_of_left(paths: &Paths, view: &View) -> PatchBuilder {
    let original = paths.means.left(&view.skeleton.value());
    let patch = paths.means.restore(left_write(view), &original);
    without_left(patch.remove(&annotation(names::IN_PROGRESSING)))
}

/// A patch that applies only to the object that was read, with the marks that the existing controller has left.
fn left_write(view: &View) -> PatchBuilder {
    tested(
        guarded_write(view),
        &[names::IN_PROGRESSING, names::LEGACY_CONTROL_INFO],
    )
}

fn without_left(patch: PatchBuilder) -> PatchBuilder {
    let marks = names::LEGACY_MARKS.iter();
    marks.fold(patch, |patch, mark| patch.remove(&annotation(mark)))
}

/// A patch that applies only to the object that was read: same UID, same generation, same guard and grant.
fn guarded_write(view: &View) -> PatchBuilder {
    let patch = PatchBuilder::new(view.skeleton.value())
        .test(["metadata", "uid"], json!(view.uid))
        .test(["metadata", "generation"], json!(view.generation));
    tested(patch, &[names::GUARDED_BY, names::GRANTED_PARTITION])
}

/// The patch with tests of these annotations, as far as the object has them.
fn tested(patch: PatchBuilder, marks: &[&'static str]) -> PatchBuilder {
    marks.iter().fold(
        patch,
        |patch, mark| match patch.object()["metadata"]["annotations"].get(mark).cloned() {
            Some(text) => patch.test(annotation(mark), text),
            None => patch,
        },
    )
}
