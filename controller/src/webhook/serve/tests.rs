//! The server on loopback with certificates of its own.

use std::net::SocketAddr;

use axum::body::{Body, Bytes, to_bytes};
use axum::routing::{get, post};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::certs::ServedKey;

/// How long anything in these tests may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// Deadlines short enough to wait for.
fn short() -> Deadlines {
    Deadlines {
        handshake: Duration::from_millis(200),
        header: Duration::from_millis(200),
        request: Duration::from_millis(400),
        drain: Duration::from_secs(10),
    }
}

fn key() -> (Arc<CertifiedKey>, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let certified = CertifiedKey::from_der(vec![certificate.clone()], private, &ring::default_provider());
    (Arc::new(certified.unwrap()), certificate)
}

struct Server {
    address: SocketAddr,
    keys: Arc<ServedKey>,
    certificate: CertificateDer<'static>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Infallible>>,
    /// Requests to `/slow` wait for a permit.
    permits: Arc<Semaphore>,
    /// Requests to `/slow` that have begun.
    begun: Arc<Semaphore>,
}

impl Server {
    async fn start(deadlines: Deadlines) -> Self {
        let (permits, begun) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (wait, begin) = (permits.clone(), begun.clone());
        let slow = async move || {
            begin.add_permits(1);
            wait.acquire().await.unwrap().forget();
            "slow"
        };
        let router = Router::new()
            .route("/", get(async || "hello"))
            .route("/slow", get(slow))
            .route("/panic", get(async || -> &'static str { panic!("on purpose") }))
            .route("/size", post(async |body: Bytes| body.len().to_string()));
        let keys = Arc::new(ServedKey::default());
        let (key, certificate) = key();
        keys.set(key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let transport = Transport::tls(keys.clone()).unwrap();
        let task = tokio::spawn(serve(listener, transport, router, deadlines, stop.clone()));
        Self {
            address,
            keys,
            certificate,
            stop,
            task,
            permits,
            begun,
        }
    }

    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap()
    }

    /// An HTTP/2 connection; requests may be sent as long as the sender lives.
    async fn http2(&self) -> hyper::client::conn::http2::SendRequest<Body> {
        let stream = self.connect(b"h2").await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (send, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        send
    }

    async fn ends(self) {
        self.stop.cancel();
        timeout(DEADLINE, self.task).await.unwrap().unwrap().unwrap();
    }
}

/// Accepts every certificate: the tests look at it themselves.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

type Sender = hyper::client::conn::http2::SendRequest<Body>;

async fn ask(send: &mut Sender, path: &str, body: Body) -> (StatusCode, String) {
    let method = if path == "/size" { "POST" } else { "GET" };
    let request = Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .body(body)
        .unwrap();
    let answer = timeout(DEADLINE, send.send_request(request))
        .await
        .unwrap()
        .unwrap();
    let status = answer.status();
    let body = to_bytes(Body::new(answer.into_body()), 1024).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn hello(send: &mut Sender) {
    assert_eq!(
        ask(send, "/", Body::empty()).await,
        (StatusCode::OK, "hello".to_owned())
    );
}

/// Waits until the peer has closed.
async fn is_closed(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    let _ = timeout(DEADLINE, stream.read_to_end(&mut rest)).await.unwrap();
}

#[tokio::test]
async fn serves_http2_and_http1() {
    let server = Server::start(Deadlines::default()).await;
    hello(&mut server.http2().await).await;
    let mut stream = server.connect(b"http/1.1").await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
        "{answer}"
    );
    server.ends().await;
}

#[tokio::test]
async fn a_new_key_serves_new_connections_and_leaves_old_ones_alone() {
    let server = Server::start(short()).await;
    let mut before = server.http2().await;
    hello(&mut before).await;
    let (key, certificate) = key();
    server.keys.set(key);
    let stream = server.connect(b"h2").await;
    let shown = stream.get_ref().1.peer_certificates().unwrap().to_vec();
    assert_eq!(shown, [certificate]);
    assert_ne!(shown.first(), Some(&server.certificate));
    hello(&mut before).await;
    server.ends().await;
}

#[tokio::test]
async fn the_drain_answers_what_has_begun_and_accepts_nothing_new() {
    let server = Server::start(Deadlines::default()).await;
    let mut busy = server.http2().await;
    let mut idle = server.http2().await;
    hello(&mut idle).await;
    let request = Request::builder()
        .uri("https://localhost/slow")
        .body(Body::empty())
        .unwrap();
    let answer = tokio::spawn(busy.send_request(request));
    timeout(DEADLINE, server.begun.acquire())
        .await
        .unwrap()
        .unwrap()
        .forget();
    server.stop.cancel();
    // The idle connection is told to go; the port closes.
    timeout(DEADLINE, async {
        while idle.ready().await.is_ok() {
            tokio::task::yield_now().await
        }
    })
    .await
    .unwrap();
    timeout(DEADLINE, async {
        while TcpStream::connect(server.address).await.is_ok() {}
    })
    .await
    .unwrap();
    assert!(!server.task.is_finished());
    server.permits.add_permits(1);
    assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    server.ends().await;
}

#[tokio::test]
async fn the_drain_has_an_end() {
    let drain = Duration::from_millis(100);
    let server = Server::start(Deadlines {
        drain,
        ..Deadlines::default()
    })
    .await;
    let mut busy = server.http2().await;
    let request = Request::builder()
        .uri("https://localhost/slow")
        .body(Body::empty())
        .unwrap();
    let answer = tokio::spawn(busy.send_request(request));
    timeout(DEADLINE, server.begun.acquire())
        .await
        .unwrap()
        .unwrap()
        .forget();
    server.ends().await;
    assert!(answer.await.unwrap().is_err());
}

#[tokio::test]
async fn garbage_silence_and_panics_hurt_only_their_own_connection() {
    let server = Server::start(short()).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut garbage = TcpStream::connect(server.address).await.unwrap();
    garbage
        .write_all(b"GET / HTTP/1.1\r\n\r\n\0\xff\xff")
        .await
        .unwrap();
    let mut wordless = server.connect(b"http/1.1").await;
    let mut halting = server.connect(b"http/1.1").await;
    halting.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    let mut speechless = server.connect(b"h2").await;
    let mut noise = server.connect(b"h2").await;
    noise.write_all(&[0x17; 4096]).await.unwrap();
    let mut panicking = server.http2().await;
    let request = Request::builder()
        .uri("https://localhost/panic")
        .body(Body::empty())
        .unwrap();
    assert!(
        timeout(DEADLINE, panicking.send_request(request))
            .await
            .unwrap()
            .is_err()
    );
    is_closed(&mut garbage).await;
    is_closed(&mut silent).await;
    is_closed(&mut wordless).await;
    is_closed(&mut halting).await;
    is_closed(&mut noise).await;
    is_closed(&mut speechless).await;
    hello(&mut server.http2().await).await;
    server.ends().await;
}

#[tokio::test]
async fn large_bodies_and_slow_requests_are_refused() {
    // Eight MiB take their time on a busy machine.
    let server = Server::start(Deadlines::default()).await;
    let mut send = server.http2().await;
    let full = Body::from(vec![b'x'; BODY_LIMIT]);
    assert_eq!(
        ask(&mut send, "/size", full).await,
        (StatusCode::OK, BODY_LIMIT.to_string())
    );
    let more = Body::from(vec![b'x'; BODY_LIMIT + 1]);
    assert_eq!(
        ask(&mut send, "/size", more).await.0,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    server.ends().await;
    let server = Server::start(short()).await;
    let mut send = server.http2().await;
    assert_eq!(
        ask(&mut send, "/slow", Body::empty()).await.0,
        StatusCode::REQUEST_TIMEOUT
    );
    server.ends().await;
}

#[tokio::test]
async fn without_a_key_handshakes_fail_and_later_ones_succeed() {
    let keys = Arc::new(ServedKey::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let transport = Transport::tls(keys.clone()).unwrap();
    let router = Router::new().route("/", get(async || "hello"));
    let task = tokio::spawn(serve(listener, transport, router, short(), stop.clone()));
    let (key, certificate) = key();
    let server = Server {
        address,
        keys,
        certificate,
        stop,
        task,
        permits: Arc::new(Semaphore::new(0)),
        begun: Arc::new(Semaphore::new(0)),
    };
    let mut early = TcpStream::connect(address).await.unwrap();
    early.write_all(b"\x16\x03\x01").await.unwrap();
    is_closed(&mut early).await;
    server.keys.set(key);
    hello(&mut server.http2().await).await;
    server.ends().await;
}
