//! `cargo cluster`: a local Kubernetes control plane for people, until Ctrl-C.

// Telling a person how to use it is what this program is for.
#![allow(clippy::print_stdout)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use support::{Assets, ControlPlane, Identity, Options};
use tokio::signal::unix::{SignalKind, signal};

/// Runs a local Kubernetes control plane until Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "cluster")]
struct Arguments {
    /// Only build the programs of the control plane.
    #[arg(long)]
    build_only: bool,
    /// Also put the kubeconfigs into this folder; they are removed at the end.
    #[arg(long, value_name = "DIR")]
    kubeconfig_dir: Option<PathBuf>,
    /// Number of fake nodes.
    #[arg(long, default_value_t = 1)]
    nodes: u32,
    /// A further flag of kube-apiserver, such as --feature-gates=…; may be repeated.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    api_server_flag: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if arguments.build_only {
        let assets = tokio::task::spawn_blocking(Assets::locate).await??;
        println!("{}", assets.program("kube-apiserver").display());
        return Ok(());
    }
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let started = Instant::now();
    let options = Options {
        nodes: arguments.nodes,
        api_server_flags: arguments.api_server_flag.clone(),
        ..Options::default()
    };
    let control_plane = tokio::select! {
        control_plane = ControlPlane::start(options) => control_plane?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let kubeconfigs = publish(&control_plane, arguments.kubeconfig_dir.as_deref())?;
    let seconds = started.elapsed().as_secs_f32();
    print!("{}", usage(&control_plane, &kubeconfigs, seconds));
    std::io::stdout().flush()?;

    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    if arguments.kubeconfig_dir.is_some() {
        for (_, path) in kubeconfigs {
            let _ = fs::remove_file(path);
        }
    }
    control_plane.stop().await;
    Ok(())
}

/// Where each identity's kubeconfig is; copied when a folder is given.
fn publish(control_plane: &ControlPlane, folder: Option<&Path>) -> anyhow::Result<Vec<(Identity, PathBuf)>> {
    if let Some(folder) = folder {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let place = |identity: Identity| {
        let source = control_plane.kubeconfig(identity);
        let Some(folder) = folder else {
            return Ok((identity, source));
        };
        // Absolute: what is printed is used in another terminal, in another folder.
        let target = std::path::absolute(folder.join(format!("{}.kubeconfig", identity.name())))?;
        fs::copy(&source, &target).with_context(|| format!("writing {}", target.display()))?;
        Ok((identity, target))
    };
    Identity::ALL.into_iter().map(place).collect()
}

fn usage(control_plane: &ControlPlane, kubeconfigs: &[(Identity, PathBuf)], seconds: f32) -> String {
    let version = control_plane.assets().version();
    let kubectl = control_plane.assets().program("kubectl");
    let mut text = format!("Kubernetes {version} is ready after {seconds:.1} s. Use it with one of:\n");
    for (identity, path) in kubeconfigs {
        text += &format!("  export KUBECONFIG={}   # {}\n", path.display(), identity.user());
    }
    text += &format!(
        "then, for example:\n  {} get nodes\nLogs, audit.log and data: {}\nCtrl-C ends it and removes everything.\n",
        kubectl.display(),
        control_plane.folder().display(),
    );
    text
}
