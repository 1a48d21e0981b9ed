//! Commands about Rollouts that may be typed without the word `rollout`, as people who come from other tools do.

use clap::Subcommand;

use super::approve::{Approve, Promote};
use super::steer::Retry;
use super::undo::{Abort, Undo};
use super::{EXIT_CODES, Get, ListRollouts, RolloutCommand, Status};

/// Each is the command of the same name.
#[derive(Debug, Subcommand)]
pub(crate) enum Shortcut {
    /// Same as rollout get
    #[command(hide = true, alias = "describe", after_help = EXIT_CODES)]
    Get(Get),
    /// Same as rollout list
    #[command(hide = true, alias = "ls", after_help = EXIT_CODES)]
    List(ListRollouts),
    /// Same as rollout status
    #[command(hide = true, after_help = EXIT_CODES)]
    Status(Status),
    /// Same as rollout approve
    #[command(hide = true, after_help = EXIT_CODES)]
    Approve(Approve),
    /// Same as rollout promote
    #[command(hide = true, after_help = EXIT_CODES)]
    Promote(Promote),
    /// Same as rollout retry
    #[command(hide = true, after_help = EXIT_CODES)]
    Retry(Retry),
    /// Same as rollout abort
    #[command(hide = true, after_help = EXIT_CODES)]
    Abort(Abort),
    /// Same as rollout undo
    #[command(hide = true, after_help = EXIT_CODES)]
    Undo(Undo),
}

impl From<Shortcut> for RolloutCommand {
    fn from(shortcut: Shortcut) -> Self {
        match shortcut {
            Shortcut::Get(command) => Self::Get(command),
            Shortcut::List(command) => Self::List(command),
            Shortcut::Status(command) => Self::Status(command),
            Shortcut::Approve(command) => Self::Approve(command),
            Shortcut::Promote(command) => Self::Promote(command),
            Shortcut::Retry(command) => Self::Retry(command),
            Shortcut::Abort(command) => Self::Abort(command),
            Shortcut::Undo(command) => Self::Undo(command),
        }
    }
}
