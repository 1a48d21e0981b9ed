use clap::Args;

use super::Output;

#[derive(Args, Debug)]
pub(crate) struct History {
    /// A Rollout: NAME, rollout/NAME or rollout NAME
    #[arg(required = true, num_args = 1..=2, value_name = "ROLLOUT")]
    pub(crate) target: Vec<String>,
    /// Show the template of this revision: its number, its hash, `stable` or `update`
    #[arg(long, value_name = "REVISION", conflicts_with = "diff")]
    pub(crate) revision: Option<String>,
    /// Show what differs between two revisions, written as A..B
    #[arg(long, value_name = "A..B", value_parser = two)]
    pub(crate) diff: Option<(String, String)>,
    /// How many revisions to show, the newest first
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["revision", "diff"])]
    pub(crate) limit: Option<std::num::NonZeroUsize>,
    /// Leave the headers out
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}

fn two(text: &str) -> Result<(String, String), String> {
    match text.split_once("..") {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.to_owned(), to.to_owned())),
        _ => Err(format!("{text:?} names no two revisions: write it like 1..2")),
    }
}
