//! `cargo demo`: a release of a custom workload, walked live on a control plane of its own.

// The story is told on standard output, progress and errors on standard error.
#![allow(clippy::print_stderr)]

mod approval;
mod latency;
mod stage;
mod story;
mod timeline;
mod walk;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use support::{Assets, ControlPlane, Identity, Options, build_binaries};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::latency::Latencies;
use crate::stage::Stage;
use crate::story::Story;
use crate::timeline::Timeline;
use crate::walk::{Images, Walk};

/// Walks through a release of a custom workload: steps, an approval, a timed pause, completion, a second release, a rollback.
///
/// Starts a throwaway Kubernetes control plane on this machine, installs the product on it, and runs the real controller, plugin and
/// example operator. Ends with 0 if everything but the times is as expected, 1 if not, 2 for wrong usage, 130 or 143 for a signal.
#[derive(Debug, Parser)]
#[command(name = "demo", bin_name = "cargo demo", max_term_width = 100)]
struct Arguments {
    /// Approve without asking
    #[arg(short, long)]
    yes: bool,
    /// Leave everything up at the end, say how to use it, and clean up at Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Use the cluster of this context of the kubeconfig, in a namespace of its own
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Three images, for a cluster whose nodes are real
    #[arg(long, value_name = "V1,V2,V3", value_parser = parse_images,
        default_value = "my-registry/my-app:v1,my-registry/my-app:v2,my-registry/my-app:v3")]
    images: Images,
}

fn parse_images(text: &str) -> Result<Images, String> {
    let images: Vec<_> = text.split(',').map(str::to_owned).collect();
    match Images::try_from(images) {
        Ok(images) if images[0] != images[1] && images[1] != images[2] && images[0] != images[2] => {
            Ok(images)
        }
        _ => Err("three different images, separated by commas".to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.yes && !approval::can_ask() {
        eprintln!("error: the demo asks for an approval, and standard input is no terminal: use --yes");
        return ExitCode::from(2);
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let code = runtime.block_on(async {
        match Signals::listen() {
            Ok(signals) => demonstrate(&arguments, signals).await,
            Err(error) => Err(error.into()),
        }
    });
    // Neither a build nor a question that a signal has ended is waited for.
    runtime.shutdown_background();
    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

/// What ends the demo from outside.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The exit code of the signal that comes next.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}

/// The whole demo; its exit code.
async fn demonstrate(arguments: &Arguments, mut signals: Signals) -> anyhow::Result<u8> {
    let mut story = Story::new();
    tokio::select! {
        built = build(arguments.context.is_some()) => built?,
        code = signals.next() => return Ok(code),
    }
    let begun = Instant::now();
    let control_plane = tokio::select! {
        control_plane = cluster(arguments, &mut story) => control_plane?,
        code = signals.next() => return Ok(code),
    };
    let mut stage = Stage::new(&control_plane)?;
    let outcome = tokio::select! {
        outcome = walk(arguments, &mut story, &mut stage) => outcome,
        code = signals.next() => {
            eprintln!("\ncleaning up");
            return cleared(stage, signals).await.map(|()| code);
        }
    };
    if let Err(error) = &outcome {
        story.differ(&format!("{error:#}"));
        let by_the_program = error.downcast_ref::<approval::Refused>().is_none();
        if let Some(log) = stage.controller_log().filter(|_| by_the_program) {
            eprintln!("the end of the controller's log:\n{log}");
        }
    }
    let as_expected = story.end(begun.elapsed());
    if arguments.keep {
        story.tell(&usage(&stage));
        signals.next().await;
    }
    cleared(stage, signals).await?;
    Ok(u8::from(!as_expected))
}

/// Builds everything that is missing. What is told afterwards takes less than a minute.
async fn build(existing_cluster: bool) -> anyhow::Result<()> {
    let start = Instant::now();
    eprintln!("building controller, plugin and operator");
    let built = tokio::task::spawn_blocking(move || {
        if !existing_cluster {
            Assets::locate()?;
        }
        build_binaries().map(drop)
    });
    built.await??;
    if start.elapsed() > Duration::from_secs(3) {
        eprintln!("built in {} s", start.elapsed().as_secs());
    }
    Ok(())
}

async fn cluster(arguments: &Arguments, story: &mut Story) -> anyhow::Result<ControlPlane> {
    if let Some(context) = &arguments.context {
        story.chapter(&format!("The cluster of context {context}"));
        let control_plane = ControlPlane::existing_context(context).await?;
        story.tell("Developer and approver are impersonated.");
        return Ok(control_plane);
    }
    story.chapter("A throwaway Kubernetes on this machine");
    let start = Instant::now();
    let control_plane = ControlPlane::start(Options::default()).await?;
    story.tell("etcd, API server, controller manager and scheduler are the real ones; nodes and containers are fake (kwok).");
    let version = control_plane.assets().version();
    story.seen(
        &format!("Kubernetes {version} is ready"),
        Some((start.elapsed(), "its start")),
    );
    Ok(control_plane)
}

async fn walk(arguments: &Arguments, story: &mut Story, stage: &mut Stage<'_>) -> anyhow::Result<()> {
    story.chapter("The product, from its own manifests");
    stage.install(story).await?;
    story.chapter("A custom kind, and its operator");
    stage.define(story).await?;
    let client = stage.control_plane.client(Identity::Admin).await?;
    let timeline = Timeline::watch(&client, &stage.namespace);
    let walk = Walk {
        story,
        stage,
        timeline: &timeline,
        images: &arguments.images,
        approve: arguments.yes,
        latencies: Latencies::default(),
    };
    walk.go().await
}

/// Ends everything; a second signal stops waiting for it.
async fn cleared(stage: Stage<'_>, mut signals: Signals) -> anyhow::Result<()> {
    tokio::select! {
        cleared = stage.clear() => cleared,
        _ = signals.next() => Ok(()),
    }
}

/// How to use what was left up.
fn usage(stage: &Stage<'_>) -> String {
    let kubeconfig = stage.control_plane.kubeconfig(Identity::Admin);
    let folders = std::env::join_paths(stage.programs()).unwrap_or_default();
    format!(
        "\nEverything stays up until Ctrl-C. In another terminal:\n\
         \u{20} export KUBECONFIG={}\n\
         \u{20} export PATH=\"{}:$PATH\"\n\
         \u{20} cd {}\n\
         \u{20} kubectl get rollouts,mystatefulapps,pods -n {namespace}\n\
         \u{20} kubectl patch mystatefulapp my-app -n {namespace} --type=merge \\\n\
         \u{20}   -p '{{\"spec\":{{\"template\":{{\"spec\":{{\"containers\":[{{\"name\":\"app\",\"image\":\"my-registry/my-app:v4\"}}]}}}}}}}}'\n\
         \u{20} kubectl kruise rollout status rollout/my-app-rollout -n {namespace} --exit-on-pause\n\
         \u{20} kubectl kruise rollout approve rollout/my-app-rollout -n {namespace}\n\
         \u{20} kubectl kruise rollout status rollout/my-app-rollout -n {namespace}",
        kubeconfig.display(),
        folders.display(),
        stage.folder().display(),
        namespace = stage.namespace,
    )
}
