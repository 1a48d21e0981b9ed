//! Arguments of `rollout pause`, `resume`, `enable`, `disable`, `jump`, `retry` and `restart`.

use clap::Args;

use super::targets::Targets;
use super::writing::Writing;

/// Of commands that need no more than to know which Rollouts are meant.
#[derive(Args, Debug)]
pub(crate) struct Steer {
    #[command(flatten)]
    pub(crate) targets: Targets,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
pub(crate) struct Disable {
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
pub(crate) struct Jump {
    /// NAME, rollout/NAME or rollout NAME; or a workload, TYPE/NAME, for the Rollout that releases it
    #[arg(required = true, num_args = 1..=2, value_name = "TARGET")]
    pub(crate) target: Vec<String>,
    /// Number of the step to go to, counted from 1
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) step: i32,
    /// Take the step again if the release is at it already
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
pub(crate) struct Retry {
    /// NAME, rollout/NAME or rollout NAME; or a workload, TYPE/NAME, for the Rollout that releases it
    #[arg(required = true, num_args = 1..=2, value_name = "TARGET")]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
pub(crate) struct Restart {
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// Restart also in mid-release, which begins it again, and where nothing holds the restart back
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}
