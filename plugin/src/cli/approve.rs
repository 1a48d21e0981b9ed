//! Arguments of `rollout approve` and `rollout promote`.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

use super::targets::Targets;
use super::writing::Writing;
use crate::duration::parse_duration;

/// What is waited for after an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// The next pause, or the end.
    Paused,
    /// The controller has taken the approval over.
    Step,
    /// The release is complete.
    Healthy,
}

#[derive(Args, Debug)]
pub(crate) struct Approve {
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// Approve only if the release is paused at this step, counted from 1; a step that is behind is no error
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) step: Option<i32>,
    /// Approve only this revision: its name or the beginning of its hash
    #[arg(long, value_name = "HASH", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) revision: Option<String>,
    /// End a timed pause before its time, too
    #[arg(long)]
    pub(crate) skip_timer: bool,
    /// Fail when there is nothing to approve, because it is approved, passed, or waits for its time
    #[arg(long)]
    pub(crate) strict: bool,
    /// Why: recorded as annotations of the Rollout, where you may write it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Wait afterwards: until the controller acts (`step`), for the next pause, or for the end
    #[arg(long, value_name = "FOR", num_args = 0..=1, require_equals = true, default_missing_value = "step")]
    pub(crate) wait: Option<Wait>,
    /// With --wait: how long, such as 30s or 10m; 0 waits for ever
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
pub(crate) struct Promote {
    /// NAME, rollout/NAME or rollout NAME; or a workload, TYPE/NAME, for the Rollout that releases it
    #[arg(required = true, num_args = 1..=2, value_name = "TARGET")]
    pub(crate) target: Vec<String>,
    /// Go to the last step, and approve every pause until the release is complete
    #[arg(long, visible_alias = "skip-all-steps", short_alias = 'a')]
    pub(crate) full: bool,
    /// With --full: how long to follow it, such as 30s or 10m; 0 follows to the end
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}
