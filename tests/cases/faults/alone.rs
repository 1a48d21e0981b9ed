//! An installation for cases that need a controller of their own kind, one at a time.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use support::{ControlPlane, Identity, Installation, Options, Replica, eventually};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::scene::SOON;

/// Manifests and example operator on a control plane that these cases share. There is no controller: each case runs its own.
pub async fn alone() -> MutexGuard<'static, Installation<'static>> {
    static CONTROL_PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Mutex<Installation<'static>>> = OnceCell::const_new();
    let start = async || {
        let control_plane = CONTROL_PLANE
            .get_or_try_init(|| ControlPlane::start(Options::default()))
            .await?;
        let mut installation = Installation::apply(control_plane).await?;
        installation.start_operator(&[])?;
        Ok::<_, support::Error>(Mutex::new(installation))
    };
    let installation = match INSTALLATION.get_or_try_init(start).await {
        Ok(installation) => installation.lock().await,
        Err(error) => panic!("not installed: {error}"),
    };
    let admin = installation
        .control_plane()
        .client(Identity::Admin)
        .await
        .unwrap();
    let rollouts: Api<Rollout> = Api::all(admin);
    eventually(SOON, "the case before has left nothing", async || {
        let left = rollouts.list(&ListParams::default()).await;
        match left.map_err(|error| error.to_string())?.items.len() {
            0 => Ok(()),
            left => Err(format!("{left} Rollouts")),
        }
    })
    .await;
    installation
}

/// Waits until a controller is ready and the API server calls it, or one at the same address.
pub async fn at_work(installation: &Installation<'_>, controller: &Replica) {
    controller.wait_ready().await;
    called(installation).await;
}

/// Waits until the API server calls a controller that answers, and none that has been there before.
pub async fn called(installation: &Installation<'_>) {
    let admin = admin(installation).await;
    eventually(SOON, "the controller is called", async || {
        create_nothing(&admin).await
    })
    .await;
}

/// Takes the reviews of Rollouts away, while no controller runs that would bring them back.
pub async fn without_reviews(installation: &Installation<'_>) {
    let admin = admin(installation).await;
    let reviews: Api<ValidatingWebhookConfiguration> = Api::all(admin.clone());
    let name = names::WEBHOOK_CONFIGURATION;
    reviews.delete(name, &DeleteParams::default()).await.unwrap();
    eventually(SOON, "nobody reviews", async || create_nothing(&admin).await).await;
}

async fn admin(installation: &Installation<'_>) -> Client {
    let control_plane = installation.control_plane();
    control_plane.client(Identity::Admin).await.unwrap()
}

/// A Rollout as a dry-run.
async fn create_nothing(client: &Client) -> kube::Result<Rollout> {
    let rollouts: Api<Rollout> = Api::namespaced(client.clone(), "default");
    let probe = serde_json::from_value(json!({
        "metadata": {"name": "probe"},
        "spec": {"workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "probe"},
            "strategy": {"canary": {"steps": [{"replicas": "100%"}]}}},
    }))
    .unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    rollouts.create(&dry_run, &probe).await
}
