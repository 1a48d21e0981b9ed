//! An installation for cases that need a controller of their own kind, one at a time.

use kruise_rollout::api::v1beta1::Rollout;
use kube::api::{Api, ListParams, PostParams};
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
    let admin = installation
        .control_plane()
        .client(Identity::Admin)
        .await
        .unwrap();
    let rollouts: Api<Rollout> = Api::namespaced(admin, "default");
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
    eventually(SOON, "the controller is called", async || {
        rollouts.create(&dry_run, &probe).await
    })
    .await;
}
