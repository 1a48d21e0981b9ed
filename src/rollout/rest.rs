//! A workload at rest: whether it can be held, its mark, and the end of what came before.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;

use super::decide::{Present, set_label};
use super::inherited::is_left;
use super::observed::{Observed, Proof, Workload};
use super::release::{no_jump, record_id, record_workload};
use super::status::{Draft, Stall, guarded_message, holds, label_command, settled};
use super::why;
use super::{Action, EditKind};
use crate::api::v1beta1::condition::{self, reason};
use crate::api::v1beta1::{CanaryStatus, Rollout, RolloutStatus, phase, step_state};
use crate::names;
use crate::plan::Plan;
use crate::shell::patch_rollout;
use crate::workload::{Freedom, Likeness, TypeLabel, View};

pub(super) fn guarded(draft: &mut Draft<'_>, workload: &Workload) {
    draft.condition(condition::GUARDED, true, why::PROVEN, &guarded_message(workload));
}

/// Why the workload as it stands cannot be held, whatever admission does.
fn unfit(observed: &Observed<'_>, p: &Present<'_>) -> Option<(&'static str, String)> {
    let command = || label_command(p.workload, observed.namespace, p.adapter.type_label());
    match (&p.view.label, &p.view.other_strategy) {
        (TypeLabel::Missing, _) => Some((
            why::LABEL_MISSING,
            format!(
                "{} has no label {}: updates are not held. Set it: {}",
                p.workload,
                names::WORKLOAD_TYPE,
                command()
            ),
        )),
        (TypeLabel::Wrong(value), _) => Some((
            why::LABEL_WRONG,
            format!(
                "{} has the label {}={value}, not {}: updates are not held. Set it: {}",
                p.workload,
                names::WORKLOAD_TYPE,
                p.adapter.type_label(),
                command()
            ),
        )),
        (TypeLabel::Right, Some(strategy)) => Some((
            why::STRATEGY,
            format!(
                "{} has {}: {strategy}: its updates do not follow the partition. Set it to RollingUpdate",
                p.workload,
                p.adapter.strategy_type_path().unwrap_or_default().join(".")
            ),
        )),
        (TypeLabel::Right, None) => None,
    }
}

/// A kind that is known by name needs no word of people on how it updates; a value that they wrote is theirs.
fn lacks_label(p: &Present<'_>) -> bool {
    p.view.label == TypeLabel::Missing && !p.workload.kind.is_custom()
}

fn not_governed(draft: &mut Draft<'_>, reason: &str, message: &str) {
    says_why(draft, phase::DISABLED, reason, message);
}

fn says_why(draft: &mut Draft<'_>, phase: &str, reason: &str, message: &str) {
    draft.say(phase, message);
    draft.condition(condition::GUARDED, false, reason, message);
    draft.stalled(reason, message);
}

/// Our mark is not on the workload: see whether it can be held, then mark it.
pub(super) fn unmarked(draft: &mut Draft<'_>, observed: &Observed<'_>, rollout: &Rollout, p: &Present<'_>) {
    if lacks_label(p) {
        return set_label(draft, p);
    }
    let left = is_left(rollout, p.view);
    // What has been told of a release that is to be taken over stays told.
    let phase = if left {
        draft.before().phase.clone()
    } else {
        phase::DISABLED.to_owned()
    };
    if let Some((reason, message)) = unfit(observed, p) {
        return says_why(draft, &phase, reason, &message);
    }
    if left && p.adapter.partition_path().is_none() {
        return left_alone(draft, &not_taken_over(p, rollout));
    }
    if !left
        && p.view
            .marks
            .hold
            .as_ref()
            .is_some_and(|hold| !hold.is_echoed_by(p.view.partition))
    {
        // Somebody has copied an object that was held and given it a partition of its own: the marks would take that away.
        let unmark = p.adapter.release(p.view, Freedom::Free);
        return draft.edit(p.workload, EditKind::Release, unmark);
    }
    match p.proof {
        Proof::Refused {
            reason,
            message,
            retry,
        } => {
            says_why(draft, &phase, reason, message);
            retry_guard(draft, *retry);
        }
        Proof::Unknown | Proof::Outdated | Proof::Proven => draft.act(Action::Guard),
    }
}

/// In a release that the existing controller has begun, it keeps pods of kinds without a partition back by being at work: which of
/// them are to be kept is known to it alone.
fn not_taken_over(p: &Present<'_>, rollout: &Rollout) -> String {
    format!(
        "{} is in a release that another controller has begun, and of its kind none is taken over: nothing moves. End it there, or \
         let the rest of it go without steps: {}",
        p.workload,
        patch_rollout(rollout, &json!({"spec": {"disabled": true}}))
    )
}

/// A release that the existing controller has begun stands still: nothing is done to it, and what has been told of it stays told.
pub(super) fn left_alone(draft: &mut Draft<'_>, message: &str) {
    let phase = draft.before().phase.clone();
    says_why(draft, &phase, why::LEFT, message);
}

fn retry_guard(draft: &mut Draft<'_>, retry: Timestamp) {
    if retry > draft.now {
        draft.wake_at(retry);
    } else {
        draft.act(Action::Guard);
    }
}

/// Marked and not held.
pub(super) fn at_rest(draft: &mut Draft<'_>, observed: &Observed<'_>, p: &Present<'_>, plan: &Plan) {
    if lacks_label(p) {
        return set_label(draft, p);
    }
    if let Some((reason, message)) = unfit(observed, p) {
        draft.edit(
            p.workload,
            EditKind::Release,
            p.adapter.release(p.view, Freedom::Free),
        );
        return not_governed(draft, reason, &message);
    }
    let stable = p.view.stable();
    match stable.map(|stable| stable.likeness(&p.view.template)) {
        Some(Likeness::Different) if unfinished(p.view) => {
            // Admission was not there when the template changed; what has not been updated yet can still be held.
            draft.edit(p.workload, EditKind::Hold, p.adapter.hold(p.view));
            return;
        }
        // A change that nobody can hold any more, one that is none to the operator, a mark of another version, or release marks
        // that somebody has left there: nothing to write where all is as it should be.
        _ => draft.edit(
            p.workload,
            EditKind::Release,
            p.adapter.release(p.view, Freedom::Guarded),
        ),
    }
    match p.proof {
        Proof::Refused {
            reason,
            message,
            retry,
        } => {
            // A mark on a workload that cannot be held could make its owner's next update fail.
            let unmark = p.adapter.release(p.view, Freedom::Free);
            draft.edit(p.workload, EditKind::Release, unmark);
            not_governed(draft, reason, message);
            return retry_guard(draft, *retry);
        }
        Proof::Outdated => return draft.act(Action::Guard),
        Proof::Unknown if !holds(&draft.before().conditions, condition::GUARDED) => {
            return draft.act(Action::Guard);
        }
        Proof::Unknown | Proof::Proven => guarded(draft, p.workload),
    }
    healthy(draft, p, plan);
}

/// Whether pods are left that an ungated change has not reached.
fn unfinished(view: &View) -> bool {
    let reported = &view.reported;
    view.observed() != Some(true) || reported.updated_replicas.unwrap_or(0) < view.replicas
}

fn healthy(draft: &mut Draft<'_>, p: &Present<'_>, plan: &Plan) {
    let before = draft.before();
    if before.phase != phase::HEALTHY {
        // The end of a release that the status has not told of; another template was released elsewhere, or by other hands.
        let template = p.view.template.to_string();
        let tells = before.canary_status.as_ref();
        let of = |canary: &CanaryStatus| canary.template_id == template;
        // The way back may have begun and ended while no status could be written.
        let back = |canary: &CanaryStatus| {
            canary.template_id != template
                && canary.stable_template_id == template
                && under_way(p.view) == Some(false)
        };
        let told = tells.filter(|_| before.phase == phase::PROGRESSING);
        let returned = told.is_some_and(back);
        let ended = returned || told.is_some_and(of);
        if let Some(canary) = &mut draft.status.canary_status {
            canary.rolled_back |= returned;
        }
        let message = if returned {
            ROLLED_BACK.to_owned()
        } else if ended {
            end_message(before)
        } else {
            rest_message(p, under_way(p.view) == Some(true))
        };
        draft.say(phase::HEALTHY, message);
        match holds(&draft.status.conditions, condition::PROGRESSING) {
            true if ended => end_conditions(draft),
            true => super::status::progressing(draft, reason::COMPLETED),
            false => {}
        }
    } else if let Some(now) = under_way(p.view)
        && before.message == rest_message(p, !now)
    {
        draft.say(phase::HEALTHY, rest_message(p, now));
    }
    let stall = operator_silent(draft, p);
    draft.stall(stall);
    let now = draft.now;
    let canary = draft.status.canary_status.get_or_insert_with(Default::default);
    let written = std::mem::replace(&mut canary.next_step_index, -1);
    let jump = canary.current_step_state == step_state::COMPLETED && written != -1;
    if canary.current_step_state != step_state::COMPLETED {
        settled(canary, plan.len());
        canary.last_update_time = Some(MicroTime(now));
    }
    canary.template_id = p.view.template.to_string();
    if p.view.observed() == Some(true)
        && let Some(revision) = &p.view.reported.update_revision
    {
        canary.canary_revision.clone_from(revision);
        canary.stable_revision.clone_from(revision);
        canary.stable_template_id.clone_from(&canary.template_id);
        canary.pod_template_hash.clone_from(revision);
    }
    record_id(canary, p.view);
    record_workload(canary, p.view);
    if jump {
        no_jump(draft, written, "no release is in progress");
    }
}

/// What is said of a workload that has been found as it is: nothing of it was released by steps.
fn rest_message(p: &Present<'_>, under_way: bool) -> String {
    if under_way {
        format!(
            "{} is guarded from now on; the update that began before it was guarded goes on without steps",
            p.workload
        )
    } else {
        format!("{} is guarded and at rest", p.workload)
    }
}

/// Whether an update that is not held is under way; `None` while the operator has not seen the present generation.
fn under_way(view: &View) -> Option<bool> {
    let reported = &view.reported;
    let revisions = (&reported.current_revision, &reported.update_revision);
    let differ = matches!(revisions, (Some(current), Some(update)) if current != update);
    let behind = reported
        .updated_replicas
        .is_some_and(|updated| updated < view.replicas);
    (view.observed() != Some(false)).then_some(differ && behind)
}

/// What is said of a release that was taken back.
pub(super) const ROLLED_BACK: &str = "rolled back: every pod runs the stable template";

fn end_message(before: &RolloutStatus) -> String {
    let back = before
        .canary_status
        .as_ref()
        .is_some_and(|canary| canary.rolled_back);
    if back {
        ROLLED_BACK.to_owned()
    } else {
        "release completed".to_owned()
    }
}

/// The conditions at the end of a release.
pub(super) fn end_conditions(draft: &mut Draft<'_>) {
    let back = draft
        .status
        .canary_status
        .as_ref()
        .is_some_and(|canary| canary.rolled_back);
    let message = draft.status.message.clone();
    super::status::progressing(draft, reason::COMPLETED);
    let reason = if back {
        reason::ROLLED_BACK
    } else {
        reason::SUCCESS
    };
    draft.condition(condition::SUCCEEDED, !back, reason, &message);
}

/// An operator that does not say what it has seen would make a release wait in silence: say so.
pub(super) fn operator_silent(draft: &mut Draft<'_>, p: &Present<'_>) -> Option<Stall> {
    const GRACE: jiff::SignedDuration = jiff::SignedDuration::from_secs(3);
    let reported = &p.view.reported;
    if reported.observed_generation.is_some() {
        return None;
    }
    let silent = reported.replicas.is_none() && reported.ready_replicas.is_none();
    match p.view.created.and_then(|created| created.checked_add(GRACE).ok()) {
        Some(until) if silent && until > draft.now => {
            draft.wake_at(until);
            None
        }
        _ if silent => Some(Stall {
            reason: why::SILENT,
            message: format!("the operator of {} reports no status: is it running?", p.workload),
        }),
        _ => Some(Stall {
            reason: why::NO_OBSERVED_GENERATION,
            message: format!(
                "the operator of {} reports no status.observedGeneration, so nobody can tell which template its status \
                 speaks of: a release would stay at its first step. Its operator must report it",
                p.workload
            ),
        }),
    }
}
