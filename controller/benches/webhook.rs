//! `cargo bench`: what one review of the admission webhook costs: time, allocations, and how many there are in a second over TLS.
//!
//! The 99th percentile is what matters to the API server that waits, so times are kept one by one. Allocations are counted, and are
//! the same on every machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot go on has failed"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use allocation_counter::AllocationInfo;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use futures::FutureExt as _;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::service::Service as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kruise_rollout::workload::{Guard, TemplateId};
use kruise_rollout_controller::webhook::alone;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// Sizes of the reviewed object in JSON, in bytes. A review carries it twice.
const OBJECTS: [usize; 2] = [10 << 10, 200 << 10];
/// Rollouts that the webhook knows.
const ROLLOUTS: [u32; 3] = [10, 1_000, 5_000];
/// So long each case is measured, beside a tenth of it before.
const DURATION: Duration = Duration::from_secs(2);
/// Reviews under way at the same time where their number is measured.
const AT_ONCE: usize = 32;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!(
        "{:>9} {:>8} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "object",
        "Rollouts",
        "allocations",
        "bytes",
        "p50 µs",
        "p99 µs",
        "max µs",
        "TLS p50",
        "TLS p99",
        "TLS /s"
    );
    for size in OBJECTS {
        for rollouts in ROLLOUTS {
            let body = review(size);
            let router = runtime.block_on(async { alone::router(known(rollouts)).unwrap() });
            let _inside = runtime.enter();
            let allocated = allocations(&router, &body);
            let alone = in_process(&router, &body);
            let (over_tls, rate) = runtime.block_on(over_tls(router, &body));
            println!(
                "{:>5} KiB {rollouts:>8} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {rate:>9.0}",
                size >> 10,
                allocated.count_total,
                allocated.bytes_total,
                alone.at(0.5),
                alone.at(0.99),
                alone.at(1.0),
                over_tls.at(0.5),
                over_tls.at(0.99),
            );
        }
    }
}

/// Times of reviews, shortest first.
struct Times(Vec<Duration>);

impl Times {
    /// Microseconds within which this share was answered.
    fn at(&self, share: f64) -> u128 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0[rank.max(1) - 1].as_micros()
    }
}

/// Rollouts, each of which guards its workload.
fn known(count: u32) -> impl Iterator<Item = Rollout> {
    (0..count).map(|number| {
        serde_json::from_value(json!({
            "metadata": {"name": format!("rollout-{number}"), "namespace": "shop", "uid": number.to_string()},
            "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": format!("app-{number}")},
                "strategy": {"canary": {"steps": [{"replicas": 1, "pause": {}}, {"replicas": "100%"}]}}},
            "status": {"conditions": [{"type": "Guarded", "status": "True", "reason": "Proven", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    })
}

/// The review of a new image, which is going to be held: most is done for such a one.
fn review(size: usize) -> Bytes {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "apps", "version": "v1", "kind": "StatefulSet"},
        "resource": {"group": "apps", "version": "v1", "resource": "statefulsets"},
        "name": "app-7", "namespace": "shop", "operation": "UPDATE",
        "userInfo": {"username": "developer", "groups": ["system:authenticated"]},
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
        "object": object("v2", size), "oldObject": object("v1", size),
    }});
    review.to_string().into()
}

/// A StatefulSet of this size. As in real ones, most of it are the environment of containers and managed fields.
fn object(version: &str, size: usize) -> Value {
    let text = Guard::text("u", "rollout-7", &TemplateId::of(&json!({})));
    let mut object = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "app-7", "namespace": "shop", "uid": "u", "generation": 7, "resourceVersion": "123456",
            "annotations": {names::GUARDED_BY: text}, "labels": {"app": "app-7"}},
        "spec": {"replicas": 5, "serviceName": "app-7", "selector": {"matchLabels": {"app": "app-7"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": {"app": "app-7"}}, "spec": {"containers": []}}},
        "status": {"replicas": 5, "readyReplicas": 5, "currentRevision": "app-7-1", "updateRevision": "app-7-1"}});
    let mut environment = Vec::new();
    let mut fields = Map::new();
    let mut length = object.to_string().len();
    for number in 0.. {
        let variable = json!({"name": format!("VARIABLE_{number}"), "value": format!("value-{number}")});
        let field = format!("k:{{\"name\":\"VARIABLE_{number}\"}}");
        length += variable.to_string().len() + field.len() + 20;
        if length > size {
            break;
        }
        environment.push(variable);
        fields.insert(field, json!({".": {}, "f:value": {}}));
    }
    let image = format!("my-registry/my-app:{version}");
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "app", "image": image, "env": environment}]);
    object["metadata"]["managedFields"] =
        json!([{"manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": fields}]);
    object
}

fn request(body: &Bytes) -> Request<Body> {
    Request::post(alone::MUTATE)
        .body(Body::from(body.clone()))
        .unwrap()
}

/// One review on this thread: nothing in it waits.
fn review_once(router: &TowerToHyperService<Router>, request: Request<Body>) {
    let response = router.call(request).now_or_never().unwrap().unwrap();
    assert!(response.status().is_success());
}

fn allocations(router: &Router, body: &Bytes) -> AllocationInfo {
    let service = TowerToHyperService::new(router.clone());
    review_once(&service, request(body));
    let request = request(body);
    allocation_counter::measure(|| review_once(&service, request))
}

fn in_process(router: &Router, body: &Bytes) -> Times {
    let service = TowerToHyperService::new(router.clone());
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < DURATION + DURATION / 10 {
        let request = request(body);
        let start = Instant::now();
        review_once(&service, request);
        if began.elapsed() > DURATION / 10 {
            times.push(start.elapsed());
        }
    }
    times.sort();
    Times(times)
}

/// Over one connection that is kept, as the API server does: one review after the other, then many at once.
async fn over_tls(router: Router, body: &Bytes) -> (Times, f64) {
    let (key, certificate) = certified();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = tokio::spawn(alone::serve(listener, Arc::new(key), router, stop.clone()));
    let mut connection = connect(address, certificate).await;

    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < DURATION {
        let start = Instant::now();
        ask(&mut connection, address, body).await;
        times.push(start.elapsed());
    }
    times.sort();

    let began = Instant::now();
    let mut askers = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (mut connection, body) = (connection.clone(), body.clone());
        askers.spawn(async move {
            let mut count = 0_u32;
            while began.elapsed() < DURATION {
                ask(&mut connection, address, &body).await;
                count += 1;
            }
            count
        });
    }
    let count: u32 = askers.join_all().await.iter().sum();
    let rate = f64::from(count) / began.elapsed().as_secs_f64();
    drop(connection);
    stop.cancel();
    server.await.unwrap().unwrap();
    (Times(times), rate)
}

async fn ask(connection: &mut SendRequest<Body>, address: SocketAddr, body: &Bytes) {
    let mut request = request(body);
    *request.uri_mut() = format!("https://{address}{}", alone::MUTATE).parse().unwrap();
    connection.ready().await.unwrap();
    let response = connection.send_request(request).await.unwrap();
    assert!(response.status().is_success());
    axum::body::to_bytes(Body::new(response.into_body()), usize::MAX)
        .await
        .unwrap();
}

async fn connect(address: SocketAddr, certificate: CertificateDer<'static>) -> SendRequest<Body> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let (send, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    send
}

fn certified() -> (SingleCertAndKey, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let certified =
        CertifiedKey::from_der(vec![certificate.clone()], private, &ring::default_provider()).unwrap();
    (SingleCertAndKey::from(certified), certificate)
}
