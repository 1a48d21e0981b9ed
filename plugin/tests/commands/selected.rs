//! Approving a selection.

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server};
use crate::world::*;

const ALL: &str = "/apis/rollouts.kruise.io/v1beta1/rollouts";

fn named(mut rollout: Value, namespace: &str, name: &str) -> Value {
    rollout["metadata"]["namespace"] = json!(namespace);
    rollout["metadata"]["name"] = json!(name);
    rollout
}

/// Two that wait for an approval, one that updates.
fn three() -> Vec<Value> {
    vec![
        named(rollout("Progressing", 1, "StepPaused"), "shop", "web"),
        named(rollout("Progressing", 1, "StepUpgrade"), "shop", "busy"),
        named(rollout("Progressing", 2, "StepPaused"), "bank", "app"),
    ]
}

fn serve(rollouts: Vec<Value>, now: impl Fn(&str) -> Value + Send + Sync + 'static) -> Server {
    Server::start(
        move |request: &Request| match (request.method.as_str(), request.path.as_str()) {
            ("GET", ALL) => list(rollouts.clone()),
            ("GET", path) => Answer::Object(200, now(path)),
            ("PATCH", _) => Answer::Object(200, json!({"metadata": {"name": "x"}})),
            _ => Answer::Object(405, json!({})),
        },
    )
}

fn of(path: &str) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    three()
        .into_iter()
        .find(|rollout| rollout["metadata"]["name"] == name)
        .unwrap()
}

#[test]
fn those_that_wait_are_asked_about_once_and_approved() {
    let server = serve(three(), of);
    let unasked = call(&server, "rollout approve --all -A");
    assert_eq!(unasked.code, 1);
    assert!(
        unasked
            .err
            .starts_with("error: approve shop/web step 1 of 2, bank/app step 2 of 2: not confirmed\n"),
        "{}",
        unasked.err
    );
    assert!(server.writes().is_empty());
    let outcome = call(&server, "rollout approve --all -A --yes");
    assert_eq!(
        (outcome.code, outcome.out.as_str()),
        (
            0,
            "rollout.rollouts.kruise.io/web approved\nrollout.rollouts.kruise.io/app approved\n"
        ),
        "{}",
        outcome.err
    );
    let paths: Vec<_> = server.writes().into_iter().map(|write| write.path).collect();
    assert_eq!(
        paths,
        [
            "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts/web/status",
            "/apis/rollouts.kruise.io/v1beta1/namespaces/bank/rollouts/app/status",
        ]
    );
}

#[test]
fn what_moves_on_after_the_question_is_not_approved() {
    let server = serve(three(), |path| {
        let mut moved = of(path);
        moved["status"]["canaryStatus"]["currentStepIndex"] = json!(2);
        moved
    });
    let outcome = call(&server, "rollout approve --all -A --yes");
    assert_eq!(
        (outcome.code, outcome.out.as_str()),
        (1, "rollout.rollouts.kruise.io/app approved\n")
    );
    assert!(
        outcome
            .err
            .contains("web: the release is at step 2, not at step 1: nothing is approved"),
        "{}",
        outcome.err
    );
    let server = serve(three(), |path| {
        let mut other = of(path);
        other["status"]["canaryStatus"]["templateId"] = json!("another");
        other
    });
    let outcome = call(&server, "rollout approve --all -A --yes");
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""));
    assert!(
        outcome.err.contains("the release has moved on meanwhile"),
        "{}",
        outcome.err
    );
    assert!(server.writes().is_empty());
}
