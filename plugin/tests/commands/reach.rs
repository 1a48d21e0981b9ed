//! Following releases on servers that come and go, answer late or refuse.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::follow::{complete, upgrading};
use crate::server::{Answer, Server, failure};
use crate::world::*;

#[test]
fn r70_watches_that_end_break_and_expire_are_taken_up_again() {
    let all = world(upgrading(), app(2, None), Vec::new());
    let (watches, lists) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let server = Server::start(move |request| match request.path.as_str() {
        ROLLOUTS if request.is_watch() => match watches.fetch_add(1, Ordering::Relaxed) {
            0..3 => Answer::Ended(Vec::new()),
            3 | 4 => Answer::Cut(Vec::new()),
            5 => Answer::Ended(vec![json!({"type": "ERROR", "object":
                {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}})]),
            6 => failure(410, "Expired", "too old resource version"),
            7 => failure(500, "InternalError", "etcd is somewhere else"),
            _ => Answer::Watch(vec![event("MODIFIED", complete(), 9)]),
        },
        ROLLOUTS if lists.fetch_add(1, Ordering::Relaxed) == 3 => failure(429, "TooManyRequests", "later"),
        APPS | PODS if request.is_watch() => Answer::Cut(Vec::new()),
        _ => all(request),
    });
    let outcome = call(&server, "rollout status my-app-rollout --timeout 60s");
    assert_eq!(outcome.code, 0, "{}{}", outcome.out, outcome.err);
    assert!(
        outcome
            .out
            .ends_with("complete: all 3 pods run revision my-app-2\n"),
        "{}",
        outcome.out
    );
}

#[test]
fn r70_a_server_that_goes_away_is_waited_for_and_said_once() {
    let all = world(upgrading(), app(2, None), Vec::new());
    let lists = AtomicUsize::new(0);
    let server = Server::start(move |request| match request.path.as_str() {
        ROLLOUTS if request.is_watch() => match lists.load(Ordering::Relaxed) {
            0 | 1 => Answer::Hangup,
            _ => Answer::Watch(vec![event("MODIFIED", complete(), 9)]),
        },
        ROLLOUTS if (1..6).contains(&lists.fetch_add(1, Ordering::Relaxed)) => Answer::Hangup,
        _ => all(request),
    });
    let outcome = call(&server, "rollout status my-app-rollout --timeout 60s");
    assert_eq!(outcome.code, 0, "{}{}", outcome.out, outcome.err);
    assert_eq!(
        outcome.err.matches("; trying again").count(),
        1,
        "{}",
        outcome.err
    );
    assert_eq!(
        outcome.err.matches("connected again").count(),
        1,
        "{}",
        outcome.err
    );
}

#[test]
fn what_may_be_read_and_not_watched_is_read_now_and_then() {
    let looks = AtomicUsize::new(0);
    let all = world(upgrading(), app(2, Some(2)), Vec::new());
    let server = Server::start(move |request| match request.path.as_str() {
        ROLLOUTS | APPS => failure(403, "Forbidden", "may not list or watch"),
        PODS if request.is_watch() => failure(403, "Forbidden", "may not watch"),
        EVENTS => failure(403, "Forbidden", "may not watch"),
        ROLLOUT if looks.fetch_add(1, Ordering::Relaxed) > 1 => Answer::Object(200, complete()),
        APP if looks.load(Ordering::Relaxed) > 1 => Answer::Object(200, app(2, None)),
        _ => all(request),
    });
    let outcome = call(
        &server,
        "rollout status my-app-rollout --interval 1s --timeout 60s",
    );
    assert_eq!(outcome.code, 0, "{}{}", outcome.out, outcome.err);
    assert!(outcome.out.contains("state=Complete"), "{}", outcome.out);
    let mut notes: Vec<_> = outcome.err.lines().collect();
    notes.sort_unstable();
    assert_eq!(
        notes,
        [
            "events are not shown: you may not watch them",
            "pods may not be watched: read every 1 s instead",
            "the Rollout may not be watched: read every 1 s instead",
            "the workload may not be watched: read every 1 s instead",
        ]
    );
}

#[test]
fn a_server_that_says_nothing_does_not_outlast_the_timeout() {
    for silent in [ROLLOUT, APP, PODS] {
        let all = paused();
        let server = Server::start(move |request| {
            if request.path == silent && !request.is_watch() {
                Answer::Silence
            } else {
                all(request)
            }
        });
        let outcome = call(&server, "rollout status my-app-rollout --timeout 500ms");
        assert_eq!(outcome.code, 4, "{silent}: {}{}", outcome.out, outcome.err);
    }
}

#[test]
fn one_of_the_same_name_is_another_one() {
    let mut other = upgrading();
    other["metadata"]["uid"] = json!("r2");
    let server = Server::start(moving(
        upgrading(),
        vec![event("MODIFIED", other, 7)],
        app(2, None),
    ));
    let outcome = call(&server, "rollout status my-app-rollout");
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.ends_with("was deleted\n"), "{}", outcome.err);
}
