//! Releases that are watched from their beginning to their end: in lines, on a terminal, by somebody who may hardly anything.

use std::process::Stdio;

use jiff::Timestamp;
use rexpect::session::{PtySession, spawn_command};
use serde_json::{Value, json};
use support::{Component, ControlPlane, Identity, Installation, Options, installed};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use crate::plugin::kruise;
use crate::scene::{ROLLOUT, SOON, Scene, walk_steps};

/// A watch that writes lines.
struct Log {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
}

impl Log {
    fn start(scene: &Scene<'_>, who: Identity, flags: &[&str]) -> Self {
        let mut command = scene.namespace.kubectl(who).unwrap();
        command.args(["kruise", "rollout", "status", ROLLOUT]).args(flags);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Reads until a line that has this in it.
    async fn until(&mut self, text: &str) {
        loop {
            let line = timeout(SOON, self.lines.next_line()).await;
            let Ok(Ok(Some(line))) = line else {
                panic!("no {text:?} after {:#?}: {line:?}", self.seen)
            };
            self.seen.push(line);
            if self.seen.last().is_some_and(|line| line.contains(text)) {
                return;
            }
        }
    }

    /// Reads to the end. Returns the exit code, all lines, and what was said on stderr.
    async fn end(mut self) -> (i32, Vec<String>, String) {
        while let Some(line) = timeout(SOON, self.lines.next_line()).await.unwrap().unwrap() {
            self.seen.push(line);
        }
        let mut talk = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut talk).await.unwrap();
        let status = self.child.wait().await.unwrap();
        (status.code().unwrap(), self.seen, talk)
    }
}

/// The states that the lines of changes speak of, each once; checks that every line is one of the three kinds that there are.
fn states(lines: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    let (last, changes) = lines.split_last().unwrap();
    assert!(
        last.starts_with(&format!("rollout.rollouts.kruise.io/{ROLLOUT} ")),
        "{last}"
    );
    for line in changes {
        assert!(!line.contains('\u{1b}'), "{line:?}");
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.len() == 20 && time.parse::<Timestamp>().is_ok(), "{line}");
        let rest = rest
            .strip_prefix(&format!("{ROLLOUT} "))
            .unwrap_or_else(|| panic!("{line}"));
        if rest.starts_with("event=") {
            continue;
        }
        let state = rest
            .split(' ')
            .find_map(|word| word.strip_prefix("state="))
            .unwrap();
        if states.last().map(String::as_str) != Some(state) {
            states.push(state.to_owned());
        }
    }
    states
}

/// The same watch on a terminal of 80 columns and 24 rows.
fn terminal(scene: &Scene<'_>, who: Identity, flags: &str) -> PtySession {
    let inner = scene.namespace.kubectl(who).unwrap();
    let inner = inner.as_std();
    let mut shell = std::process::Command::new("/bin/sh");
    for (name, value) in inner.get_envs() {
        shell.env(name, value.unwrap());
    }
    let line = format!(
        "stty rows 24 cols 80; exec {} kruise rollout status {ROLLOUT} {flags}",
        inner.get_program().to_str().unwrap()
    );
    shell
        .env("TERM", "xterm")
        .env("LANG", "C")
        .env_remove("LC_ALL")
        .args(["-c", &line]);
    let limit = u64::try_from(SOON.as_millis()).unwrap();
    spawn_command(shell, Some(limit)).unwrap()
}

/// What is on the terminal after the last frame, and that the cursor is there again.
fn ends(mut session: PtySession, expected: i32) -> String {
    session.exp_string("\x1b[?25h").unwrap();
    let rest = session.exp_eof().unwrap();
    let status = format!("{:?}", session.process().wait().unwrap());
    assert!(status.ends_with(&format!(", {expected})")), "{status}: {rest}");
    rest
}

#[tokio::test]
async fn a_whole_release_in_lines_and_on_a_terminal() {
    let scene = Scene::new(installed().await, "live").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    let mut log = Log::start(&scene, Identity::Viewer, &[]);
    let mut view = terminal(&scene, Identity::Viewer, "");
    view.exp_string("\x1b[?25l").unwrap();
    log.until("state=AwaitingApproval").await;
    view.exp_string("AwaitingApproval, step 1 of 3").unwrap();
    view.exp_string("####").unwrap();
    view.exp_string("kubectl kruise rollout approve").unwrap();

    let early = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "wait", ROLLOUT, "--for=approved", "--timeout=1s"],
    )
    .await;
    assert_eq!(early.code, 4, "{}{}", early.answer, early.talk);
    let waits = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "wait", ROLLOUT, "--for=paused"],
    )
    .await;
    assert_eq!(waits.code, 0, "{}{}", waits.answer, waits.talk);
    scene.approve().await;
    view.exp_string("TimedPause, step 2 of 3").unwrap();
    view.exp_string(" left").unwrap();
    let (code, lines, talk) = log.end().await;
    assert_eq!(code, 0, "{lines:#?} {talk}");
    let seen = states(&lines);
    let order = ["AwaitingApproval", "TimedPause", "Complete"];
    let places: Vec<_> = order
        .iter()
        .map(|state| seen.iter().position(|s| s == state))
        .collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{seen:?}"
    );
    assert_eq!(seen.last().unwrap(), "Complete");
    assert!(
        lines.last().unwrap().contains("complete: all 5 pods run"),
        "{lines:#?}"
    );
    let rest = ends(view, 0);
    assert!(rest.contains("complete: all 5 pods run"), "{rest:?}");
    // At rest there is nothing to wait for.
    let again = kruise(&scene, Identity::Viewer, &["rollout", "wait", ROLLOUT]).await;
    assert_eq!(again.code, 0, "{}{}", again.answer, again.talk);
}

#[tokio::test]
async fn a_rollback_is_watched_to_its_end() {
    let scene = Scene::new(installed().await, "live-back").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    let mut log = Log::start(&scene, Identity::Viewer, &["-o", "json"]);
    log.until("\"AwaitingApproval\"").await;
    scene.set_version("v1").await;
    let (code, lines, talk) = log.end().await;
    assert_eq!(code, 6, "{lines:#?} {talk}");
    let reports: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (last, before) = reports.split_last().unwrap();
    assert!(before.iter().all(|report| report.get("final").is_none()));
    assert_eq!(
        (&last["final"], &last["verdict"], &last["exitCode"]),
        (&json!(true), &json!("RolledBack"), &json!(6))
    );
}

#[tokio::test]
async fn r70_the_api_server_restarts_while_a_release_is_watched() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let installation = Installation::start(&control_plane).await.unwrap();
    let scene = Scene::new(&installation, "live-restart").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    let mut log = Log::start(&scene, Identity::Viewer, &["--timeout=5m"]);
    let mut view = terminal(&scene, Identity::Viewer, "--timeout=5m --color=never");
    log.until("state=AwaitingApproval").await;
    view.exp_string("AwaitingApproval, step 1 of 3").unwrap();

    control_plane.stop_component(Component::ApiServer).await;
    view.exp_string("reconnecting 1s").unwrap();
    control_plane
        .restart_component(Component::ApiServer)
        .await
        .unwrap();
    scene.approve().await;
    log.until("state=Complete").await;
    let (code, lines, talk) = log.end().await;
    assert_eq!(code, 0, "{lines:#?} {talk}");
    assert!(states(&lines).contains(&"TimedPause".to_owned()), "{lines:#?}");
    assert_eq!(talk.matches("; trying again").count(), 1, "{talk}");
    assert_eq!(talk.matches("connected again").count(), 1, "{talk}");
    let rest = ends(view, 0);
    assert!(rest.contains("complete: all 5 pods run"), "{rest:?}");
}

#[tokio::test]
async fn whoever_may_only_get_sees_the_release_all_the_same() {
    let installation = installed().await;
    let scene = Scene::new(installation, "live-rights").await;
    let namespace = scene.namespace.name();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "looks", "namespace": namespace},
        "rules": [
            {"apiGroups": ["rollouts.kruise.io"], "resources": ["rollouts"], "verbs": ["get"]},
            {"apiGroups": ["example.io"], "resources": ["mystatefulapps"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "looks", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "looker"}],
    });
    for object in [role, binding] {
        installation.kubectl_apply(&object.to_string()).await.unwrap();
    }
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    let mut log = Log::start(
        &scene,
        Identity::Admin,
        &["--as=looker", "--interval=1s", "--timeout=2m"],
    );
    log.until("state=AwaitingApproval").await;
    scene.approve().await;
    let (code, lines, talk) = log.end().await;
    assert_eq!(code, 0, "{lines:#?} {talk}");
    assert_eq!(states(&lines).last().unwrap(), "Complete");
    let mut notes: Vec<_> = talk.lines().collect();
    notes.sort_unstable();
    assert_eq!(
        notes,
        [
            "events are not shown: you may not watch them".to_owned(),
            format!("pods are not shown: you may not list pods in namespace {namespace}"),
            "the Rollout may not be watched: read every 1 s instead".to_owned(),
            "the workload may not be watched: read every 1 s instead".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_rollout_that_is_deleted_ends_the_watch() {
    let scene = Scene::new(installed().await, "live-gone").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    let mut log = Log::start(&scene, Identity::Viewer, &[]);
    log.until("state=AwaitingApproval").await;
    scene.delete_rollout().await;
    let mut seen = Vec::new();
    while let Some(line) = timeout(SOON, log.lines.next_line()).await.unwrap().unwrap() {
        seen.push(line);
    }
    let output = log.child.wait_with_output().await.unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{seen:#?} {talk}");
    assert!(talk.contains("was deleted"), "{talk}");
}
