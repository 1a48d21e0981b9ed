//! What was changed while no controller was at work.
//!
//! Admission holds workloads whether a controller runs or not, and people go on writing. The status is what the last controller
//! knew; where the workload is another one than that at the first look, it is said once. What follows from it is decided as ever:
//! this only tells.

use super::decide::Present;
use super::release::underway;
use super::status::Draft;
use super::why::event;
use crate::api::v1beta1::{CanaryStatus, phase};
use crate::plan::Plan;
use crate::workload::{Likeness, TemplateId};

/// Tells what differs from the status as it was read, and how the Rollout goes on by the decision that has been drafted.
pub(super) fn tell_changes(draft: &mut Draft<'_>, p: &Present<'_>, plan: &Plan) {
    if let Some(changes) = changes(draft, p, plan) {
        let message = format!("while no controller was at work: {changes}");
        draft.tell(false, event::CHANGED_WHILE_AWAY, message);
    }
}

/// Tells that the workload is another one of the same name. One that a changed Rollout refers to is no such change.
pub(super) fn tell_created_again(draft: &mut Draft<'_>, p: &Present<'_>, generation: Option<i64>) {
    let before = draft.before();
    let governed = [phase::HEALTHY, phase::PROGRESSING].contains(&before.phase.as_str());
    if governed && generation == Some(before.observed_generation) {
        let message = format!(
            "while no controller was at work: {} was deleted and created again; it is a new workload, and its present template is \
             the stable one",
            p.workload
        );
        draft.tell(false, event::CHANGED_WHILE_AWAY, message);
    }
}

fn changes(draft: &Draft<'_>, p: &Present<'_>, plan: &Plan) -> Option<String> {
    let governed = |phase: &str| [phase::HEALTHY, phase::PROGRESSING].contains(&phase);
    let (before, view) = (draft.before(), p.view);
    let known = before.canary_status.as_ref()?;
    if !governed(&before.phase) || known.observed_workload_uid.is_empty() {
        return None;
    }
    // A copy that is older than the status has not seen what the status knows. Why a workload is not governed any more is told
    // by its condition.
    if known.observed_workload_generation > view.generation || !governed(&draft.status.phase) {
        return None;
    }
    match (underway(draft), view.hold()) {
        (Some(was), Some(_)) => in_release(draft, p, plan, was),
        (Some(_), None) => release_marks_gone(draft, p),
        (None, _) if before.phase == phase::PROGRESSING => None,
        (None, Some(_)) => newly_held(draft, p, plan, known),
        (None, None) => never_held(draft, p, known),
    }
}

/// The release that was under way goes on, or another one has taken its place.
fn in_release(draft: &Draft<'_>, p: &Present<'_>, plan: &Plan, was: &CanaryStatus) -> Option<String> {
    let is = draft.status.canary_status.as_ref()?;
    let begins = is.template_id != was.template_id;
    let became = if is.rolled_back {
        "taken back"
    } else {
        "replaced by a newer one, which is held"
    };
    let template = begins.then(|| format!("the template of {} was {became}", p.workload));
    let scaled = match (was.observed_workload_replicas, is.observed_workload_replicas) {
        (Some(was), Some(is)) if was != is => Some(format!(
            "replicas of {} were changed from {was} to {is}",
            p.workload
        )),
        _ => None,
    };
    let changes: Vec<_> = template.into_iter().chain(scaled).collect();
    (!changes.is_empty()).then(|| format!("{}; {}", changes.join(", and "), way_on(draft, plan, begins)))
}

/// Nothing was under way.
fn newly_held(draft: &Draft<'_>, p: &Present<'_>, plan: &Plan, was: &CanaryStatus) -> Option<String> {
    let is = draft.status.canary_status.as_ref()?;
    // Otherwise it has been changed back, or the operator has to say whether it is another one at all.
    let new = draft.status.phase == phase::PROGRESSING && is.template_id != was.template_id;
    new.then(|| {
        format!(
            "a new template of {} was held; {}",
            p.workload,
            way_on(draft, plan, true)
        )
    })
}

fn way_on(draft: &Draft<'_>, plan: &Plan, begins: bool) -> String {
    let canary = draft.status.canary_status.as_ref();
    let back = canary.is_some_and(|canary| canary.rolled_back);
    let step = canary.map_or(0, |canary| canary.current_step_index);
    let release = if begins {
        "its release starts now"
    } else {
        "the release goes on"
    };
    match draft.status.phase.as_str() {
        phase::HEALTHY => "nothing is left to do".to_owned(),
        _ if back => "pods return to the stable template".to_owned(),
        _ => format!("{release} at step {step} of {}", plan.len()),
    }
}

/// The status knows of a release, and the workload does not.
fn release_marks_gone(draft: &Draft<'_>, p: &Present<'_>) -> Option<String> {
    // The mark of an end, which one of us has written and not told of any more.
    let ended = p.view.stable() == Some(&p.view.template);
    (!ended).then(|| {
        format!(
            "the marks of the release were taken off {}, so that nothing held it; {}",
            p.workload,
            hold_on(draft)
        )
    })
}

/// No release is known of or under way, but there is another template.
fn never_held(draft: &Draft<'_>, p: &Present<'_>, was: &CanaryStatus) -> Option<String> {
    let was: TemplateId = was.template_id.parse().ok()?;
    (was.likeness(&p.view.template) == Likeness::Different).then(|| {
        format!(
            "a new template of {} came, and nothing held it; {}",
            p.workload,
            hold_on(draft)
        )
    })
}

fn hold_on(draft: &Draft<'_>) -> &'static str {
    if draft.holds() {
        "what it has not reached yet is held now"
    } else {
        "it is guarded from here on as it is"
    }
}
