//! While the product is away, and while it comes back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::names;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    PropagationPolicy,
};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{Component, Identity, Replica, eventually};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::alone::{alone, at_work};
use super::native;
use crate::scene::{APP, ROLLOUT, SOON, Scene, condition, partition, walk_steps};
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
            let image = json!([{"name": "app", "image": format!("my-registry/my-app:{version}")}]);
            writes.spawn(async move {
                for patch in [
                    json!({"spec": {"template": {"spec": {"containers": image}}}}),
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
    let image = json!([{"name": "app", "image": format!("my-registry/my-app:{version}")}]);
    let template = json!({"spec": {"template": {"spec": {"containers": image}}}});
    refused(&scene.merge(&template).await);
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
    let installation = alone().await;
    let controller = installation.replica(None, &["--leader-elect=false"]).unwrap();
    at_work(&installation, &controller).await;
    let custom = Scene::new(&installation, "outage").await;
    let stateful_set = Scene::with_stateful_set(&installation, "outage-native").await;
    let steps = walk_steps();
    tokio::join!(native::set(&custom, &steps), native::set(&stateful_set, &steps));
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
    let installation = alone().await;
    let controller = installation.replica(None, &["--leader-elect=false"]).unwrap();
    at_work(&installation, &controller).await;
    let custom = Scene::new(&installation, "recovery").await;
    let stateful_set = Scene::with_stateful_set(&installation, "recovery-native").await;
    let steps = walk_steps();
    tokio::join!(native::set(&custom, &steps), native::set(&stateful_set, &steps));

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
    refused(&stateful_set.merge(&template("v2")).await);
    // Kinds that are governed elsewhere, and the product's own Deployment.
    for namespace in [own, "kube-system"] {
        for scene in [&custom, &stateful_set] {
            let mut manifest = native::manifest(scene, "v1", Some(0));
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
            for patch in [template("v2"), json!({"spec": {"replicas": 1}})] {
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

fn template(version: &str) -> Value {
    let image = json!([{"name": "app", "image": format!("my-registry/my-app:{version}")}]);
    json!({"spec": {"template": {"spec": {"containers": image}}}})
}

#[tokio::test]
async fn r58_definitions_need_nobody_to_be_there() {
    let installation = alone().await;
    let control_plane = installation.control_plane();
    let scene = Scene::new(&installation, "conversion").await;
    let definition = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let definitions: Api<DynamicObject> = Api::all_with(scene.admin.clone(), &definition);
    let found = definitions.get("rollouts.rollouts.kruise.io").await.unwrap();
    let versions = found.data["spec"]["versions"].as_array().unwrap();
    assert_eq!(
        versions
            .iter()
            .filter(|version| version["served"] == true)
            .count(),
        1,
        "{versions:#?}"
    );
    assert_eq!(found.data["spec"]["conversion"]["strategy"], "None");

    {
        let controller = installation.replica(None, &["--leader-elect=false"]).unwrap();
        at_work(&installation, &controller).await;
        // All that another product of this API may have left in it.
        let mut odd = scene.rollout_manifest(
            &json!([{"replicas": "7%", "pause": {"duration": 2_147_483_647}}, {"replicas": 100_000}]),
        );
        odd["spec"]["strategy"]["canary"]["failureThreshold"] = json!("10%");
        odd["metadata"]["annotations"] = json!({"rollouts.kruise.io/rolling-style": "Partition"});
        let rollout: DynamicObject = serde_json::from_value(odd).unwrap();
        let resource = ApiResource::erase::<kruise_rollout::api::v1beta1::Rollout>(&());
        let rollouts: Api<DynamicObject> =
            Api::namespaced_with(scene.developer.clone(), scene.namespace.name(), &resource);
        rollouts.create(&PostParams::default(), &rollout).await.unwrap();
        scene.wait_phase("Initial").await;
    }

    let mut kubectl = scene.namespace.kubectl(Identity::Viewer).unwrap();
    let output = kubectl
        .args(["get", "rollouts.rollouts.kruise.io", "-A"])
        .output()
        .await
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && listed.contains(ROLLOUT), "{listed}");

    // The garbage collector has to see all kinds before it removes anything.
    let deployments: Api<DynamicObject> = Api::namespaced_with(
        scene.developer.clone(),
        scene.namespace.name(),
        &apps("Deployment"),
    );
    let mut manifest = scene.manifest("v1", None);
    manifest["apiVersion"] = json!("apps/v1");
    manifest["kind"] = json!("Deployment");
    manifest["metadata"] = json!({"name": "unrelated"});
    manifest["spec"]["selector"] = json!({"matchLabels": {"app": APP}});
    let deployment = serde_json::from_value(manifest).unwrap();
    deployments
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    scene.wait_pods("v1", 5).await;
    control_plane
        .restart_component(Component::ControllerManager)
        .await
        .unwrap();
    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    deployments.delete("unrelated", &foreground).await.unwrap();
    eventually(SOON, "the cascade ends", async || {
        let pods = scene.pods().await;
        let left = deployments
            .get_opt("unrelated")
            .await
            .map_err(|error| error.to_string())?;
        if pods.is_empty() && left.is_none() {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await;
}

/// One address for several webhooks: each connection goes to the next one that takes it.
struct Balancer {
    port: u16,
    behind: Arc<Mutex<Vec<u16>>>,
    _task: JoinSet<()>,
}

impl Balancer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = Arc::new(Mutex::new(Vec::new()));
        let mut task = JoinSet::new();
        task.spawn({
            let behind = behind.clone();
            async move {
                let mut connections = JoinSet::new();
                while let Ok((mut caller, _)) = listener.accept().await {
                    let ports: Vec<u16> = {
                        let mut ports: std::sync::MutexGuard<'_, Vec<u16>> =
                            behind.lock().unwrap_or_else(PoisonError::into_inner);
                        if !ports.is_empty() {
                            ports.rotate_left(1);
                        }
                        ports.clone()
                    };
                    connections.spawn(async move {
                        for port in ports {
                            if let Ok(mut webhook) = TcpStream::connect(("127.0.0.1", port)).await {
                                let _ = tokio::io::copy_bidirectional(&mut caller, &mut webhook).await;
                                return;
                            }
                        }
                    });
                }
            }
        });
        Self {
            port,
            behind,
            _task: task,
        }
    }

    fn put(&self, replicas: &[&Replica]) {
        let ports = replicas.iter().map(|replica| replica.webhook).collect();
        *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = ports;
    }
}

/// Workloads of one namespace, each with its Rollout.
async fn many(scene: &Scene<'_>, count: usize) -> Vec<String> {
    let names: Vec<_> = (0..count).map(|number| format!("app-{number}")).collect();
    for name in &names {
        let mut manifest = scene.manifest("v1", Some(0));
        manifest["metadata"]["name"] = json!(name);
        manifest["spec"]["replicas"] = json!(1);
        scene.create_app(&manifest).await;
        let mut rollout = scene.rollout_manifest(&json!([{"replicas": 1, "pause": {}}]));
        rollout["metadata"]["name"] = json!(name);
        rollout["spec"]["workloadRef"]["name"] = json!(name);
        let rollout = serde_json::from_value(rollout).unwrap();
        scene
            .rollouts(&scene.developer)
            .create(&PostParams::default(), &rollout)
            .await
            .unwrap();
    }
    eventually(SOON, "all are guarded", async || {
        let rollouts = scene
            .rollouts(&scene.admin)
            .list(&ListParams::default())
            .await
            .unwrap();
        let guarded = |rollout: &&_| {
            let rollout = serde_json::to_value(rollout).unwrap();
            condition(&rollout, "Guarded")["status"] == "True" && rollout["status"]["phase"] == "Healthy"
        };
        let count = rollouts.items.iter().filter(guarded).count();
        if count == names.len() { Ok(()) } else { Err(count) }
    })
    .await;
    names
}

#[tokio::test]
async fn r62_a_rolling_restart_refuses_nothing_and_lets_nothing_through() {
    let installation = alone().await;
    let balancer = Balancer::start().await;
    let start = async || {
        let replica = installation.replica(Some(balancer.port), &[]).unwrap();
        replica.wait_ready().await;
        replica
    };
    let (mut old, mut new) = (start().await, start().await);
    balancer.put(&[&old, &new]);
    at_work(&installation, &new).await;
    let scene = Scene::new(&installation, "rolling").await;
    let workloads = many(&scene, 10).await;
    let audit = installation.control_plane().audit();
    let since = audit.mark();

    let apps = scene.apps(&scene.developer);
    let mut writer = JoinSet::new();
    let (end, mut ended) = tokio::sync::oneshot::channel::<()>();
    writer.spawn(async move {
        let mut rhythm = interval(Duration::from_millis(50));
        // Long enough to see each of them come and go.
        let mut writes = 0;
        let mut over = false;
        while !over || writes < 40 {
            over |= ended.try_recv().is_ok();
            rhythm.tick().await;
            let patch = Patch::Merge(template(&format!("v{}", writes + 2)));
            let name = &workloads[writes % workloads.len()];
            let answer = apps.patch(name, &PatchParams::default(), &patch).await.unwrap();
            let answer = serde_json::to_value(answer).unwrap();
            assert_eq!(partition(&answer), names::HOLD_PARTITION, "{answer:#}");
            writes += 1;
        }
    });
    for _ in 0..4 {
        let next = start().await;
        balancer.put(&[&new, &next]);
        old.process.terminate().unwrap();
        assert!(old.process.wait(SOON).await.unwrap().success());
        old = std::mem::replace(&mut new, next);
    }
    end.send(()).unwrap();
    writer.join_all().await;
    // Not even for the moment in which a new process does not know yet what is governed.
    let registrations = audit.since(since).into_iter().filter(|entry| {
        entry.is_write() && entry.resource == "mutatingwebhookconfigurations" && entry.succeeded()
    });
    for registration in registrations {
        let text = registration.request.to_string();
        assert!(text.contains("mystatefulapps.example.io"), "{text}");
    }
}

/// What is not there is said by `/readyz`, and nothing is answered in its place.
#[tokio::test]
async fn r62_a_replica_is_ready_when_it_can_answer() {
    let installation = alone().await;
    let nothing = support::process::scratch("no-certificates").unwrap();
    let replica = installation
        .replica(None, &["--tls-dir", nothing.to_str().unwrap()])
        .unwrap();
    eventually(SOON, "the certificate is missed", async || {
        match replica.ready().await {
            Err(answer) if answer.contains("not ready: certificate") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    let admin =
        std::fs::read_to_string(installation.control_plane().kubeconfig(Identity::Controller)).unwrap();
    let server = admin
        .lines()
        .find(|line| line.contains("server:"))
        .unwrap()
        .trim()
        .to_owned();
    let away = nothing.join("away.kubeconfig");
    let port = support::free_port();
    std::fs::write(
        &away,
        admin.replace(&server, &format!("server: https://127.0.0.1:{port}")),
    )
    .unwrap();
    let replica = installation.replica_with(&away, None, &[]).unwrap();
    // It waits, or it ends with a failure and is started again by others.
    eventually(SOON, "the API server is missed", async || {
        match (replica.process.try_wait().unwrap(), replica.ready().await) {
            (Some(status), _) if !status.success() => Ok(()),
            (None, Err(answer)) if answer.contains("not ready") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
