//! A mutating webhook of somebody else, which changes the pod template of workloads with every write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::routing::post;
use axum::{Json, Router};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::scene::Scene;

/// What becomes of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// One annotation, always the same.
    Annotation,
    /// The tag of the image gets an ending, always the same: `v1-pinned`.
    Pin,
    /// The tag of the image gets an ending that no write before had: `v1-n7`.
    Restless,
}

impl Injection {
    fn apply(self, template: &mut Value, count: u32) {
        if self == Self::Annotation {
            let metadata = &mut template["metadata"];
            if metadata["annotations"].is_null() {
                metadata["annotations"] = json!({});
            }
            metadata["annotations"]["injector.example.io/note"] = json!("always the same");
            return;
        }
        let image = &mut template["spec"]["containers"][0]["image"];
        let text = image.as_str().unwrap_or_default();
        let plain = text.rsplit_once('-').filter(|(head, _)| head.contains(':'));
        let plain = plain.map_or(text, |(head, _)| head);
        *image = match self {
            Self::Restless => json!(format!("{plain}-n{count}")),
            Self::Pin | Self::Annotation => json!(format!("{plain}-pinned")),
        };
    }
}

/// The webhook, registered for one namespace until it is removed.
pub struct Injector {
    name: String,
    registrations: Api<MutatingWebhookConfiguration>,
    writes: Arc<AtomicU32>,
    _server: JoinSet<()>,
}

impl Injector {
    /// Registers it for the scene's workloads. Webhooks are called in the order of these names; this one is called again when
    /// others have changed something after it.
    pub async fn register(scene: &Scene<'_>, prefix: &str, injection: Injection) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let authority = ByteString(certificate.pem().into_bytes());
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let writes = Arc::new(AtomicU32::new(0));
        let mut server = JoinSet::new();
        server.spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            router(injection, writes.clone()),
        ));

        let (namespace, admin): (_, Client) = (scene.namespace.name(), scene.admin.clone());
        let name = format!("{prefix}-{namespace}");
        let configuration = json!({
            "metadata": {"name": name},
            "webhooks": [{
                "name": "inject.example.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                // When the case fails, its namespace is deleted without this webhook.
                "failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": ["example.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["mystatefulapps"]}],
                "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": authority},
            }],
        });
        let registrations: Api<MutatingWebhookConfiguration> = Api::all(admin);
        let configuration = serde_json::from_value(configuration).unwrap();
        registrations
            .create(&PostParams::default(), &configuration)
            .await
            .unwrap();
        Self {
            name,
            registrations,
            writes,
            _server: server,
        }
    }

    /// How often it has been called.
    pub fn calls(&self) -> u32 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Takes the registration back.
    pub async fn remove(&self) {
        let deleted = self
            .registrations
            .delete(&self.name, &DeleteParams::default())
            .await;
        deleted.unwrap();
    }
}

fn router(injection: Injection, writes: Arc<AtomicU32>) -> Router {
    Router::new().route(
        "/",
        post(move |Json(review): Json<Value>| {
            let count = writes.fetch_add(1, Ordering::Relaxed) + 1;
            async move {
                let request = &review["request"];
                let mut object = request["object"].clone();
                injection.apply(&mut object["spec"]["template"], count);
                let patch = json_patch::diff(&request["object"], &object);
                let patch = ByteString(serde_json::to_vec(&patch).unwrap_or_default());
                Json(
                    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
                    "uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": patch}}),
                )
            }
        }),
    )
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, router: Router) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
        connections.spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            }
        });
    }
}
