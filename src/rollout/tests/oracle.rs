//! What the world knows of right and wrong, apart from `decide`: how far a release may be at most.

mod moves;
mod pods;
mod status;
mod writes;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::wishes::Fields;
use super::world::{World, revision, template};
use crate::api::v1beta1::CanaryStrategy;
use crate::names;
use crate::plan::{Pause, Plan};
use crate::workload::{Partition, TemplateId};

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
    /// What people asked for last in the fields that hold a kind; `None`: unknown.
    pub(super) fields: Option<Fields>,
    /// Nodes whose next pod, or whose pod of the new template, nobody asked for: they have come in mid-release, or their pods were
    /// lost.
    pub(super) unasked: BTreeSet<u32>,
    /// All pods that a Deployment needs were ready, and nothing has befallen it since.
    pub(super) steady: bool,
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
        let stays = |number: &u32| self.adapter.paths().revisions.is_some() || *number < replicas;
        let mut pods = self.pods.iter().filter(|(number, _)| stays(number));
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
        self.oracle_sees_the_pods();
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
}
