//! The routes for operators: `/healthz`, `/readyz`, `/metrics`.
//!
//! `/healthz` says that the process turns, nothing more: a restart heals neither a missing permission nor an API server that is
//! away. `/readyz` says whether this replica can answer admission, and what it lacks otherwise.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::gates::Gates;
use crate::metrics::{self, Metrics};
use crate::world::World;

/// Path of the liveness probe.
pub(crate) const HEALTHZ: &str = "/healthz";
/// Path of the readiness probe.
pub(crate) const READYZ: &str = "/readyz";
/// Path of the metrics.
pub(crate) const METRICS: &str = "/metrics";

/// The routes.
pub(crate) fn router(gates: Gates, metrics: Arc<Metrics>, world: Arc<World>) -> Router {
    Router::new()
        .route(HEALTHZ, get(async || "ok\n"))
        .route(READYZ, get(readyz).with_state(gates))
        .route(METRICS, get(render).with_state((metrics, world)))
}

async fn readyz(State(gates): State<Gates>) -> Response {
    let missing = gates.missing();
    if missing.is_empty() {
        "ok\n".into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {}\n", missing.join(", ")),
        )
            .into_response()
    }
}

async fn render(State((metrics, world)): State<(Arc<Metrics>, Arc<World>)>) -> Response {
    match metrics.render(&world.census()) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::serve::{Deadlines, Transport, serve};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    async fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn routes_answer_as_probes_and_scrapers_expect() {
        let (stop, draining) = (CancellationToken::new(), CancellationToken::new());
        let gates = Gates::new(draining.clone());
        let (certificate, rollouts) = (gates.gate("certificate"), gates.gate("rollouts"));
        let metrics = Arc::new(Metrics::new());
        metrics.leads(true);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = serve(
            listener,
            Transport::Plain,
            router(gates, metrics, Arc::default()),
            Deadlines::default(),
            stop.clone(),
        );
        let server = tokio::spawn(server);

        assert!(ask(address, HEALTHZ).await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, READYZ).await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("not ready: certificate, rollouts\n"),
            "{answer}"
        );
        certificate.open();
        rollouts.open();
        assert!(ask(address, READYZ).await.starts_with("HTTP/1.1 200"));
        draining.cancel();
        assert!(ask(address, READYZ).await.ends_with("not ready: draining\n"));
        assert!(ask(address, HEALTHZ).await.starts_with("HTTP/1.1 200"));
        let answer = ask(address, METRICS).await;
        assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("\nkruise_rollout_leader 1\n"), "{answer}");
        assert!(ask(address, "/other").await.starts_with("HTTP/1.1 404"));
        stop.cancel();
        server.await.unwrap().unwrap();
    }
}
