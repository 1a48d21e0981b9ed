//! Connections: from a request to its answer.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{self, Response};
use futures::{Stream, StreamExt as _, stream};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;

use super::rule::{Fault, Progress, Side};
use super::{Interrupted, Interruption, Request, State, lock};

/// Accepts connections.
pub(super) async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if *state.refusing.borrow() {
            continue;
        }
        let number = state.accepted.fetch_add(1, Ordering::Relaxed);
        connections.spawn(serve(stream, number, state.clone()));
    }
}

async fn serve(stream: TcpStream, number: u64, state: Arc<State>) {
    let mut refusing = state.refusing.subscribe();
    let service = service_fn(|request| {
        let state = state.clone();
        async move {
            let mut dead = state.dead_below.subscribe();
            tokio::select! {
                answer = answer(request, number, &state) => answer,
                () = is_dead(&mut dead, number) => pending().await,
            }
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // Breaking off is what faults do.
        _ = connection => {}
        _ = refusing.wait_for(|refusing| *refusing) => {}
    }
}

async fn is_dead(dead_below: &mut watch::Receiver<u64>, number: u64) {
    let _ = dead_below.wait_for(|below| number < *below).await;
}

async fn answer(
    request: http::Request<Incoming>,
    number: u64,
    state: &Arc<State>,
) -> Result<Response<Body>, io::Error> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let seen = Request {
        method: request.method().to_string(),
        uri: request.uri().to_string(),
        token: header(AUTHORIZATION)
            .unwrap_or_default()
            .trim_start_matches("Bearer ")
            .to_owned(),
        at: Instant::now(),
    };
    // Read whole, so that a client that goes away while it is held is noticed.
    let (parts, body) = request.into_parts();
    let body = to_bytes(Body::new(body), usize::MAX)
        .await
        .map_err(io::Error::other)?;
    lock(&state.requests).push(seen.clone());
    let interruptions = state.interruptions.subscribe();
    let answer = match state.rules.choose(&seen) {
        None => forward(parts, body, state).await?,
        Some((fault, progress)) => faulty(fault, &progress, forward(parts, body, state)).await?,
    };
    if !seen.is_watch() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let dead = state.dead_below.subscribe();
    let body = interruptible(body, seen, interruptions, dead, number);
    Ok(Response::from_parts(parts, Body::from_stream(body)))
}

/// The answer to a request that meets a fault.
async fn faulty(
    fault: Fault,
    progress: &Progress,
    forwarded: impl Future<Output = Result<Response<Body>, io::Error>>,
) -> Result<Response<Body>, io::Error> {
    match fault {
        Fault::Answer(code) => {
            progress.reach();
            refusal(code)
        }
        Fault::Break(side) => {
            if side == Side::After {
                forwarded.await?;
            }
            progress.reach();
            Err(broken())
        }
        Fault::Hold(Side::Before) => {
            progress.hold().await;
            forwarded.await
        }
        Fault::Hold(Side::After) => {
            let answer = forwarded.await?;
            progress.hold().await;
            Ok(answer)
        }
    }
}

fn broken() -> io::Error {
    io::Error::other("broken on purpose")
}

/// An answer that the API server has not given.
fn refusal(code: u16) -> Result<Response<Body>, io::Error> {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": "injected by a test", "reason": reason(code)});
    let mut response = Response::builder()
        .status(code)
        .header("Content-Type", "application/json");
    if matches!(code, 429 | 503) {
        response = response.header(RETRY_AFTER, "1");
    }
    response
        .body(Body::from(status.to_string()))
        .map_err(io::Error::other)
}

fn reason(code: u16) -> &'static str {
    match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    }
}

/// Asks the API server.
async fn forward(parts: Parts, body: Bytes, state: &State) -> Result<Response<Body>, io::Error> {
    let mut upstream = http::Request::builder().method(parts.method).uri(parts.uri);
    for (name, value) in &parts.headers {
        if ![HOST, CONNECTION, CONTENT_LENGTH].contains(name) {
            upstream = upstream.header(name, value);
        }
    }
    let upstream = upstream
        .body(kube::client::Body::from(body.to_vec()))
        .map_err(io::Error::other)?;
    let answer = state.upstream.send(upstream).await.map_err(io::Error::other)?;
    let (mut parts, body) = answer.into_parts();
    // What concerns one connection does not concern the other.
    parts.headers.remove(CONNECTION);
    parts.headers.remove("transfer-encoding");
    Ok(Response::from_parts(parts, Body::new(body)))
}

struct Watching {
    body: axum::body::BodyDataStream,
    request: Request,
    interruptions: broadcast::Receiver<Interrupted>,
    dead: watch::Receiver<u64>,
    number: u64,
    ended: bool,
}

/// The body of a watch, with what happens to it on the way.
fn interruptible(
    body: Body,
    request: Request,
    interruptions: broadcast::Receiver<Interrupted>,
    dead: watch::Receiver<u64>,
    number: u64,
) -> impl Stream<Item = Result<Bytes, io::Error>> {
    let watching = Watching {
        body: body.into_data_stream(),
        request,
        interruptions,
        dead,
        number,
        ended: false,
    };
    stream::unfold(watching, |mut watching| async move {
        let item = watching.next().await?;
        watching.ended |= item.is_err();
        Some((item, watching))
    })
}

impl Watching {
    async fn next(&mut self) -> Option<Result<Bytes, io::Error>> {
        if self.ended {
            return None;
        }
        loop {
            tokio::select! {
                biased;
                () = is_dead(&mut self.dead, self.number) => pending().await,
                Ok((concerns, interruption)) = self.interruptions.recv() => {
                    if !concerns(&self.request) {
                        continue;
                    }
                    return Some(match interruption {
                        Interruption::Cut => Err(broken()),
                        Interruption::Send(text) => Ok(text.into()),
                        Interruption::End(text) => {
                            self.ended = true;
                            Ok(text.into())
                        }
                    });
                }
                item = self.body.next() => return item.map(|item| item.map_err(io::Error::other)),
            }
        }
    }
}
