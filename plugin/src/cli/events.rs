use std::time::Duration;

use clap::Args;

use super::Output;
use crate::duration::parse_duration;

#[derive(Args, Debug)]
pub(crate) struct Events {
    /// A Rollout: NAME, rollout/NAME or rollout NAME
    #[arg(required = true, num_args = 1..=2, value_name = "ROLLOUT")]
    pub(crate) target: Vec<String>,
    /// Only what was told in this time, such as 10m or 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Go on, and print events as they come
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Leave the headers out
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}
