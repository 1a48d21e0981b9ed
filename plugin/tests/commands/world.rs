//! A Rollout, its workload and its pods, as a server would answer, and calls of the program.

use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use kruise_rollout::names;
use kruise_rollout::workload::{Guard, TemplateId};
use serde_json::{Value, json};

use crate::server::{Answer, Request, Server, failure};

pub(crate) const ROLLOUT: &str = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts/my-app-rollout";
pub(crate) const ROLLOUTS: &str = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts";
pub(crate) const APP: &str = "/apis/example.io/v1/namespaces/shop/mystatefulapps/my-app";
pub(crate) const APPS: &str = "/apis/example.io/v1/namespaces/shop/mystatefulapps";
pub(crate) const PODS: &str = "/api/v1/namespaces/shop/pods";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/shop/events";
pub(crate) const RECORDS: &str = "/apis/apps/v1/namespaces/shop/controllerrevisions";

pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn command(arguments: &str) -> Command {
    let mut command = Command::new(cargo_bin("kubectl-kruise"));
    command
        .env_clear()
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null());
    command.args(arguments.split(' '));
    command
}

pub(crate) fn run(arguments: &str) -> Outcome {
    let output = command(arguments).output().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Exit code and standard error where nobody reads the answer.
pub(crate) fn unread(arguments: &str) -> (Option<i32>, String) {
    let mut child = command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

pub(crate) fn call(server: &Server, arguments: &str) -> Outcome {
    run(&format!(
        "{arguments} -n shop --server {} --request-timeout 10s",
        server.url
    ))
}

pub(crate) fn template(version: u32) -> Value {
    json!({"spec": {"containers": [{"name": "app", "image": format!("app:v{version}")}]}})
}

pub(crate) fn rollout(phase: &str, step: i64, state: &str) -> Value {
    json!({
        "apiVersion": names::API_VERSION, "kind": "Rollout",
        "metadata": {"name": "my-app-rollout", "namespace": "shop", "uid": "r", "resourceVersion": "1"},
        "spec": {"workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "my-app"},
            "strategy": {"canary": {"steps": [{"replicas": 1, "pause": {}}, {"replicas": "100%"}]}}},
        "status": {"phase": phase, "currentStepIndex": step, "currentStepState": state, "canaryStatus": {
            "currentStepIndex": step, "currentStepState": state, "canaryRevision": "my-app-2", "stableRevision": "my-app-1",
            "templateId": TemplateId::of(&template(2)).to_string()}}
    })
}

pub(crate) fn app(version: u32, grant: Option<i64>) -> Value {
    let (stable, updated) = if grant.is_some() { (1, 1) } else { (version, 3) };
    let mut annotations =
        json!({(names::GUARDED_BY): Guard::text("w", "my-app-rollout", &TemplateId::of(&template(stable)))});
    if let Some(grant) = grant {
        annotations[names::IN_PROGRESSING] = json!("{}");
        annotations[names::GRANTED_PARTITION] = json!(grant.to_string());
    }
    json!({
        "apiVersion": "example.io/v1", "kind": "MyStatefulApp",
        "metadata": {"name": "my-app", "namespace": "shop", "uid": "w", "generation": 3, "resourceVersion": "1",
            "annotations": annotations, "labels": {(names::WORKLOAD_TYPE): "statefulset"}},
        "spec": {"replicas": 3, "template": template(version)},
        "status": {"observedGeneration": 3, "replicas": 3, "readyReplicas": 3, "updatedReplicas": updated,
            "currentRevision": format!("my-app-{stable}"), "updateRevision": format!("my-app-{version}")}
    })
}

pub(crate) fn pod(ordinal: u32, version: u32, waiting: Option<&str>) -> Value {
    let ready = if waiting.is_some() { "False" } else { "True" };
    json!({"metadata": {"name": format!("my-app-{ordinal}"), "namespace": "shop", "uid": format!("p{ordinal}"),
            "labels": {(names::CONTROLLER_REVISION_HASH): format!("my-app-{version}")},
            "ownerReferences": [{"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "my-app", "uid": "w", "controller": true}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"state": waiting.map_or(json!({}), |reason| json!({"waiting": {"reason": reason}}))}]}})
}

pub(crate) fn list(items: Vec<Value>) -> Answer {
    Answer::Object(
        200,
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items}),
    )
}

pub(crate) fn record(revision: i64, version: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": format!("my-app-rollout-{version}"), "ownerReferences": [
            {"apiVersion": names::API_VERSION, "kind": "Rollout", "name": "my-app-rollout", "uid": "r"}]},
        "revision": revision, "data": {"template": template(version)}})
}

/// The world of one release at rest in a step: reads are answered, patches say yes.
pub(crate) fn world(
    rollout: Value,
    app: Value,
    pods: Vec<Value>,
) -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", ROLLOUTS | APPS | PODS | EVENTS) if request.is_watch() => Answer::Watch(Vec::new()),
        ("GET", ROLLOUTS) => list(vec![rollout.clone()]),
        ("GET", APPS) => list(vec![app.clone()]),
        ("GET", ROLLOUT) => Answer::Object(200, rollout.clone()),
        ("GET", APP) => Answer::Object(200, app.clone()),
        ("GET", PODS) => list(pods.clone()),
        ("GET", EVENTS) => list(Vec::new()),
        ("GET", RECORDS) => list(vec![record(1, 1), record(2, 2)]),
        ("PATCH", path) if path == ROLLOUT || path == format!("{ROLLOUT}/status") => {
            Answer::Object(200, rollout.clone())
        }
        ("PATCH", APP) => Answer::Object(200, app.clone()),
        _ => failure(404, "NotFound", "not found"),
    }
}

pub(crate) fn paused() -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    world(
        rollout("Progressing", 1, "StepPaused"),
        app(2, Some(2)),
        vec![pod(0, 1, None), pod(1, 1, None), pod(2, 2, None)],
    )
}

pub(crate) fn event(kind: &str, mut object: Value, version: u32) -> Value {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    json!({"type": kind, "object": object})
}

/// The Rollout goes through these states while it is watched; everything else stands still.
pub(crate) fn moving(
    first: Value,
    later: Vec<Value>,
    app: Value,
) -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    let rest = world(first, app, Vec::new());
    move |request| match request.path.as_str() {
        ROLLOUTS if request.is_watch() => Answer::Watch(later.clone()),
        _ => rest(request),
    }
}
