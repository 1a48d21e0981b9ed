use clap::CommandFactory;

use super::writing::DryRun;
use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// Commands that change nothing.
const READING: [&str; 15] = [
    "check",
    "doctor",
    "events",
    "explain",
    "get",
    "history",
    "install",
    "lint",
    "list",
    "plan",
    "pods",
    "status",
    "uninstall",
    "version",
    "wait",
];

/// Every command that is not known to read has the flags of those that write.
#[test]
fn what_writes_can_be_tried_without_writing() {
    fn look(command: &clap::Command) {
        if command.get_subcommands().next().is_some() {
            command.get_subcommands().for_each(look);
            return;
        }
        let name = command.get_name();
        let has = |flag: &str| command.get_arguments().any(|a| a.get_long() == Some(flag));
        let writes = has("dry-run");
        assert_ne!(writes, READING.contains(&name), "{name}");
        assert!(
            !writes || (has("output") && has("field-manager")),
            "{name} lacks a flag"
        );
    }
    look(&Cli::command());
}

#[test]
fn every_help_has_the_exit_codes_and_is_not_wide() {
    fn look(command: &mut clap::Command) {
        let name = command.get_name().to_owned();
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            assert!(
                help.contains("Exit codes:\n  0  done") && help.contains("130, 143"),
                "{name}\n{help}"
            );
            let wide = help.lines().find(|line| line.chars().count() > 100);
            assert_eq!(wide, None, "{name}");
        }
        let commands = command
            .get_subcommands_mut()
            .filter(|command| command.get_name() != "help");
        commands.for_each(look);
    }
    let mut command = Cli::command();
    command.build();
    look(&mut command);
}

#[test]
fn empty_flags_say_nothing_and_namespaces_are_names() {
    let line = [
        "k",
        "rollout",
        "list",
        "-s",
        "",
        "--context",
        "",
        "-n",
        "",
        "--token",
        "",
        "--kubeconfig",
        "",
    ];
    let connection = Cli::try_parse_from(line).unwrap().global.connection;
    let connection = connection.without_empty();
    assert_eq!(
        (connection.server, connection.context, connection.namespace),
        (None, None, None)
    );
    assert_eq!((connection.token, connection.kubeconfig), (None, None));
    for word in ["../shop", "..", "a/b", "a?b", " ", "Shop", "a.b"] {
        for line in [
            vec!["k", "rollout", "list", "-n", word],
            vec!["k", "doctor", "--controller-namespace", word],
        ] {
            let error = Cli::try_parse_from(&line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line:?}");
        }
    }
    for word in ["", "..", "../secrets", "a?b", "crd with space"] {
        let line = ["k", "workload", "check", "--crd", word];
        assert_eq!(Cli::try_parse_from(line).unwrap_err().exit_code(), 2, "{word}");
    }
    assert!(parse("k rollout history web --limit 0").is_err());
}

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split(' '))
}

#[test]
fn flags_stand_anywhere() {
    for line in [
        "kubectl-kruise -n shop rollout approve rollout/web",
        "kubectl-kruise rollout -n shop approve rollout/web",
        "kubectl-kruise rollout approve rollout/web -n shop",
    ] {
        assert_eq!(
            parse(line).unwrap().global.connection.namespace.as_deref(),
            Some("shop"),
            "{line}"
        );
    }
}

#[test]
fn switches_are_as_in_kubectl() {
    let status = |line: &str| match parse(line).unwrap().command {
        Some(Command::Rollout {
            command: Some(RolloutCommand::Status(status)),
        }) => status,
        other => panic!("{other:?}"),
    };
    assert!(status("k rollout status web").watch);
    assert!(status("k rollout status web --watch").watch);
    assert!(status("k rollout status web -w").watch);
    assert!(!status("k rollout status web --watch=false").watch);
    assert_eq!(status("k rollout status rollout web").targets, ["rollout", "web"]);
    let dry_run = |line: &str| match parse(line).unwrap().command {
        Some(Command::Rollout {
            command: Some(RolloutCommand::Approve(approve)),
        }) => approve.writing.dry_run(),
        other => panic!("{other:?}"),
    };
    assert_eq!(dry_run("k rollout approve web"), DryRun::None);
    assert_eq!(dry_run("k rollout approve web --dry-run"), DryRun::Client);
    assert_eq!(dry_run("k rollout approve web --dry-run=server"), DryRun::Server);
    assert!(parse("k rollout approve web --dry-run=maybe").is_err());
    assert!(parse("k rollout approve").is_err());
    assert!(parse("k rollout approve web --step 0").is_err());
}
