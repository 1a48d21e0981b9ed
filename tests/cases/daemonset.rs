//! DaemonSets of Kubernetes' own, under its own controller.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kruise_rollout::names;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{Installation, eventually, installed};

use crate::courses::Subject;
use crate::gate::Gate;
use crate::ground::{Ground, finish, two_steps};
use crate::scene::{APP, SOON, Scene, assert_free, condition, mark};

mod nodes;
mod odd;

/// Label of the nodes that only the DaemonSet of one case runs on. Its value is the namespace.
const POOL: &str = "example.io/pool-of";

/// A DaemonSet on nodes of its own.
pub struct Daemons<'a> {
    pub subject: Subject<'a>,
    nodes: Api<Node>,
}

impl<'a> Daemons<'a> {
    /// On five nodes, with these members of its spec; nothing of it exists yet.
    pub async fn new(installation: &Installation<'a>, prefix: &str, spec: &Value) -> Self {
        let prefix = format!("daemons-{prefix}");
        let scene = Scene::of_kind(installation, &prefix, ApiResource::erase::<DaemonSet>(&())).await;
        let mut manifest = scene.manifest("v1", None);
        manifest["metadata"].as_object_mut().unwrap().remove("labels");
        let members = manifest["spec"].as_object_mut().unwrap();
        members.remove("replicas");
        members.remove("serviceName");
        let pod = &mut manifest["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({POOL: scene.namespace.name()});
        pod["tolerations"] = json!([{"key": POOL, "operator": "Exists"}]);
        for (field, value) in spec.as_object().unwrap() {
            manifest["spec"][field] = value.clone();
        }
        let daemons = Self {
            nodes: Api::all(scene.admin.clone()),
            subject: Subject { scene, manifest },
        };
        daemons.add_nodes(0..5).await;
        daemons
    }

    fn scene(&self) -> &Scene<'a> {
        &self.subject.scene
    }

    fn node(&self, index: usize) -> String {
        format!("{}-{index}", self.scene().namespace.name())
    }

    async fn add_nodes(&self, indexes: std::ops::Range<usize>) {
        for index in indexes {
            let room = json!({"cpu": "1k", "memory": "1Ti", "pods": "1000"});
            let pool = self.scene().namespace.name();
            let node = json!({
                "metadata": {"name": self.node(index), "labels": {POOL: pool},
                    "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "spec": {"taints": [{"key": POOL, "value": pool, "effect": "NoSchedule"}]},
                "status": {"allocatable": room, "capacity": room},
            });
            let node = serde_json::from_value(node).unwrap();
            self.nodes.create(&PostParams::default(), &node).await.unwrap();
        }
    }

    /// These nodes want no pod any more.
    async fn remove_nodes(&self, indexes: std::ops::Range<usize>) {
        let leaves = Patch::Merge(json!({"metadata": {"labels": {POOL: null}}}));
        for index in indexes {
            let name = self.node(index);
            self.nodes
                .patch(&name, &PatchParams::default(), &leaves)
                .await
                .unwrap();
        }
    }

    /// Waits until the nodes have exactly these pods, ready, by version.
    async fn settled(&self, pods: &[(&str, usize)]) {
        for (version, count) in pods {
            self.scene().wait_pods(version, *count).await;
        }
        let all: usize = pods.iter().map(|(_, count)| count).sum();
        eventually(SOON, "no other pod", async || match self.scene().pods().await {
            left if left.len() == all => Ok(()),
            more => Err(format!("{more:?}")),
        })
        .await;
    }

    /// Waits until so many nodes have a pod each, and no pod is without a node.
    async fn on_different_nodes(&self, count: usize) {
        eventually(SOON, "a pod on each node", async || {
            let pods = self.by_node().await;
            let nodes: BTreeSet<_> = pods.iter().map(|(node, _)| node.clone()).collect();
            if pods.len() == count && nodes.len() == count && !nodes.contains("") {
                Ok(())
            } else {
                Err(format!("{nodes:?}"))
            }
        })
        .await;
    }

    /// The pods that nobody has asked to leave, by node.
    async fn by_node(&self) -> Vec<(String, Pod)> {
        let pods = self
            .scene()
            .all_pods()
            .list(&ListParams::default())
            .await
            .unwrap();
        let living = pods
            .items
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        living
            .map(|pod| {
                (
                    pod.spec.as_ref().unwrap().node_name.clone().unwrap_or_default(),
                    pod,
                )
            })
            .collect()
    }

    async fn delete_pod(&self, name: &str) {
        self.scene()
            .all_pods()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
}

async fn daemons(prefix: &str, spec: Value) -> Daemons<'static> {
    Daemons::new(installed().await, prefix, &spec).await
}

fn rolling(members: Value) -> Value {
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": members}})
}

#[tokio::test]
async fn a_daemonset_walks_its_steps() {
    daemons("walk", json!({})).await.subject.walks().await;
}

#[tokio::test]
async fn a_daemonset_rolls_back_at_the_first_step() {
    daemons("back", json!({})).await.subject.rolls_back().await;
}

#[tokio::test]
async fn a_daemonset_is_overtaken_by_another_version() {
    let daemons = daemons("v3", rolling(json!({"maxUnavailable": 2}))).await;
    let strategy = daemons.subject.manifest["spec"]["updateStrategy"].clone();
    daemons.subject.is_overtaken().await;
    let now = &daemons.scene().app().await["spec"]["updateStrategy"];
    assert_eq!(now["type"], strategy["type"]);
    assert_eq!(now["rollingUpdate"]["maxUnavailable"], 2);
}

#[tokio::test]
async fn a_daemonset_loses_its_rollout_in_mid_release() {
    daemons("lost", json!({})).await.subject.loses_its_rollout().await;
}

#[tokio::test]
async fn a_daemonset_of_a_broken_image_stops_at_the_first_step() {
    daemons("bad", json!({})).await.subject.breaks().await;
}

/// As many nodes are without a pod as people allow, there and back. Extra pods are not made: then it is one.
#[tokio::test]
async fn no_more_nodes_are_without_a_pod_than_people_allow() {
    for (prefix, strategy, fewest) in [
        ("default", json!({}), 4),
        ("share", rolling(json!({"maxUnavailable": "30%"})), 3),
        ("surge", rolling(json!({"maxUnavailable": 0, "maxSurge": 2})), 4),
    ] {
        let daemons = daemons(prefix, strategy).await;
        let gate = Gate::open(daemons.scene()).await;
        daemons.subject.walks().await;
        assert_eq!(gate.crowd(5).await.0, fewest, "{prefix}");
    }
}

#[tokio::test]
async fn all_nodes_at_once_if_people_allow_it() {
    let daemons = daemons("fast", rolling(json!({"maxUnavailable": "100%"}))).await;
    daemons.subject.walks().await;
}

#[tokio::test]
async fn a_daemonset_that_is_updated_by_hand_is_refused() {
    let daemons = daemons("by-hand", json!({"updateStrategy": {"type": "OnDelete"}})).await;
    let scene = daemons.scene();
    scene.create_app(&daemons.subject.manifest).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&two_steps()).await;
    let told = scene
        .wait("a sentence", |rollout| {
            condition(rollout, "Guarded")["status"] == "False"
        })
        .await;
    let message = condition(&told, "Guarded")["message"].as_str().unwrap();
    assert!(
        message.contains("OnDelete") && message.contains("RollingUpdate"),
        "{message}"
    );
}

/// What people ask for in mid-release is for its end, whatever they apply.
#[tokio::test]
async fn an_apply_in_mid_release_lets_nothing_go() {
    let daemons = daemons("apply", rolling(json!({"maxUnavailable": 1}))).await;
    let scene = daemons.scene();
    daemons.subject.set().await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    daemons.settled(&[("v1", 4), ("v2", 1)]).await;
    scene.wait_state(1, "StepPaused").await;
    let app = scene
        .patch_app(json!({"spec": rolling(json!({"maxUnavailable": 3}))}))
        .await;
    assert_eq!(app["spec"]["updateStrategy"]["type"], "OnDelete");
    scene.looked_at("applied").await;
    assert_eq!(gate.most("v2").await, 1);
    finish(scene, "v2").await;
    let strategy = &scene.app().await["spec"]["updateStrategy"];
    assert_eq!(
        (&strategy["type"], &strategy["rollingUpdate"]["maxUnavailable"]),
        (&json!("RollingUpdate"), &json!(3))
    );
}

/// From five nodes to ten and back, at the pause of a number and at that of a percentage. The DaemonSet controller makes pods of the
/// newest template on nodes that come: they are put back.
#[tokio::test]
async fn a_daemonset_follows_its_nodes_in_mid_release() {
    let daemons = daemons("nodes", rolling(json!({"maxUnavailable": 2}))).await;
    let scene = daemons.scene();
    daemons.subject.set().await;
    scene.set_version("v2").await;
    daemons.settled(&[("v1", 4), ("v2", 1)]).await;
    scene.wait_state(1, "StepPaused").await;
    daemons.add_nodes(5..10).await;
    daemons.settled(&[("v1", 9), ("v2", 1)]).await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    daemons.settled(&[("v1", 5), ("v2", 5)]).await;
    daemons.remove_nodes(5..10).await;
    scene
        .wait_app("five nodes", |app| app["status"]["desiredNumberScheduled"] == 5)
        .await;
    daemons.settled(&[("v1", 2), ("v2", 3)]).await;
    scene.wait_state(2, "StepPaused").await;
    finish(scene, "v2").await;
    assert_free(&scene.app().await);
}

/// Once a release has ended, its template is the stable one: the one before is a release as any other.
#[tokio::test]
async fn a_daemonset_that_is_taken_back_after_its_release_takes_steps() {
    let daemons = daemons("again", json!({})).await;
    let (subject, scene) = (&daemons.subject, daemons.scene());
    subject.walks().await;
    let gate = Gate::open(scene).await;
    scene.set_version("v1").await;
    scene.wait_state(1, "StepPaused").await;
    daemons.settled(&[("v1", 1), ("v2", 4)]).await;
    assert_eq!(gate.most("v1").await, 1);
    finish(scene, "v1").await;
    let rollout = scene.wait_phase("Healthy").await;
    assert_eq!(condition(&rollout, "Succeeded")["status"], "True");
}

#[tokio::test]
async fn a_daemonset_walks_five_steps_by_time() {
    daemons("time", json!({})).await.subject.walks_by_time().await;
}

/// What is lost comes back as it was.
#[tokio::test]
async fn a_pod_that_is_lost_in_mid_release_comes_back_of_its_version() {
    let daemons = daemons("loss", json!({})).await;
    let scene = daemons.scene();
    daemons.subject.set().await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    for (version, count) in [("v1", 4), ("v2", 1)] {
        let pods = scene.wait_pods(version, count).await;
        daemons.delete_pod(&pods[0]).await;
        daemons.settled(&[("v1", 4), ("v2", 1)]).await;
    }
    let made = daemons.by_node().await;
    assert_eq!(made.len(), 5);
    // Those that we have made are like the others.
    let of_stable = made
        .iter()
        .filter(|(_, pod)| pod.labels()["pod-template-generation"] == "1");
    assert_eq!(of_stable.count(), 4);
    assert!(made.iter().all(|(_, pod)| pod.owner_references()[0].name == APP));
    finish(scene, "v2").await;
}

/// Killed at any moment, the next one goes on and takes no pod twice.
#[tokio::test]
async fn a_controller_that_dies_between_two_pods_doubles_nothing() {
    let mut ground = Ground::with_controller().await;
    let daemons = Daemons::new(&ground, "killed", &rolling(json!({"maxUnavailable": 2}))).await;
    let scene = daemons.scene();
    daemons.subject.set().await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    for left in [4, 3] {
        eventually(SOON, "a pod goes", async || {
            let old = scene
                .pods()
                .await
                .iter()
                .filter(|(_, version, _)| version == "v1")
                .count();
            if old < left { Ok(()) } else { Err(old) }
        })
        .await;
        ground.kill_controller();
        ground.start_controller().await.unwrap();
    }
    scene.wait_state(2, "StepPaused").await;
    daemons.settled(&[("v1", 2), ("v2", 3)]).await;
    assert_eq!(gate.most("v2").await, 3);
    finish(scene, "v2").await;
    assert!(gate.crowd(5).await.0 >= 3);
}

#[tokio::test]
async fn r47_failing_pods_and_new_nodes_in_mid_release() {
    let daemons = daemons("r47", rolling(json!({"maxUnavailable": 2}))).await;
    let scene = daemons.scene();
    daemons.add_nodes(5..6).await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}});
    scene.create_app(&daemons.subject.manifest).await;
    scene.wait_pods("v1", 6).await;
    scene
        .create_rollout(
            &json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}]),
        )
        .await;
    scene.wait_phase("Healthy").await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let updated = scene.wait_pods("v2", 1).await;
    let old = scene.wait_pods("v1", 5).await;
    // An old pod is lost, and two nodes come: each has a pod, of the old version until it is their turn.
    daemons.delete_pod(&old[0]).await;
    daemons.add_nodes(6..8).await;
    daemons.settled(&[("v1", 7), ("v2", 1)]).await;
    daemons.on_different_nodes(8).await;
    // The updated pod fails, and is reported once the next step is asked for.
    let pods = scene.all_pods();
    let params = PatchParams::default();
    let ready = |status: &str| {
        Patch::Strategic(
            json!({"status": {"conditions": [{"type": "Ready", "status": status,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
        )
    };
    pods.patch_status(&updated[0], &params, &ready("False"))
        .await
        .unwrap();
    scene.wait_pods("v2", 0).await;
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"canary": {"progressDeadlineSeconds": 1}}}}))
        .await;
    scene.approve().await;
    scene
        .wait("the failing pod is named", |rollout| {
            let message = condition(rollout, "Stalled")["message"].as_str();
            message.is_some_and(|message| message.contains(&updated[0]))
        })
        .await;
    // What is lost on another node comes back all the same.
    let lost = scene.wait_pods("v1", 7).await;
    daemons.delete_pod(&lost[0]).await;
    daemons.on_different_nodes(8).await;
    // It recovers, and the release goes on: to half of the eight nodes of now.
    pods.patch_status(&updated[0], &params, &ready("True"))
        .await
        .unwrap();
    scene.wait_state(2, "StepPaused").await;
    daemons.settled(&[("v1", 4), ("v2", 4)]).await;
    scene.approve().await;
    daemons.settled(&[("v2", 8)]).await;
    scene
        .wait_app("handed back", |app| mark(app, names::GRANTED_PARTITION).is_null())
        .await;
    scene.delete_rollout().await;
    let app = scene
        .wait_app("free", |app| mark(app, names::GUARDED_BY).is_null())
        .await;
    assert_free(&app);
    assert_eq!(app["spec"]["updateStrategy"], strategy);
}
