//! To another template, step by step: forward to a new one, or back to the stable one in batches.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;

use super::back::{Updated, believes, complete_when_open, fresh, told_to_wait, updated, with_remark};
use super::course::follows;
use super::grant::{Memory, partition};
use super::labels::label_pods;
use super::observed::Children;
use super::release::{Release, begin, end, from_rest, record_revision, underway, was_opened};
use super::rest::ROLLED_BACK;
use super::status::{Draft, progressing};
use super::{Action, EditKind};
use crate::api::v1beta1::condition::{self, reason};
use crate::api::v1beta1::{CanaryStatus, finalising_step, phase, step_state};
use crate::plan::{Pause, Plan, Step};
use crate::shell::patch_rollout;
use crate::workload::Hold;

/// Enters a step.
pub(super) fn enter(canary: &mut CanaryStatus, plan: &Plan, step: usize, draft: &mut Draft<'_>) {
    canary.current_step_index = i32::try_from(step).unwrap_or(i32::MAX);
    canary.next_step_index = follows(plan, step);
    change(canary, step_state::STEP_UPGRADE, draft);
    draft.drop_condition(condition::JUMP);
}

pub(super) fn change(canary: &mut CanaryStatus, state: &str, draft: &Draft<'_>) {
    state.clone_into(&mut canary.current_step_state);
    canary.last_update_time = Some(MicroTime(draft.now));
}

/// What a step waits for.
enum Waits {
    /// Its pods.
    Pods,
    /// Its pods again: it was done, and has lost some of them since.
    Again,
    /// A person.
    Approval,
    /// Its seconds.
    Time,
    /// The operator's agreement that the release is complete.
    Operator,
    /// `spec.strategy.paused`.
    Unpausing,
}

/// As many steps as are done now, to a new template or `back` to the stable one.
pub(super) fn forward(draft: &mut Draft<'_>, release: &Release<'_>, hold: &Hold, back: bool) {
    let template = release.present.view.template.to_string();
    let begins = underway(draft).is_none_or(|canary| {
        // On a way back that was opened at once no step has been taken.
        canary.template_id != template || canary.rolled_back != back || (back && was_opened(canary))
    });
    if begins {
        begin(draft, release, hold, back);
    }
    let Some(mut canary) = draft.status.canary_status.take() else {
        return;
    };
    // On the way back the pods of the stable revision are the updated ones: they are counted once the operator names it.
    let known = !canary.stable_template_id.is_empty() && !back;
    let memory = Memory {
        stable_revision: if known {
            canary.stable_revision.clone()
        } else {
            String::new()
        },
        from_rest: from_rest(draft),
    };
    let steps = Steps {
        release,
        hold,
        memory,
        now: draft.now,
        back,
    };
    if !begins {
        steps.set_course(draft, &mut canary);
    }
    let waits = if release.rollout.spec.strategy.paused {
        Waits::Unpausing
    } else {
        match steps.take(draft, &mut canary) {
            Some(waits) => waits,
            None => {
                if !back {
                    label_pods(draft, release, number(&canary, release.plan));
                }
                draft.status.canary_status = Some(canary);
                let message = if back {
                    ROLLED_BACK
                } else {
                    "release completed: every pod runs the new template"
                };
                return end(draft, release, message, true);
            }
        }
    };
    steps.wait(draft, canary, &waits);
    if begins && !back {
        // After the first grant: that is what people wait for.
        draft.act(Action::Record);
    }
}

/// The steps of one release, and what is there of it.
pub(super) struct Steps<'a> {
    pub(super) release: &'a Release<'a>,
    pub(super) hold: &'a Hold,
    memory: Memory,
    now: Timestamp,
    back: bool,
}

impl Steps<'_> {
    /// Takes steps until one waits; `None` when all are taken.
    fn take(&self, draft: &mut Draft<'_>, canary: &mut CanaryStatus) -> Option<Waits> {
        let plan = self.release.plan;
        loop {
            let step = number(canary, plan);
            match canary.current_step_state.as_str() {
                step_state::STEP_READY if approved(draft) => {}
                step_state::STEP_PAUSED => {
                    if let Some(waits) = pauses(draft, canary, plan.step(step).pause) {
                        return Some(waits);
                    }
                }
                _ if self.is_passed(step) && self.has_run(step, canary) => {}
                _ => {
                    step_state::STEP_UPGRADE.clone_into(&mut canary.current_step_state);
                    if !self.ready(step) {
                        return Some(Waits::Pods);
                    }
                    if plan.step(step).pause != Pause::None {
                        change(canary, step_state::STEP_PAUSED, draft);
                        continue;
                    }
                }
            }
            if !self.is_passed(step) && !self.ready(step) {
                if !plan.is_last(step) {
                    return Some(Waits::Again);
                }
                // It became the last one while it waited, since steps or replicas are fewer now.
                change(canary, step_state::STEP_UPGRADE, draft);
                return Some(Waits::Pods);
            }
            if !plan.is_last(step) {
                enter(canary, plan, step + 1, draft);
            } else {
                let p = self.release.present;
                let whole = !self.hold.original.keeps_back() || complete_when_open(p.view, p.children);
                return (!whole).then_some(Waits::Operator);
            }
        }
    }

    /// Grants the step, and says what it waits for.
    fn wait(&self, draft: &mut Draft<'_>, mut canary: CanaryStatus, waits: &Waits) {
        let p = self.release.present;
        draft.held_up = matches!(waits, Waits::Pods | Waits::Again | Waits::Operator);
        if matches!(waits, Waits::Pods | Waits::Again)
            && let Some(at) = fresh(p.view, p.children, self.now).min()
        {
            draft.wake_at(at);
        }
        let step = number(&canary, self.release.plan);
        let partition = self.partition(step);
        // Paused, nothing more is granted; what a scale-up would expose is still held back.
        if !matches!(waits, Waits::Unpausing) || partition > p.view.partition_in_force() {
            let kind = if partition == 0 {
                EditKind::Open
            } else {
                EditKind::Grant
            };
            draft.edit(p.workload, kind, p.adapter.expose(p.view, partition));
        }
        if !self.back {
            label_pods(draft, self.release, step);
        }
        canary.finalising_step = match waits {
            Waits::Operator => finalising_step::RELEASE_WORKLOAD_CONTROL.to_owned(),
            _ => String::new(),
        };
        let idle = told_to_wait(p).filter(|_| draft.held_up);
        let message = self.count(draft, &mut canary, |updated| {
            let message = self.message(step, waits, updated);
            with_remark(message, idle.as_deref())
        });
        draft.status.canary_status = Some(canary);
        draft.say(phase::PROGRESSING, message);
        let reason = match waits {
            Waits::Unpausing => reason::PAUSED,
            Waits::Operator => reason::FINALISING,
            Waits::Pods | Waits::Again | Waits::Approval | Waits::Time => reason::IN_ROLLING,
        };
        progressing(draft, reason);
    }

    /// Counts the updated pods, and says what there is to say of them. Both stay as they were until there is something else to say.
    fn count(&self, draft: &Draft<'_>, canary: &mut CanaryStatus, message: impl Fn(i32) -> String) -> String {
        let p = self.release.present;
        let said = message(canary.canary_replicas);
        let (pods, ready) = (canary.canary_replicas, canary.canary_ready_replicas);
        record_revision(canary, p.view, p.children);
        if said == draft.before().message {
            (canary.canary_replicas, canary.canary_ready_replicas) = (pods, ready);
            return said;
        }
        message(canary.canary_replicas)
    }

    pub(super) fn partition(&self, step: usize) -> i64 {
        partition(
            self.release.present,
            self.release.plan,
            step,
            self.hold,
            &self.memory,
        )
    }

    /// Whether the next step has been granted already, and the status does not know: its write was lost, or we died before it.
    /// To go on from there exposes nothing more, and to take it back would only have the pods go to and fro.
    fn is_passed(&self, step: usize) -> bool {
        if self.release.plan.is_last(step) {
            return false;
        }
        let next = self.partition(step + 1);
        self.hold.granted == next && next < self.partition(step)
    }

    /// Whether a step without a pause is done by what the operator said before it sees our last write.
    fn has_run(&self, step: usize, canary: &CanaryStatus) -> bool {
        let (Children::Pods(pods), Pause::None) =
            (self.release.present.children, self.release.plan.step(step).pause)
        else {
            return false;
        };
        let (plan, revision) = (self.release.plan, canary.canary_revision.as_str());
        let ready = pods.iter().filter(|pod| pod.ready && pod.runs(revision)).count();
        let ready = u32::try_from(ready).unwrap_or(u32::MAX);
        !revision.is_empty() && ready + plan.tolerated(step) >= plan.step(step).exposure
    }

    /// Whether a step's pods are there and ready.
    fn ready(&self, step: usize) -> bool {
        let (view, plan) = (self.release.present.view, self.release.plan);
        let partition = self.partition(step);
        // Less is kept back where the step has become smaller, or is one that was passed before.
        let granted = self.hold.granted <= partition && view.partition_in_force() <= partition;
        if !granted || view.observed() != Some(true) {
            return false;
        }
        let Some(Updated {
            pods,
            ready,
            settled,
            alone,
        }) = updated(view, self.release.present.children)
        else {
            return false;
        };
        let ready = ready.saturating_sub(
            fresh(view, self.release.present.children, self.now)
                .count()
                .try_into()
                .unwrap_or(u32::MAX),
        );
        let exposure = plan.step(step).exposure;
        let enough = pods >= exposure && ready + plan.tolerated(step) >= exposure;
        enough && (exposure == 0 || ready > 0) && (!plan.is_last(step) || (settled && alone))
    }

    fn message(&self, step: usize, waits: &Waits, updated: i32) -> String {
        let (p, rollout) = (self.release.present, &self.release.rollout.metadata);
        let (name, namespace) = (
            rollout.name.as_deref().unwrap_or_default(),
            rollout.namespace.as_deref().unwrap_or_default(),
        );
        let (plan, replicas) = (self.release.plan, p.view.replicas);
        let Step { exposure, raised, .. } = plan.step(step);
        let way = if self.back {
            "rolling back in batches, "
        } else {
            ""
        };
        let note = if raised {
            " (written as fewer pods than the step before it; steps never go back)"
        } else {
            ""
        };
        let head = format!("{way}step {step} of {}{note}", plan.len());
        let updated = u32::try_from(updated).unwrap_or_default();
        // Nothing brings updated pods back but another release.
        let beyond = match updated.saturating_sub(exposure) {
            0 => None,
            more if self.back => Some(format!(
                "{updated} of {replicas} pods run the stable template, {more} more than the step has"
            )),
            more => Some(format!(
                "{updated} of {replicas} pods are updated: {more} {} more than the step has {} on the new template",
                if more == 1 { "pod" } else { "pods" },
                if more == 1 { "stays" } else { "stay" },
            )),
        };
        let done = || {
            let ready = || format!("{exposure} of {replicas} pods are updated and ready");
            beyond.clone().unwrap_or_else(ready)
        };
        match waits {
            Waits::Pods => {
                let believed = match p.children {
                    Children::Pods(pods) => believes(p.view, pods),
                    Children::Unknown => None,
                };
                let counters = believed
                    .map(|why| format!("; {why}, so its count of updated pods is believed"))
                    .unwrap_or_default();
                let beyond = beyond.map(|beyond| format!("; {beyond}")).unwrap_or_default();
                format!("{head}: updating to {exposure} of {replicas} pods{beyond}{counters}")
            }
            Waits::Again => format!(
                "{head}: pods of the step are not ready any more; goes on once {exposure} of {replicas} pods are updated and ready"
            ),
            Waits::Approval => format!(
                "{head}: {}; waiting for approval: kubectl kruise rollout approve rollout/{name} -n {namespace}",
                done()
            ),
            Waits::Time => {
                let Pause::Seconds(seconds) = plan.step(step).pause else {
                    return head;
                };
                format!("{head}: {}; goes on after {seconds} s", done())
            }
            Waits::Operator => format!(
                "{head}: waiting for the operator of {} to call the update complete",
                p.workload
            ),
            Waits::Unpausing => format!(
                "{head}: paused by spec.strategy.paused, nothing more is released; go on with: {}",
                patch_rollout(
                    self.release.rollout,
                    &json!({"spec": {"strategy": {"paused": false}}})
                )
            ),
        }
    }
}

/// The number of the present step.
fn number(canary: &CanaryStatus, plan: &Plan) -> usize {
    usize::try_from(canary.current_step_index)
        .unwrap_or(1)
        .clamp(1, plan.len())
}

/// What a pause still waits for. A time that lies ahead, or none, cannot be when the pause began.
fn pauses(draft: &mut Draft<'_>, canary: &mut CanaryStatus, pause: Pause) -> Option<Waits> {
    let seconds = match pause {
        Pause::None => return None,
        Pause::Manual => return Some(Waits::Approval),
        Pause::Seconds(seconds) => seconds,
    };
    let since = canary
        .last_update_time
        .as_ref()
        .map(|time| time.0)
        .filter(|since| *since <= draft.now);
    let since = since.unwrap_or(draft.now);
    canary.last_update_time = Some(MicroTime(since));
    let until = since
        .checked_add(SignedDuration::from_secs(seconds.into()))
        .unwrap_or(Timestamp::MAX);
    if until <= draft.now {
        return None;
    }
    draft.wake_at(until);
    Some(Waits::Time)
}

/// StepReady counts only if it was written over StepPaused: the copy of the state in `status.currentStepState`, which approvers
/// leave alone, is what we wrote last. So an approval that comes too late, after the next step or another template has begun,
/// approves nothing.
fn approved(draft: &Draft<'_>) -> bool {
    draft.before().current_step_state == step_state::STEP_PAUSED
}
