use json_patch::Patch;
use serde_json::{Value, json};

use super::Refusal;
use crate::api::v1beta1::{Rollout, RolloutStatus, condition, phase, step_state};
use crate::lens::PatchBuilder;

/// An approval that can be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// Number of the step that is approved, from 1.
    pub step: i32,
    /// For the `status` subresource.
    pub patch: Patch,
}

/// What a release in progress says about its step, of either style.
struct Step<'a> {
    member: &'static str,
    index: i32,
    state: &'a str,
    revision: (&'static str, &'a str),
    template: &'a str,
    updated: (i32, i32),
    back: bool,
}

impl<'a> Step<'a> {
    fn of(status: &'a RolloutStatus) -> Option<Self> {
        if let Some(canary) = &status.canary_status {
            return Some(Self {
                member: "canaryStatus",
                index: canary.current_step_index,
                state: &canary.current_step_state,
                revision: ("canaryRevision", &canary.canary_revision),
                template: &canary.template_id,
                updated: (canary.canary_replicas, canary.canary_ready_replicas),
                back: canary.rolled_back,
            });
        }
        status.blue_green_status.as_ref().map(|green| Self {
            member: "blueGreenStatus",
            index: green.current_step_index,
            state: &green.current_step_state,
            revision: ("updatedRevision", &green.updated_revision),
            template: "",
            updated: (green.updated_replicas, green.updated_ready_replicas),
            back: false,
        })
    }
}

/// Approves the step that is paused now, and no other: the patch tests step, state and revision, so an approval that comes too
/// late fails (422) instead of approving what came next.
///
/// A timed pause may be approved before its time is up. The copy of the state in `status.currentStepState` is left alone, since
/// it tells the controller what the approval was written over.
///
/// # Errors
/// Why nothing can be approved now.
pub fn approve(rollout: &Rollout) -> Result<Approval, Refusal> {
    let status = rollout.status.as_ref().ok_or(Refusal::NoRelease)?;
    if rollout.metadata.deletion_timestamp.is_some() || status.phase == phase::TERMINATING {
        return Err(Refusal::Deleting);
    }
    if rollout.spec.disabled || [phase::DISABLED, phase::DISABLING].contains(&status.phase.as_str()) {
        let why = if status.message.is_empty() {
            "spec.disabled is set"
        } else {
            &status.message
        };
        return Err(Refusal::Disabled(why.to_owned()));
    }
    let step = Step::of(status)
        .filter(|_| status.phase == phase::PROGRESSING)
        .ok_or(Refusal::NoRelease)?;
    if (step.back && !status.goes_back_in_batches()) || cancelling(status) {
        return Err(Refusal::RollingBack);
    }
    match step.state {
        step_state::STEP_PAUSED if rollout.spec.strategy.paused => Err(Refusal::SpecPaused),
        step_state::STEP_PAUSED => Ok(Approval {
            step: step.index,
            patch: patch(rollout, &step),
        }),
        step_state::STEP_READY => Err(Refusal::AlreadyApproved(step.index)),
        step_state::COMPLETED => Err(Refusal::NoRelease),
        _ => Err(Refusal::StillUpdating {
            step: step.index,
            steps: steps(rollout),
            pods: pods(step.updated),
        }),
    }
}

fn patch(rollout: &Rollout, step: &Step<'_>) -> Patch {
    let at = |name: &'static str| ["status", step.member, name];
    let known = json!({ "status": { (step.member): { "currentStepState": step.state } } });
    let mut patch = PatchBuilder::new(known)
        .test(at("currentStepIndex"), json!(step.index))
        .test(at("currentStepState"), json!(step_state::STEP_PAUSED));
    if let Some(uid) = &rollout.metadata.uid {
        patch = patch.test(["metadata", "uid"], json!(uid));
    }
    let (name, revision) = step.revision;
    if !revision.is_empty() {
        patch = patch.test(at(name), json!(revision));
    }
    if !step.template.is_empty() {
        patch = patch.test(at("templateId"), json!(step.template));
    }
    patch
        .set(&at("currentStepState"), Value::from(step_state::STEP_READY))
        .build()
}

fn cancelling(status: &RolloutStatus) -> bool {
    condition::get(&status.conditions, condition::PROGRESSING)
        .is_some_and(|progressing| progressing.reason == condition::reason::CANCELLING)
}

fn steps(rollout: &Rollout) -> usize {
    let strategy = &rollout.spec.strategy;
    let canary = strategy.canary.as_ref().map(|canary| canary.steps.len());
    canary
        .or(strategy.blue_green.as_ref().map(|green| green.steps.len()))
        .unwrap_or_default()
}

fn pods((updated, ready): (i32, i32)) -> String {
    match (updated, ready) {
        (0, _) => String::new(),
        (updated, ready) => format!(" ({updated} updated, {ready} ready)"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

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

    fn ask(object: &Value) -> Result<Approval, Refusal> {
        approve(&serde_json::from_value(object.clone()).unwrap())
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
        assert_eq!(approval.step, 1);
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
    fn a_timed_pause_can_be_cut_short() {
        let timed = with(paused(), "/status/canaryStatus/currentStepIndex", json!(2));
        assert_eq!(ask(&timed).unwrap().step, 2);
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
        assert_eq!(ask(&with(back, "/status/conditions", rolling)).unwrap().step, 1);
    }

    #[rstest]
    #[case::updating("/status/canaryStatus/currentStepState", json!("StepUpgrade"),
        "step 1 of 3 is still updating (1 updated, 1 ready): it can be approved once it is paused")]
    #[case::approved("/status/canaryStatus/currentStepState", json!("StepReady"),
        "step 1 is approved already: the controller takes the next step")]
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
        "the release is paused by spec.strategy.paused, which an approval does not lift: set it to false, then approve")]
    fn refusals_say_why(#[case] path: &str, #[case] value: Value, #[case] says: &str) {
        assert_eq!(ask(&with(paused(), path, value)).unwrap_err().to_string(), says);
    }
}
