//! Another webhook that changes templates in writes that are not about templates at all.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::routing::post;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{eventually, installed};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::scene::{APP, SOON, Scene, mark, partition, walk_steps};

const INJECTED: &str = "injected.example.io/by";

/// A webhook that gives every workload an annotation in its template; it ends with this value.
struct Injector {
    address: SocketAddr,
    certificate: String,
    server: JoinHandle<()>,
}

impl Drop for Injector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Injector {
    async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let router =
                axum::Router::new().route("/", post(async |Json(review): Json<Value>| Json(answer(&review))));
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let builder = Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        Self {
            address,
            certificate: made.cert.pem(),
            server,
        }
    }

    /// Registers it for the namespace of the scene, and waits until it is called.
    async fn register(&self, scene: &Scene<'_>) -> Registration {
        // After `kruise-rollout` in the alphabet, and before our configuration.
        let name = format!("kyverno-{}", scene.namespace.name());
        let configuration = json!({
            "metadata": {"name": name},
            "webhooks": [{
                "name": "inject.example.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "reinvocationPolicy": "IfNeeded",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace.name()}},
                "rules": [{"apiGroups": ["example.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
                    "resources": ["mystatefulapps"]}],
                "clientConfig": {"url": format!("https://{}/", self.address),
                    "caBundle": ByteString(self.certificate.clone().into_bytes())},
            }],
        });
        let api: Api<MutatingWebhookConfiguration> = Api::all(scene.admin.clone());
        let configuration = serde_json::from_value(configuration).unwrap();
        api.create(&PostParams::default(), &configuration).await.unwrap();
        let dry_run = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        eventually(SOON, "the webhook is called", async || {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"note": "dry"}}}));
            let answer = scene.apps(&scene.developer).patch(APP, &dry_run, &patch).await;
            let answer = answer.map_err(|error| error.to_string())?;
            match injected(&answer.data) {
                true => Ok(()),
                false => Err(answer.data.to_string()),
            }
        })
        .await;
        Registration { api, name }
    }
}

struct Registration {
    api: Api<MutatingWebhookConfiguration>,
    name: String,
}

impl Registration {
    async fn remove(self) {
        self.api
            .delete(&self.name, &DeleteParams::default())
            .await
            .unwrap();
    }
}

fn injected(app: &Value) -> bool {
    app["spec"]["template"]["metadata"]["annotations"][INJECTED] == "webhook"
}

fn answer(review: &Value) -> Value {
    let request = &review["request"];
    let mut response = json!({"uid": request["uid"], "allowed": true});
    if !injected(&request["object"]) {
        let patch = json!([{"op": "add", "path": "/spec/template/metadata/annotations", "value": {INJECTED: "webhook"}}]);
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(ByteString(patch.to_string().into_bytes()));
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

async fn approved_to_the_end(scene: &Scene<'_>) {
    eventually(SOON, "the release ends", async || {
        let rollout = scene.rollout().await;
        if rollout["status"]["currentStepState"] == "StepPaused" {
            scene.approve().await;
        }
        match rollout["status"]["phase"] == "Healthy"
            && mark(&scene.app().await, names::IN_PROGRESSING).is_null()
        {
            true => Ok(()),
            false => Err(format!("{:#}", rollout["status"])),
        }
    })
    .await;
    assert!(injected(&scene.app().await));
}

#[tokio::test]
async fn a_template_that_another_webhook_changes_in_any_write_is_held() {
    let scene = Scene::new(installed().await, "injected").await;
    scene.set(Some(0), &walk_steps()).await;
    let injector = Injector::start().await;
    let registration = injector.register(&scene).await;

    let app = scene
        .patch_app(json!({"metadata": {"annotations": {"note": "about nothing of ours"}}}))
        .await;
    assert!(injected(&app), "{app:#}");
    assert_eq!(partition(&app), names::HOLD_PARTITION, "{app:#}");
    scene.wait_state(1, "StepPaused").await;
    registration.remove().await;
    approved_to_the_end(&scene).await;
}

#[tokio::test]
async fn a_template_that_another_webhook_changes_in_a_grant_is_held() {
    let scene = Scene::new(installed().await, "injected-grant").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let injector = Injector::start().await;
    let registration = injector.register(&scene).await;

    scene.approve().await;
    let app = scene.wait_app("is changed by the webhook", injected).await;
    assert!(partition(&app).as_i64() >= Some(4), "{app:#}");
    scene.wait_state(1, "StepPaused").await;
    registration.remove().await;
    approved_to_the_end(&scene).await;
    scene.wait_pods("v2", 5).await;
}
