//! What others have begun: releases of the existing controller, and of versions of this one that name templates otherwise.
//!
//! Their status names revisions of the operator, and no template that could be compared. What the operator says decides instead, as
//! far as it can be relied on: nothing is granted before it has seen the workload as it is.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::api::v1beta1::condition::{self, reason};
use crate::api::v1beta1::{CanaryStatus, Rollout, RolloutStatus, phase, step_state};
use crate::names;
use crate::workload::pod::names_revision;
use crate::workload::{Partition, TemplateId, View};

/// Stands for the id of the stable template where only the operator's name of it is known.
pub(super) const BY_REVISION: &str = "by-revision";

/// Whether the existing controller has left the workload in the middle of a release of this Rollout, so that its partition is a state
/// of that release and nothing that people ask for.
#[must_use]
pub fn is_left(rollout: &Rollout, view: &View) -> bool {
    let status = rollout.status.as_ref();
    let told = status.is_some_and(|status| match &status.canary_status {
        Some(canary) => is_foreign(canary),
        // A Rollout that tells of no release may have come along with a copy of the workload.
        None => status.phase == phase::PROGRESSING,
    });
    let marks = &view.marks;
    let unmarked = marks.guard.is_none() && marks.hold.is_none();
    // Its admission holds by this partition, and it may forget one when a release ends.
    let forgotten = unmarked && view.partition == Some(Partition::Count(names::HOLD_PARTITION));
    let named = marks.left_for.is_some() && marks.left_for == rollout.metadata.name;
    told && (named || forgotten)
}

/// Whether this tells of a template in words that are not ours.
pub(super) fn is_foreign(canary: &CanaryStatus) -> bool {
    canary.template_id.parse::<TemplateId>().is_err()
}

/// The Rollout with its status in our words; `None` where it is so already, or speaks of nothing that is there.
///
/// A release goes on where it stood if the operator still releases the revision that the status names; an approval stays. Of the
/// stable template nothing is known but the operator's name, which counts only if the operator calls it current: some call the newest
/// revision so at once, and what is taken for a way back would be opened.
pub(super) fn inherited(rollout: &Rollout, view: &View, now: Timestamp) -> Option<Rollout> {
    let before = rollout.status.as_ref()?;
    let canary = before
        .canary_status
        .as_ref()
        .filter(|canary| is_foreign(canary))?;
    view.guard()?;
    let releasing = before.phase == phase::PROGRESSING;
    if view.observed() == Some(false) || !(releasing || view.hold().is_some()) {
        return None;
    }
    let mut status = before.clone();
    let mut ours = CanaryStatus {
        rollout_hash: String::new(),
        canary_revision: in_full(&canary.canary_revision, view),
        ..canary.clone()
    };
    let stable = in_full(stable_revision(before, canary), view);
    let known = !stable.is_empty() && view.reported.current_revision.as_ref() == Some(&stable);
    ours.stable_template_id = if known {
        BY_REVISION.to_owned()
    } else {
        String::new()
    };
    ours.stable_revision = if known { stable } else { String::new() };
    let same = view.reported.update_revision.as_ref() == Some(&ours.canary_revision);
    if same && releasing {
        ours.template_id = view.template.to_string();
        ours.rolled_back = returns(before);
        let state = step(before, canary);
        if state == step_state::STEP_UPGRADE {
            ours.last_update_time = Some(MicroTime(now));
        }
        state.clone_into(&mut ours.current_step_state);
        // An approval counts over a pause that was told.
        let told = match state {
            step_state::STEP_READY => step_state::STEP_PAUSED,
            other => other,
        };
        told.clone_into(&mut status.current_step_state);
    } else if !releasing {
        // The end of its last release may have left the step where it was.
        step_state::COMPLETED.clone_into(&mut ours.current_step_state);
        step_state::COMPLETED.clone_into(&mut status.current_step_state);
    }
    status.canary_status = Some(ours);
    Some(Rollout {
        status: Some(status),
        ..rollout.clone()
    })
}

/// The revision of the stable template by the status: of a release, or after one.
fn stable_revision<'a>(status: &RolloutStatus, canary: &'a CanaryStatus) -> &'a str {
    match status.phase.as_str() {
        // Pods return by steps, as if to a new one: then it is not told from where.
        phase::PROGRESSING if canary.stable_revision == canary.canary_revision && !returns(status) => "",
        phase::PROGRESSING => &canary.stable_revision,
        _ => &canary.canary_revision,
    }
}

/// The operator's whole name of a revision, of which some kinds have the end alone in the status.
fn in_full(revision: &str, view: &View) -> String {
    let reported = [&view.reported.update_revision, &view.reported.current_revision];
    let mut named = reported.into_iter().flatten();
    let full = named.find(|full| names_revision(revision, full));
    full.map_or(revision, String::as_str).to_owned()
}

/// Whether pods were returning to the stable template without steps.
fn returns(status: &RolloutStatus) -> bool {
    let progressing = condition::get(&status.conditions, condition::PROGRESSING);
    progressing.is_some_and(|progressing| progressing.reason == reason::CANCELLING)
}

/// The state of the step in the words that we have. The last step, once it has been left, is an approved one.
fn step(status: &RolloutStatus, canary: &CanaryStatus) -> &'static str {
    match canary.current_step_state.as_str() {
        step_state::STEP_PAUSED => step_state::STEP_PAUSED,
        step_state::STEP_READY => step_state::STEP_READY,
        step_state::COMPLETED if !returns(status) => step_state::STEP_READY,
        _ => step_state::STEP_UPGRADE,
    }
}
