//! A release in progress: forward by steps, or back to the stable template at once.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::back::{Updated, complete_when_open, speaks_by_labels, updated};
use super::decide::{Present, end_conditions, operator_speaks};
use super::observed::Children;
use super::status::{Draft, progressing, settled};
use super::{Action, EditKind};
use crate::api::v1beta1::condition::{self, reason};
use crate::api::v1beta1::{CanaryStatus, Rollout, finalising_step, phase, step_state};
use crate::names;
use crate::plan::{Pause, Plan, fingerprint};
use crate::workload::{Freedom, Hold, Likeness, View};

/// A held workload under its Rollout.
pub(super) struct Release<'a> {
    pub(super) rollout: &'a Rollout,
    pub(super) present: &'a Present<'a>,
    pub(super) plan: &'a Plan,
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
    operator_speaks(draft, p);
    match direction(draft, p.view) {
        Direction::Forward => forward(draft, release, hold),
        Direction::Back => back(draft, release, hold),
        Direction::Unknown => {
            draft.say(
                phase::PROGRESSING,
                format!("waiting for the operator to see the change of {}", p.workload),
            );
        }
    }
}

/// A template that is the stable one to the last member leads back. One that differs in nothing that we would count, or that the
/// operator sees no new revision in, leads back if the operator agrees. Everything else leads forward.
fn direction(draft: &Draft<'_>, view: &View) -> Direction {
    let stable = view.guard().and_then(|guard| guard.stable.as_ref());
    let known = draft
        .before()
        .canary_status
        .as_ref()
        .map_or("", |canary| canary.stable_revision.as_str());
    let says = match (view.observed(), &view.reported.update_revision) {
        (Some(true), Some(revision)) if !known.is_empty() => Some(revision == known),
        _ => None,
    };
    match (stable.map(|stable| stable.likeness(&view.template)), says) {
        (Some(Likeness::Exact), _) | (_, Some(true)) => Direction::Back,
        (Some(Likeness::Equivalent), None) if view.observed() == Some(false) => Direction::Unknown,
        (Some(Likeness::Equivalent), None) => Direction::Back,
        _ => Direction::Forward,
    }
}

fn underway<'a>(draft: &Draft<'a>) -> Option<&'a CanaryStatus> {
    let before = draft.before();
    let canary = before.canary_status.as_ref()?;
    (before.phase == phase::PROGRESSING && canary.current_step_state != step_state::COMPLETED)
        .then_some(canary)
}

/// Back to the stable template: everything is opened at once, and handed back when every pod is there.
fn back(draft: &mut Draft<'_>, release: &Release<'_>, hold: &Hold) {
    let p = release.present;
    let template = p.view.template.to_string();
    let was = underway(draft);
    let exposed = hold.granted != names::HOLD_PARTITION;
    if was.is_none() && !exposed {
        // Changed and changed back before anything happened, or a change that is none: nothing was released.
        return end(
            draft,
            release,
            phase::HEALTHY,
            "the template is the stable one again",
        );
    }
    // The operator sees no new revision in the very template that is being released: then this is no way back, but a release
    // with nothing to do.
    let moot = was.is_some_and(|canary| canary.template_id == template && !canary.rolled_back);
    let canary = draft.status.canary_status.get_or_insert_with(Default::default);
    canary.template_id = template;
    canary.rolled_back = !moot;
    canary.next_step_index = -1;
    finalising_step::RESUME_WORKLOAD.clone_into(&mut canary.finalising_step);
    step_state::STEP_UPGRADE.clone_into(&mut canary.current_step_state);
    record_revision(canary, p.view, p.children);
    draft.edit(p.workload, EditKind::Open, p.adapter.expose(p.view, 0));
    if complete_when_open(p.view, p.children) && !matches!(p.children, Children::Unknown) {
        let message = if moot {
            "the operator sees no new revision: nothing to release"
        } else {
            "rolled back: every pod runs the stable template"
        };
        return end(draft, release, phase::HEALTHY, message);
    }
    draft.say(
        phase::PROGRESSING,
        "rolling back: pods return to the stable template, without steps",
    );
    draft.drop_condition(condition::SUCCEEDED);
    progressing(draft, reason::CANCELLING);
}

/// Hands the workload back and closes the release.
fn end(draft: &mut Draft<'_>, release: &Release<'_>, phase: &str, message: &str) {
    let p = release.present;
    let under_way = draft.status.phase == phase::PROGRESSING;
    draft.edit(
        p.workload,
        EditKind::Release,
        p.adapter.release(p.view, Freedom::Guarded),
    );
    draft.act(Action::Disown(p.workload.clone()));
    draft.say(phase, message);
    let canary = draft.status.canary_status.get_or_insert_with(Default::default);
    record_revision(canary, p.view, p.children);
    canary.stable_revision.clone_from(&canary.canary_revision);
    canary.template_id = p.view.template.to_string();
    settled(canary, release.plan.len());
    canary.last_update_time = Some(Time(draft.now));
    if under_way {
        end_conditions(draft);
    }
}

fn record_revision(canary: &mut CanaryStatus, view: &View, children: Children<'_>) {
    if view.observed() != Some(false)
        && let Some(revision) = &view.reported.update_revision
    {
        canary.canary_revision.clone_from(revision);
        canary.pod_template_hash.clone_from(revision);
        canary.observed_rollout_id.clone_from(revision);
    }
    let counted = updated(view, children).unwrap_or_default();
    canary.canary_replicas = i32::try_from(counted.pods).unwrap_or(i32::MAX);
    canary.canary_ready_replicas = i32::try_from(counted.ready).unwrap_or(i32::MAX);
    canary.observed_workload_generation = view.generation;
}

/// Starts the release of a template, at the step where the marks say that it stands.
fn begin(draft: &mut Draft<'_>, release: &Release<'_>, hold: &Hold) {
    let p = release.present;
    let was = draft.before().canary_status.as_ref();
    // Without a memory of this release the grant is the memory: an approval that was lost is given again.
    let lost = was.is_none() && hold.granted != names::HOLD_PARTITION;
    let step = if lost {
        release.plan.step_of_partition(hold.granted)
    } else {
        1
    };
    let stable = match was {
        Some(canary) if !canary.stable_revision.is_empty() => canary.stable_revision.clone(),
        _ => p.view.reported.current_revision.clone().unwrap_or_default(),
    };
    let mut canary = CanaryStatus {
        template_id: p.view.template.to_string(),
        stable_revision: stable,
        rollout_hash: release
            .rollout
            .spec
            .strategy
            .canary
            .as_ref()
            .map(fingerprint)
            .unwrap_or_default(),
        ..CanaryStatus::default()
    };
    enter(&mut canary, release.plan, step, draft);
    draft.status.canary_status = Some(canary);
    draft.drop_condition(condition::SUCCEEDED);
}

/// Enters a step.
fn enter(canary: &mut CanaryStatus, plan: &Plan, step: usize, draft: &Draft<'_>) {
    let number = |step: usize| i32::try_from(step).unwrap_or(i32::MAX);
    canary.current_step_index = number(step);
    canary.next_step_index = if plan.is_last(step) { -1 } else { number(step + 1) };
    change(canary, step_state::STEP_UPGRADE, draft);
}

fn change(canary: &mut CanaryStatus, state: &str, draft: &Draft<'_>) {
    state.clone_into(&mut canary.current_step_state);
    canary.last_update_time = Some(Time(draft.now));
}

/// What a step waits for.
enum Waits {
    /// Its pods.
    Pods,
    /// A person.
    Approval,
    /// Its seconds.
    Time,
    /// The operator's agreement that the release is complete.
    Operator,
    /// `spec.strategy.paused`.
    Unpausing,
}

/// Forward: as many steps as are done now.
fn forward(draft: &mut Draft<'_>, release: &Release<'_>, hold: &Hold) {
    let p = release.present;
    let template = p.view.template.to_string();
    let begins = underway(draft).is_none_or(|canary| canary.template_id != template || canary.rolled_back);
    if begins {
        begin(draft, release, hold);
    }
    let Some(mut canary) = draft.status.canary_status.take() else {
        return;
    };
    let paused = release.rollout.spec.strategy.paused;
    let waits = loop {
        let step = usize::try_from(canary.current_step_index)
            .unwrap_or(1)
            .clamp(1, release.plan.len());
        if paused {
            break Waits::Unpausing;
        }
        let passed = match canary.current_step_state.as_str() {
            step_state::STEP_READY if approved(draft) => true,
            step_state::STEP_PAUSED => match release.plan.step(step).pause {
                Pause::Manual => break Waits::Approval,
                Pause::None => true,
                Pause::Seconds(seconds) => {
                    let since = canary.last_update_time.as_ref().map_or(draft.now, |time| time.0);
                    let until = since + SignedDuration::from_secs(seconds.into());
                    if until > draft.now {
                        draft.wake_at(until);
                        break Waits::Time;
                    }
                    true
                }
            },
            _ => {
                step_state::STEP_UPGRADE.clone_into(&mut canary.current_step_state);
                if !ready(release, step, hold) {
                    break Waits::Pods;
                }
                match release.plan.step(step).pause {
                    Pause::None => true,
                    Pause::Manual | Pause::Seconds(_) => {
                        change(&mut canary, step_state::STEP_PAUSED, draft);
                        false
                    }
                }
            }
        };
        if passed && release.plan.is_last(step) {
            if hold.original.keeps_back() > 0 && !complete_when_open(p.view, p.children) {
                break Waits::Operator;
            }
            draft.status.canary_status = Some(canary);
            return end(
                draft,
                release,
                phase::HEALTHY,
                "release completed: every pod runs the new template",
            );
        }
        if passed {
            enter(&mut canary, release.plan, step + 1, draft);
        }
    };
    let step = usize::try_from(canary.current_step_index)
        .unwrap_or(1)
        .clamp(1, release.plan.len());
    if !paused {
        let partition = release.plan.partition(step);
        let kind = if partition == 0 {
            EditKind::Open
        } else {
            EditKind::Grant
        };
        draft.edit(p.workload, kind, p.adapter.expose(p.view, partition));
    }
    if begins {
        draft.act(Action::Record);
    }
    record_revision(&mut canary, p.view, p.children);
    if matches!(waits, Waits::Operator) {
        finalising_step::RESUME_WORKLOAD.clone_into(&mut canary.finalising_step);
    }
    let message = message(release, step, &waits);
    canary.message.clone_from(&message);
    draft.status.canary_status = Some(canary);
    draft.say(phase::PROGRESSING, message);
    progressing(
        draft,
        match waits {
            Waits::Unpausing => reason::PAUSED,
            Waits::Operator => reason::FINALISING,
            Waits::Pods | Waits::Approval | Waits::Time => reason::IN_ROLLING,
        },
    );
}

/// StepReady counts only if it was written over StepPaused: the copy of the state in `status.currentStepState`, which approvers
/// leave alone, is what we wrote last. So an approval that comes too late, after the next step or another template has begun,
/// approves nothing.
fn approved(draft: &Draft<'_>) -> bool {
    draft.before().current_step_state == step_state::STEP_PAUSED
}

/// Whether a step's pods are there and ready.
fn ready(release: &Release<'_>, step: usize, hold: &Hold) -> bool {
    let p = release.present;
    let partition = release.plan.partition(step);
    if hold.granted != partition
        || p.view.partition_in_force() != partition
        || p.view.observed() != Some(true)
    {
        return false;
    }
    let Some(Updated { pods, ready, settled }) = updated(p.view, p.children) else {
        return false;
    };
    let exposure = release.plan.step(step).exposure;
    let enough = pods >= exposure && ready + release.plan.tolerated(step) >= exposure;
    let last = release.plan.is_last(step);
    enough && (exposure == 0 || ready > 0) && (!last || settled)
}

fn message(release: &Release<'_>, step: usize, waits: &Waits) -> String {
    let p = release.present;
    let (name, namespace) = (
        release.rollout.metadata.name.as_deref().unwrap_or_default(),
        release.rollout.metadata.namespace.as_deref().unwrap_or_default(),
    );
    let exposure = release.plan.step(step).exposure;
    let head = format!("step {step} of {}", release.plan.len());
    match waits {
        Waits::Pods => {
            let counters = match p.children {
                Children::Pods(pods) if !speaks_by_labels(pods) => {
                    "; the operator sets no revision label on pods, so status.updatedReplicas is believed"
                }
                _ => "",
            };
            format!(
                "{head}: updating to {exposure} of {} pods{counters}",
                p.view.replicas
            )
        }
        Waits::Approval => format!(
            "{head}: {exposure} of {} pods are updated and ready; waiting for approval: kubectl kruise rollout approve \
             rollout/{name} -n {namespace}",
            p.view.replicas
        ),
        Waits::Time => {
            let Pause::Seconds(seconds) = release.plan.step(step).pause else {
                return head;
            };
            format!(
                "{head}: {exposure} of {} pods are updated and ready; goes on after {seconds} s",
                p.view.replicas
            )
        }
        Waits::Operator => format!(
            "{head}: waiting for the operator of {} to call the update complete",
            p.workload
        ),
        Waits::Unpausing => format!(
            "{head}: paused by spec.strategy.paused; go on with: kubectl kruise rollout resume rollout/{name} -n {namespace}"
        ),
    }
}
