//! The hold: what admission makes of a write to a workload.
//!
//! The verdict is a function of the old object, the new object and the writer. For everybody but the controller the marks come
//! from the **old** object, whatever the new one says, and what holds cannot be loosened beyond what was granted. It is idempotent:
//! reviewing its own result against the same old object changes nothing, so it may be asked again after other webhooks.

use json_patch::Patch;
use serde_json::{Map, Value, json};

use crate::lens::PatchBuilder;
use crate::names;
use crate::workload::marks::{self, Guard, Hold, Marks, Original};
use crate::workload::{Adapter, Means, Partition, TemplateId, parts};

/// One write, as the API server shows it.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The object before the write.
    pub old: &'a Value,
    /// The object as the writer, and admission before us, would have it.
    pub new: &'a Value,
    /// User and field manager are the controller's. Its writes pass as they are if they leave the template alone, or let go of the
    /// workload.
    pub by_controller: bool,
    /// The Rollout that names the workload, for the moment before the workload is marked.
    pub claimed_by: Option<&'a str>,
}

/// What became of the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// No Rollout governs the workload, or nothing needed to be changed.
    Unchanged,
    /// A new template: held.
    Held,
    /// The write would have loosened the hold or touched the marks: put right.
    Clamped,
    /// The write asks for a strategy that the API server refuses. It is not held, so that the API server sees it and says so to the
    /// writer: held, it would be refused to us at the end of the release. It must not be stored.
    LeftToRefuse,
}

/// The answer to a write. Writes are never refused here.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// For metrics.
    pub outcome: Outcome,
    /// To be applied to the new object.
    pub patch: Patch,
    /// To be shown to the writer.
    pub warning: Option<String>,
}

impl Verdict {
    fn unchanged() -> Self {
        Self {
            outcome: Outcome::Unchanged,
            patch: Patch(Vec::new()),
            warning: None,
        }
    }
}

/// Judges an update of a workload of the adapter's kind.
#[must_use]
pub fn review(adapter: &dyn Adapter, write: Write<'_>) -> Verdict {
    let empty = Map::new();
    let uid = write.old["metadata"]["uid"].as_str().unwrap_or_default();
    let old_annotations = annotations(write.old).unwrap_or(&empty);
    let before = Marks::read(old_annotations);
    let changed = write.old["spec"].get("template") != write.new["spec"].get("template");
    // Whoever ends a Rollout releases the rest, also what another webhook makes of the template in that write.
    let lets_go = || {
        let marked = annotations(write.new).is_some_and(|marks| marks.contains_key(names::GUARDED_BY));
        before.guard_of(uid).is_some() && !marked
    };
    if write.by_controller && (!changed || lets_go()) {
        return Verdict::unchanged();
    }
    let guard = match (before.guard_of(uid), write.claimed_by) {
        (Some(guard), _) => Guarded {
            text: old_annotations[names::GUARDED_BY].clone(),
            rollout: guard.rollout.clone(),
            stable: guard.stable.clone(),
            hold: before.hold.as_ref(),
        },
        (None, Some(rollout)) if changed => {
            let stable = adapter.paths().template_id(&write.old["spec"]["template"]);
            Guarded {
                text: json!(Guard::text(uid, rollout, &stable)),
                rollout: rollout.to_owned(),
                stable: Some(stable),
                hold: None,
            }
        }
        (None, _) => return Verdict::unchanged(),
    };
    if changed || guard.hold.is_some() {
        keep(adapter, &write, &guard, changed)
    } else {
        restore_guard(adapter, &write, &guard)
    }
}

/// Who governs the workload, by the old object's mark.
struct Guarded<'a> {
    text: Value,
    rollout: String,
    stable: Option<TemplateId>,
    hold: Option<&'a Hold>,
}

/// Holds a new template, or keeps the hold.
fn keep(adapter: &dyn Adapter, write: &Write<'_>, guard: &Guarded<'_>, changed: bool) -> Verdict {
    let means = &adapter.paths().means;
    let floor = floor(adapter, write, guard, changed);
    let echo = echo(means, write.new);
    // Nobody asked for the partition of an echo. A percentage is for later: what it keeps back changes with the size.
    let asked = means.seen(write.new, None).filter(|_| echo.is_none());
    let partition = asked
        .and_then(Partition::count)
        .map_or(floor, |count| count.max(floor));
    let original = original(means, write, guard, echo);
    if let Some(verdict) = left_to_refuse(means, write, guard, &original) {
        return verdict;
    }
    let mut patch = means.put(PatchBuilder::new(skeleton(means, write.new)), partition);
    if let Some(path) = adapter.strategy_type_path()
        && adapter.partition_path().is_some()
        && !is_rolling(write.new, path)
    {
        patch = patch.set(path, json!("RollingUpdate"));
    }
    for (mark, value) in [
        (names::GUARDED_BY, guard.text.clone()),
        (
            names::IN_PROGRESSING,
            json!(marks::in_progressing(&guard.rollout)),
        ),
        (names::GRANTED_PARTITION, json!(floor.to_string())),
        (names::ORIGINAL_PARTITION, json!(original.text())),
    ] {
        patch = patch.set(&["metadata", "annotations", mark], value);
    }
    if let Some(label) = write.old["metadata"]["labels"].get(names::WORKLOAD_TYPE) {
        patch = patch.set(&["metadata", "labels", names::WORKLOAD_TYPE], label.clone());
    }
    if patch.is_empty() {
        return Verdict::unchanged();
    }
    let outcome = if changed { Outcome::Held } else { Outcome::Clamped };
    let warning = Some(warning(adapter, write, guard, changed, floor));
    Verdict {
        outcome,
        patch: patch.build(),
        warning,
    }
}

/// The least partition that this write may leave behind; pods that the same write adds are not granted.
fn floor(adapter: &dyn Adapter, write: &Write<'_>, guard: &Guarded<'_>, changed: bool) -> i64 {
    let Some(hold) = guard.hold.filter(|_| !changed) else {
        return names::HOLD_PARTITION;
    };
    let Some(path) = adapter.replicas_path() else {
        return hold.granted;
    };
    let replicas = |object| at(object, path).and_then(Value::as_i64).unwrap_or(1);
    let (was, is) = (replicas(write.old), replicas(write.new));
    if is > was && is > hold.granted {
        is
    } else {
        hold.granted
    }
}

/// What is asked for by the marks of an object whose partition is the grant in the same marks: such an object echoes a state of ours.
fn echo(means: &Means, object: &Value) -> Option<Original> {
    let annotations = annotations(object)?;
    let hold = Marks::read(annotations).hold?;
    let original = annotations
        .get(names::ORIGINAL_PARTITION)?
        .as_str()
        .and_then(Original::read)?;
    hold.is_echoed_by(means.seen(object, Some(&hold)))
        .then_some(original)
}

/// What to restore: what people last asked for.
fn original(means: &Means, write: &Write<'_>, guard: &Guarded<'_>, echo: Option<Original>) -> Original {
    match (guard.hold, echo) {
        (_, Some(original)) => original,
        (Some(hold), None) => means.asked_since(&hold.original, write.old, write.new),
        (None, None) => means.original(write.new),
    }
}

/// The strategy that this write asks for, in its place, if it is one that the API server refuses. What people asked for before is no
/// fault of this write.
fn left_to_refuse(
    means: &Means,
    write: &Write<'_>,
    guard: &Guarded<'_>,
    original: &Original,
) -> Option<Verdict> {
    let path = means.strategy()?;
    let new = skeleton(means, write.new);
    let asked = means.refused(&new, original)?;
    let old = skeleton(means, write.old);
    let before = match guard.hold {
        Some(hold) => means.refused(&old, &hold.original),
        None => means.refused(&old, &means.original(&old)),
    };
    if before.as_ref() == Some(&asked) {
        return None;
    }
    Some(Verdict {
        outcome: Outcome::LeftToRefuse,
        patch: PatchBuilder::new(new).set(path, asked).build(),
        warning: None,
    })
}

/// Outside a release the writer may do anything but touch the marks. An echo of a release asks for what it says people want: it
/// may be our own hold of a change that another webhook has taken back since.
fn restore_guard(adapter: &dyn Adapter, write: &Write<'_>, guard: &Guarded<'_>) -> Verdict {
    let means = &adapter.paths().means;
    let mut patch = PatchBuilder::new(skeleton(means, write.new));
    if let Some(original) = echo(means, write.new) {
        patch = means.restore(patch, &original);
    }
    for mark in names::RELEASE_MARKS {
        patch = patch.remove(&["metadata", "annotations", mark]);
    }
    patch = patch.set(
        &["metadata", "annotations", names::GUARDED_BY],
        guard.text.clone(),
    );
    if patch.is_empty() {
        return Verdict::unchanged();
    }
    let warning = format!(
        "annotations of Rollout {} on this workload are kept as they were",
        guard.rollout
    );
    Verdict {
        outcome: Outcome::Clamped,
        patch: patch.build(),
        warning: Some(warning),
    }
}

fn warning(
    adapter: &dyn Adapter,
    write: &Write<'_>,
    guard: &Guarded<'_>,
    changed: bool,
    floor: i64,
) -> String {
    let rollout = &guard.rollout;
    let namespace = write.new["metadata"]["namespace"].as_str().unwrap_or("default");
    let see = format!("see: kubectl kruise rollout status {rollout} -n {namespace}");
    if !changed {
        let kept = match adapter.partition_path() {
            Some(_) => format!("the partition stays at {floor} or above until Rollout {rollout} grants more"),
            None => format!(
                "spec.{} stays as it is until Rollout {rollout} has ended it",
                adapter.paths().means.members().join(" and spec.")
            ),
        };
        return format!("a release is in progress: {kept}; {see}");
    }
    let template = || adapter.paths().template_id(&write.new["spec"]["template"]);
    if guard.hold.is_some() && guard.stable == Some(template()) {
        format!("the template is the stable one again: Rollout {rollout} rolls back; {see}")
    } else {
        format!("the new template is held by Rollout {rollout}; {see}")
    }
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object["metadata"]["annotations"].as_object()
}

fn is_rolling(object: &Value, path: &[&str]) -> bool {
    match at(object, path) {
        None | Some(Value::Null) => true,
        Some(kind) => matches!(kind.as_str(), Some("" | "RollingUpdate")),
    }
}

fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |at, name| at.get(*name))
}

/// The parts of the object that a verdict may change, without the template.
fn skeleton(means: &Means, object: &Value) -> Value {
    let part = |name: &&str| {
        let value = object["metadata"].get(*name)?;
        Some(((*name).to_owned(), value.clone()))
    };
    let metadata: Map<_, _> = ["annotations", "labels"].iter().filter_map(part).collect();
    json!({ "metadata": metadata, "spec": parts(object, &means.members()) })
}

#[cfg(test)]
mod tests;
