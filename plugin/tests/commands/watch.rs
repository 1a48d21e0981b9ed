//! status, watching.

use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::json;

use crate::server::{Answer, Server};
use crate::world::*;

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
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
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
    assert_eq!(unread(&line), (Some(0), String::new()));
}
