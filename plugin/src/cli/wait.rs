//! `rollout wait`.

use clap::Args;

use super::{Follow, Until};

#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// NAME, rollout/NAME or rollout NAME; or a workload, TYPE/NAME, for the Rollout that releases it
    #[arg(required = true, value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// What to wait for: complete, paused, step=NUMBER, approved, rolled-back or any-change
    #[arg(long = "for", value_name = "CONDITION", default_value = "complete")]
    pub(crate) condition: Until,
    #[command(flatten)]
    pub(crate) follow: Follow,
}
