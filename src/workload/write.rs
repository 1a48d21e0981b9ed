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
            json!(paths.means.original(&view.skeleton).text()),
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
    let original = annotation(names::ORIGINAL_PARTITION);
    if let Some(text) = view.skeleton["metadata"]["annotations"].get(original[2]) {
        patch = patch.test(original, text.clone());
    }
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

/// A patch that applies only to the object that was read: same UID, same generation, same guard and grant.
fn guarded_write(view: &View) -> PatchBuilder {
    let mut patch = PatchBuilder::new(view.skeleton.clone())
        .test(["metadata", "uid"], json!(view.uid))
        .test(["metadata", "generation"], json!(view.generation));
    for mark in [names::GUARDED_BY, names::GRANTED_PARTITION] {
        if let Some(text) = view.skeleton["metadata"]["annotations"].get(mark) {
            patch = patch.test(annotation(mark), text.clone());
        }
    }
    patch
}
