//! What people change while a release is under way: the plan, the step to go to, and whether anything goes on at all.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::forward::{Steps, change, enter};
use super::observed::Children;
use super::status::Draft;
use super::why::event;
use crate::api::v1beta1::condition::{self, reason};
use crate::api::v1beta1::{CanaryStatus, step_state};
use crate::plan::{Plan, fingerprint};

/// The number of the step that follows by itself: -1 after the last one.
pub(super) fn follows(plan: &Plan, step: usize) -> i32 {
    if plan.is_last(step) {
        -1
    } else {
        i32::try_from(step + 1).unwrap_or(i32::MAX)
    }
}

impl Steps<'_> {
    /// Takes up what people have changed since the last decision on this release.
    pub(super) fn set_course(&self, draft: &mut Draft<'_>, canary: &mut CanaryStatus) {
        let paused = self.release.rollout.spec.strategy.paused;
        if !paused && was_paused(draft) && canary.current_step_state == step_state::STEP_UPGRADE {
            // How long the step takes is measured from here.
            canary.last_update_time = Some(MicroTime(draft.now));
        }
        let was = usize::try_from(canary.current_step_index).unwrap_or(1).max(1);
        let replanned = self.replanned(canary);
        // The step for the rest, which nobody has written, is no refuge for a release that is not that far.
        let most = if replanned && self.hold.granted > 0 {
            self.written_steps()
        } else {
            self.release.plan.len()
        };
        let step = was.clamp(1, most);
        canary.current_step_index = i32::try_from(step).unwrap_or(i32::MAX);
        if replanned {
            self.stay(draft, canary, step);
        }
        self.jump(draft, canary, step, was, replanned);
    }

    /// Whether the plan is another one than at the last decision.
    fn replanned(&self, canary: &mut CanaryStatus) -> bool {
        let strategy = self.release.rollout.spec.strategy.canary.as_ref();
        let hash = strategy.map(fingerprint).unwrap_or_default();
        let recorded = std::mem::replace(&mut canary.rollout_hash, hash);
        !recorded.is_empty() && recorded != canary.rollout_hash
    }

    fn written_steps(&self) -> usize {
        let strategy = self.release.rollout.spec.strategy.canary.as_ref();
        strategy.map_or(1, |canary| canary.steps.len().max(1))
    }

    /// Another plan: the release stays at its step, or at the last one if there are fewer now. A step that was done and has become
    /// larger is not done any more. Nothing else starts anew, and a step that has become smaller brings no other one on.
    fn stay(&self, draft: &mut Draft<'_>, canary: &mut CanaryStatus, step: usize) {
        let done = [step_state::STEP_PAUSED, step_state::STEP_READY];
        let larger = done.contains(&canary.current_step_state.as_str()) && self.lacks(step);
        if larger {
            change(canary, step_state::STEP_UPGRADE, draft);
        }
        let again = if larger {
            ", which is larger now and is taken again"
        } else {
            ""
        };
        let steps = self.release.plan.len();
        let message = format!("the plan has changed: the release is at step {step} of {steps}{again}");
        draft.tell(false, event::PLAN_CHANGED, message);
    }

    /// Whether the step exposes more pods than are granted. Scaling up makes it so too, but is no reason to take a step again.
    fn lacks(&self, step: usize) -> bool {
        let p = self.release.present;
        let known = matches!(p.children, Children::Pods(_)) && p.view.observed() != Some(false);
        let partition = if known {
            self.partition(step)
        } else {
            self.release.plan.partition(step)
        };
        partition < self.hold.granted
    }

    /// Goes to the step that people wrote as the next one. A number that is none of a step is put right, and said. While the
    /// release is paused, a jump waits.
    fn jump(
        &self,
        draft: &mut Draft<'_>,
        canary: &mut CanaryStatus,
        step: usize,
        was: usize,
        replanned: bool,
    ) {
        let plan = self.release.plan;
        let (written, natural) = (canary.next_step_index, follows(plan, step));
        if written == natural {
            return;
        }
        let target = usize::try_from(written)
            .ok()
            .filter(|to| (1..=plan.len()).contains(to));
        match target {
            Some(_) if self.release.rollout.spec.strategy.paused => {}
            Some(to) => {
                enter(canary, plan, to, draft);
                let message = format!("from step {step} to step {to} of {}, as asked for", plan.len());
                draft.tell(false, event::STEP_JUMP, message);
            }
            None => {
                canary.next_step_index = natural;
                if self.wrote(written, was, replanned) {
                    return;
                }
                let message = format!(
                    "nextStepIndex {written} was written, which is no step: possible are 1 to {}",
                    plan.len()
                );
                draft.condition(condition::JUMP, false, reason::NO_SUCH_STEP, &message);
                draft.tell(true, reason::NO_SUCH_STEP, message);
            }
        }
    }

    /// Whether we wrote this number ourselves, when the plan had another length: people have edited it, or the number of replicas
    /// decides whether one more step follows those that are written.
    fn wrote(&self, next: i32, was: usize, replanned: bool) -> bool {
        let natural = next == -1 || usize::try_from(next).is_ok_and(|next| next == was + 1);
        natural && (replanned || was >= self.written_steps())
    }
}

fn was_paused(draft: &Draft<'_>) -> bool {
    condition::get(&draft.before().conditions, condition::PROGRESSING)
        .is_some_and(|progressing| progressing.reason == reason::PAUSED)
}
