use serde_json::{Value, json};

use super::step::Step;
use super::{Change, Refusal};
use crate::api::v1beta1::{Rollout, step_state};
use crate::lens::PatchBuilder;

const PAUSED: [&str; 3] = ["spec", "strategy", "paused"];

/// Pauses the Rollout: a release takes no further step, whatever is approved.
#[must_use]
pub fn pause(rollout: &Rollout) -> Change {
    if rollout.spec.strategy.paused {
        Change::Unchanged
    } else {
        set(rollout, true)
    }
}

/// Lifts what [`pause`] has set.
///
/// # Errors
/// It is not set, and what holds the release is a step that waits for an approval.
pub fn resume(rollout: &Rollout) -> Result<Change, Refusal> {
    if rollout.spec.strategy.paused {
        return Ok(set(rollout, false));
    }
    match Step::steerable(rollout) {
        Ok(step) if step.state == step_state::STEP_PAUSED && step.seconds().is_none() => {
            Err(Refusal::AwaitingApproval(step.index))
        }
        _ => Ok(Change::Unchanged),
    }
}

fn set(rollout: &Rollout, paused: bool) -> Change {
    Change::Write(on(rollout).set(&PAUSED, Value::Bool(paused)).build())
}

/// A patch of this Rollout and no other of its name. Only what is always there is taken for granted.
pub(super) fn on(rollout: &Rollout) -> PatchBuilder {
    PatchBuilder::new(json!({"spec": {"strategy": {}}}))
        .test(["metadata", "uid"], json!(rollout.metadata.uid))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rollout(paused: bool, step: i32, state: &str) -> Value {
        json!({
            "metadata": {"name": "r", "uid": "u"},
            "spec": {"workloadRef": {}, "strategy": {"paused": paused, "canary": {"steps": [
                {"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {"duration": 60}}, {"replicas": "100%"}]}}},
            "status": {"phase": "Progressing", "canaryStatus": {"currentStepIndex": step, "currentStepState": state}}
        })
    }

    fn outcome(object: &Value, change: Result<Change, Refusal>) -> String {
        match change {
            Err(refusal) => refusal.to_string(),
            Ok(Change::Unchanged) => "unchanged".to_owned(),
            Ok(Change::Write(patch)) => {
                let mut after = object.clone();
                json_patch::patch(&mut after, &patch).unwrap();
                let paused = after["spec"]["strategy"]["paused"].clone();
                let mut before = object.clone();
                before["spec"]["strategy"]["paused"] = paused.clone();
                assert_eq!(after, before, "nothing else changes");
                format!("paused={paused}")
            }
        }
    }

    #[rstest]
    #[case(false, 1, "StepUpgrade", "paused=true", "unchanged")]
    #[case(true, 1, "StepUpgrade", "unchanged", "paused=false")]
    #[case::while_it_waits_for_an_approval(
        false,
        1,
        "StepPaused",
        "paused=true",
        "the release is not paused: step 1 waits for an approval, which is another thing"
    )]
    #[case::while_it_waits_for_its_time(false, 2, "StepPaused", "paused=true", "unchanged")]
    #[case::both(true, 1, "StepPaused", "unchanged", "paused=false")]
    #[case::at_rest(false, 3, "Completed", "paused=true", "unchanged")]
    fn what_is_written(
        #[case] paused: bool,
        #[case] step: i32,
        #[case] state: &str,
        #[case] on_pause: &str,
        #[case] on_resume: &str,
    ) {
        let object = rollout(paused, step, state);
        let parsed: Rollout = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(outcome(&object, Ok(pause(&parsed))), on_pause);
        assert_eq!(outcome(&object, resume(&parsed)), on_resume);
    }

    #[test]
    fn a_rollout_that_was_created_again_is_left_alone() {
        let object = rollout(false, 1, "StepUpgrade");
        let Change::Write(patch) = pause(&serde_json::from_value(object.clone()).unwrap()) else {
            panic!("nothing is written");
        };
        let mut other = object;
        other["metadata"]["uid"] = json!("u2");
        assert!(json_patch::patch(&mut other, &patch).is_err());
    }
}
