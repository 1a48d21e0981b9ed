//! The binary `kruise-rollout-controller`: controller and admission webhook of kruise-rollout.
//!
//! `main` reads the command line and hands over: [`app`] runs, [`manifests`] prints.

mod admin;
mod app;
mod args;
mod certs;
#[allow(dead_code, reason = "gates are shut by parts that come later")]
mod gates;
mod manifests;
#[allow(dead_code, reason = "counted by parts that come later")]
mod metrics;
mod shutdown;
mod telemetry;
mod webhook;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run(args) => app::run(args),
        Command::Manifests(args) => manifests::print(&args),
        Command::Uninstall(args) => app::uninstall(&args),
    }
}
