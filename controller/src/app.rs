//! Wiring: makes the parts of the controller, connects them, and runs them under one supervisor.
//!
//! Nothing is decided here. Each part takes what it needs as arguments; the order in which the parts start does not matter,
//! because readiness waits for all of them.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kruise_rollout::names;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};

use crate::admin;
use crate::args::{Admission, LogFormat, Run, Uninstall};
use crate::certs::{self, Lifetimes, Served, ServedKey, Trusted};
use crate::connect::{self, connect, introduce};
use crate::context::Context;
use crate::gates::Gates;
use crate::lease::{self, Leadership};
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::registration::{Endpoint, Governed, Inputs, Registrar, Switches};
use crate::shutdown::{ENDPOINT_PAUSE, Ends as _, GRACE, Signals, Supervisor};
use crate::telemetry::{self, chain};
use crate::webhook::serve::{Deadlines, Transport, serve};
use crate::world::World;
use crate::{events, reconcile, triggers, webhook};

/// Threads that the controller runs on, however many processors its node has: it waits for the API server most of the time, and each
/// thread keeps memory of its own.
const THREADS: usize = 2;

/// Why the process did not come up.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("log")]
    Telemetry(#[from] telemetry::SetupError),
    #[error(transparent)]
    Connect(#[from] connect::Error),
    #[error("cannot {what}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{0}")]
    Area(String),
    #[error("uninstall")]
    Uninstall(#[from] crate::uninstall::Error),
    #[error("TLS")]
    Tls(#[from] rustls::Error),
}

/// Runs the controller until a signal or a failure ends it.
pub(crate) fn run(args: Run) -> ExitCode {
    with_runtime(args.log_format, start(args))
}

fn with_runtime(format: LogFormat, work: impl Future<Output = Result<u8, Error>>) -> ExitCode {
    let started = telemetry::init(format).map_err(Error::from).and_then(|()| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build();
        runtime.map_err(|source| Error::Io {
            what: "start the runtime".to_owned(),
            source,
        })
    });
    let runtime = match started {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let code = match runtime.block_on(work) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    };
    // Whatever still runs after a second signal is not waited for.
    runtime.shutdown_background();
    code
}

/// Uninstalls the product from the cluster.
pub(crate) fn uninstall(args: Uninstall) -> ExitCode {
    with_runtime(LogFormat::Text, async move {
        let client = connect(&args.connect).await?;
        let area = args.part.area(&args.connect.namespace).map_err(Error::Area)?;
        crate::uninstall::uninstall(&client, &area, args.dry_run).await?;
        Ok(0)
    })
}

#[allow(clippy::print_stderr, reason = "the log may be what failed")]
fn fail(error: &Error) -> ExitCode {
    eprintln!("error: {}", chain(error));
    ExitCode::FAILURE
}

async fn start(args: Run) -> Result<u8, Error> {
    let pause = if args.webhook_url.is_some() {
        Duration::ZERO
    } else {
        ENDPOINT_PAUSE
    };
    let area = args.part.area(&args.connect.namespace).map_err(Error::Area)?;
    let mut signals = Signals::listen().map_err(|source| Error::Io {
        what: "listen to signals".to_owned(),
        source,
    })?;
    let mut supervisor = Supervisor::new(pause, GRACE);
    let (drain, stop) = (supervisor.drain(), supervisor.stop());
    let metrics = Arc::new(Metrics::new());
    let gates = Gates::new(drain);

    let admin = bind(args.admin_bind).await?;
    let world = Arc::new(World::default());
    let routes = admin::router(gates.clone(), metrics.clone(), world.clone());
    supervisor.spawn(
        "admin",
        serve(
            admin,
            Transport::Plain,
            routes,
            Deadlines::default(),
            stop.clone(),
        ),
    );

    let client = connect(&args.connect).await?;
    let introduction = tokio::select! {
        introduction = introduce(&client, &area) => introduction?,
        _ = signals.next() => return Ok(0),
    };
    let (events, announced) = mpsc::channel(events::BACKLOG);
    let (watched_kinds, kinds) = watch::channel(Governed::default());
    let context = Arc::new(Context {
        username: introduction.username,
        client: client.clone(),
        area,
        replace_stuck_pods: args.pods.replace_stuck_pods,
        keeps_held: args.hold.keep_held_on_deletion,
        world,
        queue: Queue::new(),
        metrics: metrics.clone(),
        kinds_changed: Notify::new(),
        releases_changed: Notify::new(),
        definitions: watch::Sender::new(0),
        registered: watch::Sender::new(Vec::new()),
        beside_another: watch::Sender::new(false),
        events,
    });

    let (trust, trusted) = watch::channel(Trusted::default());
    let keys = Arc::new(ServedKey::default());
    let served = Served {
        keys: keys.clone(),
        trusted,
        metrics,
        ready: gates.gate("certificate"),
    };
    let (namespace, host) = (
        &args.connect.namespace,
        args.webhook_url.as_ref().map(|url| url.host()),
    );
    let certificates = match args.tls_dir {
        Some(directory) => {
            let (follower, state) = certs::from_files(served, directory, namespace, host);
            supervisor.spawn("certificates", follower.keep(stop.clone()));
            state
        }
        None => {
            let lives = Lifetimes::of_leaf(Duration::from_secs(args.certificate_life));
            let (keeper, state) = certs::self_made(served, client.clone(), namespace, host, lives);
            supervisor.spawn("certificates", keeper.keep(stop.clone()));
            state
        }
    };

    let webhook = bind(args.webhook_bind).await?;
    let routes = webhook::router(context.clone());
    supervisor.spawn(
        "webhook",
        serve(
            webhook,
            Transport::tls(keys)?,
            routes,
            Deadlines::default(),
            stop.clone(),
        ),
    );

    let leadership = if args.leader_elect {
        let (keeper, leadership) = lease::Keeper::new(
            client.clone(),
            &args.connect.namespace,
            identity(),
            context.metrics.clone(),
        );
        supervisor.spawn("lease", keeper.keep(stop.clone()));
        leadership
    } else {
        Leadership::alone()
    };
    let endpoint = match &args.webhook_url {
        Some(url) => Endpoint::Url(url.base().to_owned()),
        None => Endpoint::Service(args.connect.namespace.clone()),
    };
    let inputs = Inputs {
        kinds,
        certificates,
        trusted: trust,
    };
    let switches = Switches {
        hold: args.hold.admission == Admission::Auto,
        jumps: args.people.approvers_may_jump,
    };
    let (registrar, prover) = Registrar::new(context.clone(), endpoint, leadership.clone(), switches, inputs);
    supervisor.spawn("registration", registrar.keep(stop.clone()));
    supervisor.spawn("policies", prover.keep(stop.clone()));
    let known = gates.gate("rollouts");
    supervisor.spawn(
        "rollouts",
        triggers::follow_rollouts(context.clone(), known, stop.clone()),
    );
    supervisor.spawn(
        "definitions",
        triggers::follow_definitions(context.clone(), stop.clone()),
    );
    supervisor.spawn(
        "another controller",
        triggers::follow_another(context.clone(), stop.clone()),
    );
    supervisor.spawn(
        "kinds",
        triggers::follow_kinds(
            context.clone(),
            introduction.registered,
            watched_kinds,
            stop.clone(),
        ),
    );
    supervisor.spawn("pods", triggers::follow_pods(context.clone(), stop.clone()));
    supervisor.spawn("events", events::publish(client, announced, stop.clone()));
    supervisor.spawn(
        "reconcile",
        reconcile::work(context, leadership, args.workers, stop),
    );

    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        namespace = args.connect.namespace,
        watch_namespaces = args.part.watch_namespaces.join(","),
        admin = %args.admin_bind,
        webhook = %args.webhook_bind,
        url = args.webhook_url.as_ref().map(|url| url.base()),
        leader_elect = args.leader_elect,
        workers = args.workers,
        "Started."
    );
    Ok(supervisor.run(signals).await)
}

async fn bind(address: std::net::SocketAddr) -> Result<TcpListener, Error> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| Error::Io {
        what: format!("listen on {address}"),
        source,
    })
}

/// The name of this process in the lease: the pod's name where there is one, and something that no other process has.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| names::CONTROLLER.to_owned());
    format!(
        "{host}_{}_{}",
        std::process::id(),
        jiff::Timestamp::now().as_microsecond()
    )
}
