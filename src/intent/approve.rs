use json_patch::Patch;

use super::Refusal;
use super::step::{Release, Step};
use crate::api::v1beta1::{Rollout, step_state};

/// Which step is meant, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Only this step, counted from 1.
    pub step: Option<i32>,
    /// Only this revision: as the operator calls it, or the beginning of its hash or of the template's identity.
    pub revision: Option<&'a str>,
    /// A timed pause too, before its time is up.
    pub skip_timer: bool,
}

/// An approval that can be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// The step that is approved.
    pub at: Release,
    /// Number of steps.
    pub steps: usize,
    /// For the `status` subresource.
    pub patch: Patch,
}

/// What an approval comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Approve {
    /// It is to be written.
    Write(Approval),
    /// The step is approved, and that has not been acted upon yet.
    Already(Release),
    /// The step that was asked for is behind.
    Passed {
        /// The step that was asked for.
        asked: i32,
        /// Where the release is; `None` when it is complete.
        at: Option<i32>,
    },
    /// The step waits for its time, and goes on by itself.
    Timed {
        /// Number of the step, from 1.
        step: i32,
        /// Length of the pause.
        seconds: i32,
    },
}

/// Approves the step that is paused now, and no other: the patch tests step, state and revision, so an approval that comes too
/// late fails (422) instead of approving what came next.
///
/// The copy of the state in `status.currentStepState` is left alone, since it tells the controller what the approval was written
/// over.
///
/// # Errors
/// Why nothing can be approved now.
pub fn approve(rollout: &Rollout, wanted: &Wanted<'_>) -> Result<Approve, Refusal> {
    let step = match Step::steerable(rollout) {
        Ok(step) => step,
        Err(Refusal::NoRelease) => return complete(rollout, wanted),
        Err(refusal) => return Err(refusal),
    };
    if let Some(asked) = wanted.revision.filter(|asked| !step.is_called(asked)) {
        return Err(Refusal::OtherRevision {
            at: step.revision().to_owned(),
            asked: asked.to_owned(),
        });
    }
    match wanted.step {
        Some(asked) if asked < step.index => {
            return Ok(Approve::Passed {
                asked,
                at: Some(step.index),
            });
        }
        Some(asked) if asked > step.index => {
            return Err(Refusal::OtherStep {
                at: step.index,
                asked,
            });
        }
        _ => {}
    }
    match step.state {
        step_state::STEP_PAUSED if rollout.spec.strategy.paused => Err(Refusal::SpecPaused),
        step_state::STEP_PAUSED => Ok(match step.seconds() {
            Some(seconds) if !wanted.skip_timer => Approve::Timed {
                step: step.index,
                seconds,
            },
            _ => Approve::Write(Approval {
                at: step.place(),
                steps: step.steps(),
                patch: step.approval(),
            }),
        }),
        step_state::STEP_READY => Ok(Approve::Already(step.place())),
        _ => Err(step.still_updating()),
    }
}

/// Nothing is being released. Whoever named a step may have meant one that the release has passed.
fn complete(rollout: &Rollout, wanted: &Wanted<'_>) -> Result<Approve, Refusal> {
    match wanted.step {
        Some(asked) if super::step::completed(rollout, wanted.revision).is_some_and(|last| asked <= last) => {
            Ok(Approve::Passed { asked, at: None })
        }
        _ => Err(Refusal::NoRelease),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn paused() -> Value {
        json!({
            "metadata": {"name": "my-app-rollout", "namespace": "default", "uid": "u"},
            "spec": {"workloadRef": {}, "strategy": {"canary": {"steps": [
                {"replicas": 1}, {"replicas": "50%", "pause": {"duration": 300}}, {"replicas": "100%"}]}}},
            "status": {"phase": "Progressing", "currentStepIndex": 1, "currentStepState": "StepPaused", "canaryStatus": {
                "currentStepIndex": 1, "currentStepState": "StepPaused", "canaryRevision": "my-app-5c9b", "nextStepIndex": 2,
                "canaryReplicas": 1, "canaryReadyReplicas": 1, "templateId": "t", "podTemplateHash": "", "finalisingStep": ""}}
        })
    }

    fn with(mut object: Value, path: &str, value: Value) -> Value {
        let (parent, name) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[name] = value;
        object
    }

    fn come_to(object: &Value, wanted: &Wanted<'_>) -> Result<Approve, Refusal> {
        approve(&serde_json::from_value(object.clone()).unwrap(), wanted)
    }

    fn ask(object: &Value) -> Result<Approval, Refusal> {
        let wanted = Wanted {
            skip_timer: true,
            ..Wanted::default()
        };
        match come_to(object, &wanted)? {
            Approve::Write(approval) => Ok(approval),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_patch_writes_one_word() {
        let before = paused();
        let approval = ask(&before).unwrap();
        let mut after = before.clone();
        json_patch::patch(&mut after, &approval.patch).unwrap();
        assert_eq!(
            after,
            with(
                before,
                "/status/canaryStatus/currentStepState",
                json!("StepReady")
            )
        );
        assert_eq!(approval.at.step, 1);
    }

    #[rstest]
    #[case::next_step("/status/canaryStatus/currentStepIndex", json!(2))]
    #[case::other_state("/status/canaryStatus/currentStepState", json!("StepUpgrade"))]
    #[case::approved_by_another("/status/canaryStatus/currentStepState", json!("StepReady"))]
    #[case::other_revision("/status/canaryStatus/canaryRevision", json!("my-app-7777"))]
    #[case::other_template("/status/canaryStatus/templateId", json!("t2"))]
    #[case::created_again("/metadata/uid", json!("u2"))]
    fn the_patch_fails_on_anything_else(#[case] path: &str, #[case] value: Value) {
        let approval = ask(&paused()).unwrap();
        let mut other = with(paused(), path, value);
        assert!(json_patch::patch(&mut other, &approval.patch).is_err());
    }

    #[test]
    fn a_timed_pause_is_cut_short_only_when_that_is_meant() {
        let timed = with(paused(), "/status/canaryStatus/currentStepIndex", json!(2));
        assert_eq!(ask(&timed).unwrap().at.step, 2);
        let unasked = come_to(&timed, &Wanted::default());
        assert_eq!(
            unasked,
            Ok(Approve::Timed {
                step: 2,
                seconds: 300
            })
        );
        // Also for those who name the step.
        let named = Wanted {
            step: Some(2),
            ..Wanted::default()
        };
        assert_eq!(
            come_to(&timed, &named),
            Ok(Approve::Timed {
                step: 2,
                seconds: 300
            })
        );
    }

    fn at(step: i32, state: &str, wanted: &Wanted<'_>) -> String {
        let object = with(paused(), "/status/canaryStatus/currentStepIndex", json!(step));
        let object = with(object, "/status/canaryStatus/currentStepState", json!(state));
        match come_to(&object, wanted) {
            Ok(Approve::Write(approval)) => format!("write {}/{}", approval.at.step, approval.steps),
            Ok(other) => format!("{other:?}"),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[rstest]
    #[case::the_present_one(1, "StepPaused", 1, "write 1/3")]
    #[case::the_next_one(
        1,
        "StepPaused",
        2,
        "the release is at step 1, not at step 2: nothing is approved"
    )]
    #[case::the_one_before(2, "StepUpgrade", 1, "Passed { asked: 1, at: Some(2) }")]
    #[case::approved_already(1, "StepReady", 1, "Already(Release { step: 1, id: \"t\" })")]
    fn a_step_that_is_named(
        #[case] step: i32,
        #[case] state: &str,
        #[case] asked: i32,
        #[case] expected: &str,
    ) {
        let wanted = Wanted {
            step: Some(asked),
            ..Wanted::default()
        };
        assert_eq!(at(step, state, &wanted), expected);
    }

    #[rstest]
    #[case::whole("my-app-5c9b", true)]
    #[case::hash("5c9b", true)]
    #[case::beginning_of_the_hash("5c", true)]
    #[case::beginning_of_the_template("t", true)]
    #[case::another("6f7d", false)]
    #[case::beginning_of_the_name("my-app", false)]
    fn a_revision_that_is_named(#[case] asked: &str, #[case] approved: bool) {
        let wanted = Wanted {
            revision: Some(asked),
            ..Wanted::default()
        };
        let expected = if approved {
            "write 1/3".to_owned()
        } else {
            format!("revision my-app-5c9b is being released, not {asked}: nothing is approved")
        };
        assert_eq!(at(1, "StepPaused", &wanted), expected);
    }

    #[test]
    fn a_step_of_a_release_that_is_complete_has_been_passed() {
        let mut complete = paused();
        complete["status"]["phase"] = json!("Healthy");
        complete["status"]["canaryStatus"]["currentStepState"] = json!("Completed");
        complete["status"]["canaryStatus"]["currentStepIndex"] = json!(3);
        let wanted = Wanted {
            step: Some(2),
            ..Wanted::default()
        };
        assert_eq!(
            come_to(&complete, &wanted),
            Ok(Approve::Passed { asked: 2, at: None })
        );
        let back = json!([{"type": "Succeeded", "status": "False", "reason": "RolledBack"}]);
        let back = with(complete, "/status/conditions", back);
        assert_eq!(come_to(&back, &wanted), Err(Refusal::NoRelease));
    }

    #[test]
    fn objects_of_the_existing_controller_are_approved_too() {
        let mut canary = paused();
        canary["status"]["canaryStatus"]
            .as_object_mut()
            .unwrap()
            .remove("templateId");
        let patch = serde_json::to_value(ask(&canary).unwrap().patch).unwrap();
        assert_eq!(patch.as_array().unwrap().len(), 5);
        let mut green = paused();
        green["status"] = json!({"phase": "Progressing", "blueGreenStatus": {
            "currentStepIndex": 1, "currentStepState": "StepPaused", "updatedRevision": "abc"}});
        let approval = ask(&green).unwrap();
        json_patch::patch(&mut green, &approval.patch).unwrap();
        assert_eq!(
            green["status"]["blueGreenStatus"]["currentStepState"],
            "StepReady"
        );
    }

    #[test]
    fn a_way_back_by_steps_is_approved_step_by_step() {
        let back = with(paused(), "/status/canaryStatus/rolledBack", json!(true));
        let rolling = json!([{"type": "Progressing", "status": "True", "reason": "InRolling"}]);
        assert_eq!(
            ask(&with(back, "/status/conditions", rolling)).unwrap().at.step,
            1
        );
    }

    #[rstest]
    #[case::updating("/status/canaryStatus/currentStepState", json!("StepUpgrade"),
        "step 1 of 3 is still updating (1 updated, 1 ready): it can be approved once it is paused")]
    #[case::completed("/status/canaryStatus/currentStepState", json!("Completed"),
        "no release is in progress: it begins with a change of the workload's pod template")]
    #[case::healthy("/status/phase", json!("Healthy"),
        "no release is in progress: it begins with a change of the workload's pod template")]
    #[case::no_status(
        "/status",
        Value::Null,
        "no release is in progress: it begins with a change of the workload's pod template"
    )]
    #[case::disabled("/spec/disabled", json!(true),
        "the Rollout is not in force, so nothing waits for approval: spec.disabled is set")]
    #[case::disabled_by_the_controller("/status/phase", json!("Disabled"),
        "the Rollout is not in force, so nothing waits for approval: spec.disabled is set")]
    #[case::terminating("/status/phase", json!("Terminating"),
        "the Rollout is being deleted: the workload is released without approval")]
    #[case::back("/status/canaryStatus/rolledBack", json!(true),
        "the release is being rolled back: pods return to the stable template without steps, nothing waits for approval")]
    #[case::cancelling("/status/conditions", json!([{"type": "Progressing", "status": "True", "reason": "Cancelling"}]),
        "the release is being rolled back: pods return to the stable template without steps, nothing waits for approval")]
    #[case::spec_paused("/spec/strategy/paused", json!(true),
        "the release is paused by spec.strategy.paused, which an approval does not lift: resume it, then approve")]
    fn refusals_say_why(#[case] path: &str, #[case] value: Value, #[case] says: &str) {
        let refusal = come_to(&with(paused(), path, value), &Wanted::default()).unwrap_err();
        assert_eq!(refusal.to_string(), says);
    }
}
