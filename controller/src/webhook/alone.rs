//! The webhook by itself, among Rollouts that it is given: for benchmarks. It asks no API server.

use std::sync::Arc;

use axum::Router;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::area::Area;
use kube::{Client, Config};
use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::serve::{Deadlines, Transport};
use crate::context::Context;
use crate::queue::Queue;

pub use super::handlers::MUTATE;

/// The routes of a webhook that knows these Rollouts. To be called within a Tokio runtime.
///
/// # Errors
/// No client can be made, although none is used.
pub fn router(rollouts: impl IntoIterator<Item = Rollout>) -> kube::Result<Router> {
    let context = context()?;
    for rollout in rollouts {
        context.world.put_rollout(rollout);
    }
    context.world.rollouts_known();
    Ok(super::router(Arc::new(context)))
}

/// Serves it over TLS, as the process does, until the stop.
///
/// # Errors
/// TLS cannot be spoken.
pub async fn serve(
    listener: TcpListener,
    keys: Arc<dyn ResolvesServerCert>,
    router: Router,
    stop: CancellationToken,
) -> Result<(), rustls::Error> {
    let transport = Transport::tls(keys)?;
    let Ok(()) = super::serve::serve(listener, transport, router, Deadlines::default(), stop).await;
    Ok(())
}

/// A world without anything in it, and an API server that nobody reaches.
pub(super) fn context() -> kube::Result<Context> {
    let (events, _) = mpsc::channel(1);
    let nobody = Config::new(axum::http::Uri::from_static("http://127.0.0.1:1"));
    Ok(Context {
        client: Client::try_from(nobody)?,
        area: Area::whole("ops"),
        username: "controller".to_owned(),
        replace_stuck_pods: false,
        keeps_held: false,
        world: Arc::default(),
        queue: Queue::new(),
        metrics: Arc::default(),
        kinds_changed: Notify::new(),
        releases_changed: Notify::new(),
        definitions: watch::Sender::new(0),
        registered: watch::Sender::new(Vec::new()),
        beside_another: watch::Sender::new(false),
        events,
    })
}
