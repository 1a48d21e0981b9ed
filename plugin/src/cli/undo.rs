//! Arguments of `rollout undo` and `rollout abort`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::writing::Writing;
use crate::duration::parse_duration;

#[derive(Args, Debug)]
pub(crate) struct Undo {
    /// NAME, rollout/NAME or rollout NAME; or a workload, TYPE/NAME
    #[arg(required = true, num_args = 1..=2, value_name = "TARGET")]
    pub(crate) target: Vec<String>,
    /// Revision to go back to: its number, or at least four letters of its hash; 0 is the one before
    #[arg(long, value_name = "REVISION", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) to_revision: Option<String>,
    /// Take the template from this manifest of the workload; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "to_revision")]
    pub(crate) from_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) manner: Manner,
}

#[derive(Args, Debug)]
pub(crate) struct Abort {
    /// NAME, rollout/NAME or rollout NAME; or a workload, TYPE/NAME
    #[arg(required = true, num_args = 1..=2, value_name = "TARGET")]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) manner: Manner,
}

/// How a template is put back.
#[derive(Args, Debug)]
pub(crate) struct Manner {
    /// Show first what changes in the template, as a unified diff
    #[arg(long)]
    pub(crate) diff: bool,
    /// Wait until the pods are back
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: how long, such as 30s or 10m; 0 waits for ever
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}
