//! Forward to a new template, step by step.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::back::{Updated, believes, complete_when_open, updated};
use super::grant::{Memory, partition};
use super::observed::Children;
use super::release::{Release, begin, end, from_rest, record_revision, underway};
use super::status::{Draft, progressing};
use super::{Action, EditKind};
use crate::api::v1beta1::condition::reason;
use crate::api::v1beta1::{CanaryStatus, finalising_step, phase, step_state};
use crate::plan::{Pause, Plan, Step};
use crate::workload::Hold;

/// Enters a step.
pub(super) fn enter(canary: &mut CanaryStatus, plan: &Plan, step: usize, draft: &Draft<'_>) {
    let number = |step: usize| i32::try_from(step).unwrap_or(i32::MAX);
    canary.current_step_index = number(step);
    canary.next_step_index = if plan.is_last(step) { -1 } else { number(step + 1) };
    change(canary, step_state::STEP_UPGRADE, draft);
}

fn change(canary: &mut CanaryStatus, state: &str, draft: &Draft<'_>) {
    state.clone_into(&mut canary.current_step_state);
    canary.last_update_time = Some(MicroTime(draft.now));
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
pub(super) fn forward(draft: &mut Draft<'_>, release: &Release<'_>, hold: &Hold) {
    let template = release.present.view.template.to_string();
    let begins = underway(draft).is_none_or(|canary| canary.template_id != template || canary.rolled_back);
    if begins {
        begin(draft, release, hold);
    }
    let Some(mut canary) = draft.status.canary_status.take() else {
        return;
    };
    let known = !canary.stable_template_id.is_empty();
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
    };
    let waits = if release.rollout.spec.strategy.paused {
        Waits::Unpausing
    } else {
        match steps.take(draft, &mut canary) {
            Some(waits) => waits,
            None => {
                draft.status.canary_status = Some(canary);
                return end(
                    draft,
                    release,
                    "release completed: every pod runs the new template",
                    true,
                );
            }
        }
    };
    steps.wait(draft, canary, &waits);
    if begins {
        // After the first grant: that is what people wait for.
        draft.act(Action::Record);
    }
}

/// The steps of one release, and what is there of it.
struct Steps<'a> {
    release: &'a Release<'a>,
    hold: &'a Hold,
    memory: Memory,
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
            if !plan.is_last(step) {
                enter(canary, plan, step + 1, draft);
            } else if !self.ready(step) {
                // It became the last one while it waited, since steps or replicas are fewer now.
                change(canary, step_state::STEP_UPGRADE, draft);
                return Some(Waits::Pods);
            } else {
                let p = self.release.present;
                let whole = self.hold.original.keeps_back() == 0 || complete_when_open(p.view, p.children);
                return (!whole).then_some(Waits::Operator);
            }
        }
    }

    /// Grants the step, and says what it waits for.
    fn wait(&self, draft: &mut Draft<'_>, mut canary: CanaryStatus, waits: &Waits) {
        let p = self.release.present;
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
        record_revision(&mut canary, p.view, p.children);
        if matches!(waits, Waits::Operator) {
            finalising_step::RESUME_WORKLOAD.clone_into(&mut canary.finalising_step);
        }
        let message = message(self.release, step, waits);
        draft.status.canary_status = Some(canary);
        draft.say(phase::PROGRESSING, message);
        let reason = match waits {
            Waits::Unpausing => reason::PAUSED,
            Waits::Operator => reason::FINALISING,
            Waits::Pods | Waits::Approval | Waits::Time => reason::IN_ROLLING,
        };
        progressing(draft, reason);
    }

    fn partition(&self, step: usize) -> i64 {
        partition(
            self.release.present,
            self.release.plan,
            step,
            self.hold,
            &self.memory,
        )
    }

    /// Whether a step's pods are there and ready.
    fn ready(&self, step: usize) -> bool {
        let (view, plan) = (self.release.present.view, self.release.plan);
        let partition = self.partition(step);
        let granted = self.hold.granted == partition && view.partition_in_force() == partition;
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
        let exposure = plan.step(step).exposure;
        let enough = pods >= exposure && ready + plan.tolerated(step) >= exposure;
        enough && (exposure == 0 || ready > 0) && (!plan.is_last(step) || (settled && alone))
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

fn message(release: &Release<'_>, step: usize, waits: &Waits) -> String {
    let p = release.present;
    let (name, namespace) = (
        release.rollout.metadata.name.as_deref().unwrap_or_default(),
        release.rollout.metadata.namespace.as_deref().unwrap_or_default(),
    );
    let Step { exposure, raised, .. } = release.plan.step(step);
    let note = if raised {
        " (written as fewer pods than the step before it; steps never go back)"
    } else {
        ""
    };
    let head = format!("step {step} of {}{note}", release.plan.len());
    match waits {
        Waits::Pods => {
            let believed = match p.children {
                Children::Pods(pods) => believes(p.view, pods),
                Children::Unknown => None,
            };
            let counters = believed
                .map(|why| format!("; {why}, so status.updatedReplicas is believed"))
                .unwrap_or_default();
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
            "{head}: paused by spec.strategy.paused; go on with: kubectl patch rollout {name} -n {namespace} --type=merge \
             -p '{{\"spec\":{{\"strategy\":{{\"paused\":false}}}}}}'"
        ),
    }
}
