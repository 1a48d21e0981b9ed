//! While the webhook is away: only what could loosen a hold waits for it.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use support::eventually;
use tokio::task::JoinSet;
use tokio::time::{Duration, interval};

use crate::ground::{Ground, at_work, finish, two_steps};
use crate::scene::{APP, SOON, Scene, image, partition, walk_steps};
use crate::writes::Answer;

/// A kind of group `apps`.
fn apps(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind))
}

/// Workloads that no Rollout names, of several kinds, with and without pods.
struct Bystanders {
    workloads: Vec<(Api<DynamicObject>, String)>,
}

impl Bystanders {
    async fn create(scene: &Scene<'_>) -> Self {
        let mut workloads = Vec::new();
        for number in 0..20 {
            let resource = match number % 3 {
                0 => apps("StatefulSet"),
                1 => apps("Deployment"),
                _ => ApiResource::from_gvk(&GroupVersionKind::gvk("example.io", "v1", "MyStatefulApp")),
            };
            let name = format!("bystander-{number}");
            let mut manifest = scene.manifest("v1", None);
            manifest["apiVersion"] = json!(resource.api_version);
            manifest["kind"] = json!(resource.kind);
            manifest["metadata"] = json!({"name": name});
            manifest["spec"]["replicas"] = json!(0);
            if resource.group == "apps" {
                manifest["spec"]["selector"] = json!({"matchLabels": {"app": APP}});
            }
            // The label alone makes nothing ours where the kind is not governed.
            if resource.kind == "Deployment" {
                manifest["metadata"]["labels"] = json!({names::WORKLOAD_TYPE: "deployment"});
            }
            let api: Api<DynamicObject> =
                Api::namespaced_with(scene.developer.clone(), scene.namespace.name(), &resource);
            let object = serde_json::from_value(manifest).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
            workloads.push((api, name));
        }
        Self { workloads }
    }

    /// Changes everything about them, all at once. A call to the webhook would fail, so success means that there was none.
    async fn change(&self, version: &str) {
        let mut writes = JoinSet::new();
        for (api, name) in self.workloads.clone() {
            let image = image(version);
            writes.spawn(async move {
                for patch in [
                    image,
                    json!({"spec": {"replicas": 1}}),
                    json!({"spec": {"replicas": 0}, "metadata": {"labels": {"tier": "web"}}}),
                ] {
                    let patch = Patch::Merge(patch);
                    api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
                }
            });
        }
        writes.join_all().await;
    }
}

/// Pods that no workload owns come and go.
async fn pods_come_and_go(scene: &Scene<'_>) {
    let pods: Api<Pod> = Api::namespaced(scene.developer.clone(), scene.namespace.name());
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "bystander", "labels": {names::WORKLOAD_TYPE: names::TYPE_STATEFULSET}},
        "spec": {"containers": [{"name": "app", "image": "my-registry/my-app:v1"}]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let now = DeleteParams::default().grace_period(0);
    pods.delete("bystander", &now).await.unwrap();
}

/// What the API server says to a write that could loosen a hold.
fn refused(answer: &Answer) {
    let message = answer.body["message"].as_str().unwrap_or_default();
    // The product and its address, which the documentation explains.
    assert!(
        answer.code == 500 && message.contains(names::HOLD_WEBHOOK) && message.contains("/mutate"),
        "{answer:?}"
    );
}

/// Of a guarded workload only what could loosen the hold has to wait for the webhook.
async fn guarded_workload(scene: &Scene<'_>, version: &str) {
    refused(&scene.merge(&image(version)).await);
    for patch in [
        json!({"spec": {"replicas": 4}}),
        json!({"spec": {"replicas": 5}}),
        json!({"metadata": {"labels": {"tier": version}, "annotations": {"example.io/note": version}}}),
    ] {
        scene.patch_app(patch).await;
    }
    let apps = scene.apps(&scene.developer);
    for replicas in [4, 5] {
        let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        apps.patch_scale(APP, &PatchParams::default(), &scale)
            .await
            .unwrap();
    }
    let status = Patch::Merge(json!({"status": {"replicas": 5}}));
    apps.patch_status(APP, &PatchParams::default(), &status)
        .await
        .unwrap();
}

/// A template change is held again.
async fn is_held(scene: &Scene<'_>, version: &str) {
    eventually(SOON, "a template change is held", async || {
        let held = scene.try_version(version).await?;
        if partition(&held) == names::HOLD_PARTITION {
            Ok(())
        } else {
            Err(format!("{held:#}"))
        }
    })
    .await;
}

#[tokio::test]
async fn r49_without_a_webhook_everybody_else_goes_on() {
    let installation = Ground::without_rollouts().await;
    let controller = installation.replica(None, &["--leader-elect=false"]).unwrap();
    at_work(&installation, &controller).await;
    let custom = Scene::new(&installation, "outage").await;
    let stateful_set = Scene::with_stateful_set(&installation, "outage-native").await;
    let steps = walk_steps();
    tokio::join!(custom.set(Some(0), &steps), stateful_set.set(Some(0), &steps));
    let bystanders = Bystanders::create(&custom).await;

    // An address that accepts and never answers.
    controller.process.signal("STOP").unwrap();
    tokio::join!(
        bystanders.change("v2"),
        pods_come_and_go(&custom),
        guarded_workload(&custom, "v2"),
        guarded_workload(&stateful_set, "v2")
    );
    controller.process.kill();
    tokio::join!(
        bystanders.change("v3"),
        pods_come_and_go(&custom),
        guarded_workload(&custom, "v3"),
        guarded_workload(&stateful_set, "v3")
    );
    for scene in [&custom, &stateful_set] {
        assert_eq!(scene.wait_pods("v1", 5).await.len(), 5);
    }

    let again = installation.replica(None, &["--leader-elect=false"]).unwrap();
    at_work(&installation, &again).await;
    is_held(&custom, "v4").await;
    is_held(&stateful_set, "v4").await;
    custom.wait_state(1, "StepPaused").await;
}

#[tokio::test]
async fn r50_the_webhook_is_not_in_its_own_way() {
    let installation = Ground::without_rollouts().await;
    let controller = installation.replica(None, &["--leader-elect=false"]).unwrap();
    at_work(&installation, &controller).await;
    let custom = Scene::new(&installation, "recovery").await;
    let stateful_set = Scene::with_stateful_set(&installation, "recovery-native").await;
    let steps = walk_steps();
    tokio::join!(custom.set(Some(0), &steps), stateful_set.set(Some(0), &steps));

    let own = names::DEFAULT_NAMESPACE;
    for namespace in [own, "kube-system"] {
        let mut rollout = custom.rollout_manifest(&walk_steps());
        rollout["metadata"]["namespace"] = json!(namespace);
        let rollouts = Api::namespaced(custom.admin.clone(), namespace);
        let rollout: kruise_rollout::api::v1beta1::Rollout = serde_json::from_value(rollout).unwrap();
        let refusal = rollouts
            .create(&PostParams::default(), &rollout)
            .await
            .unwrap_err()
            .to_string();
        assert!(refusal.contains(namespace), "{refusal}");
    }

    controller.process.kill();
    refused(&stateful_set.merge(&image("v2")).await);
    // Kinds that are governed elsewhere, and the product's own Deployment.
    for namespace in [own, "kube-system"] {
        for scene in [&custom, &stateful_set] {
            let mut manifest = scene.manifest("v1", Some(0));
            manifest["metadata"] = json!({"name": "system", "labels": {names::WORKLOAD_TYPE: "statefulset"}});
            manifest["spec"]["replicas"] = json!(0);
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
                if manifest["apiVersion"] == "apps/v1" {
                    "apps"
                } else {
                    "example.io"
                },
                "v1",
                manifest["kind"].as_str().unwrap(),
            ));
            let api: Api<DynamicObject> = Api::namespaced_with(custom.admin.clone(), namespace, &resource);
            let object = serde_json::from_value(manifest).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
            for patch in [image("v2"), json!({"spec": {"replicas": 1}})] {
                api.patch("system", &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .unwrap();
            }
            api.delete("system", &DeleteParams::default()).await.unwrap();
        }
    }
    let deployments: Api<DynamicObject> =
        Api::namespaced_with(custom.admin.clone(), own, &apps("Deployment"));
    let label = json!({"metadata": {"labels": {names::WORKLOAD_TYPE: "statefulset"}}});
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "controller", "image": "new"}]}}}});
    for patch in [label, image, json!({"spec": {"replicas": 3}})] {
        let patch = Patch::Strategic(patch);
        deployments
            .patch(names::CONTROLLER, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    let again = installation.replica(None, &["--leader-elect=false"]).unwrap();
    at_work(&installation, &again).await;
    is_held(&stateful_set, "v2").await;
}

/// Keeps the lease from all controllers until the tasks are dropped.
async fn keep_the_lease(scene: &Scene<'_>) -> (Api<Lease>, JoinSet<()>) {
    let leases: Api<Lease> = Api::namespaced(scene.admin.clone(), names::DEFAULT_NAMESPACE);
    let renewed = leases.clone();
    let renew = async move || {
        let now = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            .to_string();
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": names::CONTROLLER},
            "spec": {"holderIdentity": "nobody-at-work", "renewTime": now}});
        let params = PatchParams::apply("the-case").force();
        renewed
            .patch(names::CONTROLLER, &params, &Patch::Apply(lease))
            .await
            .unwrap();
    };
    renew().await;
    let mut renewals = JoinSet::new();
    renewals.spawn(async move {
        let mut rhythm = interval(Duration::from_millis(500));
        loop {
            rhythm.tick().await;
            renew().await;
        }
    });
    (leases, renewals)
}

/// Reason of the event that tells of changes that nobody was there to see.
const AWAY: &str = "ChangedWhileAway";

/// A replica that does not lead holds what people write; who leads next finds it and goes on.
#[tokio::test]
async fn what_was_changed_while_nobody_led_is_told_once() {
    let installation = Ground::without_rollouts().await;
    let changed = Scene::new(&installation, "meanwhile").await;
    let unchanged = Scene::new(&installation, "meanwhile-not").await;
    let (leases, renewals) = keep_the_lease(&changed).await;
    let standby = installation.replica(None, &[]).unwrap();
    standby.wait_ready().await;
    let first = installation
        .replica(Some(standby.webhook), &["--leader-elect=false"])
        .unwrap();
    at_work(&installation, &first).await;
    let steps = two_steps();
    tokio::join!(changed.set(Some(0), &steps), unchanged.set(Some(0), &steps));
    unchanged.set_version("v2").await;
    unchanged.wait_state(1, "StepPaused").await;

    first.process.kill();
    let held = changed.set_version("v2").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    assert_eq!(changed.rollout().await["status"]["phase"], "Healthy");

    drop(renewals);
    let nobody = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
    leases
        .patch(names::CONTROLLER, &PatchParams::default(), &nobody)
        .await
        .unwrap();
    changed.wait_state(1, "StepPaused").await;
    let words = "while no controller was at work: a new template of MyStatefulApp.example.io my-app was held; \
                 its release starts now at step 1 of 2";
    eventually(SOON, "an event tells of the change", async || {
        let told = changed.events(AWAY).await;
        if told == [words] {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await;
    tokio::join!(finish(&changed, "v2"), finish(&unchanged, "v2"));

    // A change under its eyes.
    changed.set_version("v3").await;
    changed.wait_state(1, "StepPaused").await;
    finish(&changed, "v3").await;
    assert_eq!(changed.events(AWAY).await, [words]);
    assert_eq!(unchanged.events(AWAY).await, [""; 0]);
}
