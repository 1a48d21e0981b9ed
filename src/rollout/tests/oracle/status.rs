//! What is decided and told.

use super::Reach;
use crate::api::v1beta1::{RolloutStatus, phase, step_state};
use crate::rollout::tests::world::{Seen, World};
use crate::rollout::{Action, Decision};

impl World {
    pub(in crate::rollout::tests) fn oracle_sees_a_decision(&mut self, decision: &Decision, seen: &Seen) {
        self.oracle_sees_deletions(decision, seen);
        // What changes the target and the marks comes before what tells of it.
        let mut told = false;
        for action in &decision.actions {
            told |= matches!(action, Action::Announce(_) | Action::AnnounceOn(..));
            if told
                && matches!(
                    action,
                    Action::Edit { .. } | Action::Guard | Action::Replace { .. } | Action::Move(..)
                )
            {
                self.oracle
                    .breaches
                    .push("an event came before its edit".to_owned());
            }
        }
    }

    /// A template that status and workload have left behind starts again when it comes back.
    pub(in crate::rollout::tests) fn oracle_sees_a_status(&mut self, status: &RolloutStatus) {
        let told = status
            .canary_status
            .as_ref()
            .map(|canary| canary.template_id.clone())
            .unwrap_or_default();
        let jump = self.oracle.jump.take().filter(|jump| Self::stands(jump, status));
        self.sees_a_step(status);
        if jump.is_some() {
            self.oracle.told = None;
            self.oracle.jump = jump;
        }
        self.oracle.lost &= status.canary_status.is_none();
        let Some(_) = &self.workload else { return };
        let view = self.view();
        let present = view.template.to_string();
        if view.hold().is_none() {
            self.oracle.reach.clear();
        }
        self.oracle
            .reach
            .retain(|template, _| *template == told || *template == present);
    }

    /// Whether a jump is still to come after this status, which has it still: the release is paused, or a write has failed.
    fn stands((template, to): &(String, usize), status: &RolloutStatus) -> bool {
        let canary = status.canary_status.as_ref();
        canary.is_some_and(|canary| {
            let follows = canary.current_step_index + 1;
            let next = canary.next_step_index;
            canary.template_id == *template && next != follows && usize::try_from(next) == Ok(*to)
        })
    }

    /// What was told may be told again from the beginning.
    pub(in crate::rollout::tests) fn oracle_forgets_what_was_told(&mut self) {
        self.oracle.told = None;
        self.oracle.lost |= self
            .rollout
            .as_ref()
            .is_none_or(|rollout| rollout.status.is_none());
        self.oracle_looks();
    }

    /// Fewer replicas may make the step for the rest one too many.
    fn plan_is_shorter_than(&self, step: i32) -> bool {
        let plan = self.workload.as_ref().and_then(|_| self.plan());
        plan.is_some_and(|plan| i32::try_from(plan.len()).unwrap() < step)
    }

    /// A release goes on step by step, no further than it may, and back only for a cause.
    fn sees_a_step(&mut self, status: &RolloutStatus) {
        let canary = status.canary_status.as_ref();
        let Some(canary) = canary.filter(|c| {
            status.phase == phase::PROGRESSING
                && status.current_step_state != step_state::COMPLETED
                && !c.rolled_back
        }) else {
            self.oracle.told = None;
            return;
        };
        let (template, step) = (&canary.template_id, canary.current_step_index);
        if let Some((told, highest)) = &self.oracle.told
            && told == template
            && step < *highest
            && !self.plan_is_shorter_than(*highest)
        {
            let text = format!("status went back from step {highest} to {step}");
            self.oracle.breaches.push(text);
        }
        let ahead = |reach: &&mut Reach| step > i32::try_from(reach.step).unwrap();
        if let Some(reach) = self.oracle.reach.get_mut(template).filter(ahead) {
            if self.oracle.free {
                *reach = reach.at(usize::try_from(step).unwrap());
            } else {
                let text = format!("status tells step {step}, allowed {}", reach.step);
                self.oracle.breaches.push(text);
            }
        }
        self.oracle.told = Some((template.clone(), step));
    }
}
