//! A control plane that a case has for itself and may break, and what such cases say often.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options, Proxy, Replica, eventually};

use crate::scene::{SOON, Scene, mark};

/// An installation of one case at a time, with the operator running and no controller. The next case gets it, unless this one
/// fails.
pub struct Ground(Option<Installation<'static>>);

/// Arguments of a controller that needs no lease.
const ALONE: [&str; 1] = ["--leader-elect=false"];

static FREE: Mutex<Vec<Installation<'static>>> = Mutex::new(Vec::new());

impl Ground {
    /// Takes one that is free, or makes one.
    pub async fn take() -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(installation) = free {
            return Self(Some(installation));
        }
        let control_plane = ControlPlane::start(Options::default()).await.unwrap();
        // It ends with the process, like all that is started here.
        let control_plane: &'static ControlPlane = Box::leak(Box::new(control_plane));
        let mut installation = Installation::apply(control_plane).await.unwrap();
        installation.start_operator(&[]).unwrap();
        Self(Some(installation))
    }

    /// The same, where no Rollout of a case before is left.
    pub async fn without_rollouts() -> Self {
        let ground = Self::take().await;
        let rollouts: Api<Rollout> = Api::all(admin(&ground).await);
        eventually(SOON, "the case before has left nothing", async || {
            let left = rollouts.list(&ListParams::default()).await;
            match left.map_err(|error| error.to_string())?.items.len() {
                0 => Ok(()),
                left => Err(format!("{left} Rollouts")),
            }
        })
        .await;
        ground
    }

    /// The same with a controller that leads. The registration may name another one for a while, that a case before has ended.
    pub async fn with_controller() -> Self {
        let mut ground = Self::take().await;
        ground.start_controller().await.unwrap();
        called(&ground).await;
        ground
    }

    /// The same with a controller that leaves the policies aside, also when it is started again.
    pub async fn with_webhook_alone() -> Self {
        let mut ground = Self::take().await;
        ground.set_flags(&["--admission=webhook"]);
        ground.start_controller().await.unwrap();
        called(&ground).await;
        ground
    }

    /// The same with a controller that runs alone, through a proxy.
    pub async fn with_proxy() -> (Self, Proxy) {
        Self::behind_proxy(&ALONE).await
    }

    /// The same with a controller that takes the lease, through a proxy.
    pub async fn with_leader_and_proxy() -> (Self, Proxy) {
        Self::behind_proxy(&[]).await
    }

    async fn behind_proxy(arguments: &[&str]) -> (Self, Proxy) {
        let mut ground = Self::take().await;
        let proxy = Proxy::start(ground.control_plane()).await.unwrap();
        let started = ground.start_controller_with(proxy.kubeconfig(), arguments).await;
        started.unwrap();
        called(&ground).await;
        (ground, proxy)
    }

    /// Starts a controller that needs no lease, and so need not wait for the lease of one that was killed. The API server may
    /// not call it yet if another one ran here before it: see [`called`].
    pub async fn start_alone(&mut self, kubeconfig: &Path) {
        self.start_controller_with(kubeconfig, &ALONE).await.unwrap();
    }
}

impl Deref for Ground {
    type Target = Installation<'static>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Ground {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let Some(mut installation) = self.0.take() else {
            return;
        };
        if std::thread::panicking() {
            if let Some(controller) = &installation.controller {
                print_log(&controller.log_tail(60));
            }
            return;
        }
        installation.kill_controller();
        installation.set_flags(&[]);
        FREE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(installation);
    }
}

#[expect(clippy::print_stderr, reason = "the log of a case that has failed")]
fn print_log(log: &str) {
    eprintln!("--- log of the controller ---\n{log}");
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
    unregister::<ValidatingWebhookConfiguration>(&admin).await;
    eventually(SOON, "nobody reviews", async || create_nothing(&admin).await).await;
}

/// Removes our registration of a sort. A controller that was killed early has not made it yet.
pub async fn unregister<K>(admin: &Client)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let registrations: Api<K> = Api::all(admin.clone());
    let name = names::WEBHOOK_CONFIGURATION;
    if let Err(error) = registrations.delete(name, &DeleteParams::default()).await {
        assert!(
            matches!(&error, kube::Error::Api(status) if status.code == 404),
            "{error}"
        );
    }
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

/// One pod and an approval, then all.
pub fn two_steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}])
}

/// A sequence of numbers that look random and are the same in each run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Whether the release has ended; approves where that is waited for.
pub async fn over_or_approved(scene: &Scene<'_>) -> Result<(), String> {
    let rollout = scene.rollout().await;
    let status = &rollout["status"];
    let held = mark(&scene.app().await, kruise_rollout::names::IN_PROGRESSING).is_string();
    // The status may still speak of the release before.
    if !held && status["phase"] == "Healthy" && status["currentStepState"] == "Completed" {
        return Ok(());
    }
    if status["currentStepState"] == "StepPaused" {
        scene.approve_if_paused().await;
    }
    Err(format!("held: {held}, {status:#}"))
}

/// Approves whatever waits, until the release has ended with all pods on this version.
pub async fn finish(scene: &Scene<'_>, version: &str) {
    // Each of several connections may be found dead after 35 seconds.
    eventually(SOON * 3, &format!("the release of {version} ends"), async || {
        over_or_approved(scene).await
    })
    .await;
    scene.wait_pods(version, 5).await;
}
