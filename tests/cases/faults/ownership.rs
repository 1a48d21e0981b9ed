//! Who owns the workload: tools that write it meanwhile, Rollouts that come late, and two for one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use kruise_rollout::names;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use support::{TestNamespace, eventually, installed};
use tokio::time::{interval, sleep};

use super::fixtures::{approved_steps, sized};
use crate::gate::Gate;
use crate::scene::{APP, ROLLOUT, SOON, Scene, assert_free, condition, mark, partition};
use crate::writes::Way;

#[tokio::test]
async fn r35_another_tool_edits_the_workload_while_it_is_handed_back() {
    /// Edits that follow the end of the release.
    const AFTERWARDS: usize = 10;
    let scene = Scene::new(installed().await, "r35").await;
    scene.deploy(Way::Kubectl, &scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&approved_steps()).await;
    scene.wait_phase("Healthy").await;
    let gate = Gate::open(&scene).await;
    let manifest = scene.manifest("v2", None);
    scene.deploy(Way::Kubectl, &manifest).await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;

    let (released, edits) = (AtomicBool::new(false), AtomicUsize::new(0));
    let tool = async {
        let mut rhythm = interval(Duration::from_millis(200));
        while edits.load(Ordering::Relaxed) < AFTERWARDS {
            rhythm.tick().await;
            scene.kubectl_apply(&manifest).await;
            scene.put(&manifest).await.object();
            if released.load(Ordering::Relaxed) {
                edits.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let release = async {
        scene.approve().await;
        scene.wait_released().await;
        released.store(true, Ordering::Relaxed);
    };
    join(tool, release).await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(partition(&app), &Value::Null);
    scene.wait_pods("v2", 5).await;
    scene.wait_phase("Healthy").await;
    gate.within_grants("v2").await;
}

/// A change to the version whose pods do not get ready was held, or the Rollout says that it came before it.
async fn held_or_said(scene: &Scene<'_>) {
    eventually(SOON, "held, or said not to be", async || {
        let (app, rollout) = (scene.app().await, scene.rollout().await);
        let message = rollout["status"]["message"].as_str().unwrap_or_default();
        let guarded = condition(&rollout, "Guarded")["status"] == "True";
        let held = mark(&app, names::IN_PROGRESSING).is_string();
        match guarded {
            true if held || message.contains("began before it was guarded") => Ok(()),
            _ => Err(format!("{app:#} {rollout:#}")),
        }
    })
    .await;
    if mark(&scene.app().await, names::IN_PROGRESSING).is_string() {
        scene.wait_phase("Progressing").await;
        assert!(partition(&scene.app().await).as_i64() >= Some(1));
    }
}

/// A workload of two pods on v1.
async fn two_pods(prefix: &str) -> Scene<'static> {
    let scene = Scene::new(installed().await, prefix).await;
    scene
        .deploy(Way::Kubectl, &sized(scene.manifest("v1", None), 2))
        .await;
    scene.wait_pods("v1", 2).await;
    scene
}

/// Both in one `kubectl apply`.
async fn in_one_apply(prefix: &str, rollout_first: bool) {
    let scene = two_pods(prefix).await;
    let mut items = [
        sized(scene.manifest("bad", None), 2),
        scene.rollout_manifest(&approved_steps()),
    ];
    if rollout_first {
        items.reverse();
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    scene.kubectl_apply(&list).await;
    held_or_said(&scene).await;
}

/// So long after the Rollout has been created.
async fn soon_after(milliseconds: u64) {
    let scene = two_pods(&format!("r36-after-{milliseconds}")).await;
    scene.create_rollout(&approved_steps()).await;
    // Not a wait for anything: the moment of the change is what is tried.
    sleep(Duration::from_millis(milliseconds)).await;
    let guarded = condition(&scene.rollout().await, "Guarded")["status"] == "True";
    let changed = scene.set_version("bad").await;
    if guarded {
        assert_eq!(
            partition(&changed),
            names::HOLD_PARTITION,
            "{milliseconds} ms: escaped"
        );
    }
    held_or_said(&scene).await;
}

/// Enabled while an update that nobody held is half done.
async fn enabled_meanwhile() {
    let scene = two_pods("r36-enabled").await;
    let mut rollout = scene.rollout_manifest(&approved_steps());
    rollout["spec"]["disabled"] = json!(true);
    scene.kubectl_apply(&rollout).await;
    scene.wait_phase("Disabled").await;
    assert_eq!(partition(&scene.set_version("bad").await), &Value::Null);
    scene
        .wait_app("half done", |app| app["status"]["updatedReplicas"] == 1)
        .await;
    scene.patch_rollout(&json!({"spec": {"disabled": false}})).await;
    let healthy = scene.wait_phase("Healthy").await;
    let message = healthy["status"]["message"].as_str().unwrap();
    assert!(message.contains("began before it was guarded"), "{message}");
    assert_eq!(condition(&healthy, "Succeeded"), &Value::Null);
    // From here on nothing goes without it.
    assert_eq!(partition(&scene.set_version("v2").await), names::HOLD_PARTITION);
}

#[tokio::test]
async fn r36_a_rollout_that_comes_with_or_after_the_change() {
    let after = join_all([0, 2, 5, 10, 20, 50, 100, 300].map(soon_after));
    let together = join(
        in_one_apply("r36-app-first", false),
        in_one_apply("r36-rollout-first", true),
    );
    join(join(after, together), enabled_meanwhile()).await;
}

/// The Rollout of this name for the workload of another; what the API server answers.
async fn create_for(scene: &Scene<'_>, name: &str, workload: &str, version: &str) -> Result<(), String> {
    let mut manifest = scene.rollout_manifest(&approved_steps());
    manifest["metadata"]["name"] = json!(name);
    manifest["spec"]["workloadRef"]["name"] = json!(workload);
    manifest["spec"]["workloadRef"]["apiVersion"] = json!(version);
    let rollout = serde_json::from_value(manifest).unwrap();
    let created = scene
        .untyped_rollouts()
        .create(&PostParams::default(), &rollout)
        .await;
    match created {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message),
        Err(error) => panic!("{error}"),
    }
}

async fn status_of(scene: &Scene<'_>, name: &str) -> Value {
    let rollout = scene.rollouts(&scene.admin).get(name).await.unwrap();
    serde_json::to_value(rollout).unwrap()
}

/// Waits until one of the two Rollouts acts and the other says why it does not; their names in that order.
async fn one_acts(scene: &Scene<'_>, pair: [&str; 2]) -> [String; 2] {
    eventually(SOON, "one acts", async || {
        let [a, b] = [status_of(scene, pair[0]).await, status_of(scene, pair[1]).await];
        let acts = |rollout: &Value| rollout["status"]["phase"] == "Healthy";
        let yields = |rollout: &Value, to: &str| {
            let stalled = condition(rollout, "Stalled");
            stalled["reason"] == "Conflict"
                && stalled["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(to))
        };
        if acts(&a) && yields(&b, pair[0]) {
            Ok(pair.map(str::to_owned))
        } else if acts(&b) && yields(&a, pair[1]) {
            Ok([pair[1].to_owned(), pair[0].to_owned()])
        } else {
            Err(format!("{:#} {:#}", a["status"], b["status"]))
        }
    })
    .await
}

/// Two Rollouts for one workload are created at the same moment.
async fn at_the_same_moment(scene: &Scene<'_>, number: usize) {
    let workload = format!("app-{number}");
    let mut manifest = sized(scene.manifest("v1", None), 1);
    manifest["metadata"]["name"] = json!(workload);
    scene.create_app(&manifest).await;
    let (a, b) = (format!("a-{number}"), format!("b-{number}"));
    let create = async |name: &str| create_for(scene, name, &workload, "example.io/v1").await;
    let app = async || {
        let app = scene.apps(&scene.admin).get(&workload).await.unwrap();
        serde_json::to_value(app).unwrap()
    };
    match join(create(&a), create(&b)).await {
        (Ok(()), Ok(())) => {
            let [acting, waiting] = one_acts(scene, [&a, &b]).await;
            let now = app().await;
            let guard = mark(&now, names::GUARDED_BY).as_str().unwrap().to_owned();
            assert_eq!(guard.split('/').nth(1), Some(acting.as_str()));
            assert_eq!(now["metadata"]["generation"], 1, "somebody changed the spec");
            // The way on that the other one names.
            let rollouts = scene.rollouts(&scene.developer);
            rollouts.delete(&acting, &DeleteParams::default()).await.unwrap();
            eventually(SOON, "the other one governs", async || {
                let rollout = status_of(scene, &waiting).await;
                if rollout["status"]["phase"] == "Healthy" && condition(&rollout, "Stalled").is_null() {
                    Ok(())
                } else {
                    Err(format!("{:#}", rollout["status"]))
                }
            })
            .await;
        }
        (Ok(()), Err(refusal)) => assert!(refusal.contains(&a), "{refusal}"),
        (Err(refusal), Ok(())) => assert!(refusal.contains(&b), "{refusal}"),
        (Err(one), Err(other)) => panic!("{one} {other}"),
    }
}

#[tokio::test]
async fn r37_two_rollouts_for_one_workload() {
    let installation = installed().await;
    let scene = Scene::new(installation, "r37").await;
    scene.create_rollout(&approved_steps()).await;
    scene.wait_phase("Initial").await;
    // In whatever version of the kind.
    for version in ["example.io/v1", "example.io/v1beta1"] {
        let refusal = create_for(&scene, "web-b", APP, version).await.unwrap_err();
        assert!(refusal.contains(ROLLOUT), "{refusal}");
    }
    let mut without = scene.rollout_manifest(&approved_steps());
    without["metadata"]["name"] = json!("without");
    without["spec"].as_object_mut().unwrap().remove("workloadRef");
    let without = serde_json::from_value(without).unwrap();
    let refused = scene
        .untyped_rollouts()
        .create(&PostParams::default(), &without)
        .await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains("workloadRef")),
        "{refused:?}"
    );
    // Another namespace is another matter.
    let elsewhere = TestNamespace::create(installation.control_plane(), "r37-elsewhere")
        .await
        .unwrap();
    let mut same = scene.rollout_manifest(&approved_steps());
    same["metadata"]["namespace"] = json!(elsewhere.name());
    let same = serde_json::from_value(same).unwrap();
    let rollouts: kube::Api<kruise_rollout::api::v1beta1::Rollout> =
        kube::Api::namespaced(scene.developer.clone(), elsewhere.name());
    rollouts.create(&PostParams::default(), &same).await.unwrap();

    join_all((0..8).map(|number| at_the_same_moment(&scene, number))).await;
}
