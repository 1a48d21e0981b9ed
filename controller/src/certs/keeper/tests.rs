//! The keeper against a small API server with one Secret.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::stream;
use kruise_rollout::names;
use serde_json::{Value, json};

use super::*;
use tokio::sync::watch;

use crate::certs::serving::Trusted;
use crate::certs::{CertState, wanted_names};
use crate::gates::Gates;

/// How long anything in these tests may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// The Secret, its resourceVersion, and a way to hear of changes.
#[derive(Clone, Default)]
struct Fake(
    Arc<watch::Sender<(u64, Option<Value>)>>,
    Arc<Mutex<Vec<&'static str>>>,
);

impl Fake {
    fn secret(&self) -> Option<Value> {
        self.0.borrow().1.clone()
    }

    fn put(&self, secret: Option<Value>) -> Option<Value> {
        self.0.send_modify(|(version, present)| {
            *version += 1;
            *present = secret;
            if let Some(secret) = present {
                secret["metadata"]["resourceVersion"] = json!(version.to_string());
            }
        });
        self.secret()
    }

    fn log(&self, verb: &'static str) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(verb);
    }

    fn count(&self, verb: &str) -> usize {
        self.1
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter(|logged| **logged == verb)
            .count()
    }

    async fn client(&self) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/api/v1/namespaces/ops/secrets", get(list).post(create))
            .route(
                "/api/v1/namespaces/ops/secrets/kruise-rollout-webhook",
                get(read).patch(patch),
            )
            .with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap()
    }
}

fn failure(code: StatusCode, reason: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
        "reason": reason, "message": reason, "metadata": {}});
    (code, Json(status)).into_response()
}

async fn read(State(fake): State<Fake>) -> Response {
    fake.log("get");
    fake.secret().map_or_else(
        || failure(StatusCode::NOT_FOUND, "NotFound"),
        |secret| Json(secret).into_response(),
    )
}

async fn create(State(fake): State<Fake>, Json(secret): Json<Value>) -> Response {
    fake.log("create");
    if fake.secret().is_some() {
        return failure(StatusCode::CONFLICT, "AlreadyExists");
    }
    Json(fake.put(Some(secret))).into_response()
}

async fn patch(State(fake): State<Fake>, body: Bytes) -> Response {
    fake.log("patch");
    let Some(mut secret) = fake.secret() else {
        return failure(StatusCode::NOT_FOUND, "NotFound");
    };
    let patch: json_patch::Patch = serde_json::from_slice(&body).unwrap();
    match json_patch::patch(&mut secret, &patch) {
        Ok(()) => Json(fake.put(Some(secret))).into_response(),
        Err(_) => failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
    }
}

async fn list(State(fake): State<Fake>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    assert!(
        query.contains("fieldSelector=metadata.name%3Dkruise-rollout-webhook"),
        "{query}"
    );
    if !query.contains("watch=true") {
        fake.log("list");
        let (version, secret) = fake.0.borrow().clone();
        let items: Vec<_> = secret.into_iter().collect();
        let list = json!({"kind": "SecretList", "apiVersion": "v1", "items": items,
            "metadata": {"resourceVersion": version.to_string()}});
        return Json(list).into_response();
    }
    let mut changes = fake.0.subscribe();
    changes.mark_changed();
    // A watch also tells of what left between the list and its own beginning.
    let listed =
        json!({"metadata": {"name": names::WEBHOOK_SERVICE, "namespace": "ops", "resourceVersion": "0"}});
    let events = stream::unfold(
        (changes, Some(listed)),
        |(mut changes, before): (_, Option<Value>)| async move {
            loop {
                changes.changed().await.ok()?;
                let now = changes.borrow_and_update().1.clone();
                let (kind, object) = match (&before, &now) {
                    (_, Some(now)) => ("MODIFIED", now.clone()),
                    (Some(before), None) => ("DELETED", before.clone()),
                    (None, None) => continue,
                };
                let line = format!("{}\n", json!({"type": kind, "object": object}));
                return Some((Ok::<_, Infallible>(line), (changes, now)));
            }
        },
    );
    Body::from_stream(events).into_response()
}

/// A keeper that runs until the test ends.
struct Running {
    state: watch::Receiver<Option<CertState>>,
    gates: Gates,
    _trust: watch::Sender<Trusted>,
    _stop: tokio_util::sync::DropGuard,
}

impl Running {
    async fn start(fake: &Fake, host: Option<&str>) -> Self {
        let stop = CancellationToken::new();
        let gates = Gates::new(stop.clone());
        let (trust, trusted) = watch::channel(Trusted::default());
        let gate = gates.gate("certificate");
        let (serving, state) = Serving::new(Arc::default(), trusted, Arc::default(), gate);
        let want = wanted_names("ops", host);
        let keeper = Keeper::new(fake.client().await, "ops", want, Lifetimes::default(), serving);
        tokio::spawn(keeper.keep(stop.clone()));
        Self {
            state,
            gates,
            _trust: trust,
            _stop: stop.drop_guard(),
        }
    }

    async fn until(&mut self, holds: impl Fn(&CertState) -> bool) -> CertState {
        let wait = self.state.wait_for(|state| state.as_ref().is_some_and(&holds));
        tokio::time::timeout(DEADLINE, wait)
            .await
            .unwrap()
            .unwrap()
            .clone()
            .unwrap()
    }
}

fn stored_ca(fake: &Fake) -> String {
    let data = fake.secret().unwrap()["data"].clone();
    let data = serde_json::from_value(data).unwrap();
    Bundle::read(&data).unwrap().authority.bundle_pem
}

async fn eventually(holds: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "did not come true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn makes_the_secret_and_is_ready() {
    let fake = Fake::default();
    let mut keeper = Running::start(&fake, None).await;
    assert_eq!(keeper.gates.missing(), ["certificate"]);
    let state = keeper.until(|_| true).await;
    assert_eq!(state.ca_bundle_pem, Some(stored_ca(&fake)));
    eventually(|| keeper.gates.missing().is_empty()).await;
    let secret = fake.secret().unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    assert_eq!(secret["metadata"]["name"], names::WEBHOOK_SERVICE);
    assert_eq!((fake.count("create"), fake.count("patch")), (1, 0));
}

#[tokio::test]
async fn replicas_that_start_together_agree() {
    let fake = Fake::default();
    let mut keepers = Vec::new();
    for _ in 0..4 {
        keepers.push(Running::start(&fake, None).await);
    }
    for keeper in &mut keepers {
        let state = keeper.until(|_| true).await;
        assert_eq!(state.ca_bundle_pem, Some(stored_ca(&fake)));
    }
    assert_eq!(fake.count("patch"), 0);
}

#[tokio::test]
async fn replicas_with_different_names_settle() {
    let fake = Fake::default();
    let mut one = Running::start(&fake, Some("one.example")).await;
    one.until(|_| true).await;
    let mut two = Running::start(&fake, Some("two.example")).await;
    two.until(|_| true).await;
    assert_eq!(Some(stored_ca(&fake)), one.until(|_| true).await.ca_bundle_pem);
    assert_eq!((fake.count("create"), fake.count("patch")), (1, 1));
}

#[tokio::test]
async fn a_deleted_or_damaged_secret_is_restored_from_memory() {
    let fake = Fake::default();
    let mut keeper = Running::start(&fake, None).await;
    let state = keeper.until(|_| true).await;
    let whole = fake.secret().unwrap()["data"].clone();
    fake.put(None);
    eventually(|| fake.secret().is_some_and(|secret| secret["data"] == whole)).await;
    for part in ["ca.crt", "ca.key"] {
        let mut damaged = fake.secret().unwrap();
        damaged["data"][part] = json!("bm9uc2Vuc2U=");
        fake.put(Some(damaged));
        eventually(|| fake.secret().is_some_and(|secret| secret["data"] == whole)).await;
    }
    assert_eq!(keeper.until(|_| true).await, state);
}

#[tokio::test]
async fn a_damaged_leaf_is_issued_anew_by_the_same_authority() {
    let fake = Fake::default();
    let mut keeper = Running::start(&fake, None).await;
    let state = keeper.until(|_| true).await;
    let mut damaged = fake.secret().unwrap();
    damaged["data"]["tls.key"] = json!("");
    fake.put(Some(damaged));
    eventually(|| {
        fake.secret()
            .is_some_and(|secret| secret["data"]["tls.key"] != "")
    })
    .await;
    assert_eq!(Some(stored_ca(&fake)), state.ca_bundle_pem);
}

#[tokio::test]
async fn what_another_replica_writes_is_taken_over() {
    let (fake, other) = (Fake::default(), Fake::default());
    let mut keeper = Running::start(&fake, None).await;
    let before = keeper.until(|_| true).await;
    Running::start(&other, None).await.until(|_| true).await;
    fake.put(other.secret());
    let after = keeper.until(|state| *state != before).await;
    assert_eq!(after.ca_bundle_pem, Some(stored_ca(&other)));
}
