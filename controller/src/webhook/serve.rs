//! The HTTP server of this process: accept, TLS, HTTP/1.1 and HTTP/2, limits, and a drain that loses no request.
//!
//! Everything that a peer can do wrong ends its own connection and nothing else: a handshake that stalls, headers or a body that do
//! not come, garbage on the port, a dead peer. An error of `accept` never ends the loop, because a webhook that has stopped
//! listening blocks its users. At the stop the port closes, each connection finishes the requests that it has, and what is not
//! done at the deadline is cut.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::telemetry::chain;

/// Largest body that is read, in bytes: a review holds the old and the new object, each of at most about 3 MiB in JSON.
pub(crate) const BODY_LIMIT: usize = 8 * 1024 * 1024;
/// Bytes that a peer may send ahead on one HTTP/2 stream, so that a large review needs no round trips for permission.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// How often an idle HTTP/2 peer is asked whether it lives, and how long it may take to say so.
const PING: Duration = Duration::from_secs(30);
/// Pause after an `accept` that failed for want of files or memory: the next would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// The TLS handshake.
    pub(crate) handshake: Duration,
    /// The first request of a connection, and the headers of each HTTP/1.1 request; so long may HTTP/1.1 be idle.
    pub(crate) header: Duration,
    /// A request, from its headers to the answer. The API server waits at most 30 s.
    pub(crate) request: Duration,
    /// All connections together, from the stop on.
    pub(crate) drain: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(5),
            request: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

/// What lies between TCP and HTTP.
#[derive(Clone)]
pub(crate) enum Transport {
    /// Nothing.
    Plain,
    /// TLS.
    Tls(TlsAcceptor),
}

impl Transport {
    /// TLS with the keys that `keys` hands out, asked again for each connection.
    pub(crate) fn tls(keys: Arc<dyn ResolvesServerCert>) -> Result<Self, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(keys);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // The few clients keep their connections, and a resumed session would skip the present certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self::Tls(TlsAcceptor::from(Arc::new(config))))
    }
}

/// Serves `router` on `listener` until `stop`, then drains. The router need not limit bodies or time.
pub(crate) async fn serve(
    listener: TcpListener,
    transport: Transport,
    router: Router,
    deadlines: Deadlines,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let router = router
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(move |request, next| {
            in_time(deadlines.request, request, next)
        }));
    let cut = CancellationToken::new();
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let serving = connection(stream, transport.clone(), router.clone(), deadlines, stop.clone());
                let cut = cut.clone();
                connections.spawn(async move {
                    if let Some(Err(error)) = cut.run_until_cancelled(serving).await {
                        tell(peer, &error);
                    }
                });
            }
            Err(error) if concerns_one_peer(&error) => {}
            Err(error) => {
                tracing::warn!(error = chain(&error), "Cannot accept connections.");
                let _ = stop.run_until_cancelled(sleep(ACCEPT_PAUSE)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if timeout(deadlines.drain, connections.wait()).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "Connections were cut at the end of the drain."
        );
        cut.cancel();
        connections.wait().await;
    }
    Ok(())
}

/// Why a connection ended before its time.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("handshake")]
    Handshake(#[source] io::Error),
    #[error("nothing was said in time")]
    Silent,
    #[error("HTTP")]
    Http(#[source] Box<dyn std::error::Error + Send + Sync>),
}

async fn connection(
    stream: TcpStream,
    transport: Transport,
    router: Router,
    deadlines: Deadlines,
    stop: CancellationToken,
) -> Result<(), Broken> {
    // Answers are small and waited for: no byte of them may wait for a fuller packet. Only a dead socket refuses this.
    let _ = stream.set_nodelay(true);
    let http = http(deadlines);
    match transport {
        Transport::Plain => speak(stream, http, router, deadlines.header, stop).await,
        Transport::Tls(acceptor) => {
            let stream = timeout(deadlines.handshake, acceptor.accept(stream)).await;
            let stream = stream.map_err(|_| Broken::Silent)?.map_err(Broken::Handshake)?;
            // The handshake has settled the version, so that a peer that then sends nothing meets the deadline of that version.
            let http = match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => http.http2_only(),
                _ => http.http1_only(),
            };
            speak(stream, http, router, deadlines.header, stop).await
        }
    }
}

fn http(deadlines: Deadlines) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.header);
    http.http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    http
}

/// Speaks HTTP until the peer leaves, or until the requests at hand at the stop are answered. A peer that asks nothing in time is
/// left: HTTP/2 by itself would wait for its first bytes for ever.
async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    http: auto::Builder<TokioExecutor>,
    router: Router,
    first_request: Duration,
    stop: CancellationToken,
) -> Result<(), Broken> {
    let asked = CancellationToken::new();
    let (router, asks) = (TowerToHyperService::new(router), asked.clone());
    let service = service_fn(move |request| {
        asks.cancel();
        router.call(request)
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut silence = pin!(timeout(first_request, asked.cancelled()));
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(Broken::Http),
            heard = silence.as_mut(), if !asked.is_cancelled() => heard.map_err(|_| Broken::Silent)?,
            () = stop.cancelled() => break,
        }
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection.as_mut() => ended.map_err(Broken::Http),
        Err(_) = silence, if !asked.is_cancelled() => Err(Broken::Silent),
    }
}

/// Answers 408 to a request whose body does not come, or that takes too long otherwise.
async fn in_time(deadline: Duration, request: Request, next: Next) -> Response {
    match timeout(deadline, next.run(request)).await {
        Ok(response) => response,
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// Whether an error of `accept` concerns the connection that it would have been, not the port.
fn concerns_one_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

/// Tells of a broken connection: loudly only if the peer refused our certificate, because that keeps reviews from coming.
fn tell(peer: std::net::SocketAddr, broken: &Broken) {
    let refused = match broken {
        Broken::Handshake(error) => error
            .get_ref()
            .and_then(|source| source.downcast_ref::<rustls::Error>()),
        Broken::Silent | Broken::Http(_) => None,
    };
    let error = chain(broken);
    if let Some(rustls::Error::AlertReceived(alert)) = refused {
        tracing::warn!(%peer, ?alert, "A client refuses the webhook's certificate.");
    } else {
        tracing::debug!(%peer, %error, "Connection broke.");
    }
}

#[cfg(test)]
mod tests;
