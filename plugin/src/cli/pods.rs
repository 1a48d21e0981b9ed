use clap::{Args, ValueEnum};

use super::Output;

/// Which template pods run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OfRevision {
    /// The one that is being released, or was released last.
    Update,
    /// The one that was there before.
    Stable,
}

#[derive(Args, Debug)]
pub(crate) struct PodList {
    /// A Rollout: NAME, rollout/NAME or rollout NAME
    #[arg(required = true, num_args = 1..=2, value_name = "ROLLOUT")]
    pub(crate) target: Vec<String>,
    /// Only those that were updated in this step, counted from 1
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// Only those on this template
    #[arg(long, value_name = "WHICH")]
    pub(crate) revision: Option<OfRevision>,
    /// Leave the headers out
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Print in this format; `name` is what kubectl logs takes
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}
