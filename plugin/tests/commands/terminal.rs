//! On a terminal.
#![cfg(unix)]

use std::process::Stdio;

use crate::server::Server;
use crate::world::*;

/// A terminal with the program in it.
fn terminal(server: &Server, arguments: &str) -> rexpect::session::PtySession {
    let mut command = command(&format!("{arguments} -n shop --server {}", server.url));
    command
        .stdin(Stdio::inherit())
        .env("TERM", "xterm")
        .env("LANG", "C");
    rexpect::session::spawn_command(command, Some(20_000)).unwrap()
}

/// The exit code, from `Exited(Pid(7), 0)`: the type is not exported.
fn code(session: &rexpect::session::PtySession) -> i32 {
    let status = format!("{:?}", session.process().wait().unwrap());
    let code = status
        .strip_prefix("Exited(")
        .and_then(|text| text.rsplit([' ', ')']).nth(1)?.parse().ok());
    code.unwrap_or_else(|| panic!("{status}"))
}

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

#[test]
fn a_question_that_is_interrupted_leaves_the_cursor() {
    let server = Server::start(paused());
    let mut session = terminal(&server, "rollout undo my-app-rollout --color always");
    session.exp_string("\x1b[?25l").unwrap();
    session.send_control('c').unwrap();
    session.exp_string("\x1b[?25h").unwrap();
    session.exp_string("interrupted").unwrap();
    assert_eq!(code(&session), 130);
    assert!(server.writes().is_empty());
}

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
