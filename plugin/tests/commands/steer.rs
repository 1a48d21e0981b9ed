//! How approvals are meant, pause, resume, jump, and what is printed of a change.

use kruise_rollout::names;
use serde_json::{Value, json};

use crate::server::{Answer, Request, Server, failure};
use crate::world::*;

const SUBJECT: &str = "rollout.rollouts.kruise.io/my-app-rollout";

/// At the timed pause of the first step.
fn timed() -> Value {
    let mut timed = rollout("Progressing", 1, "StepPaused");
    timed["spec"]["strategy"]["canary"]["steps"][0]["pause"] = json!({"duration": 300});
    timed
}

fn serve(rollout: Value) -> Server {
    Server::start(world(rollout, app(2, Some(2)), Vec::new()))
}

#[test]
fn a_timed_pause_is_left_alone_unless_that_is_meant() {
    let server = serve(timed());
    for line in [
        "rollout approve my-app-rollout",
        "rollout approve my-app-rollout --step 1",
    ] {
        let outcome = call(&server, line);
        assert_eq!((outcome.code, outcome.out), (0, format!("{SUBJECT} unchanged\n")));
        assert_eq!(
            outcome.err,
            format!(
                "{SUBJECT}: step 1 pauses for 300 s and goes on by itself; to end the pause now: kubectl kruise rollout approve \
                 rollout/my-app-rollout -n shop --step 1 --skip-timer\n"
            )
        );
    }
    assert_eq!(call(&server, "rollout approve my-app-rollout --strict").code, 1);
    assert!(server.writes().is_empty());
    for line in [
        "rollout approve my-app-rollout --skip-timer",
        "rollout promote my-app-rollout",
    ] {
        let outcome = call(&server, line);
        assert_eq!((outcome.code, outcome.out), (0, format!("{SUBJECT} approved\n")));
    }
    assert_eq!(server.writes().len(), 2);
}

#[test]
fn only_the_step_and_the_revision_that_are_named() {
    let server = serve(rollout("Progressing", 2, "StepPaused"));
    for (flags, code, out, err) in [
        (
            "--step 1",
            0,
            "unchanged",
            "step 1 is behind, the release is at step 2",
        ),
        ("--step 1 --strict", 1, "unchanged", "step 1 is behind"),
        (
            "--step 3",
            1,
            "",
            "the release is at step 2, not at step 3: nothing is approved",
        ),
        (
            "--revision 7777",
            1,
            "",
            "revision my-app-2 is being released, not 7777: nothing is approved",
        ),
    ] {
        let outcome = call(&server, &format!("rollout approve my-app-rollout {flags}"));
        assert_eq!(outcome.code, code, "{flags}: {}", outcome.err);
        assert!(
            outcome.out.contains(out) && outcome.err.contains(err),
            "{flags}: {}",
            outcome.err
        );
    }
    assert!(server.writes().is_empty());
    let outcome = call(
        &server,
        "rollout approve my-app-rollout --step 2 --revision my-app-2",
    );
    assert_eq!(outcome.code, 0, "{}", outcome.err);
}

#[test]
fn what_is_printed_of_a_change() {
    let server = serve(rollout("Progressing", 1, "StepPaused"));
    let print = |format: &str| {
        let outcome = call(
            &server,
            &format!("rollout pause my-app-rollout --dry-run=client -o {format}"),
        );
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        outcome.out
    };
    assert_eq!(print("name"), format!("{SUBJECT}\n"));
    let object: Value = serde_json::from_str(&print("json")).unwrap();
    assert_eq!(object["spec"]["strategy"]["paused"], true);
    assert!(print("yaml").starts_with("---\n"));
    assert!(server.writes().is_empty());
    // What is printed is what is sent, and it is not sent when it is printed.
    let shown = call(&server, "rollout pause my-app-rollout -o patch").out;
    assert!(server.writes().is_empty());
    let (head, body) = shown.split_once("\n\n").unwrap();
    assert_eq!(
        head,
        format!("PATCH {ROLLOUT}?fieldManager=kubectl-kruise\nContent-Type: application/json-patch+json")
    );
    call(&server, "rollout pause my-app-rollout");
    let sent = &server.writes()[0];
    assert_eq!(
        sent.body,
        json!([{"op": "test", "path": "/metadata/uid", "value": "r"},
            {"op": "add", "path": "/spec/strategy/paused", "value": true}])
    );
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), sent.body);
    assert_eq!(
        call(&server, "rollout pause my-app-rollout --field-manager=me").code,
        0
    );
    assert!(server.writes()[1].query.contains("fieldManager=me"));
}

#[test]
fn pause_and_resume_can_be_repeated() {
    let mut paused = rollout("Progressing", 1, "StepUpgrade");
    paused["spec"]["strategy"]["paused"] = json!(true);
    let server = serve(paused);
    let again = call(&server, "rollout pause my-app-rollout");
    assert_eq!(
        (again.code, again.out),
        (0, format!("{SUBJECT} already paused\n"))
    );
    assert!(server.writes().is_empty());
    let resumed = call(&server, "rollout resume my-app-rollout");
    assert_eq!((resumed.code, resumed.out), (0, format!("{SUBJECT} resumed\n")));
    let moving = serve(rollout("Progressing", 1, "StepUpgrade"));
    let again = call(&moving, "rollout resume my-app-rollout");
    assert_eq!((again.code, again.out), (0, format!("{SUBJECT} not paused\n")));
    let waiting = serve(rollout("Progressing", 1, "StepPaused"));
    let other = call(&waiting, "rollout resume my-app-rollout");
    assert_eq!(other.code, 1);
    assert!(
        other
            .err
            .ends_with("hint: kubectl kruise rollout approve rollout/my-app-rollout -n shop --step 1\n"),
        "{}",
        other.err
    );
}

#[test]
fn disabling_in_mid_release_is_asked_about() {
    let server = serve(rollout("Progressing", 1, "StepPaused"));
    let unasked = call(&server, "rollout disable my-app-rollout");
    assert_eq!(unasked.code, 1);
    assert!(server.writes().is_empty());
    let sure = call(&server, "rollout disable my-app-rollout --yes");
    assert_eq!((sure.code, sure.out), (0, format!("{SUBJECT} disabled\n")));
    let at_rest = serve(rollout("Healthy", 2, "Completed"));
    assert_eq!(call(&at_rest, "rollout disable my-app-rollout").code, 0);
    assert_eq!(
        call(&at_rest, "rollout enable my-app-rollout").out,
        format!("{SUBJECT} already enabled\n")
    );
}

#[test]
fn a_jump_that_the_policy_denies_is_told_with_the_way_on() {
    let denied = format!(
        "rollouts.rollouts.kruise.io \"my-app-rollout\" is forbidden: ValidatingAdmissionPolicy '{}' denied request: no",
        names::STATUS_POLICY
    );
    let rest = world(
        rollout("Progressing", 1, "StepPaused"),
        app(2, Some(2)),
        Vec::new(),
    );
    let server = Server::start(move |request: &Request| match request.method.as_str() {
        "PATCH" => failure(403, "Forbidden", &denied),
        _ => rest(request),
    });
    let outcome = call(&server, "rollout retry my-app-rollout");
    assert_eq!(outcome.code, 1);
    assert_eq!(
        outcome.err,
        format!(
            "error: {SUBJECT}: people may approve the steps of a release here, and not jump\n\
             hint: kubectl kruise rollout approve rollout/my-app-rollout -n shop, or start the controller with --approvers-may-jump\n"
        )
    );
    let body = &server.writes()[0].body;
    assert_eq!(
        body.as_array().unwrap().last().unwrap(),
        &json!({"op": "add", "path": "/status/canaryStatus/nextStepIndex", "value": 1})
    );
}

#[test]
fn a_right_that_is_missing_is_named_with_a_role_that_grants_it() {
    let rest = paused();
    let server = Server::start(move |request: &Request| match request.method.as_str() {
        "PATCH" => failure(
            403,
            "Forbidden",
            "rollouts.rollouts.kruise.io \"my-app-rollout\" is forbidden: User \"eve\" cannot patch resource \"rollouts/status\"",
        ),
        _ => rest(request),
    });
    let outcome = call(&server, "rollout approve my-app-rollout");
    assert_eq!(outcome.code, 1);
    let (_, role) = outcome.err.split_once("such as this one:\n").unwrap();
    assert_eq!(
        role,
        "apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: Role\n\
         metadata: {name: kubectl-kruise-patch-rollouts, namespace: shop}\n\
         rules:\n\
         - {apiGroups: [rollouts.kruise.io], resources: [rollouts/status], verbs: [patch]}\n"
    );
    assert!(
        outcome
            .err
            .contains("the right to patch rollouts.rollouts.kruise.io/status in namespace shop"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_server_without_json_patch_gets_what_differs_and_the_version_it_was_read_in() {
    let rest = paused();
    let server = Server::start(move |request: &Request| match request.body {
        Value::Array(_) => failure(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format",
        ),
        _ => rest(request),
    });
    let outcome = call(&server, "rollout approve my-app-rollout");
    assert_eq!(
        (outcome.code, outcome.out),
        (0, format!("{SUBJECT} approved\n")),
        "{}",
        outcome.err
    );
    assert_eq!(
        server.writes()[1].body,
        json!({"metadata": {"resourceVersion": "1"}, "status": {"canaryStatus": {"currentStepState": "StepReady"}}})
    );
}

#[test]
fn a_reason_is_kept_and_stands_in_no_approvals_way() {
    let rest = paused();
    let server = Server::start(move |request: &Request| match request.path.as_str() {
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => Answer::Object(
            201,
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
                "status": {"userInfo": {"username": "alice"}}}),
        ),
        _ => rest(request),
    });
    let mut command = command("rollout approve my-app-rollout -n shop --reason");
    let output = command
        .args(["graphs are flat", "--server", &server.url])
        .output()
        .unwrap();
    assert!(output.status.success());
    let annotated = server
        .writes()
        .into_iter()
        .find(|write| write.path == ROLLOUT)
        .unwrap();
    let text = annotated.body.to_string();
    for part in [
        "alice",
        "graphs are flat",
        names::APPROVED_AT.rsplit('/').next().unwrap(),
    ] {
        assert!(text.contains(part), "{text}");
    }
    let rest = paused();
    let server =
        Server::start(
            move |request: &Request| match (request.method.as_str(), request.path.as_str()) {
                ("POST", _) | ("PATCH", ROLLOUT) => failure(403, "Forbidden", "no"),
                _ => rest(request),
            },
        );
    let outcome = call(&server, "rollout approve my-app-rollout --reason flat");
    assert_eq!(outcome.code, 0);
    assert!(
        outcome.err.contains("the reason is not recorded"),
        "{}",
        outcome.err
    );
}
