//! Following releases in lines and reports: conditions and exit codes.

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server, failure};
use crate::world::*;

pub(crate) fn upgrading() -> Value {
    rollout("Progressing", 2, "StepUpgrade")
}

pub(crate) fn complete() -> Value {
    rollout("Healthy", 2, "Completed")
}

fn rolled_back() -> Value {
    let mut back = complete();
    back["status"]["conditions"] =
        json!([{"type": "Succeeded", "status": "False", "reason": "RolledBack", "message": ""}]);
    back
}

/// The release is complete once it is watched.
fn completing() -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    moving(upgrading(), vec![event("MODIFIED", complete(), 7)], app(2, None))
}

fn reports(outcome: &Outcome) -> Vec<Value> {
    outcome
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn r69_each_state_has_its_exit_code() {
    let crashing = || {
        let pods = vec![
            pod(0, 1, None),
            pod(1, 1, None),
            pod(2, 2, Some("CrashLoopBackOff")),
        ];
        Server::start(world(
            rollout("Progressing", 1, "StepUpgrade"),
            app(2, Some(2)),
            pods,
        ))
    };
    let done = || Server::start(world(complete(), app(2, None), Vec::new()));
    let still = || Server::start(world(upgrading(), app(2, None), Vec::new()));
    let back = || Server::start(world(rolled_back(), app(1, None), Vec::new()));
    let forbidden = || {
        let all = paused();
        Server::start(move |request| match request.path.as_str() {
            ROLLOUT | ROLLOUTS => failure(403, "Forbidden", "rollouts is forbidden"),
            _ => all(request),
        })
    };
    let table = [
        ("done", done(), [0, 0, 0, 0]),
        ("upgrading", still(), [0, 4, 4, 4]),
        ("paused", Server::start(paused()), [0, 4, 4, 5]),
        ("degraded", crashing(), [3, 3, 3, 3]),
        ("rolled back", back(), [6, 6, 6, 6]),
        ("no permission", forbidden(), [1, 1, 1, 1]),
        (
            "not found",
            Server::start(|_| failure(404, "NotFound", "not found")),
            [1, 1, 1, 1],
        ),
    ];
    for (state, server, codes) in table {
        let ways = [
            "--watch=false",
            "--timeout=1s",
            "--timeout=1",
            "--exit-on-pause --timeout=1s",
        ];
        for (way, code) in ways.into_iter().zip(codes) {
            let line = format!("rollout status rollout/my-app-rollout {way} --fail-fast=0");
            let outcome = call(&server, &line);
            assert_eq!(
                outcome.code, code,
                "{state} {way}: {}{}",
                outcome.out, outcome.err
            );
            let says_why = outcome.err.contains("rror");
            assert_eq!(says_why, matches!(code, 1 | 4), "{state} {way}: {}", outcome.err);
        }
    }
}

#[test]
fn conditions_other_than_the_end() {
    for (condition, code) in [
        ("paused", 0),
        ("step=1", 0),
        ("step=2", 4),
        ("approved", 4),
        ("any-change", 4),
        ("rolled-back", 4),
    ] {
        let server = Server::start(paused());
        for command in [
            "rollout status my-app-rollout --until",
            "rollout wait my-app-rollout --for",
        ] {
            let timeout = if code == 0 { "20s" } else { "500ms" };
            let outcome = call(&server, &format!("{command} {condition} --timeout {timeout}"));
            assert_eq!(outcome.code, code, "{condition}: {}{}", outcome.out, outcome.err);
        }
    }
    let approved = vec![event("MODIFIED", rollout("Progressing", 2, "StepUpgrade"), 7)];
    for condition in ["approved", "any-change", "step=2"] {
        let first = rollout("Progressing", 1, "StepPaused");
        let server = Server::start(moving(first, approved.clone(), app(2, Some(2))));
        let outcome = call(
            &server,
            &format!("rollout wait my-app-rollout --for {condition} --timeout 20s"),
        );
        assert_eq!(outcome.code, 0, "{condition}: {}{}", outcome.out, outcome.err);
    }
    let server = Server::start(completing());
    let outcome = call(&server, "rollout wait my-app-rollout --for rolled-back");
    assert_eq!(outcome.code, 3, "{}", outcome.out);
}

#[test]
fn the_release_of_another_revision_is_not_the_one_that_was_meant() {
    for (revision, code) in [("my-app-2", 4), ("2", 4), ("my-app-3", 6), ("1", 6)] {
        let server = Server::start(paused());
        let line = format!("rollout status my-app-rollout --revision {revision} --timeout 300ms");
        let outcome = call(&server, &line);
        assert_eq!(outcome.code, code, "{revision}: {}{}", outcome.out, outcome.err);
    }
}

#[test]
fn reports_are_one_a_line_and_the_last_one_says_so() {
    for format in ["-o json", "--view json"] {
        let outcome = call(
            &Server::start(completing()),
            &format!("rollout status my-app-rollout {format}"),
        );
        let reports = reports(&outcome);
        let [first, last] = reports.as_slice() else {
            panic!("{}", outcome.out)
        };
        assert_eq!((&first["state"], first.get("final")), (&json!("Upgrading"), None));
        assert_eq!(
            (
                &last["state"],
                &last["final"],
                &last["verdict"],
                &last["exitCode"]
            ),
            (&json!("Complete"), &json!(true), &json!("Complete"), &json!(0))
        );
    }
    let server = Server::start(paused());
    let outcome = call(&server, "rollout status my-app-rollout -o json --exit-on-pause");
    let last = &reports(&outcome)[0];
    assert_eq!(
        (outcome.code, &last["exitCode"]),
        (5, &json!(5)),
        "{}",
        outcome.out
    );
    assert_eq!(last["verdict"], "AwaitingApproval");

    let timed = call(&server, "rollout status my-app-rollout -o json --timeout 300ms");
    let last = reports(&timed).pop().unwrap();
    assert_eq!(
        (timed.code, &last["exitCode"], &last["final"]),
        (4, &json!(4), &json!(true))
    );
    assert!(last["error"].as_str().unwrap().contains("timed out"), "{last}");

    let gone = vec![event("DELETED", upgrading(), 7)];
    let server = Server::start(moving(upgrading(), gone, app(2, None)));
    let deleted = call(&server, "rollout status my-app-rollout -o json");
    let last = reports(&deleted).pop().unwrap();
    assert_eq!((deleted.code, &last["exitCode"]), (1, &json!(1)));
    assert!(last["error"].as_str().unwrap().ends_with("was deleted"), "{last}");

    let yaml = call(
        &Server::start(completing()),
        "rollout status my-app-rollout -o yaml",
    );
    assert!(
        yaml.out.starts_with("---\n") && yaml.out.contains("\nfinal: true"),
        "{}",
        yaml.out
    );
}

#[test]
fn several_are_followed_together_and_the_gravest_outcome_counts() {
    let server = Server::start(paused());
    let outcome = call(&server, "rollout status my-app-rollout gone --exit-on-pause");
    assert_eq!(outcome.code, 1, "{}{}", outcome.out, outcome.err);
    assert!(outcome.err.contains("\"gone\" not found"), "{}", outcome.err);
    assert!(
        outcome.out.contains("waiting for approval of step 1 of 2"),
        "{}",
        outcome.out
    );

    // The second one is rolled back at once, the first one is complete later.
    let first = completing();
    let second = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts/other";
    let server = Server::start(move |request| {
        let mut other = rolled_back();
        other["metadata"]["name"] = json!("other");
        match request.path.as_str() {
            path if path == second => Answer::Object(200, other),
            ROLLOUTS if request.query.contains("other") && request.is_watch() => Answer::Watch(Vec::new()),
            ROLLOUTS if request.query.contains("other") => list(vec![other]),
            _ => first(request),
        }
    });
    let outcome = call(&server, "rollout status my-app-rollout other");
    assert_eq!(outcome.code, 6, "{}{}", outcome.out, outcome.err);
    let verdicts: Vec<_> = outcome
        .out
        .lines()
        .filter(|line| line.starts_with("rollout."))
        .collect();
    assert_eq!(verdicts.len(), 2, "{}", outcome.out);
    assert!(
        verdicts[0].contains("/other rolled back") && verdicts[1].contains("rollout complete"),
        "{verdicts:?}"
    );
}

#[test]
fn new_events_are_lines_too() {
    let happened = |uid: &str, message: &str| {
        json!({"metadata": {"uid": uid, "name": uid, "namespace": "shop", "resourceVersion": "6"},
            "involvedObject": {"kind": "Rollout", "name": "my-app-rollout"}, "type": "Warning",
            "reason": "Stalled", "message": message, "count": 2, "lastTimestamp": "2026-01-05T12:00:02Z"})
    };
    let all = paused();
    let server = Server::start(move |request| match request.path.as_str() {
        EVENTS if !request.query.contains("involvedObject.uid%3Dr&") => Answer::Watch(Vec::new()),
        EVENTS if request.is_watch() => {
            Answer::Watch(vec![event("ADDED", happened("b", "no \"quota\"\u{1b}[2J"), 7)])
        }
        EVENTS => list(vec![happened("a", "old")]),
        _ => all(request),
    });
    let outcome = call(&server, "rollout status my-app-rollout --timeout 1s");
    let events: Vec<_> = outcome
        .out
        .lines()
        .filter(|line| line.contains(" event="))
        .collect();
    assert_eq!(
        events,
        [
            "2026-01-05T12:00:02Z my-app-rollout event=Stalled type=Warning object=Rollout/my-app-rollout count=2 \
          message=\"no \\\"quota\\\"\\\\u{1b}[2J\""
        ]
    );
    let without = call(&server, "rollout status my-app-rollout --timeout 1s --events 0");
    assert!(!without.out.contains(" event="), "{}", without.out);
}

#[test]
fn r75_whatever_is_missing_there_is_no_panic() {
    let mut young = rollout("", 0, "");
    young.as_object_mut().unwrap().remove("status");
    let server = Server::start(world(young.clone(), app(1, None), Vec::new()));
    let outcome = call(&server, "rollout status my-app-rollout --timeout 300ms");
    assert_eq!(outcome.code, 4, "{}{}", outcome.out, outcome.err);
    assert!(outcome.out.contains("state=Idle"), "{}", outcome.out);

    let all = world(young, app(1, None), Vec::new());
    let server = Server::start(move |request| match request.path.as_str() {
        APP | APPS => failure(404, "NotFound", "not found"),
        _ => all(request),
    });
    let outcome = call(&server, "rollout status my-app-rollout --timeout 300ms");
    assert_eq!(outcome.code, 4, "{}{}", outcome.out, outcome.err);
    assert!(outcome.out.contains("state=WorkloadMissing"), "{}", outcome.out);

    let mut large = app(2, Some(400));
    large["spec"]["replicas"] = json!(500);
    let pods = (0..500)
        .map(|ordinal| pod(ordinal, if ordinal < 400 { 1 } else { 2 }, None))
        .collect();
    let server = Server::start(world(rollout("Progressing", 1, "StepUpgrade"), large, pods));
    let outcome = call(&server, "rollout status my-app-rollout --timeout 3s");
    assert_eq!(outcome.code, 4, "{}", outcome.err);
    assert!(outcome.out.contains("ready=500/500"), "{}", outcome.out);
}

#[test]
fn there_is_no_escape_code_where_nobody_wants_one() {
    let server = Server::start(paused());
    let said = |set: &[(&str, &str)], flags: &str| {
        let line = format!(
            "rollout status my-app-rollout --watch=false -n shop --server {}{flags}",
            server.url
        );
        let output = command(&line).envs(set.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        (String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
            .contains('\x1b')
    };
    assert!(!said(&[], ""));
    assert!(!said(&[("TERM", "xterm-256color")], ""));
    assert!(said(&[("CLICOLOR_FORCE", "1")], ""));
    assert!(said(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], ""));
    assert!(!said(&[("CLICOLOR_FORCE", "0")], ""));
    assert!(!said(&[("CLICOLOR_FORCE", "1")], " --color=never"));
    assert!(said(&[("NO_COLOR", "1")], " --color=always"));
    let ascii = call(&server, "rollout status my-app-rollout --watch=false --ascii");
    assert!(
        ascii.out.is_ascii() && !ascii.out.contains('\x1b'),
        "{}",
        ascii.out
    );
    let live = call(&server, "rollout status my-app-rollout --view live");
    assert_eq!(live.code, 2, "{}", live.err);
    assert!(live.err.contains("needs a terminal"), "{}", live.err);
}

#[cfg(target_os = "linux")]
#[test]
fn r75_a_closed_pipe_ends_a_watch_that_has_nothing_to_say() {
    use std::io::{BufRead as _, BufReader, Read as _};
    let server = Server::start(paused());
    for format in ["", " -o json"] {
        let line = format!(
            "rollout status my-app-rollout{format} -n shop --server {}",
            server.url
        );
        let mut child = command(&line)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        assert!(first.contains("AwaitingApproval"), "{first}");
        drop(out);
        let mut talk = String::new();
        child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
        assert_eq!((child.wait().unwrap().code(), talk.as_str()), (Some(0), ""));
    }
}
