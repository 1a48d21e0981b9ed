use json_patch::Patch;
use serde_json::json;

use super::Refusal;
use super::step::Step;
use crate::api::v1beta1::{Rollout, step_state};

/// A jump that can be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Jump {
    /// Where the release is.
    pub from: i32,
    /// Where it goes to.
    pub to: i32,
    /// Number of steps.
    pub steps: usize,
    /// For the `status` subresource.
    pub patch: Patch,
}

impl Jump {
    /// Whether it goes to a smaller step. Pods that are updated stay so.
    #[must_use]
    pub const fn is_back(&self) -> bool {
        self.to < self.from
    }
}

/// Goes to another step: `to`, counted from 1; without one, to the last. The step that the release is at is taken again only with
/// `force`. To the step that comes next anyway a release goes by an approval, so that is what is written then.
///
/// # Errors
/// Why the release goes nowhere.
pub fn jump(rollout: &Rollout, to: Option<i32>, force: bool) -> Result<Jump, Refusal> {
    let step = Step::steerable(rollout)?;
    let steps = step.steps();
    let to = to.unwrap_or_else(|| i32::try_from(steps).unwrap_or(i32::MAX));
    if !usize::try_from(to).is_ok_and(|to| (1..=steps).contains(&to)) {
        return Err(Refusal::NoStep { asked: to, steps });
    }
    if rollout.spec.strategy.paused {
        return Err(Refusal::SpecPaused);
    }
    let made = |patch| {
        Ok(Jump {
            from: step.index,
            to,
            steps,
            patch,
        })
    };
    if to == step.index && !force {
        return Err(Refusal::SameStep(to));
    }
    if to == step.index + 1 {
        return match step.state {
            step_state::STEP_PAUSED => made(step.approval()),
            _ => Err(step.still_updating()),
        };
    }
    made(step.set("nextStepIndex", json!(to), &[("nextStepIndex", json!(step.next))]))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    fn rollout(step: i32, state: &str, replicas: i32) -> Value {
        json!({
            "metadata": {"name": "r", "uid": "u"},
            "spec": {"workloadRef": {}, "strategy": {"canary": {"steps": [
                {"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}, {"replicas": 3, "pause": {}}]}}},
            "status": {"phase": "Progressing", "canaryStatus": {"currentStepIndex": step, "currentStepState": state,
                "nextStepIndex": step + 1, "canaryRevision": "r-2", "templateId": "t", "observedWorkloadReplicas": replicas}}
        })
    }

    /// What is written, or why nothing is.
    fn leads(object: &Value, to: Option<i32>, force: bool) -> String {
        let parsed: Rollout = serde_json::from_value(object.clone()).unwrap();
        match jump(&parsed, to, force) {
            Err(refusal) => refusal.to_string(),
            Ok(jump) => {
                let mut after = object.clone();
                json_patch::patch(&mut after, &jump.patch).unwrap();
                let canary = &after["status"]["canaryStatus"];
                format!(
                    "{} of {}: next {}, {}",
                    jump.to,
                    jump.steps,
                    canary["nextStepIndex"],
                    canary["currentStepState"].as_str().unwrap()
                )
            }
        }
    }

    #[rstest]
    #[case::forward(1, "StepPaused", Some(3), false, "3 of 3: next 3, StepPaused")]
    #[case::while_it_updates(1, "StepUpgrade", Some(3), false, "3 of 3: next 3, StepUpgrade")]
    #[case::back(3, "StepPaused", Some(1), false, "1 of 3: next 1, StepPaused")]
    #[case::to_the_next_one(1, "StepPaused", Some(2), false, "2 of 3: next 2, StepReady")]
    #[case::to_the_next_one_while_it_updates(
        1,
        "StepUpgrade",
        Some(2),
        false,
        "step 1 of 3 is still updating: it can be approved once it is paused"
    )]
    #[case::to_the_last_one(1, "StepPaused", None, false, "3 of 3: next 3, StepPaused")]
    #[case::to_the_same(
        2,
        "StepPaused",
        Some(2),
        false,
        "the release is at step 2 already: --force takes the step again"
    )]
    #[case::to_the_same_again(2, "StepPaused", Some(2), true, "2 of 3: next 2, StepPaused")]
    #[case::too_far(1, "StepPaused", Some(4), true, "there is no step 4: possible are 1 to 3")]
    #[case::too_near(1, "StepPaused", Some(0), true, "there is no step 0: possible are 1 to 3")]
    #[case::none(
        3,
        "Completed",
        Some(1),
        true,
        "no release is in progress: it begins with a change of the workload's pod template"
    )]
    fn where_it_leads(
        #[case] step: i32,
        #[case] state: &str,
        #[case] to: Option<i32>,
        #[case] force: bool,
        #[case] expected: &str,
    ) {
        assert_eq!(leads(&rollout(step, state, 3), to, force), expected);
    }

    #[test]
    fn a_step_that_is_added_at_the_end_can_be_reached() {
        let object = rollout(1, "StepPaused", 5);
        assert_eq!(leads(&object, None, false), "4 of 4: next 4, StepPaused");
    }

    #[test]
    fn a_release_that_people_have_paused_goes_nowhere() {
        let mut object = rollout(1, "StepPaused", 3);
        object["spec"]["strategy"]["paused"] = json!(true);
        assert!(leads(&object, Some(3), false).starts_with("the release is paused by spec.strategy.paused"));
    }

    #[rstest]
    #[case("currentStepIndex", json!(2))]
    #[case("currentStepState", json!("StepUpgrade"))]
    #[case("nextStepIndex", json!(3))]
    #[case("templateId", json!("t2"))]
    fn the_patch_fails_on_anything_else(#[case] name: &str, #[case] value: Value) {
        let object = rollout(1, "StepPaused", 3);
        let jump = jump(&serde_json::from_value(object.clone()).unwrap(), Some(3), false).unwrap();
        let mut other = object;
        other["status"]["canaryStatus"][name] = value;
        assert!(json_patch::patch(&mut other, &jump.patch).is_err());
    }
}
