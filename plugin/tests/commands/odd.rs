//! Odd words, odd files, odd readers.

use serde_json::json;

use crate::server::{Request, Server, failure};
use crate::world::*;

#[test]
fn words_that_are_no_names_are_never_sent() {
    let server = Server::start(paused());
    for line in [
        "rollout get ..",
        "rollout get rollout/..",
        "rollout get a..b",
        "rollout status -- -x",
        "workload check a..b/c",
        "workload check x.a..b/c",
        "workload check --crd ../secrets",
        "rollout list -n ../..",
        "rollout list -n a?b",
        "doctor -n ..",
        "doctor --controller-namespace a/b",
    ] {
        let outcome = run(&format!("{line} --server {}", server.url).replace(
            &format!("-- -x --server {}", server.url),
            &format!("--server {} -- -x", server.url),
        ));
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (2, ""),
            "{line}: {}",
            outcome.err
        );
        assert!(outcome.err.starts_with("error:"), "{line}: {}", outcome.err);
    }
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

#[test]
fn a_right_in_all_namespaces_is_granted_by_a_cluster_role() {
    let server = Server::start(|_: &Request| failure(403, "Forbidden", "rollouts is forbidden"));
    let outcome = call(&server, "rollout list -A");
    assert_eq!(outcome.code, 1);
    assert!(
        outcome
            .err
            .contains("kind: ClusterRole\nmetadata: {name: kubectl-kruise-list-rollouts}\n"),
        "{}",
        outcome.err
    );
}

#[test]
fn what_may_not_be_read_is_named_where_it_is() {
    let server = Server::start(|request: &Request| match request.path.as_str() {
        "/version" => crate::server::Answer::Object(
            200,
            json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": ""}),
        ),
        "/apis/rollouts.kruise.io" => {
            crate::server::Answer::Object(200, json!({"versions": [{"version": "v1beta1"}]}))
        }
        _ => failure(403, "Forbidden", "forbidden"),
    });
    let outcome = call(&server, "version");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(
        outcome.err,
        "the controller is not shown: you may not get deployments.apps in namespace kruise-rollout\n"
    );
    let document: serde_json::Value = serde_json::from_str(&call(&server, "version -o json").out).unwrap();
    assert_eq!(
        (&document["apiVersion"], &document["kind"]),
        (&json!("kruise.cli/v1"), &json!("Versions"))
    );
}

#[test]
fn a_release_that_is_not_meant_has_no_command_to_type_next() {
    let server = Server::start(paused());
    let outcome = call(&server, "rollout status my-app-rollout --revision other");
    assert_eq!(outcome.code, 6, "{}", outcome.err);
    assert!(
        outcome.out.contains("state=Superseded") && !outcome.out.contains("hint="),
        "{}",
        outcome.out
    );
    let report = call(&server, "rollout status my-app-rollout --revision other -o json");
    assert!(!report.out.contains("\"next\""), "{}", report.out);
}

#[test]
fn an_unreadable_file_is_told_alike_by_all_that_read_one() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = |name: &str, text: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let server = Server::start(paused());
    let (binary, twice) = (
        file("odd-binary.yaml", &[0xff, 0xfe, 0]),
        file("odd-twice.yaml", b"kind: A\nspec: {}\nspec: {}\n"),
    );
    for (path, says) in [
        (
            "/nonexistent",
            "/nonexistent: No such file or directory (os error 2)\n".to_owned(),
        ),
        (binary.as_str(), format!("{binary}: it is no text in UTF-8\n")),
        (
            twice.as_str(),
            format!("{twice}:3:1: spec is written twice: remove one of the two\n"),
        ),
    ] {
        for line in ["rollout plan -f", "rollout undo my-app-rollout --yes --from-file"] {
            let outcome = call(&server, &format!("{line} {path}"));
            assert_eq!(
                (outcome.code, outcome.err),
                (1, format!("error: {says}")),
                "{line}"
            );
        }
    }
    assert!(server.writes().is_empty());
}

#[test]
fn a_rollout_that_cannot_be_read_is_not_passed_over_by_a_plan() {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("odd-shape.yaml");
    std::fs::write(
        &path,
        "apiVersion: rollouts.kruise.io/v1beta1\nkind: Rollout\nmetadata: {name: a}\n",
    )
    .unwrap();
    let outcome = run(&format!("rollout plan -f {} --replicas 3", path.display()));
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("kubectl kruise rollout lint -f"),
        "{}",
        outcome.err
    );
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, ExitStatus, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    fn ended(child: &mut Child) -> ExitStatus {
        let mut status = None;
        let deadline = Instant::now() + Duration::from_secs(20);
        while status.is_none() && Instant::now() < deadline {
            status = child.try_wait().unwrap();
            std::thread::yield_now();
        }
        status.unwrap_or_else(|| {
            child.kill().unwrap();
            panic!("it goes on");
        })
    }

    /// Whether the process waits for more of its standard input, in any of its threads.
    fn reads(child: &Child) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        threads.flatten().any(|thread| {
            let call = std::fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
            // read(0, …)
            call.starts_with("0 0x0 ")
        })
    }

    #[test]
    fn a_signal_ends_what_waits_for_a_file() {
        if !cfg!(target_arch = "x86_64") {
            return;
        }
        for line in ["rollout lint -f -", "rollout plan -f -"] {
            // Whether signals were heard was a matter of chance.
            for _ in 0..6 {
                let mut child = command(line)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap();
                let mut input = child.stdin.take().unwrap();
                input.write_all(b"kind: A\n").unwrap();
                until("it reads", || reads(&child));
                let sent = std::process::Command::new("kill")
                    .args(["-s", "TERM", &child.id().to_string()])
                    .status();
                assert!(sent.unwrap().success());
                let status = ended(&mut child);
                assert!(
                    status.code() == Some(143) || status.signal() == Some(15),
                    "{status:?}"
                );
                drop(input);
            }
        }
    }

    #[test]
    fn a_list_that_is_watched_ends_with_its_reader() {
        let server = Server::start(paused());
        for line in [
            "rollout list -w",
            "rollout list -w -o json",
            "rollout events my-app-rollout -w",
        ] {
            let mut command = command(&format!("{line} -n shop --server {}", server.url));
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut reader = BufReader::new(child.stdout.take().unwrap());
            if line.contains("list") {
                reader.read_line(&mut String::new()).unwrap();
            }
            drop(reader);
            assert_eq!(ended(&mut child).code(), Some(0), "{line}");
        }
    }
}
