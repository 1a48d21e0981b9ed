use clap::{Args, ValueEnum};
use kruise_rollout::report::State;

use super::Output;

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// Namespace and name.
    Name,
    /// The youngest first.
    Age,
    /// The state's word.
    State,
}

#[derive(Args, Debug)]
pub(crate) struct ListRollouts {
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only those with these labels, such as app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Only those in these states, such as AwaitingApproval,Paused
    #[arg(long, value_name = "STATE", value_delimiter = ',', ignore_case = true,
        value_parser = clap::builder::PossibleValuesParser::new(State::WORDS), hide_possible_values = true)]
    pub(crate) state: Vec<String>,
    /// What to sort by; without it, as the server has them, and long lists begin at once
    #[arg(long, value_name = "FIELD")]
    pub(crate) sort_by: Option<SortBy>,
    /// Leave the headers out
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Go on, and print each row again when it changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}
