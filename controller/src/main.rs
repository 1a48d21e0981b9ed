//! The binary `kruise-rollout-controller`: controller and admission webhook of kruise-rollout.
//!
//! `main` reads the command line and hands over: [`app`] runs, [`manifests`] prints.

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
mod webhook;
mod world;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run(args) => app::run(args),
        Command::Manifests(args) => manifests::print(&args),
        Command::Uninstall(args) => app::uninstall(args),
    }
}
