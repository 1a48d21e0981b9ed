//! How commands that write do it. Every command that writes has these flags.

use clap::{Args, ValueEnum};

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

/// What is printed of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Printed {
    /// The resource and its name.
    Name,
    /// The object after the change, as JSON.
    Json,
    /// The object after the change, as YAML.
    Yaml,
    /// The request: method, path, type and body. Nothing is sent.
    Patch,
}

#[derive(Args, Debug)]
pub(crate) struct Writing {
    /// Write nothing: `client` sends nothing but reads, `server` has the API server check it
    #[arg(long, value_name = "WHERE", default_value = "none", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: DryRun,
    /// Print this of the change; `patch` prints the request and sends nothing
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Printed>,
    /// Name under which the API server records the change
    #[arg(long, value_name = "NAME", default_value = kruise_rollout::names::PLUGIN_FIELD_MANAGER)]
    pub(crate) field_manager: String,
}

impl Writing {
    /// Whether anything is sent. Who wants to see the request does not want it to be sent.
    pub(crate) fn dry_run(&self) -> DryRun {
        match self.output {
            Some(Printed::Patch) => DryRun::Client,
            _ => self.dry_run,
        }
    }

    /// How an answer ends when nothing is stored.
    pub(crate) fn suffix(&self) -> &'static str {
        match self.dry_run() {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }
}
