//! The program as it is called, against a server that answers what the test tells it to.

mod server;

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use assert_cmd::cargo::cargo_bin;
use kruise_rollout::names;
use kruise_rollout::workload::{Guard, TemplateId};
use serde_json::{Value, json};
use server::{Answer, Request, Server, failure};

const ROLLOUT: &str = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts/my-app-rollout";
const ROLLOUTS: &str = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts";
const APP: &str = "/apis/example.io/v1/namespaces/shop/mystatefulapps/my-app";
const APPS: &str = "/apis/example.io/v1/namespaces/shop/mystatefulapps";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const RECORDS: &str = "/apis/apps/v1/namespaces/shop/controllerrevisions";

struct Outcome {
    code: i32,
    out: String,
    err: String,
}

fn command(arguments: &str) -> Command {
    let mut command = Command::new(cargo_bin("kubectl-kruise"));
    command
        .env_clear()
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null());
    command.args(arguments.split(' '));
    command
}

fn run(arguments: &str) -> Outcome {
    let output = command(arguments).output().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn call(server: &Server, arguments: &str) -> Outcome {
    run(&format!(
        "{arguments} -n shop --server {} --request-timeout 10s",
        server.url
    ))
}

fn template(version: u32) -> Value {
    json!({"spec": {"containers": [{"name": "app", "image": format!("app:v{version}")}]}})
}

fn rollout(phase: &str, step: i64, state: &str) -> Value {
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

fn app(version: u32, grant: Option<i64>) -> Value {
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

fn pod(ordinal: u32, version: u32, waiting: Option<&str>) -> Value {
    let ready = if waiting.is_some() { "False" } else { "True" };
    json!({"metadata": {"name": format!("my-app-{ordinal}"), "namespace": "shop", "uid": format!("p{ordinal}"),
            "labels": {(names::CONTROLLER_REVISION_HASH): format!("my-app-{version}")},
            "ownerReferences": [{"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "my-app", "uid": "w", "controller": true}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"state": waiting.map_or(json!({}), |reason| json!({"waiting": {"reason": reason}}))}]}})
}

fn list(items: Vec<Value>) -> Answer {
    Answer::Object(
        200,
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items}),
    )
}

fn record(revision: i64, version: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": format!("my-app-rollout-{version}"), "ownerReferences": [
            {"apiVersion": names::API_VERSION, "kind": "Rollout", "name": "my-app-rollout", "uid": "r"}]},
        "revision": revision, "data": {"template": template(version)}})
}

/// The world of one release at rest in a step: reads are answered, patches say yes.
fn world(
    rollout: Value,
    app: Value,
    pods: Vec<Value>,
) -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", ROLLOUTS | APPS | PODS) if request.is_watch() => Answer::Watch(Vec::new()),
        ("GET", ROLLOUTS) => list(vec![rollout.clone()]),
        ("GET", APPS) => list(vec![app.clone()]),
        ("GET", ROLLOUT) => Answer::Object(200, rollout.clone()),
        ("GET", APP) => Answer::Object(200, app.clone()),
        ("GET", PODS) => list(pods.clone()),
        ("GET", RECORDS) => list(vec![record(1, 1), record(2, 2)]),
        ("PATCH", path) if path == format!("{ROLLOUT}/status") => Answer::Object(200, rollout.clone()),
        ("PATCH", APP) => Answer::Object(200, app.clone()),
        _ => failure(404, "NotFound", "not found"),
    }
}

fn paused() -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    world(
        rollout("Progressing", 1, "StepPaused"),
        app(2, Some(2)),
        vec![pod(0, 1, None), pod(1, 1, None), pod(2, 2, None)],
    )
}

#[test]
fn usage_errors_end_with_2_and_help_with_0() {
    for line in [
        "rollout approve",
        "rollout status",
        "nonsense",
        "rollout status a --timeout never",
        "rollout status deploy/web",
        "workload label web",
        "rollout approve a --dry-run=perhaps",
        "rollout undo a --to-revision 0",
    ] {
        let outcome = run(&format!("{line} --server http://127.0.0.1:1"));
        assert_eq!(outcome.code, 2, "{line}: {}", outcome.err);
        assert!(
            outcome.out.is_empty() && outcome.err.starts_with("error:"),
            "{line}: {}",
            outcome.err
        );
    }
    for line in [
        "--help",
        "rollout",
        "rollout --help",
        "rollout status -h",
        "workload",
        "help",
    ] {
        let outcome = run(line);
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{line}");
        assert!(outcome.out.contains("Usage: kubectl kruise"), "{line}");
    }
}

#[test]
fn without_a_cluster_the_reason_and_the_way_on_are_said() {
    let nothing = run("rollout status web");
    assert_eq!(nothing.code, 1);
    assert_eq!(
        nothing.err,
        "error: no kubeconfig was found\nhint: choose a kubeconfig with --kubeconfig or KUBECONFIG, and a context with --context\n"
    );
    let refused = run("rollout status web --server http://127.0.0.1:1");
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .err
            .starts_with("error: unable to connect to the server http://127.0.0.1:1: "),
        "{}",
        refused.err
    );
    assert_eq!(
        run("version --client").out,
        format!("Client:     v{}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn approve_writes_one_word_and_tests_what_it_was_written_over() {
    let server = Server::start(paused());
    let outcome = call(&server, "rollout approve rollout/my-app-rollout");
    assert_eq!(
        (outcome.code, outcome.out.as_str()),
        (0, "rollout.rollouts.kruise.io/my-app-rollout approved\n"),
        "{}",
        outcome.err
    );
    let writes = server.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].path, format!("{ROLLOUT}/status"));
    assert_eq!(
        writes[0].query.trim_start_matches('&'),
        "fieldManager=kubectl-kruise"
    );
    let operations = writes[0].body.as_array().unwrap();
    let (write, tests) = operations.split_last().unwrap();
    assert!(tests.iter().all(|operation| operation["op"] == "test"));
    for path in [
        "currentStepIndex",
        "currentStepState",
        "canaryRevision",
        "templateId",
    ] {
        assert!(
            tests
                .iter()
                .any(|test| test["path"] == format!("/status/canaryStatus/{path}")),
            "{path}"
        );
    }
    assert_eq!(write["path"], "/status/canaryStatus/currentStepState");
    assert_eq!(write["value"], "StepReady");
}

#[test]
fn an_approval_that_comes_too_late_approves_nothing() {
    let state = Arc::new(Mutex::new(rollout("Progressing", 1, "StepPaused")));
    let server = Server::start(move |request| {
        let mut now = state.lock().unwrap();
        match request.method.as_str() {
            "GET" => Answer::Object(200, now.clone()),
            _ => {
                // Somebody else was faster, and the release is at the next pause.
                *now = rollout("Progressing", 2, "StepPaused");
                Answer::Object(
                    422,
                    json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
                    "message": "the server rejected our request due to an error in our request"}),
                )
            }
        }
    });
    let outcome = call(&server, "rollout approve my-app-rollout");
    assert_eq!(outcome.code, 1);
    assert!(
        outcome
            .err
            .contains("the release is at step 2, not at step 1: nothing is approved"),
        "{}",
        outcome.err
    );
    assert_eq!(server.writes().len(), 1);
}

#[test]
fn what_is_not_paused_is_not_approved() {
    for (rollout, code, says) in [
        (
            rollout("Progressing", 1, "StepUpgrade"),
            1,
            "step 1 of 2 is still updating",
        ),
        (rollout("Healthy", 2, "Completed"), 1, "no release is in progress"),
        (rollout("Progressing", 1, "StepReady"), 0, "already approved"),
    ] {
        let server = Server::start(move |_| Answer::Object(200, rollout.clone()));
        let outcome = call(&server, "rollout approve my-app-rollout");
        assert_eq!(outcome.code, code, "{}", outcome.err);
        assert!(
            format!("{}{}", outcome.out, outcome.err).contains(says),
            "{}",
            outcome.err
        );
        assert!(server.writes().is_empty());
    }
}

#[test]
fn several_are_approved_each_for_itself() {
    let server = Server::start(paused());
    let outcome = call(&server, "rollout approve other my-app-rollout");
    assert_eq!(
        (outcome.code, outcome.out.as_str()),
        (1, "rollout.rollouts.kruise.io/my-app-rollout approved\n")
    );
    assert!(
        outcome.err.contains("\"other\" not found in namespace shop"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_client_dry_run_only_reads_and_a_server_dry_run_stores_nothing() {
    for (line, says) in [
        (
            "rollout approve my-app-rollout",
            "rollout.rollouts.kruise.io/my-app-rollout approved",
        ),
        (
            "rollout undo my-app-rollout --yes",
            "mystatefulapp.example.io/my-app rolled back to revision 1",
        ),
        (
            "workload label rollout/my-app-rollout --overwrite",
            "mystatefulapp.example.io/my-app labeled",
        ),
    ] {
        let mut other = app(2, Some(2));
        other["metadata"]["labels"][names::WORKLOAD_TYPE] = json!("other");
        let server = Server::start(world(rollout("Progressing", 1, "StepPaused"), other, Vec::new()));
        let client = call(&server, &format!("{line} --dry-run=client"));
        assert_eq!(
            (client.code, client.out),
            (0, format!("{says} (dry run)\n")),
            "{}",
            client.err
        );
        assert!(server.writes().is_empty(), "{line}");
        let checked = call(&server, &format!("{line} --dry-run=server"));
        assert_eq!(
            (checked.code, checked.out),
            (0, format!("{says} (server dry run)\n")),
            "{}",
            checked.err
        );
        assert!(
            server
                .writes()
                .iter()
                .all(|write| write.query.contains("dryRun=All")),
            "{line}"
        );
    }
}

#[test]
fn undo_replaces_the_template_and_asks_first() {
    let server = Server::start(paused());
    let unasked = call(&server, "rollout undo my-app-rollout");
    assert_eq!(unasked.code, 1);
    assert!(
        unasked
            .err
            .ends_with("hint: this is not a terminal to ask on: confirm with --yes\n"),
        "{}",
        unasked.err
    );
    assert!(server.writes().is_empty());
    let outcome = call(&server, "rollout undo my-app-rollout --yes");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let write = &server.writes()[0];
    assert_eq!(write.path, APP);
    assert_eq!(
        write.body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "w"},
            {"op": "test", "path": "/metadata/generation", "value": 3},
            {"op": "replace", "path": "/spec/template", "value": template(1)},
        ])
    );
    let there = call(&server, "rollout undo my-app-rollout --to-revision 2 --yes");
    assert_eq!(
        (there.code, there.out.as_str()),
        (
            0,
            "mystatefulapp.example.io/my-app unchanged (already at revision 2)\n"
        )
    );
    let unknown = call(&server, "rollout undo my-app-rollout --to-revision 9 --yes");
    assert!(
        unknown.code == 1 && unknown.err.contains("no revision 9 is recorded: there are 1, 2"),
        "{}",
        unknown.err
    );
}

#[test]
fn one_look_prints_one_report_and_says_its_verdict_by_the_exit_code() {
    let crashing = vec![
        pod(0, 1, None),
        pod(1, 1, None),
        pod(2, 2, Some("CrashLoopBackOff")),
    ];
    let mut back = rollout("Healthy", 2, "Completed");
    back["status"]["conditions"] =
        json!([{"type": "Succeeded", "status": "False", "reason": "RolledBack", "message": ""}]);
    let done = || vec![pod(0, 2, None), pod(1, 2, None), pod(2, 2, None)];
    for (server, flags, code, says) in [
        (Server::start(paused()), "", 0, "AwaitingApproval, step 1 of 2"),
        (
            Server::start(paused()),
            " --exit-on-pause",
            5,
            "AwaitingApproval, step 1 of 2",
        ),
        (
            Server::start(world(
                rollout("Progressing", 1, "StepUpgrade"),
                app(2, Some(2)),
                crashing,
            )),
            "",
            3,
            "my-app-2 CrashLoopBackOff",
        ),
        (
            Server::start(world(rollout("Healthy", 2, "Completed"), app(2, None), done())),
            "",
            0,
            "Complete",
        ),
        (
            Server::start(world(back, app(1, None), Vec::new())),
            "",
            6,
            "RolledBack",
        ),
    ] {
        let outcome = call(
            &server,
            &format!("rollout status my-app-rollout --watch=false{flags}"),
        );
        assert_eq!(outcome.code, code, "{}{}", outcome.out, outcome.err);
        assert!(outcome.out.contains(says), "{}", outcome.out);
        assert!(!outcome.out.contains('\x1b'));
    }
}

#[test]
fn one_look_takes_three_requests_and_no_discovery() {
    let server = Server::start(paused());
    let outcome = call(&server, "rollout status my-app-rollout --watch=false -o json");
    let report: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(report["workload"]["updated"], 1);
    let paths: Vec<_> = server
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert_eq!(paths, [ROLLOUT, APP, PODS]);
    assert!(server.requests()[2].query.contains("limit="));
}

#[test]
fn colours_are_for_terminals_or_on_demand() {
    let server = Server::start(paused());
    let forced = call(
        &server,
        "rollout status my-app-rollout --watch=false --color=always",
    );
    assert!(forced.out.contains("\x1b[36m"), "{}", forced.out);
    let plain = call(
        &server,
        "rollout status my-app-rollout --watch=false --color=never",
    );
    assert!(!plain.out.contains('\x1b'));
}

#[test]
fn what_may_not_be_read_is_left_out_and_named() {
    let all = paused();
    let server = Server::start(move |request| match request.path.as_str() {
        PODS => failure(403, "Forbidden", "pods is forbidden"),
        _ => all(request),
    });
    let outcome = call(&server, "rollout status my-app-rollout --watch=false");
    assert_eq!(outcome.code, 0);
    assert_eq!(
        outcome.err,
        "pods are not shown: you may not list pods in namespace shop\n"
    );
    assert!(outcome.out.contains("1 of 3 updated"), "{}", outcome.out);
}

#[test]
fn a_plural_that_cannot_be_guessed_is_asked_for() {
    let all = paused();
    let server = Server::start(move |request| match request.path.as_str() {
        APP => failure(403, "Forbidden", "mystatefulapps is forbidden"),
        "/apis/example.io/v1" => Answer::Object(
            200,
            json!({"kind": "APIResourceList", "resources": [
            {"name": "msapps/status", "kind": "MyStatefulApp", "namespaced": true},
            {"name": "msapps", "kind": "MyStatefulApp", "namespaced": true}]}),
        ),
        "/apis/example.io/v1/namespaces/shop/msapps/my-app" => Answer::Object(200, app(2, Some(2))),
        _ => all(request),
    });
    let outcome = call(&server, "rollout status my-app-rollout --watch=false");
    assert!(
        outcome.code == 0 && outcome.out.contains("1 of 3 updated"),
        "{}{}",
        outcome.out,
        outcome.err
    );
}

#[test]
fn pods_of_an_object_in_between_count_too() {
    let mut pods = vec![pod(0, 1, None), pod(1, 1, None), pod(2, 2, None), pod(3, 2, None)];
    for (pod, uid) in pods.iter_mut().zip(["s", "s", "s", "foreign"]) {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": uid, "uid": uid, "controller": true}]);
    }
    let all = world(rollout("Progressing", 1, "StepPaused"), app(2, Some(2)), pods);
    let server = Server::start(move |request| match request.path.as_str() {
        "/apis/apps/v1/namespaces/shop/statefulsets/s" => Answer::Object(
            200,
            json!({"kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "s", "ownerReferences": [
                {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "my-app", "uid": "w", "controller": true}]}}),
        ),
        _ => all(request),
    });
    let outcome = call(&server, "rollout status my-app-rollout --watch=false");
    assert!(
        outcome.out.contains("1 of 3 updated, 3 ready"),
        "{}{}",
        outcome.out,
        outcome.err
    );
    let asked = server
        .requests()
        .iter()
        .filter(|r| r.path.ends_with("/statefulsets/s"))
        .count();
    assert_eq!(asked, 1);
}

fn event(kind: &str, mut object: Value, version: u32) -> Value {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    json!({"type": kind, "object": object})
}

/// The Rollout goes through these states while it is watched; everything else stands still.
fn moving(
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

#[test]
fn watching_prints_one_line_per_change_and_ends_with_the_verdict() {
    let later = vec![event("MODIFIED", rollout("Healthy", 2, "Completed"), 7)];
    let server = Server::start(moving(
        rollout("Progressing", 2, "StepUpgrade"),
        later,
        app(2, None),
    ));
    let outcome = call(&server, "rollout status my-app-rollout");
    assert_eq!(outcome.code, 0, "{}{}", outcome.out, outcome.err);
    let lines: Vec<_> = outcome.out.lines().collect();
    let [first, second, verdict] = lines.as_slice() else {
        panic!("{}", outcome.out)
    };
    assert!(
        first.ends_with("Z my-app-rollout step=2/2 state=Upgrading updated=0/3 ready=0/3 revision=my-app-2"),
        "{first}"
    );
    assert!(second.contains(" state=Complete "), "{second}");
    assert_eq!(
        *verdict,
        "rollout.rollouts.kruise.io/my-app-rollout complete: all 3 pods run revision my-app-2"
    );
}

#[test]
fn a_rollback_is_shown_as_one() {
    let mut rolling = rollout("Progressing", 1, "StepUpgrade");
    rolling["status"]["canaryStatus"]["rolledBack"] = json!(true);
    let mut back = rollout("Healthy", 2, "Completed");
    back["status"]["conditions"] =
        json!([{"type": "Succeeded", "status": "False", "reason": "RolledBack", "message": ""}]);
    let server = Server::start(moving(rolling, vec![event("MODIFIED", back, 7)], app(1, None)));
    let outcome = call(&server, "rollout status my-app-rollout");
    assert_eq!(outcome.code, 6, "{}{}", outcome.out, outcome.err);
    let words: Vec<_> = outcome
        .out
        .lines()
        .filter_map(|line| line.split(" state=").nth(1)?.split(' ').next())
        .collect();
    assert_eq!(words, ["RollingBack", "RolledBack"]);
    assert!(
        outcome
            .out
            .ends_with("rolled back: every pod runs the stable template (revision my-app-1)\n"),
        "{}",
        outcome.out
    );
}

#[test]
fn a_watch_ends_for_these_reasons_too() {
    let still = || {
        moving(
            rollout("Progressing", 1, "StepPaused"),
            Vec::new(),
            app(2, Some(2)),
        )
    };
    let server = Server::start(still());
    let timed = call(&server, "rollout status my-app-rollout --timeout 300ms");
    assert_eq!(timed.code, 4, "{}", timed.err);
    assert_eq!(
        timed.err,
        "error: timed out waiting for rollout.rollouts.kruise.io/my-app-rollout\n"
    );
    let paused = call(&server, "rollout status my-app-rollout --exit-on-pause");
    assert_eq!(paused.code, 5, "{}", paused.err);

    let gone = vec![event("DELETED", rollout("Progressing", 1, "StepPaused"), 7)];
    let server = Server::start(moving(
        rollout("Progressing", 1, "StepPaused"),
        gone,
        app(2, Some(2)),
    ));
    let deleted = call(&server, "rollout status my-app-rollout");
    assert_eq!(
        (deleted.code, deleted.err.as_str()),
        (1, "error: rollout my-app-rollout in namespace shop was deleted\n")
    );

    let crashing = vec![pod(2, 2, Some("CrashLoopBackOff"))];
    let server = Server::start(world(
        rollout("Progressing", 1, "StepUpgrade"),
        app(2, Some(2)),
        crashing,
    ));
    let failing = call(&server, "rollout status my-app-rollout --fail-fast 200ms");
    assert_eq!(failing.code, 3, "{}", failing.err);
    assert!(
        failing.out.ends_with("failing: my-app-2 CrashLoopBackOff\n"),
        "{}",
        failing.out
    );
}

#[test]
fn a_watch_that_has_expired_lists_again() {
    let rest = paused();
    let lists = Mutex::new(0);
    let server = Server::start(move |request| match request.path.as_str() {
        ROLLOUTS if request.is_watch() => Answer::Watch(vec![json!({"type": "ERROR", "object":
            {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}})]),
        ROLLOUTS => {
            let mut lists = lists.lock().unwrap();
            *lists += 1;
            let phase = if *lists > 1 {
                ("Healthy", 2, "Completed")
            } else {
                ("Progressing", 1, "StepPaused")
            };
            list(vec![rollout(phase.0, phase.1, phase.2)])
        }
        APP => Answer::Object(200, app(2, None)),
        APPS if !request.is_watch() => list(vec![app(2, None)]),
        _ => rest(request),
    });
    let outcome = call(&server, "rollout status my-app-rollout --timeout 20s");
    assert!(!outcome.out.is_empty());
    assert_eq!(outcome.code, 0, "{}{}", outcome.out, outcome.err);
}

#[cfg(unix)]
#[test]
fn signals_and_closed_pipes_end_it_quietly() {
    use std::io::{BufRead, BufReader};
    let server = Server::start(paused());
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let line = format!("rollout status my-app-rollout -n shop --server {}", server.url);
        let mut child = command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut first)
            .unwrap();
        assert!(first.contains("state=AwaitingApproval"), "{first}");
        let killed = Command::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
    let line = format!(
        "rollout status my-app-rollout --watch=false -n shop --server {}",
        server.url
    );
    let mut child = command(&line)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), b"".as_slice())
    );
}

/// A terminal with the program in it.
#[cfg(unix)]
fn terminal(server: &Server, arguments: &str) -> rexpect::session::PtySession {
    let mut command = command(&format!("{arguments} -n shop --server {}", server.url));
    command
        .stdin(Stdio::inherit())
        .env("TERM", "xterm")
        .env("LANG", "C");
    rexpect::session::spawn_command(command, Some(20_000)).unwrap()
}

/// The exit code, from `Exited(Pid(7), 0)`: the type is not exported.
#[cfg(unix)]
fn code(session: &rexpect::session::PtySession) -> i32 {
    let status = format!("{:?}", session.process().wait().unwrap());
    let code = status
        .strip_prefix("Exited(")
        .and_then(|text| text.rsplit([' ', ')']).nth(1)?.parse().ok());
    code.unwrap_or_else(|| panic!("{status}"))
}

#[cfg(unix)]
#[test]
fn on_a_terminal_undo_asks() {
    let server = Server::start(paused());
    let mut no = terminal(&server, "rollout undo my-app-rollout --color never");
    no.exp_string("back to revision 1? This ends the release")
        .unwrap();
    no.send("n").unwrap();
    no.flush().unwrap();
    no.exp_string("not confirmed: nothing was written").unwrap();
    assert_eq!(code(&no), 1);
    assert!(server.writes().is_empty());
    let mut yes = terminal(&server, "rollout undo my-app-rollout --color never");
    yes.exp_string("[y/N]").unwrap();
    yes.send("y").unwrap();
    yes.flush().unwrap();
    yes.exp_string("rolled back to revision 1").unwrap();
    assert_eq!(code(&yes), 0);
    assert_eq!(server.writes().len(), 1);
}

#[cfg(unix)]
#[test]
fn on_a_terminal_a_release_is_drawn() {
    let later = vec![event("MODIFIED", rollout("Healthy", 2, "Completed"), 7)];
    let server = Server::start(moving(
        rollout("Progressing", 2, "StepUpgrade"),
        later,
        app(2, None),
    ));
    let mut live = terminal(&server, "rollout status my-app-rollout");
    live.exp_string("-----").unwrap();
    live.exp_string("complete: all 3 pods run revision my-app-2")
        .unwrap();
    assert_eq!(code(&live), 0);
    let server = Server::start(paused());
    let mut dumb = command(&format!(
        "rollout status my-app-rollout --exit-on-pause -n shop --server {}",
        server.url
    ));
    dumb.stdin(Stdio::inherit()).env("TERM", "dumb");
    let mut dumb = rexpect::session::spawn_command(dumb, Some(20_000)).unwrap();
    let all = dumb.exp_eof().unwrap();
    assert!(
        all.contains("state=AwaitingApproval") && !all.contains('\x1b'),
        "{all:?}"
    );
    assert_eq!(code(&dumb), 5);
}
