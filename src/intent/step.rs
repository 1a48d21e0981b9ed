use json_patch::Patch;
use serde_json::{Value, json};

use super::Refusal;
use crate::api::v1beta1::{CanaryStrategy, Pause, Rollout, RolloutStatus, condition, phase, step_state};
use crate::lens::PatchBuilder;
use crate::plan::Plan;

/// What a release in progress says about its step, of either style.
pub(super) struct Step<'a> {
    rollout: &'a Rollout,
    member: &'static str,
    /// Number, from 1.
    pub(super) index: i32,
    /// What is written as the next one.
    pub(super) next: i32,
    /// State.
    pub(super) state: &'a str,
    revision: (&'static str, &'a str),
    template: &'a str,
    replicas: Option<i32>,
    updated: (i32, i32),
    back: bool,
}

impl<'a> Step<'a> {
    /// The step of a release that people can steer: one that is in progress and does not go back at once.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn steerable(rollout: &'a Rollout) -> Result<Self, Refusal> {
        let status = rollout.status.as_ref().ok_or(Refusal::NoRelease)?;
        if rollout.metadata.deletion_timestamp.is_some() || status.phase == phase::TERMINATING {
            return Err(Refusal::Deleting);
        }
        if let Some(why) = disabled(rollout) {
            return Err(Refusal::Disabled(why.to_owned()));
        }
        let step = Self::of(rollout, status)
            .filter(|_| status.phase == phase::PROGRESSING)
            .ok_or(Refusal::NoRelease)?;
        if (step.back && !status.goes_back_in_batches()) || cancelling(status) {
            return Err(Refusal::RollingBack);
        }
        if step.state == step_state::COMPLETED {
            return Err(Refusal::NoRelease);
        }
        Ok(step)
    }

    fn of(rollout: &'a Rollout, status: &'a RolloutStatus) -> Option<Self> {
        if let Some(canary) = &status.canary_status {
            return Some(Self {
                rollout,
                member: "canaryStatus",
                index: canary.current_step_index,
                next: canary.next_step_index,
                state: &canary.current_step_state,
                revision: ("canaryRevision", &canary.canary_revision),
                template: &canary.template_id,
                replicas: canary.observed_workload_replicas,
                updated: (canary.canary_replicas, canary.canary_ready_replicas),
                back: canary.rolled_back,
            });
        }
        status.blue_green_status.as_ref().map(|green| Self {
            rollout,
            member: "blueGreenStatus",
            index: green.current_step_index,
            next: green.next_step_index,
            state: &green.current_step_state,
            revision: ("updatedRevision", &green.updated_revision),
            template: "",
            replicas: None,
            updated: (green.updated_replicas, green.updated_ready_replicas),
            back: false,
        })
    }

    /// Number of steps, with the one that is added where the last written one leaves pods behind.
    pub(super) fn steps(&self) -> usize {
        let strategy = &self.rollout.spec.strategy;
        let canary = match (&strategy.canary, &strategy.blue_green) {
            (Some(canary), _) => canary.clone(),
            (None, Some(green)) => CanaryStrategy {
                steps: green.steps.clone(),
                ..CanaryStrategy::default()
            },
            (None, None) => return 0,
        };
        let replicas = self.replicas.and_then(|replicas| u32::try_from(replicas).ok());
        let plan = replicas.and_then(|replicas| Plan::new(&canary, replicas).ok());
        plan.map_or(canary.steps.len(), |plan| plan.len())
    }

    /// The seconds that the step pauses for; `None` where it waits for a person.
    pub(super) fn seconds(&self) -> Option<i32> {
        let strategy = &self.rollout.spec.strategy;
        let steps = match (&strategy.canary, &strategy.blue_green) {
            (Some(canary), _) => &canary.steps,
            (None, Some(green)) => &green.steps,
            (None, None) => return None,
        };
        let index = usize::try_from(self.index)
            .unwrap_or(1)
            .clamp(1, steps.len().max(1))
            - 1;
        let Pause { duration } = steps.get(index)?.pause;
        duration
    }

    /// Where the release is. It is known by its template where that is reported, else by the operator's revision.
    pub(super) fn place(&self) -> Release {
        let id = if self.template.is_empty() {
            self.revision.1
        } else {
            self.template
        };
        Release {
            step: self.index,
            id: id.to_owned(),
        }
    }

    /// The operator's name of what is being released.
    pub(super) fn revision(&self) -> &'a str {
        self.revision.1
    }

    /// Whether what is being released may be called so: the operator's revision, the beginning of the hash at its end, or the
    /// beginning of the template's identity.
    pub(super) fn is_called(&self, asked: &str) -> bool {
        let revision = self.revision.1;
        let hash = revision.rsplit('-').next().unwrap_or_default();
        revision == asked || hash.starts_with(asked) || self.template.starts_with(asked)
    }

    pub(super) fn still_updating(&self) -> Refusal {
        Refusal::StillUpdating {
            step: self.index,
            steps: self.steps(),
            pods: match self.updated {
                (0, _) => String::new(),
                (updated, ready) => format!(" ({updated} updated, {ready} ready)"),
            },
        }
    }

    /// A patch of the status that sets one member of the release, and fails on any other step, state or release.
    pub(super) fn set(&self, name: &'static str, value: Value, tests: &[(&'static str, Value)]) -> Patch {
        let at = |name: &'static str| ["status", self.member, name];
        let known = json!({ "status": { (self.member): {} } });
        let mut patch = PatchBuilder::new(known)
            .test(at("currentStepIndex"), json!(self.index))
            .test(at("currentStepState"), json!(self.state));
        if let Some(uid) = &self.rollout.metadata.uid {
            patch = patch.test(["metadata", "uid"], json!(uid));
        }
        let (revision_name, revision) = self.revision;
        if !revision.is_empty() {
            patch = patch.test(at(revision_name), json!(revision));
        }
        if !self.template.is_empty() {
            patch = patch.test(at("templateId"), json!(self.template));
        }
        for (name, value) in tests {
            patch = patch.test(at(name), value.clone());
        }
        patch.set(&at(name), value).build()
    }

    /// The patch that approves this step, which is paused.
    pub(super) fn approval(&self) -> Patch {
        self.set("currentStepState", json!(step_state::STEP_READY), &[])
    }
}

/// A release in progress, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Number of the step, from 1.
    pub step: i32,
    /// What is being released, to compare with another look.
    pub id: String,
}

impl Release {
    /// Reads it from a Rollout.
    ///
    /// # Errors
    /// Why there is none that people could steer.
    pub fn of(rollout: &Rollout) -> Result<Self, Refusal> {
        Step::steerable(rollout).map(|step| step.place())
    }
}

/// The last step of a release that has ended with every pod on the new template, of this revision where one is named.
pub(super) fn completed(rollout: &Rollout, revision: Option<&str>) -> Option<i32> {
    let status = rollout.status.as_ref()?;
    let step = Step::of(rollout, status)?;
    let succeeded = condition::get(&status.conditions, condition::SUCCEEDED);
    let is = status.phase == phase::HEALTHY
        && step.state == step_state::COMPLETED
        && succeeded.is_none_or(|succeeded| succeeded.status != condition::FALSE)
        && revision.is_none_or(|revision| step.is_called(revision));
    is.then_some(step.index)
}

/// Why the Rollout does not govern its workload; `None` where it does.
pub(super) fn disabled(rollout: &Rollout) -> Option<&str> {
    let (phase, message) = rollout
        .status
        .as_ref()
        .map_or(("", ""), |status| (&status.phase, &status.message));
    let is = rollout.spec.disabled || [phase::DISABLED, phase::DISABLING].contains(&phase);
    is.then_some(if message.is_empty() {
        "spec.disabled is set"
    } else {
        message
    })
}

fn cancelling(status: &RolloutStatus) -> bool {
    condition::get(&status.conditions, condition::PROGRESSING)
        .is_some_and(|progressing| progressing.reason == condition::reason::CANCELLING)
}
