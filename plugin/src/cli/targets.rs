//! Which Rollouts a command is about.

use clap::{ArgGroup, Args};

/// Rollouts by name, by workload, or by selection.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("selection").args(["selector", "all"]).multiple(true)))]
pub(crate) struct Targets {
    /// NAME, rollout/NAME or rollout NAME; or a workload, TYPE/NAME, for the Rollout that releases it
    #[arg(value_name = "TARGET", required_unless_present = "selection", conflicts_with_all = ["selection", "all_namespaces"])]
    pub(crate) words: Vec<String>,
    /// Those whose labels fit, such as app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// All in the namespace
    #[arg(long)]
    pub(crate) all: bool,
    /// With -l or --all: in all namespaces
    #[arg(short = 'A', long, requires = "selection")]
    pub(crate) all_namespaces: bool,
    /// With -l or --all: fail when there is none
    #[arg(long, requires = "selection")]
    pub(crate) fail_if_empty: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        targets: Targets,
    }

    #[test]
    fn names_or_a_selection() {
        for (line, allowed) in [
            ("x web", true),
            ("x web shop", true),
            ("x -l app=web", true),
            ("x --all", true),
            ("x --all -l app=web -A --fail-if-empty", true),
            ("x", false),
            ("x web -l app=web", false),
            ("x web --all", false),
            ("x web -A", false),
            ("x -A", false),
            ("x web --fail-if-empty", false),
        ] {
            let parsed = Line::try_parse_from(line.split(' '));
            match parsed {
                Ok(parsed) => assert!(allowed, "{line}: {:?}", parsed.targets),
                Err(error) => assert!(!allowed && error.exit_code() == 2, "{line}: {error}"),
            }
        }
    }
}
