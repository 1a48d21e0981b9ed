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
        "rollout undo a --from-file /nonexistent",
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
    assert_eq!(
        run("version --client").out,
        format!("Client:     v{}\n", env!("CARGO_PKG_VERSION"))
    );
}
