//! What stands in the status, and what somebody writes over it.

use serde_json::{Value, json};

/// What the schema makes of a status that nobody has written, or that somebody removes.
pub fn blank() -> Value {
    json!({"observedGeneration": -1, "currentStepIndex": 0, "currentStepState": ""})
}

/// Step 1 of 3 waits for approval.
pub fn paused() -> Value {
    json!({
        "observedGeneration": 1, "phase": "Progressing", "message": "step 1 of 3: waiting for approval",
        "conditions": [{"type": "Progressing", "status": "True", "reason": "InRolling", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "currentStepIndex": 1, "currentStepState": "StepPaused",
        "canaryStatus": {
            "currentStepIndex": 1, "nextStepIndex": 2, "currentStepState": "StepPaused", "finalisingStep": "",
            "canaryRevision": "my-app-v2", "stableRevision": "my-app-v1", "podTemplateHash": "my-app-v2",
            "canaryReplicas": 1, "canaryReadyReplicas": 1, "templateId": "t2", "rolloutHash": "h",
            "lastUpdateTime": "2026-01-01T00:00:00.000000Z",
        },
    })
}

/// The same of a release beside the present pods, as another controller may have left it.
pub fn paused_blue_green() -> Value {
    let mut status = paused();
    status["canaryStatus"] = Value::Null;
    status["blueGreenStatus"] = json!({
        "currentStepIndex": 1, "nextStepIndex": 2, "currentStepState": "StepPaused", "finalisingStep": "",
        "updatedRevision": "v2", "podTemplateHash": "v2", "updatedReplicas": 1, "updatedReadyReplicas": 1,
    });
    status
}

/// The step is in this state.
pub fn at(state: &str) -> Value {
    let mut status = paused();
    status["currentStepState"] = json!(state);
    status["canaryStatus"]["currentStepState"] = json!(state);
    status
}

/// As [`paused`], with another word in the copy of the state.
pub fn paused_with_copy(copy: &str) -> Value {
    let mut status = paused();
    status["currentStepState"] = json!(copy);
    status
}

/// One write: its name, the status before, and a merge patch of it.
pub type Row = (&'static str, Value, Value);

/// Approves, and writes these members of the status of the release.
fn approval_and(members: &Value) -> Value {
    let mut patch = json!({"canaryStatus": members});
    patch["canaryStatus"]["currentStepState"] = json!("StepReady");
    patch
}

/// What the existing plugin sends.
pub fn approval() -> Value {
    approval_and(&json!({}))
}

/// A jump, and nothing else.
pub fn jump(to: &Value) -> Value {
    json!({"canaryStatus": {"nextStepIndex": to}})
}

/// Writes that everybody may make.
pub fn allowed() -> Vec<Row> {
    let with_copy =
        json!({"currentStepState": "StepReady", "canaryStatus": {"currentStepState": "StepReady"}});
    vec![
        ("the existing plugin's approval", paused(), approval()),
        ("both copies of the state", paused(), with_copy.clone()),
        (
            "an approval over another copy",
            paused_with_copy("StepUpgrade"),
            approval(),
        ),
        (
            "an approval that puts another copy right",
            paused_with_copy("StepUpgrade"),
            with_copy,
        ),
        (
            "a blue-green approval",
            paused_blue_green(),
            json!({"blueGreenStatus": {"currentStepState": "StepReady"}}),
        ),
        ("nothing new", paused(), paused()),
        ("nothing new without a status", Value::Null, json!({})),
        ("approved already", at("StepReady"), approval()),
    ]
}

/// Writes that are refused, whether or not jumps are allowed.
pub fn refused() -> Vec<Row> {
    vec![
        ("first status", Value::Null, paused()),
        (
            "completed",
            paused(),
            json!({"canaryStatus": {"currentStepState": "Completed"}}),
        ),
        ("approval while updating", at("StepUpgrade"), approval()),
        ("approval of what is completed", at("Completed"), approval()),
        (
            "an approval taken back",
            at("StepReady"),
            json!({"canaryStatus": {"currentStepState": "StepPaused"}}),
        ),
        ("copy alone", paused(), json!({"currentStepState": "StepReady"})),
        (
            "approval and another word in the copy",
            paused(),
            json!({"currentStepState": "Completed", "canaryStatus": {"currentStepState": "StepReady"}}),
        ),
        (
            "approval and phase",
            paused(),
            json!({"phase": "Healthy", "canaryStatus": {"currentStepState": "StepReady"}}),
        ),
        (
            "approval and revision",
            paused(),
            approval_and(&json!({"canaryRevision": "my-app-v3"})),
        ),
        (
            "approval and step",
            paused(),
            approval_and(&json!({"currentStepIndex": 2})),
        ),
        (
            "approval and jump",
            paused(),
            approval_and(&json!({"nextStepIndex": 3})),
        ),
        (
            "approval and a member that was not there",
            paused(),
            approval_and(&json!({"rolledBack": true})),
        ),
        (
            "approval and a member that goes",
            paused(),
            approval_and(&json!({"templateId": null})),
        ),
        (
            "approval of the one style and a state of the other",
            paused(),
            json!({"canaryStatus": {"currentStepState": "StepReady"},
                "blueGreenStatus": paused_blue_green()["blueGreenStatus"]}),
        ),
        (
            "state of the release removed",
            paused(),
            json!({"canaryStatus": null}),
        ),
        ("conditions removed", paused(), json!({"conditions": null})),
        ("status removed", paused(), Value::Null),
    ]
}
