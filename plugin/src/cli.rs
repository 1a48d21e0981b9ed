//! The command line: what can be typed.

pub(crate) mod approve;
pub(crate) mod completion;
mod connection;
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

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use diagnose::{Check, Doctor, Explain, Format, Lint, LintFormat, List, Plan};

use approve::{Approve, Promote};
use steer::{Disable, Jump, Restart, Retry, Steer};
use undo::{Abort, Undo};
use writing::Writing;

pub(crate) use connection::Connection;
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
mod tests;
