//! The health script for Argo CD, run by the interpreter that Argo CD runs it with.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use support::Tool;
use support::process::scratch;

use super::{answer, repository};

/// A value as Lua writes it.
fn lua(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Array(items) => format!("{{{}}}", items.iter().map(lua).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let mut text = String::from("{");
            for (name, value) in members {
                let _ = write!(text, "[{name:?}]={},", lua(value));
            }
            text + "}"
        }
        scalar => scalar.to_string(),
    }
}

/// A Rollout of two steps, the first of which waits for approval and the second for its seconds.
fn rollout(change: &Value) -> Value {
    let mut object = json!({
        "metadata": {"generation": 2},
        "spec": {"strategy": {"canary": {"steps": [{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {"duration": 60}}]}}},
        "status": {"observedGeneration": 2, "phase": "Progressing", "message": "it goes on",
            "canaryStatus": {"currentStepIndex": 1, "currentStepState": "StepUpgrade"}},
    });
    json_patch::merge(&mut object, change);
    object
}

fn stalled(status: &str) -> Value {
    json!([{"type": "Stalled", "status": status, "message": "label missing"}])
}

#[test]
fn what_argo_cd_makes_of_each_state() {
    let cases = [
        (json!({}), "Progressing", "it goes on"),
        (
            json!({"status": null}),
            "Progressing",
            "waiting for the controller",
        ),
        (
            json!({"status": {"observedGeneration": -1}}),
            "Progressing",
            "waiting for the controller",
        ),
        (
            json!({"metadata": {"generation": 3}}),
            "Progressing",
            "waiting for the controller",
        ),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            "Progressing",
            "the workload is being handed back",
        ),
        (
            json!({"status": {"canaryStatus": {"currentStepState": "StepPaused"}}}),
            "Suspended",
            "it goes on",
        ),
        (
            json!({"status": {"canaryStatus": {"currentStepIndex": 2, "currentStepState": "StepPaused"}}}),
            "Progressing",
            "it goes on",
        ),
        (
            json!({"spec": {"strategy": {"paused": true}}}),
            "Suspended",
            "it goes on",
        ),
        (
            json!({"spec": {"strategy": {"paused": true}}, "status": {"phase": "Healthy"}}),
            "Healthy",
            "it goes on",
        ),
        (
            json!({"spec": {"disabled": true}, "status": {"phase": "Disabled"}}),
            "Suspended",
            "spec.disabled is set: updates are not held",
        ),
        (
            json!({"status": {"conditions": stalled("True")}}),
            "Degraded",
            "label missing",
        ),
        (
            json!({"status": {"phase": "Disabled", "conditions": stalled("True")}}),
            "Degraded",
            "label missing",
        ),
        (
            json!({"status": {"conditions": stalled("False")}}),
            "Progressing",
            "it goes on",
        ),
        (json!({"status": {"phase": "Healthy"}}), "Healthy", "it goes on"),
        (
            json!({"status": {"phase": "Initial"}}),
            "Progressing",
            "it goes on",
        ),
        // As a controller of before leaves it behind: no conditions, no message.
        (
            json!({"status": {"phase": "Healthy", "message": null, "canaryStatus": null}}),
            "Healthy",
            "nil",
        ),
        (json!({"status": {"message": null}}), "Progressing", "Progressing"),
    ];
    let script = fs::read_to_string(repository("docs/gitops/health.lua")).unwrap();
    let mut program = format!("local function health(obj)\n{script}\nend\n");
    for (change, ..) in &cases {
        let _ = writeln!(
            program,
            "local h = health({}) print(h.status .. '|' .. tostring(h.message))",
            lua(&rollout(change))
        );
    }
    let file = scratch("health").unwrap().join("program.lua");
    fs::write(&file, program).unwrap();
    let printed = answer(Command::new(Tool::Lua.program().unwrap()).arg(&file));
    let found: Vec<_> = printed.lines().collect();
    assert_eq!(found.len(), cases.len(), "{printed}");
    for ((change, status, message), found) in cases.iter().zip(found) {
        assert_eq!(found, format!("{status}|{message}"), "{change}");
    }
}
