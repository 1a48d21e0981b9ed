//! The command line: what can be typed.

mod diagnose;

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use diagnose::{Check, Doctor, Explain, Format, Lint, LintFormat, List, Plan};

use crate::duration::parse_duration;

/// Exit codes, at the end of the help.
const EXIT_CODES: &str = "Exit codes:
  0  done, or nothing to do
  1  the API server or the cluster says no
  2  usage error
  3  negative verdict: the rollout is failing or not in force; doctor, check or lint found something wrong
  4  --timeout is over
  5  waiting for approval (with --exit-on-pause)
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
}

impl Global {
    pub(crate) fn color(&self) -> Color {
        if self.no_color { Color::Never } else { self.color }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
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
    #[arg(long, global = true, value_name = "PATH")]
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
    #[arg(short, long, global = true, value_name = "NAME")]
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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show, approve and undo releases
    #[command(visible_alias = "ro", after_help = EXIT_CODES)]
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
    Version(Version),
    /// Print the completion script of a shell
    Completion {
        /// Name of the shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Approve the step that is paused now
    ///
    /// The approval names step, state and revision, and the API server tests them: an approval that comes too late approves
    /// nothing.
    #[command(after_help = EXIT_CODES)]
    Approve(Approve),
    /// Show the state of a release, and follow it to its end
    ///
    /// On a terminal the steps are drawn as bars; elsewhere each change is one line. It ends when the release is complete,
    /// rolled back or failing.
    #[command(after_help = EXIT_CODES)]
    Status(Status),
    /// Take a workload back to an earlier pod template
    ///
    /// In mid-release this is the stable template, and pods return to it at once. At rest it is the last other template, and
    /// pods go to it by the steps of the Rollout.
    #[command(after_help = EXIT_CODES)]
    Undo(Undo),
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
    /// Check whether a workload, or its kind, can be released in steps
    #[command(after_help = EXIT_CODES)]
    Check(Check),
    /// List the workloads with the workload-type label, and their Rollouts
    ///
    /// Looks at the built-in kinds, at those that are registered or referred to, and at every kind that can be scaled.
    #[command(after_help = EXIT_CODES)]
    List(List),
}

/// Whether a command writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Write.
    #[default]
    None,
    /// Say what would be written; send nothing.
    Client,
    /// Let the API server check it; nothing is stored.
    Server,
}

#[derive(Args, Debug)]
pub(crate) struct Writing {
    /// Write nothing: `client` sends nothing, `server` has the API server check it
    #[arg(long, value_name = "WHERE", default_value = "none", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub(crate) dry_run: DryRun,
    /// Name under which the API server records the change
    #[arg(long, value_name = "NAME", default_value = kruise_rollout::names::PLUGIN_FIELD_MANAGER)]
    pub(crate) field_manager: String,
}

#[derive(Args, Debug)]
pub(crate) struct Approve {
    /// Rollouts: NAME, rollout/NAME or rollout NAME
    #[arg(required = true, value_name = "ROLLOUT")]
    pub(crate) targets: Vec<String>,
    /// Approve only if the release is paused at this step, counted from 1
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) step: Option<i32>,
    #[command(flatten)]
    pub(crate) writing: Writing,
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
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// A Rollout: NAME, rollout/NAME or rollout NAME
    #[arg(required = true, num_args = 1..=2, value_name = "ROLLOUT")]
    pub(crate) target: Vec<String>,
    /// Follow the release to its end
    #[arg(short, long, value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) watch: bool,
    /// How long to follow it, such as 30s or 10m; 0 follows to the end
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// End with exit code 5 when the release waits for approval
    #[arg(long)]
    pub(crate) exit_on_pause: bool,
    /// How long a failure must last to end with exit code 3; `off` never ends
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_grace)]
    pub(crate) fail_fast: Grace,
    /// Print the report in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}

/// How long a failure may last; `None` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace(pub(crate) Option<Duration>);

fn parse_grace(text: &str) -> Result<Grace, String> {
    if text == "off" {
        Ok(Grace(None))
    } else {
        parse_duration(text).map(|time| Grace(Some(time)))
    }
}

#[derive(Args, Debug)]
pub(crate) struct Undo {
    /// A Rollout: NAME, rollout/NAME or rollout NAME
    #[arg(required = true, num_args = 1..=2, value_name = "ROLLOUT")]
    pub(crate) target: Vec<String>,
    /// Number of the recorded revision to go back to
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) to_revision: Option<i64>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
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

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
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
        assert_eq!(status("k rollout status rollout web").target, ["rollout", "web"]);
        assert_eq!(
            status("k rollout status web --fail-fast off").fail_fast,
            Grace(None)
        );
        let dry_run = |line: &str| match parse(line).unwrap().command {
            Some(Command::Rollout {
                command: Some(RolloutCommand::Approve(approve)),
            }) => approve.writing.dry_run,
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
