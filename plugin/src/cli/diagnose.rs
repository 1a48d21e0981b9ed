//! Arguments of the commands that tell what is wrong: doctor, explain, check, list, plan, lint.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Format of an answer that has no short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Where the controller is.
#[derive(Args, Debug)]
pub(crate) struct Installed {
    /// Namespace that the controller is installed into
    #[arg(long, value_name = "NAME", default_value = kruise_rollout::names::DEFAULT_NAMESPACE, value_parser = crate::target::namespace)]
    pub(crate) controller_namespace: String,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// A Rollout (NAME, rollout/NAME) or a workload (TYPE/NAME); without one, all Rollouts of the namespace
    #[arg(num_args = 0..=2, value_name = "TARGET")]
    pub(crate) target: Vec<String>,
    /// Exit with code 3 on warnings, too
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) installed: Installed,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// A Rollout (NAME, rollout/NAME) or its workload (TYPE/NAME)
    #[arg(required = true, num_args = 1..=2, value_name = "TARGET")]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) installed: Installed,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    /// A workload, TYPE/NAME, or rollout/NAME for its workload
    #[arg(num_args = 0..=2, value_name = "WORKLOAD", required_unless_present = "crd", conflicts_with = "crd")]
    pub(crate) target: Vec<String>,
    /// Check a kind instead, by the name of its CustomResourceDefinition
    #[arg(long, value_name = "NAME", value_parser = crate::target::object_name)]
    pub(crate) crd: Option<String>,
    /// Let the API server try a hold, by a dry-run
    #[arg(long, conflicts_with = "crd")]
    pub(crate) probe: bool,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct Plan {
    /// A Rollout (NAME, rollout/NAME) or its workload (TYPE/NAME)
    #[arg(num_args = 0..=2, value_name = "TARGET", required_unless_present = "filename", conflicts_with = "filename")]
    pub(crate) target: Vec<String>,
    /// Take the Rollout from a file, `-` for standard input; needs no cluster
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: Option<PathBuf>,
    /// Number of pods, where the workload is not in the file, or another one than it has
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    pub(crate) replicas: Option<u32>,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

/// Format of the problems of manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// SARIF 2.1.0, as code hosts and editors take it.
    Sarif,
}

#[derive(Args, Debug)]
pub(crate) struct Lint {
    /// Files with Rollouts and their workloads, `-` for standard input; may be repeated
    #[arg(short, long, required = true, num_args = 1.., value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,
    /// Ask the cluster, too: other Rollouts, the workload, its schema, and a dry-run
    #[arg(long)]
    pub(crate) online: bool,
    /// Exit with code 3 on warnings, too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Leave a rule out, such as KR007; may be repeated
    #[arg(long, value_name = "ID", value_parser = rule)]
    pub(crate) allow: Vec<kruise_rollout::diagnosis::lint::Rule>,
    /// Number of pods of workloads that are in no file
    #[arg(long, value_name = "NUMBER")]
    pub(crate) replicas: Option<u32>,
    /// Print in this format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<LintFormat>,
}

fn rule(text: &str) -> Result<kruise_rollout::diagnosis::lint::Rule, String> {
    use kruise_rollout::diagnosis::lint::Rule;
    Rule::of_id(text).ok_or_else(|| {
        let ids: Vec<_> = Rule::ALL.into_iter().map(Rule::id).collect();
        format!("there is no such rule: write one of {}", ids.join(", "))
    })
}
