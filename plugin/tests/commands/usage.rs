//! What needs no server.

use crate::world::*;

#[test]
fn usage_errors_end_with_2_and_help_with_0() {
    for line in [
        "rollout approve",
        "rollout status",
        "nonsense",
        "rollout status a --timeout never",
        "rollout status deploy/",
        "rollout approve web -l app=web",
        "rollout approve web --all",
        "rollout approve -A",
        "workload label web",
        "rollout approve a --dry-run=perhaps",
        "rollout undo a --to-revision 1 --from-file f.yaml",
        "rollout jump a",
        "rollout jump a --step 0",
        "rollout pause",
        "rollout approve a --wait=long",
    ] {
        let outcome = run(&format!("{line} --server http://127.0.0.1:1"));
        assert_eq!(outcome.code, 2, "{line}: {}", outcome.err);
        assert!(
            outcome.out.is_empty() && outcome.err.starts_with("error:"),
            "{line}: {}",
            outcome.err
        );
    }
    for line in [
        "--help",
        "rollout",
        "rollout --help",
        "rollout status -h",
        "workload",
        "help",
    ] {
        let outcome = run(line);
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{line}");
        assert!(outcome.out.contains("Usage: kubectl kruise"), "{line}");
    }
}

#[test]
fn what_is_not_there_is_pointed_out() {
    for (line, says) in [
        (
            "set image",
            "error: kubectl kruise has no set: use kubectl set, or kubectl patch for custom workloads\n",
        ),
        (
            "scale --replicas 3",
            "error: kubectl kruise has no scale: use kubectl scale\n",
        ),
        (
            "migrate CloneSet",
            "error: kubectl kruise has no migrate: use migrate of OpenKruise's own plugin, https://github.com/openkruise/kruise-tools\n",
        ),
    ] {
        let outcome = run(line);
        assert_eq!((outcome.code, outcome.err.as_str()), (2, says), "{line}");
    }
    for (line, close) in [
        ("rollot", "'rollout'"),
        ("rollout aprove", "'approve'"),
        ("version --clint", "'--client'"),
    ] {
        let outcome = run(line);
        assert!(
            outcome.code == 2 && outcome.err.contains(close),
            "{line}: {}",
            outcome.err
        );
    }
}

#[test]
fn nothing_but_errors_is_said_when_quiet() {
    let server = crate::server::Server::start(crate::world::paused());
    let usual = call(&server, "rollout undo my-app-rollout --yes");
    let quiet = call(&server, "rollout undo my-app-rollout --yes -q");
    assert!(!usual.err.is_empty());
    assert_eq!((quiet.code, quiet.out, quiet.err.as_str()), (0, usual.out, ""));
    let missing = call(&server, "rollout status other -q");
    assert!(
        missing.code == 1 && missing.err.lines().count() == 1,
        "{}",
        missing.err
    );
}

#[test]
fn r85_completion_ends_in_time_and_in_silence() {
    // A server that accepts and says nothing, and one that is not there.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for server in [
        format!("http://{}", silent.local_addr().unwrap()),
        "http://127.0.0.1:1".to_owned(),
    ] {
        for words in ["rollout approve", "workload label", "rollout status -n"] {
            // On a machine that does much else a process may start late; it does not each time.
            let in_time = (0..5).any(|_| {
                let begin = std::time::Instant::now();
                let mut command = command(&format!("__complete -s {server} {words}"));
                let output = command.arg("").output().unwrap();
                let took = begin.elapsed();
                assert!(output.status.success() && output.stderr.is_empty());
                assert_eq!(String::from_utf8(output.stdout).unwrap(), ":4\n", "{words}");
                took < std::time::Duration::from_secs(1)
            });
            assert!(in_time, "{words}");
        }
    }
    // Without any cluster there are still the words.
    let outcome = run("__complete rollout a");
    assert!(
        outcome.err.is_empty() && outcome.out.starts_with("approve\t") && outcome.out.ends_with("\n:4\n"),
        "{}",
        outcome.out
    );
    assert_eq!(run("__complete --kubeconfig x").out, ":0\n");
}

#[test]
fn r85_completion_scripts_and_bad_use() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&format!("completion {shell}"));
        assert!(
            script.code == 0 && script.out.contains("kubectl-kruise") && script.err.is_empty(),
            "{shell}"
        );
    }
    for line in ["completion", "completion tcsh", "completion bash install"] {
        let bad = run(line);
        assert!(
            bad.code == 2 && bad.out.is_empty() && bad.err.starts_with("error: "),
            "{line}: {}",
            bad.err
        );
    }
}

#[cfg(unix)]
#[test]
fn the_program_that_kubectl_asks_is_put_in_place_and_removed_and_no_foreign_one_is_touched() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("kubectl-kruise-completion-{}", std::process::id()));
    let (bin, own) = (folder.join("bin"), folder.join("own"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("kubectl-kruise"), "").unwrap();
    let on_path = |line: &str| {
        let output = command(line).env("PATH", &bin).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let file = bin.join("kubectl_complete-kruise");
    let said = |what: &str| (Some(0), format!("{} {what}\n", file.display()), String::new());
    assert_eq!(on_path("completion install"), said("written"));
    assert_eq!(on_path("completion install"), said("unchanged"));
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o755
    );
    assert_eq!(
        std::fs::read_dir(&bin).unwrap().count(),
        2,
        "nothing else is left behind"
    );
    assert_eq!(on_path("completion uninstall"), said("removed"));
    assert!(
        on_path("completion uninstall")
            .2
            .contains("no kubectl_complete-kruise of this plugin was found")
    );

    std::fs::write(&file, "#!/bin/sh\necho mine\n").unwrap();
    for line in [
        "completion install".to_owned(),
        format!("completion uninstall --dir {}", bin.display()),
    ] {
        let (code, out, err) = on_path(&line);
        assert!(
            code == Some(1) && out.is_empty() && err.contains("is left alone"),
            "{line}: {err}"
        );
    }
    assert_eq!(on_path("completion uninstall").0, Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "#!/bin/sh\necho mine\n");

    let (code, out, err) = on_path(&format!("completion install --dir {}", own.display()));
    assert!(
        code == Some(0) && out.ends_with("written\n") && err.contains("is not in the PATH"),
        "{err}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn without_a_cluster_the_reason_and_the_way_on_are_said() {
    let nothing = run("rollout status web");
    assert_eq!(nothing.code, 1);
    assert_eq!(
        nothing.err,
        "error: no kubeconfig was found\nhint: choose a kubeconfig with --kubeconfig or KUBECONFIG, and a context with --context\n"
    );
    let refused = run("rollout status web --server http://127.0.0.1:1");
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .err
            .starts_with("error: unable to connect to the server http://127.0.0.1:1: "),
        "{}",
        refused.err
    );
    let client = run("version --client").out;
    let begin = format!("Client:     v{} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(
        client.starts_with(&begin) && client.lines().count() == 1,
        "{client}"
    );
}
