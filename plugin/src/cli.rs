//! The command line: what can be typed.

pub(crate) mod approve;
pub(crate) mod completion;
mod diagnose;
mod enable;
mod events;
mod get;
mod history;
mod list;
mod pods;
pub(crate) mod reference;
mod shortcut;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod targets;
pub(crate) mod undo;
pub(crate) mod verbs;
mod wait;
pub(crate) mod writing;

use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use diagnose::{Check, Doctor, Explain, Format, Lint, LintFormat, List, Plan};

use crate::duration::parse_duration;
use approve::{Approve, Promote};
use steer::{Disable, Jump, Restart, Retry, Steer};
use undo::{Abort, Undo};
use writing::Writing;

use crate::ui::trace::Trace;
pub(crate) use enable::Enable;
pub(crate) use events::Events;
pub(crate) use get::Get;
pub(crate) use history::History;
pub(crate) use list::{ListRollouts, SortBy};
pub(crate) use pods::{OfRevision, PodList};
pub(crate) use status::{Follow, Pods, Status, Until, Watching};
pub(crate) use wait::Wait;

/// Exit codes, at the end of the help.
const EXIT_CODES: &str = "Exit codes:
  0  done, or nothing to do
  1  the API server or the cluster says no
  2  usage error
  3  negative verdict: the rollout is failing or not in force; doctor, check or lint found something wrong
  4  --timeout is over
  5  waiting for approval, or paused (with --exit-on-pause)
  6  rolled back or superseded
  130, 143  interrupted, terminated";

/// Progressive delivery for workloads that update by partition.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-kruise",
    bin_name = "kubectl kruise",
    disable_version_flag = true,
    max_term_width = 100,
    after_help = EXIT_CODES
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags of every command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Global {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// When to use colour
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    color: Color,
    /// Same as --color=never
    #[arg(long, global = true, hide = true)]
    no_color: bool,
    /// Draw with ASCII characters only, as is done where the locale is not UTF-8
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) ascii: bool,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(crate) quiet: bool,
}

impl Global {
    pub(crate) fn color(&self) -> Color {
        if self.no_color { Color::Never } else { self.color }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb; CLICOLOR_FORCE=1 makes it everywhere.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How to reach the API server; as kubectl has it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Path to the kubeconfig file to use
    #[arg(long, global = true, value_name = "PATH", value_parser = OsStringValueParser::new().map(std::path::PathBuf::from))]
    pub(crate) kubeconfig: Option<std::path::PathBuf>,
    /// Name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Name of the kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Name of the kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Namespace of the request
    #[arg(short, long, global = true, value_name = "NAME", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// Address and port of the API server
    #[arg(short, long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Bearer token for the API server
    #[arg(long, global = true, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub(crate) impersonate_group: Vec<String>,
    /// UID to impersonate
    #[arg(long = "as-uid", global = true, value_name = "UID")]
    pub(crate) impersonate_uid: Option<String>,
    /// Extra information about the impersonated user; may be repeated
    #[arg(long = "as-user-extra", global = true, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) impersonate_user_extra: Vec<(String, String)>,
    /// Path to a certificate of the authority that signed the server's certificate
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) certificate_authority: Option<String>,
    /// Path to a client certificate
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) client_certificate: Option<String>,
    /// Path to the key of the client certificate
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) client_key: Option<String>,
    /// Do not verify the server's certificate; this makes the connection insecure
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Name to expect in the server's certificate
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// How long to wait for an answer to one request, such as 5s or 1m; 0 waits for ever
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) request_timeout: Duration,
    /// Say on stderr how the server is reached; twice: each request with its answer's code, never headers or tokens
    #[arg(short = 'v', global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
    /// The same as a number: 1 or 2
    #[arg(long, global = true, value_name = "NUMBER", help_heading = "Output")]
    pub(crate) verbosity: Option<u8>,
}

impl Connection {
    /// `--namespace`, where it says anything.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty())
    }

    /// Flags that are empty say nothing, as for kubectl: scripts write `--context "$CONTEXT"`.
    pub(crate) fn without_empty(mut self) -> Self {
        for flag in [
            &mut self.context,
            &mut self.cluster,
            &mut self.user,
            &mut self.namespace,
            &mut self.server,
            &mut self.token,
            &mut self.impersonate,
            &mut self.impersonate_uid,
            &mut self.certificate_authority,
            &mut self.client_certificate,
            &mut self.client_key,
            &mut self.tls_server_name,
        ] {
            flag.take_if(|text| text.is_empty());
        }
        self.kubeconfig.take_if(|path| path.as_os_str().is_empty());
        self
    }

    /// What is said on the way.
    pub(crate) fn trace(&self) -> Trace {
        Trace::new(self.verbosity.unwrap_or_default().max(self.verbose))
    }
}

/// As for kubectl, an empty one says nothing.
fn namespace(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Ok(String::new())
    } else {
        crate::target::namespace(text)
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show, approve and undo releases
    #[command(visible_alias = "ro", alias = "rollouts", after_help = EXIT_CODES)]
    Rollout {
        #[command(subcommand)]
        command: Option<RolloutCommand>,
    },
    /// Prepare workloads for releases
    #[command(after_help = EXIT_CODES)]
    Workload {
        #[command(subcommand)]
        command: Option<WorkloadCommand>,
    },
    /// Find out what is wrong, and the command that mends it
    ///
    /// Looks at the API server, the controller, admission, the workload and your own rights. It writes nothing; what it tries, it tries
    /// by dry-run.
    #[command(after_help = EXIT_CODES)]
    Doctor(Doctor),
    /// Show the versions of this plugin, the API server and the controller
    #[command(after_help = EXIT_CODES)]
    Version(Version),
    #[command(flatten)]
    Shortcut(shortcut::Shortcut),
    /// Print the completion script of a shell, or have kubectl complete this plugin
    #[command(after_help = EXIT_CODES)]
    Completion(completion::Completion),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Approve the step that is paused now
    ///
    /// The approval names step, state and revision, and the API server tests them: an approval that comes too late approves
    /// nothing. A timed pause ends by itself; --skip-timer ends it early.
    #[command(after_help = EXIT_CODES)]
    Approve(Approve),
    /// Approve a pause of any sort; with --full go to the end
    ///
    /// With --full the release goes to its last step, where people may let it jump, and every pause on the way is approved until
    /// it is complete.
    #[command(after_help = EXIT_CODES)]
    Promote(Promote),
    /// Keep releases from taking further steps, whatever is approved
    ///
    /// Sets spec.strategy.paused, which is not the pause of a step: resume lifts it.
    #[command(after_help = EXIT_CODES)]
    Pause(Steer),
    /// Let releases go on that were paused
    ///
    /// Lifts what `rollout pause` has set. A step that waits for an approval goes on by `rollout approve`.
    #[command(after_help = EXIT_CODES)]
    Resume(Steer),
    /// Go to another step of a release
    ///
    /// Pods that are updated stay so when the release goes back. Approvers may jump only where the controller lets them.
    #[command(after_help = EXIT_CODES)]
    Jump(Jump),
    /// Take the present step of a release again
    #[command(after_help = EXIT_CODES)]
    Retry(Retry),
    /// Make all pods of a workload new, by the steps of its Rollout
    ///
    /// Writes the annotation that `kubectl rollout restart` writes. The change is held and released as any other.
    #[command(after_help = EXIT_CODES)]
    Restart(Restart),
    /// Let Rollouts govern their workloads again
    #[command(after_help = EXIT_CODES)]
    Enable(Steer),
    /// Let Rollouts govern nothing; a release in progress is let go
    #[command(after_help = EXIT_CODES)]
    Disable(Disable),
    /// Show the state of a release, and follow it to its end
    ///
    /// On a terminal the steps are drawn as bars; elsewhere each change is one line. It ends when the release is complete,
    /// rolled back or failing.
    #[command(after_help = EXIT_CODES)]
    Status(Status),
    /// Wait until a release has come so far
    #[command(after_help = EXIT_CODES)]
    Wait(Wait),
    /// Show everything about a release: steps, pods by revision and batch, conditions, events
    #[command(visible_aliases = ["describe", "tree"], after_help = EXIT_CODES)]
    Get(Get),
    /// List Rollouts with their states
    #[command(visible_alias = "ls", after_help = EXIT_CODES)]
    List(ListRollouts),
    /// List the pods of a release with revision and batch
    #[command(after_help = EXIT_CODES)]
    Pods(PodList),
    /// Show the events of a Rollout, its workload and its pods as one timeline
    #[command(after_help = EXIT_CODES)]
    Events(Events),
    /// Show the revisions of a workload, one of them, or what differs between two
    #[command(after_help = EXIT_CODES)]
    History(History),
    /// Take a workload back to an earlier pod template
    ///
    /// In mid-release this is the stable template, and pods return to it at once. At rest it is the last other template, and
    /// pods go to it by the steps of the Rollout. The template is looked for in the ReplicaSets and the ControllerRevisions of the
    /// workload, and in what was recorded for the Rollout; it replaces the present one as a whole.
    #[command(after_help = EXIT_CODES)]
    Undo(Undo),
    /// Take a release in progress back to the stable template
    ///
    /// As undo, but nothing is done when no release is in progress.
    #[command(after_help = EXIT_CODES)]
    Abort(Abort),
    /// Tell why a release does not move, and what to do about it
    #[command(after_help = EXIT_CODES)]
    Explain(Explain),
    /// Show what the steps will do: pods, partitions, pauses
    #[command(after_help = EXIT_CODES)]
    Plan(Plan),
    /// Check manifests before they are applied
    #[command(after_help = EXIT_CODES)]
    Lint(Lint),
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadCommand {
    /// Set the label that makes updates of a workload subject to its Rollout
    #[command(after_help = EXIT_CODES)]
    Label(Label),
    /// Let the controller govern a kind of workloads
    ///
    /// Applies the ClusterRole whose rules are added to the controller's, at once and without a restart. With --dry-run -o yaml it is
    /// printed instead, for git.
    #[command(after_help = EXIT_CODES)]
    Enable(Enable),
    /// Check whether a workload, or its kind, can be released in steps
    #[command(after_help = EXIT_CODES)]
    Check(Check),
    /// List the workloads with the workload-type label, and their Rollouts
    ///
    /// Looks at the built-in kinds, at those that are registered or referred to, and at every kind that can be scaled.
    #[command(after_help = EXIT_CODES)]
    List(List),
}

/// Format of an answer for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// JSON; one report a line while watching.
    Json,
    /// YAML.
    Yaml,
    /// The resource and its name.
    Name,
    /// Text with more in it.
    Wide,
}

#[derive(Args, Debug)]
pub(crate) struct Label {
    /// A workload, TYPE/NAME (TYPE may name its group: mystatefulapps.example.io/my-app), or rollout/NAME for its workload; with -l or
    /// --all, a TYPE
    #[arg(required = true, num_args = 1..=2, value_name = "WORKLOAD")]
    pub(crate) target: Vec<String>,
    /// Value of the label; each kind has one, which is the default
    #[arg(long = "type", value_name = "VALUE", conflicts_with = "remove")]
    pub(crate) value: Option<String>,
    /// Take the label away
    #[arg(long, conflicts_with = "overwrite")]
    pub(crate) remove: bool,
    /// Replace another value of the label
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// All workloads of the type with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// All workloads of the type
    #[arg(long, conflicts_with = "selector")]
    pub(crate) all: bool,
    /// In all namespaces; needs -l or --all
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Label it although its kind cannot be released in steps
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
pub(crate) struct Version {
    /// Only the version of this plugin; asks no server
    #[arg(long)]
    pub(crate) client: bool,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}

#[cfg(test)]
mod tests {
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
}
