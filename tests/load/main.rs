//! `cargo load`: many releases at once, many Rollouts at rest, or the plugin among many Rollouts, and what they cost.
//!
//! Runs on a control plane of its own, prints one line of JSON on standard output, and says on standard error how it goes. It
//! measures and judges nothing but the gate: times and sizes depend on the machine, so their judge is the one who reads them.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the answer is on standard output, the talk on standard error"
)]

mod fleet;
mod idle;
mod journal;
mod plugin;
mod reactions;
mod release;
mod requests;
mod stage;
mod stopwatch;
mod usage;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, ValueEnum};
use serde_json::Value;

/// Measures releases of many workloads at once, Rollouts at rest, or the plugin among them.
///
/// Starts a throwaway Kubernetes control plane on this machine with the product on it. Ends with 0 if it could measure and the gate
/// held, 1 if not, 2 for wrong usage.
#[derive(Debug, Parser)]
#[command(name = "load", bin_name = "cargo load", max_term_width = 100)]
struct Arguments {
    /// Workloads, each with its Rollout; with --idle none will do
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=20_000))]
    rollouts: u32,
    /// Pods of a workload
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=1_000))]
    replicas: u32,
    /// Pause after each of the first two steps, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pause: u32,
    /// Kind of the workloads
    #[arg(long, value_enum, default_value = "statefulset")]
    kind: Kind,
    /// Update the same workloads without any product
    #[arg(long)]
    bare: bool,
    /// Run this shell command instead of the product; it installs itself, with the administrator's KUBECONFIG
    #[arg(long, value_name = "COMMAND", conflicts_with = "bare")]
    controller: Option<String>,
    /// Release nothing: measure what Rollouts cost that have nothing to do
    #[arg(long, conflicts_with_all = ["bare", "replicas", "pause"])]
    idle: bool,
    /// Pods that belong to nobody, beside the Rollouts at rest
    #[arg(long, value_name = "N", default_value_t = 0, requires = "idle", value_parser = clap::value_parser!(u32).range(..=50_000))]
    pods: u32,
    /// How long rest is measured, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "idle", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Release nothing: measure what the commands of the plugin cost
    #[arg(long, conflicts_with_all = ["bare", "controller", "idle", "replicas", "pause"])]
    plugin: bool,
    /// Measure this build of the controller, or with --plugin of the plugin, instead of the present one
    #[arg(long, value_name = "PATH", conflicts_with_all = ["bare", "controller"])]
    program: Option<std::path::PathBuf>,
}

/// A kind of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Kubernetes' own, updated by its own controller.
    Statefulset,
    /// The example of a custom workload, updated by the example operator.
    Mystatefulapp,
}

impl Kind {
    /// The word on the command line.
    fn word(self) -> &'static str {
        match self {
            Self::Statefulset => "statefulset",
            Self::Mystatefulapp => "mystatefulapp",
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(code) = stopwatch::in_between() {
        return code;
    }
    let arguments = Arguments::parse();
    if arguments.rollouts == 0 && !arguments.idle {
        let words = "--rollouts 0 measures a controller with nothing to do: add --idle";
        Arguments::command()
            .error(clap::error::ErrorKind::ValueValidation, words)
            .exit();
    }
    let measured = if arguments.plugin {
        plugin::measure(&arguments).await
    } else if arguments.idle {
        idle::measure(&arguments).await
    } else {
        release::measure(&arguments).await
    };
    match measured {
        Ok(answer) => {
            println!("{answer}");
            let held = answer.get("gate_violations").is_none_or(|count| count == 0);
            if held {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What every answer begins with.
fn heading(arguments: &Arguments) -> Value {
    let runs = match (&arguments.controller, arguments.bare || arguments.plugin) {
        (Some(command), _) => command.as_str(),
        (None, true) => "nothing",
        (None, false) => "kruise-rollout",
    };
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    serde_json::json!({
        "controller": runs,
        "profile": profile,
        "kind": arguments.kind.word(),
        "rollouts": arguments.rollouts,
        "load_average_before": usage::load_average(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
