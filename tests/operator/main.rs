//! An operator for StatefulSet-like custom resources: ordinal pods, updated from the highest ordinal down to
//! `spec.updateStrategy.rollingUpdate.partition`. It also stands in for the controllers of OpenKruise.
#![allow(clippy::print_stdout, reason = "printing the CRD is what `crd` is for")]

mod app;
mod crd;
mod kind;
mod kruise;
mod observed;
mod plan;
mod pod;
mod reconcile;
mod revision;
mod run;
mod write;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

use crate::kind::{Kind, KindArgs};

#[derive(Parser)]
#[command(version, about = "Operator for StatefulSet-like custom resources")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Operate the apps of a cluster until stopped
    Run {
        /// Kubeconfig file, instead of the usual places
        #[arg(long, value_name = "PATH")]
        kubeconfig: Option<PathBuf>,

        /// Operate in this namespace only
        #[arg(long, value_name = "NS")]
        namespace: Option<String>,

        /// Leave a member out of the status, as operators do that report less (may be repeated)
        #[arg(long, value_name = "FIELD", value_parser = PossibleValuesParser::new(app::STATUS_FIELDS))]
        omit_status: Vec<String>,

        /// Label of pods that names their revision, for operators that do not use the usual one
        #[arg(long, value_name = "KEY", default_value = kind::REVISION_LABEL)]
        revision_label: String,

        #[command(flatten)]
        kind: KindArgs,
    },
    /// Print the CustomResourceDefinition
    Crd {
        #[command(flatten)]
        kind: KindArgs,

        #[command(flatten)]
        schema: crd::SchemaArgs,
    },
}

// One thread is plenty: the work is waiting for the API server.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Run {
            kubeconfig,
            namespace,
            omit_status,
            revision_label,
            kind,
        } => {
            let kind = Kind {
                revision_label,
                ..kind.into()
            };
            let filter = tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
            tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_ansi(std::io::stderr().is_terminal())
                .with_writer(std::io::stderr)
                .init();
            let client = run::client(kubeconfig.as_deref()).await?;
            run::run(client, kind, namespace.as_deref(), omit_status).await
        }
        Command::Crd { kind, schema } => {
            let kind = Kind::from(kind);
            let manifest = match kind.kruise {
                Some(kruise) => kruise::crd::manifest(kruise),
                None => crd::manifest(&kind, schema),
            };
            print!("{}", serde_saphyr::to_string(&manifest)?);
            Ok(())
        }
    }
}
