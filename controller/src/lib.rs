//! Controller and admission webhook of kruise-rollout: all of the binary `kruise-rollout-controller`.
//!
//! [`main`] reads the command line and hands over: `app` runs, `manifests` prints. It is a library so that benchmarks reach
//! [`webhook::alone`]; nothing else is meant for others.

mod admin;
mod app;
mod args;
mod backoff;
mod certs;
mod connect;
mod context;
mod events;
mod gates;
mod lease;
mod manifests;
mod metrics;
mod pace;
mod queue;
mod reconcile;
mod registration;
mod shutdown;
mod telemetry;
mod triggers;
mod uninstall;
pub mod webhook;
mod world;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command};

/// The program.
pub fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run(args) => app::run(args),
        Command::Manifests(args) => manifests::print(&args),
        Command::Uninstall(args) => app::uninstall(args),
    }
}
