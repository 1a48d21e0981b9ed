//! Pods that never become ready or never leave, and what is said and done about them.

use std::process::Stdio;

use futures::future::{join, join_all};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options, eventually, installed};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::native::{deleted_by_the_controller, govern, managed, pods};
use crate::gate::Gate;
use crate::plugin::{Said, kruise};
use crate::scene::{ROLLOUT, SOON, Scene, condition, partition, walk_steps};

/// The pod that is updated first.
const FIRST: &str = "my-app-4";

/// A native StatefulSet on v1 with its Rollout, in step 1 of a version that crashes.
async fn crashing<'a>(installation: &Installation<'a>, prefix: &str, management: &str) -> Scene<'a> {
    let scene = Scene::with_stateful_set(installation, prefix).await;
    scene.create_app(&managed(&scene, "v1", management)).await;
    scene.wait_pods("v1", 5).await;
    govern(&scene, &walk_steps(), 2).await;
    scene.set_version("bad").await;
    eventually(SOON, "a pod of the bad version", async || {
        let pods = scene.pods().await;
        let crashes =
            |(name, version, ready): &(String, String, bool)| name == FIRST && version == "bad" && !ready;
        if pods.iter().any(crashes) {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await;
    scene
}

async fn status(scene: &Scene<'_>, further: &[&str]) -> Said {
    let target = format!("rollout/{ROLLOUT}");
    let arguments = [&["rollout", "status", &target], further].concat();
    kruise(scene, Identity::Viewer, &arguments).await
}

async fn rolled_back(scene: &Scene<'_>) {
    scene
        .wait("rolled back", |rollout| {
            rollout["status"]["phase"] == "Healthy"
                && condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    scene.wait_pods("v1", 5).await;
}

async fn told(scene: &Scene<'_>, reason: &str) -> Value {
    scene
        .wait(reason, |rollout| {
            condition(rollout, "Stalled")["reason"] == reason
        })
        .await
}

fn message(rollout: &Value) -> &str {
    rollout["status"]["message"].as_str().unwrap()
}

#[derive(Clone, Copy)]
enum Back {
    Apply,
    Undo,
}

/// Nobody but the controller and the StatefulSet controller touches a pod.
async fn comes_back(prefix: &str, management: &str, back: Back) {
    let scene = crashing(installed().await, prefix, management).await;
    let mark = scene.namespace.control_plane().audit().mark();
    let gate = Gate::open(&scene).await;
    match back {
        Back::Apply => drop(scene.set_version("v1").await),
        Back::Undo => {
            let target = format!("rollout/{ROLLOUT}");
            let said = kruise(
                &scene,
                Identity::Developer,
                &["rollout", "undo", &target, "--yes"],
            )
            .await;
            assert_eq!(said.code, 0, "{}", said.talk);
        }
    }
    rolled_back(&scene).await;
    let expected: &[&str] = if management == "OrderedReady" {
        &[FIRST]
    } else {
        &[]
    };
    assert_eq!(deleted_by_the_controller(&scene, mark), expected);
    assert!(gate.steps("bad").await.iter().all(|(_, pods)| *pods <= 1));
    if management == "OrderedReady" {
        let said = eventually(SOON, "the event", async || {
            scene.events("StuckPodReplaced").await.pop().ok_or("none")
        })
        .await;
        assert!(
            said.contains(FIRST) && said.contains("exit code 1") && said.contains("my-app-"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn r01_a_rollback_works_past_a_broken_pod() {
    join_all([
        comes_back("r01-ordered-apply", "OrderedReady", Back::Apply),
        comes_back("r01-ordered-undo", "OrderedReady", Back::Undo),
        comes_back("r01-parallel-apply", "Parallel", Back::Apply),
        comes_back("r01-parallel-undo", "Parallel", Back::Undo),
    ])
    .await;
}

#[tokio::test]
async fn r01_another_version_works_past_a_broken_pod() {
    let scene = crashing(installed().await, "r01-forward", "OrderedReady").await;
    let mark = scene.namespace.control_plane().audit().mark();
    let gate = Gate::open(&scene).await;
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v3", 1).await, [FIRST]);
    scene.wait_pods("v1", 4).await;
    assert_eq!(deleted_by_the_controller(&scene, mark), [FIRST]);
    gate.within_grants("v3").await;
}

/// Where the switch is off, the controller may not even delete pods, and tells who has to.
#[tokio::test]
async fn r01_with_the_switch_off_the_pod_and_the_remedy_are_named() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let installation = Installation::start_with(&control_plane, &["--replace-stuck-pods=false"])
        .await
        .unwrap();
    let scene = crashing(&installation, "r01-off", "OrderedReady").await;
    scene.set_version("v1").await;
    let remedy = format!("kubectl delete pod {FIRST} -n {}", scene.namespace.name());
    let rollout = told(&scene, "PodInTheWay").await;
    let said = message(&rollout);
    assert!(
        said.contains(&remedy) && said.contains("exit code 1") && said.contains("in order"),
        "{said}"
    );
    assert_eq!(condition(&rollout, "Ready")["status"], "False");
    let shown = status(&scene, &["--watch=false"]).await;
    assert_eq!(shown.code, 3, "{}{}", shown.answer, shown.talk);
    assert!(shown.answer.contains(&remedy), "{}", shown.answer);
    // The role of DaemonSets, whose pods are always replaced by the controller, may be left out.
    let role = ["delete", "clusterrole", "kruise-rollout-controller-daemonsets"];
    let mut kubectl = scene.namespace.kubectl(Identity::Admin).unwrap();
    assert!(kubectl.args(role).status().await.unwrap().success());
    let right = ["auth", "can-i", "delete", "pods"];
    eventually(SOON, "pods may not be deleted", async || {
        let mut kubectl = scene.namespace.kubectl(Identity::Controller).unwrap();
        let answer = kubectl.args(right).output().await.unwrap();
        match String::from_utf8_lossy(&answer.stdout).trim() {
            "no" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;

    pods(&scene)
        .delete(FIRST, &DeleteParams::default())
        .await
        .unwrap();
    rolled_back(&scene).await;
}

#[tokio::test]
async fn r05_a_crashing_batch_says_what_is_wrong_and_since_when() {
    let scene = crashing(installed().await, "r05", "Parallel").await;
    // It may be looked at for long before the deadline passes.
    let target = format!("rollout/{ROLLOUT}");
    let arguments = ["rollout", "status", &target, "--watch", "--timeout=60s"];
    let (waited, _) = join(kruise(&scene, Identity::Viewer, &arguments), async {
        let rollout = told(&scene, "ProgressDeadlineExceeded").await;
        assert!(condition(&rollout, "Stalled")["lastTransitionTime"].is_string());
        assert_eq!(condition(&rollout, "Ready")["status"], "False");
        let created = pods(&scene)
            .get(FIRST)
            .await
            .unwrap()
            .metadata
            .creation_timestamp
            .unwrap();
        let facts = format!(
            "pod {FIRST} of {} is not ready (container app in CrashLoopBackOff: exit code 1)",
            created.0
        );
        assert!(message(&rollout).contains(&facts), "{}", message(&rollout));
        assert_eq!(partition(&scene.app().await), 4);
        let warned = eventually(SOON, "the event", async || {
            scene.events("Stalled").await.pop().ok_or("none")
        })
        .await;
        assert!(warned.contains(&facts), "{warned}");

        let shown = status(&scene, &["--watch=false"]).await;
        assert_eq!(shown.code, 3, "{}", shown.talk);
        assert!(shown.answer.contains(&facts), "{}", shown.answer);
        let timeout = status(&scene, &["--watch", "--timeout=2s"]).await;
        assert_eq!(timeout.code, 4, "{}{}", timeout.answer, timeout.talk);
        assert!(timeout.answer.contains("CrashLoopBackOff"), "{}", timeout.answer);
        let failed = status(&scene, &["--watch", "--fail-fast=1s"]).await;
        assert_eq!(failed.code, 3, "{}{}", failed.answer, failed.talk);

        // What makes it crash is mended, as by another service that comes back.
        mend(&scene, FIRST).await;
        let on = scene.wait_state(1, "StepPaused").await;
        assert!(condition(&on, "Stalled").is_null(), "{:#}", on["status"]);
        scene.approve().await;
        eventually(SOON, "the release ends", async || {
            for (name, version, ready) in scene.pods().await {
                if version == "bad" && !ready {
                    mend(&scene, &name).await;
                }
            }
            let rollout = scene.rollout().await;
            match rollout["status"]["phase"] == "Healthy" {
                true => Ok(()),
                false => Err(format!("{:#}", rollout["status"])),
            }
        })
        .await;
    })
    .await;
    // The failure that passed did not end it, the end of the release did.
    assert_eq!(waited.code, 0, "{}{}", waited.answer, waited.talk);
}

/// Makes a crashing pod ready, as its kubelet would.
async fn mend(scene: &Scene<'_>, pod: &str) {
    let status = json!({"status": {
        "conditions": [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "app", "image": "my-registry/my-app:bad", "imageID": "x", "ready": true, "started": true,
            "restartCount": 4, "state": {"running": {}}}]}});
    // It may have been replaced meanwhile; then the next look sees that.
    let _ = pods(scene)
        .patch_status(pod, &PatchParams::default(), &Patch::Strategic(status))
        .await;
}

/// The version that mends it supersedes the broken one: whoever followed that is told so, and nobody touches a pod.
#[tokio::test]
async fn r05_a_fixed_version_takes_the_place_of_the_broken_one() {
    let scene = crashing(installed().await, "r05-fixed", "Parallel").await;
    told(&scene, "ProgressDeadlineExceeded").await;
    let mark = scene.namespace.control_plane().audit().mark();
    let target = format!("rollout/{ROLLOUT}");
    let arguments = ["rollout", "status", &target, "--watch", "--timeout=60s"];
    let mut command = scene.namespace.kubectl(Identity::Viewer).unwrap();
    command.arg("kruise").args(arguments).stdout(Stdio::piped());
    let mut follower = command.kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(first.contains("CrashLoopBackOff"), "{first}");
    scene.set_version("v3").await;
    assert_eq!(follower.wait().await.unwrap().code(), Some(6), "superseded");
    scene.wait_state(1, "StepPaused").await;
    let (done, ()) = join(kruise(&scene, Identity::Viewer, &arguments), scene.approve()).await;
    assert_eq!(done.code, 0, "{}{}", done.answer, done.talk);
    scene.wait_pods("v3", 5).await;
    assert_eq!(deleted_by_the_controller(&scene, mark), [""; 0]);
}

/// A first version that has never been ready, in order: its pods are of the stable version, so nobody deletes them, and nothing is
/// claimed.
#[tokio::test]
async fn r40_a_broken_first_version_is_reported() {
    let scene = Scene::with_stateful_set(installed().await, "r40-bad").await;
    scene.create_app(&managed(&scene, "bad", "OrderedReady")).await;
    govern(&scene, &walk_steps(), 2).await;
    let mark = scene.namespace.control_plane().audit().mark();
    scene.set_version("v2").await;
    let rollout = told(&scene, "ProgressDeadlineExceeded").await;
    let said = message(&rollout);
    assert!(
        said.contains("pod my-app-0") && said.contains("CrashLoopBackOff"),
        "{said}"
    );
    assert_eq!(
        rollout["status"]["canaryStatus"]["currentStepState"],
        "StepUpgrade"
    );
    assert_eq!(deleted_by_the_controller(&scene, mark), [""; 0]);
}

/// The pod of v1 that is updated first never ends.
async fn hangs(prefix: &str, management: &str) {
    let scene = Scene::with_stateful_set(installed().await, prefix).await;
    scene.create_app(&managed(&scene, "v1", management)).await;
    scene.wait_pods("v1", 5).await;
    govern(&scene, &walk_steps(), 2).await;
    let image = json!({"spec": {"containers": [{"name": "app", "image": "my-registry/my-app:v1-hang"}]}});
    pods(&scene)
        .patch(FIRST, &PatchParams::default(), &Patch::Strategic(image))
        .await
        .unwrap();
    let mark = scene.namespace.control_plane().audit().mark();
    scene.set_version("v2").await;

    let rollout = told(&scene, "ProgressDeadlineExceeded").await;
    let pod = pods(&scene).get(FIRST).await.unwrap();
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap();
    let since = pod.metadata.deletion_timestamp.unwrap().0 - jiff::SignedDuration::from_secs(grace);
    let facts = format!(
        "pod {FIRST} is terminating since {since} on node {}",
        pod.spec.unwrap().node_name.unwrap()
    );
    assert!(message(&rollout).contains(&facts), "{}", message(&rollout));
    assert_eq!(deleted_by_the_controller(&scene, mark), [""; 0]);

    pods(&scene)
        .delete(FIRST, &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    let on = scene.wait_state(1, "StepPaused").await;
    assert!(condition(&on, "Stalled").is_null(), "{:#}", on["status"]);
    assert_eq!(scene.wait_pods("v2", 1).await, [FIRST]);
}

#[tokio::test]
async fn r41_a_pod_that_never_ends_is_named_with_its_node() {
    let other = async {
        let scene = Scene::new(installed().await, "r41-other").await;
        scene
            .set(
                Some(0),
                &json!([{"replicas": 1, "pause": {"duration": 1}}, {"replicas": "100%"}]),
            )
            .await;
        scene.set_version("v2").await;
        scene.wait_pods("v2", 5).await;
        scene.wait_phase("Healthy").await;
    };
    join(
        join(
            hangs("r41-ordered", "OrderedReady"),
            hangs("r41-parallel", "Parallel"),
        ),
        other,
    )
    .await;
}
