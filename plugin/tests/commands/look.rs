//! status, one look.

use serde_json::{Value, json};

use crate::server::{Answer, Server, failure};
use crate::world::*;

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
