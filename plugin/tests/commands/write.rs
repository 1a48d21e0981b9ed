//! approve, undo, label.

use std::sync::{Arc, Mutex};

use kruise_rollout::names;
use serde_json::json;

use crate::server::{Answer, Server};
use crate::world::*;

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
        unknown.code == 1 && unknown.err.contains("no revision 9 is recorded: looked at ControllerRevisions of the workload (none), templates recorded for the Rollout (1, 2)"),
        "{}",
        unknown.err
    );
}
