//! The local control plane itself: what the other cases stand on.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use support::{
    Component, ControlPlane, Identity, Options, TestNamespace, build_binaries, eventually, shared,
};

mod identities;
mod processes;
mod servers;

const SOON: Duration = Duration::from_secs(30);

fn stateful_set(name: &str, replicas: i32, image: &str) -> StatefulSet {
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    });
    serde_json::from_value(object).unwrap()
}

fn pod(name: &str, image: &str) -> Pod {
    let spec = json!({"containers": [{"name": "main", "image": image}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn waiting_reason(pod: &Pod) -> Option<&str> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn wait_for_ready_set(client: &Client, namespace: &str, name: &str, replicas: i32) {
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
    eventually(SOON, "the StatefulSet is ready", async || {
        let status = sets
            .get(name)
            .await
            .map_err(|error| error.to_string())?
            .status
            .unwrap_or_default();
        let ready = status.ready_replicas.unwrap_or_default();
        if ready == replicas {
            Ok(())
        } else {
            Err(format!("{ready} of {replicas} ready"))
        }
    })
    .await;
}

#[tokio::test]
async fn a_stateful_set_becomes_ready() {
    let namespace = TestNamespace::create(shared().await, "ready").await.unwrap();
    let client = namespace.client(Identity::Developer).await.unwrap();
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), namespace.name());
    sets.create(&PostParams::default(), &stateful_set("web", 3, "app:v1"))
        .await
        .unwrap();
    wait_for_ready_set(&client, namespace.name(), "web", 3).await;

    let output = namespace
        .kubectl(Identity::Viewer)
        .unwrap()
        .args(["get", "pods", "-o", "name"])
        .output()
        .await
        .unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        names.lines().collect::<Vec<_>>(),
        ["pod/web-0", "pod/web-1", "pod/web-2"]
    );
}

#[tokio::test]
async fn images_choose_how_pods_behave() {
    let namespace = TestNamespace::create(shared().await, "images").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(namespace.client(Identity::Admin).await.unwrap(), namespace.name());
    for (name, image) in [
        ("good", "app:v1"),
        ("bad", "app:bad"),
        ("second-bad", "app:v2-bad"),
        ("missing", "app:nopull"),
        ("slow", "app:slow"),
        ("quick-slow", "app:v1-slow-1"),
        ("linger", "app:linger-2"),
        ("hang", "app:hang"),
    ] {
        pods.create(&PostParams::default(), &pod(name, image))
            .await
            .unwrap();
    }

    for (name, reason) in [
        ("bad", "CrashLoopBackOff"),
        ("second-bad", "CrashLoopBackOff"),
        ("missing", "ImagePullBackOff"),
    ] {
        eventually(SOON, name, async || {
            match waiting_reason(&pods.get(name).await.unwrap()) {
                Some(waiting) if waiting == reason => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    for name in ["good", "linger", "hang", "quick-slow"] {
        eventually(SOON, name, async || {
            if is_ready(&pods.get(name).await.unwrap()) {
                Ok(())
            } else {
                Err("not ready")
            }
        })
        .await;
    }
    assert!(
        !is_ready(&pods.get("slow").await.unwrap()),
        "20 s have not passed"
    );
    assert!(!is_ready(&pods.get("bad").await.unwrap()));

    for name in ["good", "bad", "linger", "hang"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    assert!(
        pods.get("linger")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    for name in ["good", "bad", "linger"] {
        eventually(SOON, name, async || match pods.get_opt(name).await.unwrap() {
            None => Ok(()),
            Some(_) => Err("still there"),
        })
        .await;
    }
    let hanging = pods.get("hang").await.unwrap();
    assert!(hanging.metadata.deletion_timestamp.is_some());
    pods.delete("hang", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
}

#[tokio::test]
async fn readiness_gates_are_respected() {
    let namespace = TestNamespace::create(shared().await, "gates").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(namespace.client(Identity::Admin).await.unwrap(), namespace.name());
    let mut gated = pod("gated", "app:v1");
    let gates = json!([{"conditionType": "example.io/go"}]);
    gated.spec.as_mut().unwrap().readiness_gates = serde_json::from_value(gates).unwrap();
    pods.create(&PostParams::default(), &gated).await.unwrap();
    eventually(SOON, "the pod runs", async || {
        let phase = pods
            .get("gated")
            .await
            .unwrap()
            .status
            .and_then(|status| status.phase);
        if phase.as_deref() == Some("Running") {
            Ok(())
        } else {
            Err(format!("{phase:?}"))
        }
    })
    .await;
    assert!(!is_ready(&pods.get("gated").await.unwrap()));

    for (go, ready) in [("True", true), ("False", false)] {
        let patch = json!({"status": {"conditions": [{"type": "example.io/go", "status": go}]}});
        pods.patch_status("gated", &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap();
        eventually(SOON, "Ready follows the gate", async || {
            if is_ready(&pods.get("gated").await.unwrap()) == ready {
                Ok(())
            } else {
                Err(format!("gate {go}"))
            }
        })
        .await;
    }
}

#[tokio::test]
async fn the_audit_log_has_writes_and_dry_runs() {
    let namespace = TestNamespace::create(shared().await, "audit").await.unwrap();
    if namespace.control_plane().is_existing() {
        return;
    }
    let audit = namespace.control_plane().audit();
    let client = namespace.client(Identity::Developer).await.unwrap();
    let sets: Api<StatefulSet> = Api::namespaced(client, namespace.name());
    let mark = audit.mark();
    sets.create(&PostParams::default(), &stateful_set("web", 0, "app:v1"))
        .await
        .unwrap();
    let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
    let dry_run = PatchParams {
        dry_run: true,
        field_manager: Some("somebody".to_owned()),
        ..Default::default()
    };
    sets.patch("web", &dry_run, &patch).await.unwrap();

    let entries = eventually(SOON, "both requests are logged", async || {
        let all = audit.since(mark).into_iter();
        let ours = all.filter(|entry| entry.namespace == namespace.name() && entry.user == "developer");
        let ours: Vec<_> = ours.collect();
        if ours.len() == 2 {
            Ok(ours)
        } else {
            Err(format!("{ours:#?}"))
        }
    })
    .await;
    let [created, patched] = entries.as_slice() else {
        unreachable!()
    };
    assert_eq!(
        (created.verb.as_str(), created.resource.as_str(), created.code),
        ("create", "statefulsets", 201)
    );
    assert_eq!(created.name, "web");
    assert_eq!(created.group, "apps");
    assert!(created.is_write() && created.succeeded());
    assert!(patched.dry_run && !patched.is_write());
    assert_eq!(patched.field_manager, "somebody");
    assert_eq!(patched.request["spec"]["replicas"], 1);
}

#[tokio::test]
async fn two_run_at_once_and_survive_a_restart_of_their_parts() {
    let (one, two) = tokio::join!(ControlPlane::start(Options::default()), shared());
    let one = one.unwrap();
    let client = one.client(Identity::Admin).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &config_map("only-here"))
        .await
        .unwrap();
    let others: Api<ConfigMap> = Api::namespaced(two.client(Identity::Admin).await.unwrap(), "default");
    assert!(others.get_opt("only-here").await.unwrap().is_none());

    one.stop_component(Component::ApiServer).await;
    assert!(maps.get("only-here").await.is_err());
    one.restart_component(Component::ApiServer).await.unwrap();
    one.restart_component(Component::Etcd).await.unwrap();
    assert_eq!(maps.get("only-here").await.unwrap().name_any(), "only-here");

    // The other parts have found their way back.
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), "default");
    sets.create(&PostParams::default(), &stateful_set("web", 2, "app:v1"))
        .await
        .unwrap();
    wait_for_ready_set(&client, "default", "web", 2).await;
    let folder = one.folder().to_owned();
    let pids: Vec<u32> = one.pids().into_values().collect();
    one.stop().await;
    processes::assert_gone(&pids, &folder).await;
}

#[tokio::test]
async fn the_plugin_is_found_by_kubectl() {
    let product = build_binaries().unwrap();
    for program in [&product.controller, &product.plugin, &product.operator] {
        assert!(program.exists(), "{}", program.display());
    }
    let control_plane = shared().await;
    let output = control_plane
        .kubectl(Identity::Viewer)
        .args(["plugin", "list", "--name-only"])
        .output()
        .await;
    let names = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(names.lines().any(|name| name == "kubectl-kruise"), "{names}");
}
