//! Callers of the webhook: writers by way of the API server, and others who look at its certificate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig};
use kruise_rollout::names;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::scene::{APP, Scene, partition};

/// Calls again and again; each failure ends the test that asks for the count.
pub struct Calls {
    made: Arc<AtomicUsize>,
    calls: JoinSet<Result<(), String>>,
}

impl Calls {
    fn repeat<F>(every: Duration, call: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let made = Arc::new(AtomicUsize::new(0));
        let mut calls = JoinSet::new();
        calls.spawn({
            let made = made.clone();
            let mut rhythm = interval(every);
            async move {
                loop {
                    rhythm.tick().await;
                    call().await?;
                    made.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { made, calls }
    }

    /// Ten template changes a second as dry-runs; each has to be held.
    pub fn of_the_api_server(scene: &Scene<'_>) -> Self {
        let apps = scene.apps(&scene.developer);
        Self::repeat(Duration::from_millis(100), move || {
            let apps = apps.clone();
            async move {
                let image = json!([{"name": "app", "image": "my-registry/my-app:probe"}]);
                let change = json!({"spec": {"template": {"spec": {"containers": image}}}});
                let params = PatchParams::default().dry_run();
                let answer = apps.patch(APP, &params, &Patch::Merge(change)).await;
                let object = answer.map_err(|error| error.to_string())?;
                let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
                if partition(&object) == names::HOLD_PARTITION {
                    Ok(())
                } else {
                    Err(format!("not held: {object:#}"))
                }
            }
        })
    }

    /// Five handshakes a second with a webhook, each with what the API server was told to trust before.
    pub fn by_new_connections(scene: &Scene<'_>, port: u16) -> Self {
        let admin = scene.admin.clone();
        Self::repeat(Duration::from_millis(200), move || {
            let admin = admin.clone();
            async move {
                let bundle = trusted(&admin).await?;
                handshake(port, &bundle, None).await
            }
        })
    }

    /// How many there were since the last time. None has failed.
    pub fn made(&mut self) -> usize {
        if let Some(ended) = self.calls.try_join_next() {
            panic!("a call has failed: {ended:?}");
        }
        self.made.swap(0, Ordering::Relaxed)
    }
}

/// The `caBundle` of the mutating configuration in PEM.
pub async fn trusted(admin: &Client) -> Result<String, String> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(admin.clone());
    let found = api
        .get(names::WEBHOOK_CONFIGURATION)
        .await
        .map_err(|error| error.to_string())?;
    let entry = found.webhooks.into_iter().flatten().next().ok_or("no entries")?;
    let WebhookClientConfig { ca_bundle, .. } = entry.client_config;
    String::from_utf8(ca_bundle.ok_or("no caBundle")?.0).map_err(|error| error.to_string())
}

/// A new connection to the webhook by somebody who trusts this bundle, and expects this name in the certificate.
pub async fn handshake(port: u16, bundle: &str, name: Option<&str>) -> Result<(), String> {
    let data = serde_json::to_value(k8s_openapi::ByteString(bundle.as_bytes().to_vec())).unwrap();
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "webhook",
        "clusters": [{"name": "webhook", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": data,
            "tls-server-name": name}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "nobody"}}],
    }))
    .unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client =
        Client::try_from(config.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    let request = kube::core::Request::new("/").get("mutate", &kube::api::GetParams::default());
    match client.request_text(request.unwrap()).await {
        // An answer, whatever it says, is one over a connection that is trusted.
        Ok(_) | Err(kube::Error::Api(_)) => Ok(()),
        Err(error) => Err(format!("{error:?}")),
    }
}

/// The certificates in a PEM text.
pub fn certificates(pem: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----\n";
    pem.split_inclusive(END).map(str::to_owned).collect()
}
