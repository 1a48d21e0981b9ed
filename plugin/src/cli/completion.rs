//! Arguments of `completion`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// A script for a shell, or the program that kubectl asks.
#[derive(Args, Debug)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Completion {
    /// Shell to print the script for; it completes `kubectl-kruise`
    #[arg(required = true)]
    pub(crate) shell: Option<clap_complete::Shell>,
    #[command(subcommand)]
    pub(crate) command: Option<CompletionCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CompletionCommand {
    /// Make kubectl complete `kubectl kruise …`: writes the program kubectl_complete-kruise
    ///
    /// kubectl 1.26 and later ask it for completions. A file of this name that something else has put there is left alone.
    #[command(after_help = super::EXIT_CODES)]
    Install(Place),
    /// Remove the program that `install` has written
    #[command(after_help = super::EXIT_CODES)]
    Uninstall(Place),
}

#[derive(Args, Debug)]
pub(crate) struct Place {
    /// Folder for it, one of the PATH. Default: where kubectl-kruise is found in the PATH, if it can be written to, else
    /// ~/.local/bin
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
