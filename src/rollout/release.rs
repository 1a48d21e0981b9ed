//! A release in progress: forward by steps, or back to the stable template, at once or by steps.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;

use super::back::{
    complete, complete_when_last_seen, complete_when_open, default_strategy, told_to_wait, updated,
    with_remark,
};
use super::deadline::{kept, overdue};
use super::decide::Present;
use super::forward::{enter, forward};
use super::inherited::{BY_REVISION, is_foreign};
use super::observed::Children;
use super::rest::{ROLLED_BACK, end_conditions, operator_silent};
use super::status::{Draft, progressing, settled};
use super::stuck::in_the_way;
use super::why;
use super::{Action, EditKind};
use crate::api::v1beta1::condition::{self, reason};
use crate::api::v1beta1::{CanaryStatus, Rollout, finalising_step, phase, step_state};
use crate::names;
use crate::plan::{Plan, fingerprint};
use crate::shell::patch_rollout;
use crate::workload::{Drive, Driven, Freedom, Hold, Likeness, View};

/// A held workload under its Rollout.
pub(super) struct Release<'a> {
    pub(super) rollout: &'a Rollout,
    pub(super) present: &'a Present<'a>,
    pub(super) plan: &'a Plan,
    /// Pods in the way are replaced.
    pub(super) replaces: bool,
}

/// Where the template of a held workload leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// To a new template, by steps.
    Forward,
    /// To the stable template.
    Back,
    /// Known once the operator has seen the change.
    Unknown,
}

/// Takes a held workload one decision further.
pub(super) fn advance(draft: &mut Draft<'_>, release: &Release<'_>) {
    let p = release.present;
    let Some(hold) = p.view.hold() else { return };
    let foreign = draft.before().canary_status.as_ref().is_some_and(is_foreign);
    if foreign && p.view.stable().is_none() && p.view.observed() == Some(false) {
        // Which revision it is that others have begun to release, only the operator can tell.
        let phase = draft.before().phase.clone();
        draft.say(&phase, waits_for_the_operator(p));
        return draft.held_up = true;
    }
    let direction = direction(draft, p);
    match direction {
        Direction::Forward => forward(draft, release, hold, false),
        Direction::Back => back(draft, release, hold),
        Direction::Unknown => wait_for_the_operator(draft, p),
    }
    if direction != Direction::Unknown {
        // Else nobody has seen to it that the grant is one for the size that the workload has now.
        drive(draft, p);
    }
    let rewritten = p.view.rewritten.filter(|until| *until > draft.now);
    if let Some(until) = rewritten
        && draft.status.phase == phase::PROGRESSING
    {
        return wait_for_other_webhooks(draft, release, until);
    }
    if kept(draft, p.children) {
        return;
    }
    let stall = operator_silent(draft, p)
        .or_else(|| in_the_way(draft, release))
        .or_else(|| overdue(draft, release));
    draft.stall(stall);
}

/// Moves what is granted, where the operator does not. What is going to be written to the workload comes first, and is seen by the next
/// decision.
fn drive(draft: &mut Draft<'_>, p: &Present<'_>) {
    let (Children::Pods(pods), false) = (p.children, draft.edits()) else {
        return;
    };
    if p.view.partition.is_none() {
        return;
    }
    let Drive { moves, wake } = p.adapter.drive(&Driven {
        view: p.view,
        revisions: p.revisions,
        pods,
        now: draft.now,
    });
    for to_move in moves {
        draft.act(Action::Move(p.workload.clone(), to_move));
    }
    if let Some(at) = wake {
        draft.wake_at(at);
    }
}

/// Every write brings another template, so none of them can be released by steps.
fn wait_for_other_webhooks(draft: &mut Draft<'_>, release: &Release<'_>, until: Timestamp) {
    let message = format!(
        "another mutating webhook changes the template of {} with every write, so that no step can be granted for it: take the \
         workload out of that webhook's rules, or let the release go without steps: {}",
        release.present.workload,
        patch_rollout(release.rollout, &json!({"spec": {"disabled": true}})),
    );
    draft.withhold_edits();
    draft.stalled(why::REWRITTEN, &message);
    draft.say(phase::PROGRESSING, message);
    draft.wake_at(until);
}

fn waits_for_the_operator(p: &Present<'_>) -> String {
    format!("waiting for the operator to see the change of {}", p.workload)
}

fn wait_for_the_operator(draft: &mut Draft<'_>, p: &Present<'_>) {
    let message = waits_for_the_operator(p);
    if draft.before().phase != phase::PROGRESSING
        && let Some(canary) = &mut draft.status.canary_status
    {
        // Whatever people or a release of before have left there: no release has begun.
        step_state::COMPLETED.clone_into(&mut canary.current_step_state);
    }
    draft.say(phase::PROGRESSING, message);
    draft.held_up = true;
}

/// A template that is the stable one to the last member leads back. One that differs in nothing that we would count, or that the
/// operator sees no new revision in, leads back if the operator agrees. Everything else leads forward.
fn direction(draft: &Draft<'_>, p: &Present<'_>) -> Direction {
    let view = p.view;
    let known = stable_revision(draft, view);
    let reported = &view.reported;
    let revision = match view.observed() {
        Some(true) => reported.update_revision.as_deref(),
        // Our own writes make a new generation too: what it said of this template holds until it has seen them.
        Some(false) => last_said(draft, view),
        None => None,
    };
    let says = revision
        .filter(|_| !known.is_empty())
        .map(|revision| revision == known);
    match (view.stable().map(|stable| stable.likeness(&view.template)), says) {
        (Some(Likeness::Exact), _) | (_, Some(true)) => Direction::Back,
        (Some(Likeness::Equivalent), None) if view.observed() == Some(false) || unnamed(p) => {
            Direction::Unknown
        }
        // Of the stable template nothing is known but the operator's name.
        (None, None) if view.observed() == Some(false) && !known.is_empty() => Direction::Unknown,
        // Without a memory of the stable revision, an operator that tells revisions apart is believed.
        (Some(Likeness::Equivalent), None) if reported.current_revision == reported.update_revision => {
            Direction::Back
        }
        _ => Direction::Forward,
    }
}

/// Whether the objects that name the revisions have not been seen yet, or not that of the present template.
fn unnamed(p: &Present<'_>) -> bool {
    p.adapter.paths().revisions.is_some() && p.view.reported.update_revision.is_none()
}

/// The operator's revision of the template that is being released, if it has named one.
fn last_said<'a>(draft: &Draft<'a>, view: &View) -> Option<&'a str> {
    underway(draft)
        .filter(|canary| canary.template_id == view.template.to_string())
        .map(|canary| canary.canary_revision.as_str())
        .filter(|revision| !revision.is_empty())
}

/// Whether the template is the stable one to the last member.
pub(super) fn is_stable(view: &View) -> bool {
    view.stable() == Some(&view.template)
}

/// The operator's revision of the stable template, as far as the status knows; else empty. A status that speaks of another stable
/// template was written before a release ended, or before somebody else governed the workload.
pub(super) fn stable_revision<'a>(draft: &Draft<'a>, view: &View) -> &'a str {
    let Some(canary) = &draft.before().canary_status else {
        return "";
    };
    let stable = view.stable().map(ToString::to_string);
    if stable.as_deref().unwrap_or(BY_REVISION) == canary.stable_template_id {
        &canary.stable_revision
    } else {
        ""
    }
}

/// Nothing of a release has been told yet: the status speaks of a workload at rest.
pub(super) fn from_rest(draft: &Draft<'_>) -> bool {
    let before = draft.before();
    before.phase == phase::HEALTHY && before.current_step_state == step_state::COMPLETED
}

/// What has been told of a release. Where somebody has written StepReady over Completed there is none.
pub(super) fn underway<'a>(draft: &Draft<'a>) -> Option<&'a CanaryStatus> {
    let before = draft.before();
    let canary = before.canary_status.as_ref()?;
    let completed = [&canary.current_step_state, &before.current_step_state]
        .iter()
        .any(|state| *state == step_state::COMPLETED);
    (before.phase == phase::PROGRESSING && !completed).then_some(canary)
}

/// Whether the way back takes steps: people ask for it by an annotation, the operator says which pods have never left, and some
/// have. What has been opened stays open.
fn in_batches(draft: &Draft<'_>, release: &Release<'_>, hold: &Hold) -> bool {
    let p = release.present;
    let annotations = release.rollout.metadata.annotations.as_ref();
    let asked = annotations.and_then(|annotations| annotations.get(names::ROLLBACK_IN_BATCH));
    let template = p.view.template.to_string();
    let opened = match underway(draft) {
        Some(canary) if canary.template_id == template => {
            // Held anew, the template was another one for a moment.
            !canary.rolled_back || (was_opened(canary) && hold.granted != names::HOLD_PARTITION)
        }
        // A new template is held, so it was us who opened it.
        _ => hold.granted == 0,
    };
    let seen = p.view.observed() == Some(true) && matches!(p.children, Children::Pods(_));
    let moves = !(seen && complete(p.view, p.children));
    asked.is_some_and(|asked| asked == "true") && p.view.observed().is_some() && !opened && moves
}

/// Whether the way back has been opened at once.
pub(super) fn was_opened(canary: &CanaryStatus) -> bool {
    canary.finalising_step == finalising_step::RESUME_WORKLOAD
}

/// Back to the stable template: everything is opened at once, unless people want steps, and handed back when every pod is there.
fn back(draft: &mut Draft<'_>, release: &Release<'_>, hold: &Hold) {
    let p = release.present;
    let template = p.view.template.to_string();
    let was = underway(draft);
    let exposed = hold.granted != names::HOLD_PARTITION;
    if was.is_none() && !exposed {
        // Changed and changed back before anything happened, or a change that is none: nothing was released. Without a memory
        // that is so if the operator says that no pod has another revision. The memory may lack a grant whose answer was lost: a
        // partition that keeps pods back would keep them where they are, so that the operator has to say so too.
        let last_stable = match &p.view.reported.update_revision {
            Some(revision) => revision == stable_revision(draft, p.view),
            None => true,
        };
        let rested =
            from_rest(draft) && last_stable && complete_when_last_seen(p.view) && !hold.original.keeps_back();
        if rested || complete(p.view, p.children) {
            // Where people have been told of a change, they are told that it was taken back.
            let told = draft.before().phase == phase::PROGRESSING;
            let canary = draft.status.canary_status.get_or_insert_with(Default::default);
            canary.rolled_back = told && is_stable(p.view);
            return end(draft, release, "the template is the stable one again", false);
        }
        if p.view.observed() == Some(false) {
            return wait_for_the_operator(draft, p);
        }
    }
    if in_batches(draft, release, hold) {
        return forward(draft, release, hold, true);
    }
    // The operator sees no new revision in the very template that is being released: then this is no way back, but a release
    // with nothing to do.
    let moot = was.is_some_and(|canary| canary.template_id == template && !canary.rolled_back);
    let now = draft.now;
    let canary = draft.status.canary_status.get_or_insert_with(Default::default);
    if canary.template_id != template {
        // What was counted were pods of another template.
        (canary.canary_replicas, canary.canary_ready_replicas) = (0, 0);
    }
    canary.template_id = template;
    canary.rolled_back = !moot;
    let opened = was_opened(canary);
    if !opened {
        canary.last_update_time = Some(MicroTime(now));
    }
    let written = std::mem::replace(&mut canary.next_step_index, -1);
    finalising_step::RESUME_WORKLOAD.clone_into(&mut canary.finalising_step);
    step_state::STEP_UPGRADE.clone_into(&mut canary.current_step_state);
    record_revision(canary, p.view, p.children);
    if opened && written != -1 {
        no_jump(draft, written, "pods return to the stable template without steps");
    }
    draft.edit(p.workload, EditKind::Open, p.adapter.expose(p.view, 0));
    if complete_when_open(p.view, p.children) && !matches!(p.children, Children::Unknown) {
        let message = if moot {
            "the operator sees no new revision: nothing to release"
        } else {
            ROLLED_BACK
        };
        return end(draft, release, message, true);
    }
    let message = "rolling back: pods return to the stable template, without steps";
    let message = with_remark(message.to_owned(), told_to_wait(p).as_deref());
    draft.say(phase::PROGRESSING, message);
    draft.held_up = true;
    draft.drop_condition(condition::SUCCEEDED);
    progressing(draft, reason::CANCELLING);
}

/// Tells that a jump leads nowhere.
pub(super) fn no_jump(draft: &mut Draft<'_>, written: i32, why: &str) {
    let message = format!("nextStepIndex {written} was written, but {why}");
    draft.tell(true, reason::NO_SUCH_STEP, message);
}

/// Hands the workload back and closes the release; `released` unless it had not begun.
pub(super) fn end(draft: &mut Draft<'_>, release: &Release<'_>, message: &str, released: bool) {
    let p = release.present;
    let released = released || draft.status.phase == phase::PROGRESSING;
    draft.tell_of(default_strategy(p.workload, p.adapter, p.view));
    draft.edit(
        p.workload,
        EditKind::Release,
        p.adapter.release(p.view, Freedom::Guarded),
    );
    draft.act(Action::Disown(p.workload.clone()));
    draft.say(phase::HEALTHY, message);
    let canary = draft.status.canary_status.get_or_insert_with(Default::default);
    record_revision(canary, p.view, p.children);
    canary.template_id = p.view.template.to_string();
    if p.view.observed() == Some(true) {
        canary.stable_revision.clone_from(&canary.canary_revision);
        canary.stable_template_id.clone_from(&canary.template_id);
    }
    settled(canary, release.plan.len());
    canary.last_update_time = Some(MicroTime(draft.now));
    if released {
        end_conditions(draft);
    }
}

pub(super) fn record_revision(canary: &mut CanaryStatus, view: &View, children: Children<'_>) {
    if view.observed() != Some(false)
        && let Some(revision) = &view.reported.update_revision
    {
        canary.canary_revision.clone_from(revision);
        canary.pod_template_hash.clone_from(revision);
    }
    record_id(canary, view);
    if let Some(counted) = updated(view, children) {
        canary.canary_replicas = i32::try_from(counted.pods).unwrap_or(i32::MAX);
        canary.canary_ready_replicas = i32::try_from(counted.ready).unwrap_or(i32::MAX);
    }
    record_workload(canary, view);
    canary.observed_workload_replicas = i32::try_from(view.replicas).ok();
}

/// Which object the status speaks of.
pub(super) fn record_workload(canary: &mut CanaryStatus, view: &View) {
    canary.observed_workload_uid.clone_from(&view.uid);
    canary.observed_workload_generation = view.generation;
}

/// The identity of the release may change at any time, since people may name it anew.
pub(super) fn record_id(canary: &mut CanaryStatus, view: &View) {
    if let Some(id) = view.release_id() {
        id.clone_into(&mut canary.observed_rollout_id);
    }
}

/// Starts the release of a template, at the step where the marks say that it stands.
pub(super) fn begin(draft: &mut Draft<'_>, release: &Release<'_>, hold: &Hold, back: bool) {
    let p = release.present;
    let was = draft.before().canary_status.as_ref();
    // Without any memory the grant is the memory: an approval that was lost is given again. A status that tells of no release was
    // written before this one began, so that a grant it does not know is the first; replicas may have changed since.
    let lost = draft.before().phase.is_empty() && was.is_none() && hold.granted != names::HOLD_PARTITION;
    let step = if lost {
        release.plan.step_of_partition(hold.granted)
    } else {
        1
    };
    let (stable_revision, stable_template_id) = match stable_revision(draft, p.view) {
        // To be shown; nothing is decided by it, since an operator may call the new revision current at once.
        "" => (
            p.view.reported.current_revision.clone().unwrap_or_default(),
            String::new(),
        ),
        known => (
            known.to_owned(),
            was.map(|canary| canary.stable_template_id.clone())
                .unwrap_or_default(),
        ),
    };
    let mut canary = CanaryStatus {
        template_id: p.view.template.to_string(),
        stable_revision,
        stable_template_id,
        rollout_hash: release
            .rollout
            .spec
            .strategy
            .canary
            .as_ref()
            .map(fingerprint)
            .unwrap_or_default(),
        rolled_back: back,
        ..CanaryStatus::default()
    };
    enter(&mut canary, release.plan, step, draft);
    draft.status.canary_status = Some(canary);
    draft.drop_condition(condition::SUCCEEDED);
}
