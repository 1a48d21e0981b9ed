//! Pods that are slow to come, slow to go, or deleted by others; and sets that could update several at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};
use support::{ControlPlane, Entry, Identity, Installation, Mark, Options, eventually, installed};
use tokio::time::Instant;

use super::native::{govern, managed, pods};
use crate::changes::follow;
use crate::gate::Gate;
use crate::plugin::kruise;
use crate::scene::{APP, ROLLOUT, SOON, Scene, condition, partition, walk_steps};

fn version(pod: &Pod) -> &str {
    let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap();
    image.rsplit(':').next().unwrap()
}

/// When the pod became ready; none if it is not.
fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|c| c.type_ == "Ready" && c.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

async fn all_pods(scene: &Scene<'_>) -> Vec<Pod> {
    pods(scene).list(&ListParams::default()).await.unwrap().items
}

/// What the controller has written of the app.
fn writes_of_the_controller(scene: &Scene<'_>, since: Mark) -> Vec<Entry> {
    let entries = scene.namespace.control_plane().audit().since(since);
    let ours = |entry: &Entry| {
        entry.resource == "statefulsets"
            && entry.namespace == scene.namespace.name()
            && entry.user == Identity::Controller.user()
            && entry.is_write()
    };
    entries.into_iter().filter(ours).collect()
}

/// Old pods take 3 seconds to end, new ones 2 to be ready and 2 more to count.
#[tokio::test]
async fn r04_a_release_ends_when_every_pod_is_available_and_no_other_is_left() {
    let scene = Scene::with_stateful_set(installed().await, "r04").await;
    let mut manifest = managed(&scene, "v1-linger-3", "Parallel");
    (manifest["spec"]["replicas"], manifest["spec"]["minReadySeconds"]) = (json!(2), json!(2));
    scene.create_app(&manifest).await;
    scene.wait_pods("v1-linger-3", 2).await;
    let pause = json!({"duration": 0});
    govern(
        &scene,
        &json!([{"replicas": "50%", "pause": pause}, {"replicas": "100%"}]),
        600,
    )
    .await;
    scene.set_version("v2-slow-2").await;
    scene.wait_phase("Progressing").await;

    let target = format!("rollout/{ROLLOUT}");
    let arguments = ["rollout", "status", &target, "--watch", "--timeout=60s"];
    let said_done = async {
        let said = kruise(&scene, Identity::Viewer, &arguments).await;
        assert_eq!(said.code, 0, "{}{}", said.answer, said.talk);
        assert_eq!(scene.rollout().await["status"]["phase"], "Healthy");
    };
    let is_done = eventually(SOON, "the end", async || {
        let rollout = scene.rollout().await;
        // Looked at afterwards: whatever is missing now was missing at the end.
        let pods = all_pods(&scene).await;
        if rollout["status"]["phase"] != "Healthy" {
            return Err(format!("{:#}", rollout["status"]));
        }
        assert_eq!(pods.len(), 2);
        let ended = condition(&rollout, "Succeeded")["lastTransitionTime"]
            .as_str()
            .unwrap();
        let ended: Timestamp = ended.parse().unwrap();
        for pod in &pods {
            assert_eq!(
                (version(pod), &pod.metadata.deletion_timestamp),
                ("v2-slow-2", &None)
            );
            let since = ready_since(pod).unwrap();
            assert!(ended >= since + SignedDuration::from_secs(2), "{ended} {since}");
        }
        Ok(())
    });
    futures::future::join(said_done, is_done).await;
}

/// Pods on both sides of the partition are deleted in a pause, and one more while the next step is at work.
#[tokio::test]
async fn r11_a_deleted_pod_comes_back_on_the_version_of_its_side() {
    let scene = Scene::with_stateful_set(installed().await, "r11").await;
    scene.create_app(&managed(&scene, "v1", "OrderedReady")).await;
    scene.wait_pods("v1", 5).await;
    let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": "60%", "pause": {}}, {"replicas": "100%"}]);
    govern(&scene, &steps, 600).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2-slow-2").await;
    scene.wait_state(1, "StepPaused").await;
    let delete = async |name: &str| {
        pods(&scene).delete(name, &DeleteParams::default()).await.unwrap();
    };
    delete("my-app-0").await;
    delete("my-app-4").await;

    // What the step has lost is shown, and an approval waits for it.
    let target = format!("rollout/{ROLLOUT}");
    let shown = ["rollout", "status", &target, "--watch=false", "-o", "json"];
    eventually(SOON, "the lost readiness", async || {
        let said = kruise(&scene, Identity::Viewer, &shown).await;
        let report: Value = serde_json::from_str(&said.answer).map_err(|error| error.to_string())?;
        assert_eq!(
            (&report["state"], &report["step"]),
            (&json!("AwaitingApproval"), &json!(1))
        );
        let lost = |problem: &Value| problem["pod"] == "my-app-4" && problem["updated"] == true;
        let problems = report["problems"].as_array().unwrap();
        if problems.iter().any(lost) {
            Ok(())
        } else {
            Err(report.to_string())
        }
    })
    .await;
    let approved = kruise(&scene, Identity::Approver, &["rollout", "approve", &target]).await;
    assert_eq!(approved.code, 0, "{}", approved.talk);
    scene
        .wait_app("step 2 is granted", |app| partition(app) == &json!(2))
        .await;
    let back = all_pods(&scene).await;
    let of = |name: &str| {
        back.iter()
            .find(|pod| pod.metadata.name.as_deref() == Some(name))
            .unwrap()
    };
    assert_eq!(
        (version(of("my-app-0")), version(of("my-app-4"))),
        ("v1", "v2-slow-2")
    );
    let granted = eventually(SOON, "the write", async || {
        let writes = writes_of_the_controller(&scene, scene.namespace.control_plane().audit().beginning());
        let grant = |write: &Entry| {
            let operations = write.request.as_array();
            operations.is_some_and(|all| all.iter().any(|one| one["op"] != "test" && one["value"] == 2))
        };
        writes.into_iter().find(grant).ok_or("none")
    })
    .await
    .received;
    assert!(
        ready_since(of("my-app-4")).unwrap() <= granted,
        "the approval waited"
    );

    delete("my-app-1").await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v1", 2).await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    assert_eq!(
        scene.wait_pods("v2-slow-2", 5).await.len(),
        scene.pods().await.len()
    );
    gate.within_grants("v2-slow-2").await;
}

/// No periodic look is needed: each step ends by the event of its last pod, each pause by that of its approval.
#[tokio::test]
async fn r27_what_happens_to_pods_and_approvals_is_noticed_at_once() {
    let scene = Scene::with_stateful_set(installed().await, "r27").await;
    scene.create_app(&managed(&scene, "v1", "Parallel")).await;
    scene.wait_pods("v1", 5).await;
    let mut steps: Vec<_> = (1..5)
        .map(|pods| json!({"replicas": pods, "pause": {}}))
        .collect();
    steps.push(json!({"replicas": "100%"}));
    govern(&scene, &json!(steps), 600).await;
    scene.set_version("v2-slow-1").await;
    let mut delays = Vec::new();
    for step in 1..5 {
        let partition_of_step = json!(5 - step);
        scene
            .wait_app("granted", |app| partition(app) == &partition_of_step)
            .await;
        let name = format!("{APP}-{partition_of_step}");
        let ready = eventually(SOON, "ready", async || {
            let pod = pods(&scene).get(&name).await.map_err(|error| error.to_string())?;
            let new = version(&pod) == "v2-slow-1" && ready_since(&pod).is_some();
            new.then(Instant::now).ok_or_else(|| "not yet".to_owned())
        })
        .await;
        scene.wait_state(step, "StepPaused").await;
        delays.push(ready.elapsed());
        let approved = Instant::now();
        scene.approve().await;
        scene
            .wait_app("the next step", |app| partition(app) != &partition_of_step)
            .await;
        delays.push(approved.elapsed());
    }
    scene.wait_phase("Healthy").await;
    assert!(
        delays.iter().all(|delay| *delay < Duration::from_secs(5)),
        "{delays:?}"
    );
}

/// The API server drops `maxUnavailable` where its gate is off: then there is nothing to put back, and nobody tries.
#[tokio::test]
async fn r40_a_dropped_max_unavailable_makes_no_loop() {
    let scene = Scene::with_stateful_set(installed().await, "r40-off").await;
    let mut manifest = managed(&scene, "v1", "Parallel");
    manifest["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(3);
    scene.create_app(&manifest).await;
    scene.wait_pods("v1", 5).await;
    let created = scene.app().await;
    govern(&scene, &walk_steps(), 600).await;
    let audit = scene.namespace.control_plane().audit();
    let mark = audit.mark();
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    let strategy = |app: &Value| app["spec"]["updateStrategy"].clone();
    assert_eq!(strategy(&scene.app().await), strategy(&created));
    // A grant for each of the three steps, the end, and our entry in the managed fields.
    let writes: Vec<_> = writes_of_the_controller(&scene, mark)
        .into_iter()
        .map(|entry| (entry.verb, entry.code))
        .collect();
    assert!(writes.len() <= 5, "{writes:?}");
}

/// What was ever seen of a set and its pods.
#[derive(Default)]
struct Seen {
    /// Every value of `maxUnavailable`.
    max_unavailable: Vec<Value>,
    ready: BTreeMap<String, bool>,
    /// The smallest number of ready pods at any time.
    fewest_ready: usize,
}

impl Seen {
    /// From now on, without a gap.
    async fn watch(scene: &Scene<'_>) -> Arc<Mutex<Self>> {
        let pods: Api<DynamicObject> = Api::namespaced_with(
            scene.admin.clone(),
            scene.namespace.name(),
            &ApiResource::erase::<Pod>(&()),
        );
        let seen = Arc::new(Mutex::new(Self::default()));
        for (api, note) in [
            (pods, Self::pod as fn(&mut Self, &DynamicObject, bool)),
            (scene.apps(&scene.admin), Self::set),
        ] {
            let list = api.list(&ListParams::default()).await.unwrap();
            for object in &list.items {
                note(&mut seen.lock().unwrap(), object, false);
            }
            let from = list.metadata.resource_version.unwrap();
            let seen = seen.clone();
            tokio::spawn(async move {
                let note = |object: &DynamicObject, deleted| note(&mut seen.lock().unwrap(), object, deleted);
                let failure = follow(api, from, note).await;
                // Then the values above are not those that the case waits for.
                seen.lock().unwrap().max_unavailable.push(json!(failure));
            });
        }
        let mut now = seen.lock().unwrap();
        now.fewest_ready = now.ready.len();
        drop(now);
        seen
    }

    fn assert(seen: &Mutex<Self>) {
        let seen = seen.lock().unwrap();
        assert_eq!(seen.max_unavailable, [json!(3)]);
        assert!((7..10).contains(&seen.fewest_ready), "{}", seen.fewest_ready);
    }

    fn pod(&mut self, object: &DynamicObject, deleted: bool) {
        let conditions = object.data["status"]["conditions"].as_array();
        let is_ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
        let ready = !deleted && conditions.is_some_and(|all| all.iter().any(is_ready));
        self.ready.insert(object.name_any(), ready);
        let count = self.ready.values().filter(|ready| **ready).count();
        self.fewest_ready = self.fewest_ready.min(count);
    }

    fn set(&mut self, object: &DynamicObject, _: bool) {
        let value = &object.data["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
        if !self.max_unavailable.contains(value) {
            self.max_unavailable.push(value.clone());
        }
    }
}

/// The same where the gate is on: the field stays as people wrote it, and no more pods than it says are down at once. A first
/// version that has never been ready is no progress.
#[tokio::test]
async fn r40_max_unavailable_is_left_as_it_is() {
    let gate = vec!["--feature-gates=MaxUnavailableStatefulSet=true".to_owned()];
    let options = Options {
        api_server_flags: gate.clone(),
        controller_manager_flags: gate,
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let installation = Installation::start(&control_plane).await.unwrap();
    let steps = json!([{"replicas": "60%", "pause": {}}, {"replicas": "100%"}]);
    let set = async |scene: &Scene<'_>, version: &str| {
        let mut manifest = managed(scene, version, "OrderedReady");
        manifest["spec"]["replicas"] = json!(10);
        manifest["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(3);
        scene.create_app(&manifest).await;
    };

    let scene = Scene::with_stateful_set(&installation, "r40-on").await;
    set(&scene, "v1").await;
    scene.wait_pods("v1", 10).await;
    govern(&scene, &steps, 600).await;
    let seen = Seen::watch(&scene).await;
    scene.set_version("v2-slow-1").await;
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2-slow-1", 6).await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2-slow-1", 10).await;
    Seen::assert(&seen);

    let scene = Scene::with_stateful_set(&installation, "r40-first").await;
    set(&scene, "bad").await;
    govern(&scene, &steps, 2).await;
    scene.set_version("v2").await;
    let rollout = scene
        .wait("reported", |rollout| {
            condition(rollout, "Stalled")["reason"] == "ProgressDeadlineExceeded"
        })
        .await;
    assert_eq!(
        rollout["status"]["canaryStatus"]["currentStepState"],
        "StepUpgrade"
    );
}
