//! What the world knows of right and wrong, apart from `decide`: how far a release may be at most.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::world::{Pod, World, adapter, revision};
use crate::api::v1beta1::{CanaryStrategy, RolloutStatus};
use crate::plan::{Pause, Plan};
use crate::rollout::{Action, Decision};

/// How far a release may be.
#[derive(Clone, Copy, Debug)]
struct Reach {
    step: usize,
    /// When the pods of this step were ready first.
    ready: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    /// A person disabled or deleted the Rollout: no limits until the next hold.
    pub(super) free: bool,
    /// The template in the workload was held when it was written.
    held: bool,
    /// The operator's revision of the template that everything runs and that needs no steps.
    stable: Option<String>,
    /// The operator's current revision, for operators that do not report it.
    pub(super) current: Option<String>,
    /// The partition that people asked for last; outer `None`: unknown.
    pub(super) asked: Option<Option<i64>>,
    /// The highest step that is justified, by template.
    reach: BTreeMap<String, Reach>,
    /// Ordinals that the scale subresource added above the partition.
    exempt: BTreeSet<u32>,
    /// What must not have happened.
    pub(super) breaches: Vec<String>,
}

impl World {
    fn strategy(&self) -> Option<&CanaryStrategy> {
        self.rollout.as_ref()?.spec.strategy.canary.as_ref()
    }

    fn plan(&self) -> Option<Plan> {
        Plan::new(self.strategy()?, self.view().replicas).ok()
    }

    /// Pods that may run the update template now; `None`: any number.
    fn limit(&self) -> Option<u32> {
        let template = self.view().template;
        let stable = self.oracle.stable == Some(revision(&self.object()["spec"]["template"]));
        if self.oracle.free || !self.oracle.held || stable {
            return None;
        }
        let reach = self.oracle.reach.get(&template.to_string())?;
        Some(self.plan()?.step(reach.step).exposure)
    }

    /// Steps that go on by themselves do so at most as fast as this.
    pub(super) fn oracle_looks(&mut self) {
        let (Some(_), Some(plan)) = (
            &self.workload,
            self.workload.is_some().then(|| self.plan()).flatten(),
        ) else {
            return;
        };
        let update = revision(&self.object()["spec"]["template"]);
        let runs = self
            .pods
            .values()
            .filter(|pod| pod.revision == update && !pod.terminating && pod.ready)
            .count();
        let (now, template) = (self.now, self.view().template.to_string());
        let Some(reach) = self.oracle.reach.get_mut(&template) else {
            return;
        };
        while !plan.is_last(reach.step) {
            let step = plan.step(reach.step);
            if runs as u32 + plan.tolerated(reach.step) >= step.exposure {
                reach.ready.get_or_insert(now);
            }
            let pause = match step.pause {
                Pause::Manual => break,
                Pause::None => SignedDuration::ZERO,
                Pause::Seconds(seconds) => SignedDuration::from_secs(seconds.into()),
            };
            match reach.ready {
                Some(since) if now >= since + pause => {
                    *reach = Reach {
                        step: reach.step + 1,
                        ready: None,
                    }
                }
                _ => break,
            }
        }
    }

    pub(super) fn oracle_approves(&mut self, template: &str, step: i32) {
        if let Some(reach) = self.oracle.reach.get_mut(template) {
            let next = usize::try_from(step).unwrap() + 1;
            if next > reach.step {
                *reach = Reach {
                    step: next,
                    ready: None,
                };
            }
        }
        self.oracle_looks();
    }

    pub(super) fn oracle_sees_a_write(&mut self, old: &Value, asked: &Value, stored: &Value) {
        let read = |object: &Value| adapter().view(object).unwrap();
        let was = revision(&old["spec"]["template"]);
        let (old, asked, stored) = (read(old), read(asked), read(stored));
        let echo = asked
            .marks
            .hold
            .as_ref()
            .is_some_and(|h| h.granted_text == asked.partition.map(|p| p.to_string()));
        if stored.hold().is_none() || (asked.partition != old.partition && !echo) {
            self.oracle.asked = Some(asked.partition);
        }
        if old.template != stored.template {
            self.oracle.held = stored.hold().is_some();
            if self.oracle.held {
                if old.hold().is_none() {
                    self.oracle.stable = Some(was);
                }
                self.oracle.free = self.rollout.as_ref().is_none_or(|rollout| rollout.spec.disabled);
                self.oracle.exempt.clear();
                let begin = Reach { step: 1, ready: None };
                self.oracle
                    .reach
                    .entry(stored.template.to_string())
                    .or_insert(begin);
            }
        }
    }

    /// Called before the scale subresource is written.
    pub(super) fn oracle_scales(&mut self, replicas: u32) {
        let view = self.view();
        // Whoever has raised the partition above the grant may lower it again.
        let granted = view.hold().map_or(view.partition_in_force(), |hold| hold.granted);
        let first = u32::try_from(granted).unwrap().max(view.replicas);
        self.oracle.exempt.extend(first..replicas);
        self.oracle.exempt.retain(|ordinal| *ordinal < replicas);
    }

    pub(super) fn oracle_sees_a_pod(&mut self, ordinal: u32, update: &str, current: &str) {
        let runs = |(ordinal, pod): &(&u32, &Pod)| {
            pod.revision == update && !pod.terminating && !self.oracle.exempt.contains(*ordinal)
        };
        let new = self.pods[&ordinal].revision == update;
        // A StatefulSet whose operator calls the update complete has nothing else to make pods of.
        if !new || update == current || self.oracle.exempt.contains(&ordinal) {
            return;
        }
        let replicas = self.view().replicas;
        let running = self.pods.range(..replicas).filter(runs).count() as u32;
        if let Some(limit) = self.limit().filter(|limit| running > *limit) {
            let at = self.at();
            self.oracle
                .breaches
                .push(format!("{running} pods on {update}, allowed {limit}, at {at}"));
        }
    }

    pub(super) fn oracle_sees_an_edit(&mut self, new: &Value) {
        let (old, new) = (self.view(), adapter().view(new).unwrap());
        let Some(limit) = self.limit() else { return };
        let granted = i64::from(new.replicas) - new.partition_in_force();
        if new.partition_in_force() < old.partition_in_force() && granted > i64::from(limit) {
            let text = format!("granted {granted} pods, allowed {limit}, at {}", self.at());
            self.oracle.breaches.push(text);
        }
        if new.hold().is_none()
            && self
                .plan()
                .is_some_and(|plan| limit < plan.step(plan.len()).exposure)
        {
            self.oracle.breaches.push(format!(
                "released when {limit} pods were allowed, at {}",
                self.at()
            ));
        }
    }

    pub(super) fn oracle_sees_a_decision(&mut self, decision: &Decision) {
        // What changes the target and the marks comes before what tells of it.
        let mut told = false;
        for action in &decision.actions {
            told |= matches!(action, Action::Announce(_) | Action::AnnounceOn(..));
            if told && matches!(action, Action::Edit { .. } | Action::Guard) {
                self.oracle
                    .breaches
                    .push("an event came before its edit".to_owned());
            }
        }
    }

    /// A template that status and workload have left behind starts again when it comes back.
    pub(super) fn oracle_sees_a_status(&mut self, status: &RolloutStatus) {
        let told = status
            .canary_status
            .as_ref()
            .map(|canary| canary.template_id.clone())
            .unwrap_or_default();
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
}
