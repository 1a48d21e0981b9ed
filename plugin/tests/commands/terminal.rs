//! On a terminal.
#![cfg(unix)]

use std::process::Stdio;

use crate::server::{Answer, Server};
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
fn a_question_draws_nothing_and_ends_by_whatever_comes() {
    let ask = || {
        let server = Server::start(paused());
        let line = format!(
            "echo \"pid $$ \"; exec {} rollout undo my-app-rollout --color never -n shop --server {}",
            command("").get_program().to_str().unwrap(),
            server.url
        );
        let mut shell = std::process::Command::new("/bin/sh");
        shell
            .env_clear()
            .envs([("HOME", "/nonexistent"), ("TERM", "dumb")])
            .args(["-c", &line]);
        let mut session = rexpect::session::spawn_command(shell, Some(20_000)).unwrap();
        let (_, pid) = session.exp_regex("pid [0-9]+ ").unwrap();
        let before = session.exp_string("[y/N] ").unwrap();
        assert!(!before.contains('\x1b'), "{before:?}");
        (
            server,
            Watching {
                session,
                pid: pid.trim()["pid ".len()..].to_owned(),
            },
        )
    };
    let end = |(server, mut asked): (Server, Watching), says: &str, expected: i32| {
        let rest = asked.session.exp_eof().unwrap();
        assert!(!rest.contains('\x1b') && rest.contains(says), "{rest:?}");
        assert_eq!(code(&asked.session), expected);
        assert!(server.writes().is_empty());
    };
    let mut typed = ask();
    typed.1.session.send_control('c').unwrap();
    end(typed, "", 130);
    let mut closed = ask();
    closed.1.session.send_control('d').unwrap();
    end(closed, "not confirmed: nothing was written", 1);
    for (name, expected) in [("INT", 130), ("TERM", 143)] {
        let asked = ask();
        asked.1.signal(name);
        end(asked, "", expected);
    }
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
    live.exp_string("\x1b[?25l").unwrap();
    live.exp_string("-----").unwrap();
    live.exp_string("\x1b[?25h").unwrap();
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

/// A live view in a terminal, and its process.
struct Watching {
    session: rexpect::session::PtySession,
    pid: String,
}

/// A live view that waits for approval, in a terminal of this size.
fn watching(server: &Server, rows: u16, columns: u16) -> Watching {
    let inner = command("");
    let line = format!(
        "stty rows {rows} cols {columns}; echo \"pid $$ \"; exec {} rollout status my-app-rollout --color never -n shop --server {}",
        inner.get_program().to_str().unwrap(),
        server.url
    );
    let mut shell = std::process::Command::new("/bin/sh");
    shell
        .env_clear()
        .envs([
            ("HOME", "/nonexistent"),
            ("TERM", "xterm"),
            ("LANG", "C"),
            ("PATH", "/usr/bin:/bin"),
        ])
        .args(["-c", &line]);
    let mut session = rexpect::session::spawn_command(shell, Some(20_000)).unwrap();
    let (_, pid) = session.exp_regex("pid [0-9]+ ").unwrap();
    session.exp_string("\x1b[?25l").unwrap();
    session.exp_string("AwaitingApproval, step 1 of 2").unwrap();
    Watching {
        session,
        pid: pid.trim()["pid ".len()..].to_owned(),
    }
}

fn resize(session: &rexpect::session::PtySession, rows: u16, columns: u16) {
    let size = ["rows", &rows.to_string(), "cols", &columns.to_string()].map(str::to_owned);
    let stty = std::process::Command::new("stty")
        .args(size)
        .stdin(session.process().get_file_handle().unwrap())
        .status();
    assert!(stty.unwrap().success());
}

impl Watching {
    fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill")
            .args(["-s", name, &self.pid])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the kernel says that the process has stopped.
    #[cfg(target_os = "linux")]
    fn wait_until_stopped(&self) {
        let file = format!("/proc/{}/stat", self.pid);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(&file).unwrap();
            if text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{text}");
            std::thread::yield_now();
        }
    }

    /// Waits for the end of a view that is left in order. Returns its exit code.
    fn ends(mut self) -> i32 {
        self.session.exp_string("\x1b[?25h").unwrap();
        let rest = self.session.exp_eof().unwrap();
        assert!(!rest.contains('\x1b'), "{rest:?}");
        code(&self.session)
    }
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    for (name, expected) in [("INT", 130), ("TERM", 143)] {
        let server = Server::start(paused());
        let watching = watching(&server, 24, 80);
        watching.signal(name);
        assert_eq!(watching.ends(), expected);
    }
    let server = Server::start(paused());
    let mut typed = watching(&server, 24, 80);
    typed.session.send_control('c').unwrap();
    assert_eq!(typed.ends(), 130);
}

#[test]
fn another_size_is_another_frame() {
    let server = Server::start(paused());
    let mut watching = watching(&server, 24, 80);
    let session = &mut watching.session;
    session.exp_string("total").unwrap();
    session
        .exp_string("approve rollout/my-app-rollout -n shop")
        .unwrap();
    resize(session, 3, 21);
    let frame = session.exp_string("kubectl kruise roll~").unwrap();
    let frame = frame.rsplit("\x1b[J").next().unwrap();
    assert_eq!(frame, "= AwaitingApproval,~\r\n 1 > 1     1/1, 1 r~\r\n");
    resize(session, 24, 80);
    session.exp_string("total").unwrap();
    watching.signal("TERM");
    assert_eq!(watching.ends(), 143);
}

#[cfg(target_os = "linux")]
#[test]
fn a_view_that_was_stopped_is_drawn_again_when_it_goes_on() {
    let server = Server::start(paused());
    let mut watching = watching(&server, 24, 80);
    // The second stop is like the first one.
    for typed in [true, false] {
        if typed {
            watching.session.send_control('z').unwrap();
        } else {
            watching.signal("TSTP");
        }
        watching.session.exp_string("\x1b[?25h").unwrap();
        watching.wait_until_stopped();
        watching.signal("CONT");
        watching.session.exp_string("\x1b[?25l").unwrap();
        watching
            .session
            .exp_string("AwaitingApproval, step 1 of 2")
            .unwrap();
    }
    watching.session.send_control('c').unwrap();
    assert_eq!(watching.ends(), 130);
}

#[test]
fn a_view_without_colour_has_none() {
    let server = Server::start(paused());
    let line = format!(
        "rollout status my-app-rollout --timeout 1s -n shop --server {}",
        server.url
    );
    for (name, value, flag) in [
        ("NO_COLOR", "1", ""),
        ("TERM", "xterm", " --color never"),
        ("TERM", "dumb", ""),
    ] {
        let mut command = command(&format!("{line}{flag}"));
        command
            .stdin(Stdio::inherit())
            .env("TERM", "xterm")
            .env(name, value);
        let mut session = rexpect::session::spawn_command(command, Some(20_000)).unwrap();
        let all = session.exp_eof().unwrap();
        assert!(all.contains("AwaitingApproval"), "{all:?}");
        // Colours end in m; moving about does not.
        let colours = all.split("\x1b[").skip(1).filter(|rest| {
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
                .starts_with('m')
        });
        assert_eq!(colours.count(), 0, "{name}={value}: {all:?}");
        assert!(value != "dumb" || !all.contains('\x1b'), "{all:?}");
    }
}

#[test]
fn an_outage_is_in_the_head_of_the_view() {
    let all = paused();
    let lists = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |request| match request.path.as_str() {
        ROLLOUTS if request.is_watch() => Answer::Hangup,
        ROLLOUTS if lists.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0 => Answer::Hangup,
        _ => all(request),
    });
    let mut watching = watching(&server, 24, 80);
    watching.session.exp_string("reconnecting 1s").unwrap();
    watching.session.exp_string("reconnecting 2s").unwrap();
    watching.signal("TERM");
    assert_eq!(watching.ends(), 143);
}
