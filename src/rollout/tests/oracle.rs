//! What the world knows of right and wrong, apart from `decide`: how far a release may be at most.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cluster::Operator;
use super::users::wants;
use super::world::{Pod, Seen, World, revision, template};
use crate::api::v1beta1::{CanaryStrategy, RolloutStatus, phase, step_state};
use crate::names;
use crate::plan::{Pause, Plan};
use crate::rollout::{Action, Decision};
use crate::workload::{Hold, Original, Partition, TemplateId, TypeLabel, UpdateOrder, View};

/// How far a release may be.
#[derive(Clone, Copy, Debug)]
struct Reach {
    step: usize,
    /// When the pods of this step were ready first.
    ready: Option<Timestamp>,
    /// Pods that plans of before allowed.
    before: u32,
}

impl Reach {
    fn at(self, step: usize) -> Self {
        Self {
            step,
            ready: None,
            ..self
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    /// A person disabled or deleted the Rollout: no limits until the next hold.
    pub(super) free: bool,
    /// The template in the workload was held when it was written.
    held: bool,
    /// That template came while the workload had no label of ours: the revision that was stable before, and the template that the
    /// mark named then.
    unseen: Option<(String, TemplateId)>,
    /// The operator's revision of the template that everything runs and that needs no steps.
    stable: Option<String>,
    /// Somebody else than we has put a mark of ours on a workload that nobody governed: what it says is believed, whatever has
    /// run since it was ours.
    marked_by_others: bool,
    /// The way back to the stable template needs no steps.
    direct: bool,
    /// The operator's current revision, for operators that do not report it.
    pub(super) current: Option<String>,
    /// The partition that people asked for last; outer `None`: unknown.
    pub(super) asked: Option<Option<Partition>>,
    /// The highest step that is justified, by template.
    reach: BTreeMap<String, Reach>,
    /// The highest step of a release that the status has told, by template; forgotten when there is a cause to go back.
    told: Option<(String, i32)>,
    /// The step that a person wrote to go to in the release of a template, until a status answers it.
    jump: Option<(String, usize)>,
    /// The status was lost, so that the marks tell how far a release is.
    lost: bool,
    /// Ordinals that the scale subresource added above the partition.
    pub(super) exempt: BTreeSet<u32>,
    /// Every way that the status has taken from one state to another.
    pub(super) moves: BTreeSet<(String, String)>,
    /// Somebody has written nonsense into the status: ways lead on from there that no table names.
    pub(super) damaged: bool,
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
    pub(super) fn limit(&self) -> Option<u32> {
        self.workload.as_ref()?;
        let (template, replicas) = (self.view().template, self.view().replicas);
        let update = revision(&self.object()["spec"]["template"]);
        // A pod that is one too many goes, and returns to no template.
        let mut pods = self.pods.range(..replicas);
        let done = pods.all(|(_, pod)| pod.revision == update || pod.terminating);
        let back = self.oracle.stable == Some(update) && (self.oracle.direct || done);
        if self.oracle.free || !self.oracle.held || back {
            return None;
        }
        let reach = self.oracle.reach.get(&template.to_string())?;
        Some(self.plan()?.step(reach.step).exposure.max(reach.before))
    }

    /// Somebody else has begun a release, from the template with this image.
    pub(super) fn oracle_knows_stable(&mut self, image: &str) {
        self.oracle.free = true;
        self.oracle.stable = Some(revision(&template(image)));
    }

    /// Steps that go on by themselves do so at most as fast as this.
    pub(super) fn oracle_looks(&mut self) {
        self.oracle_follows_a_jump();
        let (Some(_), Some(plan)) = (
            &self.workload,
            self.workload.is_some().then(|| self.plan()).flatten(),
        ) else {
            return;
        };
        let view = self.view();
        let update = revision(&self.object()["spec"]["template"]);
        let runs = self
            .pods
            .values()
            .filter(|pod| pod.revision == update && !pod.terminating && pod.ready)
            .count();
        let (now, template, lost) = (self.now, view.template.to_string(), self.oracle.lost);
        let Some(reach) = self.oracle.reach.get_mut(&template) else {
            return;
        };
        if let Some(hold) = view.hold().filter(|_| lost) {
            let step = plan.step_of_partition(hold.granted);
            if step > reach.step {
                *reach = reach.at(step);
            }
        }
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
                Some(since) if now >= since + pause => *reach = reach.at(reach.step + 1),
                _ => break,
            }
        }
    }

    /// The clock is set back: what was noted by it is as long ago as before.
    pub(super) fn oracle_sets_the_clock_back(&mut self, by: SignedDuration) {
        for reach in self.oracle.reach.values_mut() {
            reach.ready = reach.ready.map(|at| at - by);
        }
    }

    pub(super) fn oracle_approves(&mut self, template: &str, step: i32) {
        let plan = self.workload.is_some().then(|| self.plan()).flatten();
        let now = self.now;
        if let Some(reach) = self.oracle.reach.get_mut(template) {
            let next = usize::try_from(step).unwrap_or_default() + 1;
            if next > reach.step {
                let (was, ready) = (reach.step, reach.ready);
                *reach = reach.at(next);
                // Pods that were ready may have gone since, unseen: a step that needs no more of them is done then, too.
                if plan.is_some_and(|plan| plan.step(next).exposure <= plan.step(was).exposure) {
                    reach.ready = ready.map(|_| now);
                }
            }
        }
        self.oracle_looks();
    }

    /// A person writes the step to go to next. The plan may get so many steps before the controller looks.
    pub(super) fn oracle_jumps(&mut self, template: &str, to: i32) {
        self.oracle.told = None;
        self.oracle.jump = usize::try_from(to).ok().map(|to| (template.to_owned(), to));
        self.oracle_looks();
    }

    /// A jump to a step of the plan, or to the one that follows those that are written, justifies it.
    fn oracle_follows_a_jump(&mut self) {
        let steps = self.strategy().map_or(0, |canary| canary.steps.len() + 1);
        if let Some((template, to)) = &self.oracle.jump
            && let Some(reach) = self.oracle.reach.get_mut(template)
            && (reach.step + 1..=steps).contains(to)
        {
            *reach = reach.at(*to);
        }
    }

    /// Called before the plan is edited: what it allowed until now stays.
    pub(super) fn oracle_replans(&mut self) {
        self.oracle.told = None;
        let Some(plan) = self.workload.is_some().then(|| self.plan()).flatten() else {
            return;
        };
        for reach in self.oracle.reach.values_mut() {
            reach.before = reach.before.max(plan.step(reach.step).exposure);
        }
    }

    /// A person wants steps on the way back, or wants none.
    pub(super) fn oracle_sees_the_way_back(&mut self, by_steps: bool) {
        self.oracle.direct |= !by_steps;
    }

    fn by_steps(&self) -> bool {
        let annotations = self
            .rollout
            .as_ref()
            .and_then(|r| r.metadata.annotations.as_ref());
        annotations.is_some_and(|all| all.get(names::ROLLBACK_IN_BATCH).is_some_and(|v| v == "true"))
    }

    /// Somebody has written the workload; `asked` is what a person asked for, before admission.
    pub(super) fn oracle_sees_a_write(&mut self, old: &Value, asked: Option<&Value>, stored: &Value) {
        let read = |object: &Value| self.adapter.view(object).unwrap();
        let was = revision(&old["spec"]["template"]);
        let (old, stored) = (read(old), read(stored));
        if let Some(asked) = asked.map(read) {
            self.sees_what_is_asked(&old, &asked, &stored);
            if old.guard().is_none() && asked.guard().is_some() && asked.guard() == stored.guard() {
                self.oracle.marked_by_others = true;
            }
        }
        let loose =
            |hold: &Hold| stored.partition_in_force() < hold.granted || stored.other_strategy.is_some();
        if old.hold().is_some() && self.webhook && stored.hold().is_none_or(loose) {
            self.oracle
                .breaches
                .push("a write has loosened the hold".to_owned());
        }
        if old.template != stored.template {
            self.oracle.held = stored.hold().is_some();
            let unseen = self.oracle.unseen.take();
            if !self.oracle.held && stored.label != TypeLabel::Right {
                let marked = || old.stable().map(|stable| (was.clone(), stable.clone()));
                self.oracle.unseen = unseen.clone().or_else(marked);
            }
            if self.oracle.held {
                if old.hold().is_none() {
                    // What came without the label nobody has seen, if the mark is still the one of before.
                    let before = unseen.filter(|(_, marked)| stored.stable() == Some(marked));
                    self.oracle.stable = Some(before.map_or(was, |(before, _)| before));
                }
                self.sees_a_hold(&old, &stored);
            }
        }
    }

    /// A template is held from now on.
    fn sees_a_hold(&mut self, old: &View, stored: &View) {
        self.oracle.free = !self.is_wanted() || self.oracle.marked_by_others;
        self.oracle.direct = old.hold().is_none() || !self.by_steps();
        self.oracle.exempt.clear();
        let begin = Reach {
            step: 1,
            ready: None,
            before: 0,
        };
        self.oracle
            .reach
            .entry(stored.template.to_string())
            .or_insert(begin);
    }

    /// A write of ours that marks the workload, or holds what came without the label: neither brings another template, and yet
    /// both say which one is stable.
    fn sees_marks_of_ours(&mut self, old: &View, new: &View) {
        self.oracle.marked_by_others &= old.guard() == new.guard();
        // In a release that others have begun the mark does not say.
        if old.guard().is_none() && new.stable().is_some() {
            self.oracle.stable = Some(revision(&self.object()["spec"]["template"]));
        } else if old.hold().is_none()
            && new.hold().is_some()
            && let Some((before, marked)) = self.oracle.unseen.take()
            && new.stable() == Some(&marked)
        {
            self.oracle.stable = Some(before);
            self.oracle.held = true;
            self.sees_a_hold(old, new);
        }
    }

    /// A write of ours that another webhook has changed the template of is somebody else's too.
    pub(super) fn oracle_sees_a_step_of_ours(&mut self, old: &Value, stored: &Value) {
        if old["spec"]["template"] != stored["spec"]["template"] {
            self.oracle_sees_a_write(old, None, stored);
        }
    }

    pub(super) fn sees_what_is_asked(&mut self, old: &View, asked: &View, stored: &View) {
        let hold = asked.marks.hold.as_ref();
        let echo = hold.filter(|hold| hold.is_echoed_by(asked.partition));
        let original = match echo {
            // A state of ours: whoever writes it, in a release or at rest, asks for what its marks say.
            Some(hold) => Some(match hold.original {
                Original::Partition(partition) => Some(partition),
                Original::Absent | Original::Fields(_) => None,
            }),
            _ if self.oracle.asked.is_none()
                || stored.hold().is_none()
                || asked.partition != old.partition =>
            {
                Some(asked.partition)
            }
            _ => None,
        };
        if original.is_some() {
            self.oracle.asked = original;
        }
    }

    /// Called before the scale subresource is written.
    pub(super) fn oracle_scales(&mut self, replicas: u32) {
        let view = self.view();
        // Whoever has raised the partition above the grant may lower it again.
        let granted = view.hold().map_or(view.partition_in_force(), |hold| hold.granted);
        let first = match self.adapter.paths().status.current_revision {
            Some(_) => u32::try_from(granted).unwrap().max(view.replicas),
            // Every new pod runs the new template.
            None => view.replicas,
        };
        self.oracle.exempt.extend(first..replicas);
        self.oracle.exempt.retain(|ordinal| *ordinal < replicas);
    }

    pub(super) fn oracle_sees_a_pod(&mut self, ordinal: u32, operator: &Operator) {
        let Operator {
            update,
            current,
            exempt,
            ..
        } = operator;
        // Where pods are updated in any order, those that `/scale` adds need not be the ones that run the template for it.
        let in_order = matches!(operator.view.order, UpdateOrder::Ordinal(_));
        let exempted = |ordinal: &u32| in_order && exempt.contains(ordinal);
        let runs =
            |(ordinal, pod): &(&u32, &Pod)| pod.revision == *update && !pod.terminating && !exempted(ordinal);
        let new = self.pods[&ordinal].revision == *update;
        // A kind that keeps no new pod back makes all that are missing of the new template, and its updates are looked at instead. A
        // StatefulSet whose operator calls the update complete has nothing else to make pods of.
        if !operator.holds_new_pods || !new || update == current || exempted(&ordinal) {
            return;
        }
        let running = self.pods.range(..operator.view.replicas).filter(runs).count() as u32;
        let added = if in_order { 0 } else { exempt.len() as u32 };
        if let Some(limit) = operator.limit.filter(|limit| running > *limit + added) {
            let at = self.at();
            self.oracle
                .breaches
                .push(format!("{running} pods on {update}, allowed {limit}, at {at}"));
        }
    }

    /// An operator that holds no new pods back lets a pod go, and so many stay on others than the update revision.
    pub(super) fn oracle_sees_an_update(&mut self, operator: &Operator, stay: usize) {
        if operator.holds_new_pods {
            return;
        }
        let follow = operator.wanted.saturating_sub(u32::try_from(stay).unwrap());
        if let Some(limit) = operator.limit.filter(|limit| follow > *limit) {
            let text = format!(
                "the operator updates {follow} pods, allowed {limit}, at {}",
                self.at()
            );
            self.oracle.breaches.push(text);
        }
    }

    /// Only a pod that is not ready, of a revision that neither the template has nor the stable one.
    pub(super) fn oracle_sees_a_replacement(&mut self, ordinal: u32, seen: &Seen) {
        let pod = &self.pods[&ordinal];
        let update = seen
            .workload
            .as_ref()
            .map(|object| revision(&object["spec"]["template"]));
        // Who remembers no name of the stable revision, since the Rollout is a new one or its status was lost, takes the operator's
        // word for it. The pods may be of a template that a Rollout before has let go of, and none of them has ever been ready.
        let canary = seen
            .rollout
            .as_ref()
            .and_then(|rollout| rollout.status.as_ref()?.canary_status.as_ref());
        let remembers = canary.is_some_and(|canary| !canary.stable_revision.is_empty());
        let own = Some(pod.revision.clone());
        let stable = own == self.oracle.stable && (remembers || own == self.view().reported.current_revision);
        let wanted = own == update || stable;
        if pod.ready || wanted || !self.view().in_order {
            let text = format!("replaced {ordinal}: {pod:?}, at {}", self.at());
            self.oracle.breaches.push(text);
        }
    }

    /// A write of ours. One that was decided before the plan changed follows the old plan, as if it had come first.
    pub(super) fn oracle_sees_an_edit(&mut self, new: &Value, seen: &Seen) {
        let (old, new) = (self.view(), self.adapter.view(new).unwrap());
        self.sees_marks_of_ours(&old, &new);
        if !wants(seen.rollout.as_ref()) {
            // A person has ended governing, and wants it again: the workload is freed all the same, as if that were still to come.
            self.oracle.free = true;
        }
        let Some(mut limit) = self.limit() else { return };
        let plan = seen.rollout.as_ref().and_then(|rollout| {
            let strategy = rollout.spec.strategy.canary.as_ref()?;
            Plan::new(strategy, old.replicas).ok()
        });
        let reach = self.oracle.reach.get_mut(&old.template.to_string());
        if let (Some(plan), Some(reach)) = (plan, reach) {
            reach.before = reach.before.max(plan.step(reach.step).exposure);
            limit = limit.max(reach.before);
        }
        let granted = i64::from(new.replicas) - new.partition_in_force();
        if new.partition_in_force() < old.partition_in_force() && granted > i64::from(limit) {
            let text = format!("granted {granted} pods, allowed {limit}, at {}", self.at());
            self.oracle.breaches.push(text);
        }
        if old.hold().is_some() && new.hold().is_none() && limit < old.replicas {
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
            if told
                && matches!(
                    action,
                    Action::Edit { .. } | Action::Guard | Action::Replace { .. }
                )
            {
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
    pub(super) fn oracle_forgets_what_was_told(&mut self) {
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
