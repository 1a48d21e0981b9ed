//! Pauses of a step and of a whole Rollout.

use jiff::{SignedDuration, Timestamp};
use kruise_rollout::names;
use serde_json::{Value, json};
use support::{Identity, eventually, installed};

use super::fixtures::{sized, wait_message, walk_on};
use crate::gate::Gate;
use crate::ground::Ground;
use crate::plugin::kruise;
use crate::scene::{ROLLOUT, SOON, Scene, condition, mark, partition};

const HELD: Option<i64> = Some(names::HOLD_PARTITION);

async fn pause(scene: &Scene<'_>, paused: bool) {
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": paused}}}))
        .await;
}

#[tokio::test]
async fn r45_pausing_stops_no_scaling() {
    let scene = Scene::new(installed().await, "r45").await;
    let steps =
        json!([{"replicas": "20%", "pause": {}}, {"replicas": "60%", "pause": {}}, {"replicas": "100%"}]);
    scene
        .set_to(&sized(scene.manifest("v1", Some(0)), 10), &steps)
        .await;
    scene.set_version("v2-slow-2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_app("step 2", |app| partition(app) == &json!(4)).await;
    pause(&scene, true).await;
    let told = wait_message(&scene, "paused by spec.strategy.paused").await;
    assert_eq!(condition(&told, "Progressing")["reason"], "Paused");
    let gate = Gate::open(&scene).await;

    scene.scale(14).await;
    scene
        .wait_app("the grant for 14", |app| {
            partition(app).as_i64() >= Some(5)
                && mark(app, names::GRANTED_PARTITION).as_str() == Some(&partition(app).to_string())
        })
        .await;
    scene
        .wait_app("14 pods", |app| app["status"]["readyReplicas"] == 14)
        .await;
    // What came above the partition before it could be raised is counted, not hidden.
    eventually(SOON, "all are counted", async || {
        let pods = scene.pods().await;
        let counted = pods.iter().filter(|pod| pod.1 == "v2-slow-2").count();
        let app = scene.app().await;
        if app["status"]["updatedReplicas"] == counted {
            Ok(())
        } else {
            Err(format!("{counted} {:#}", app["status"]))
        }
    })
    .await;
    scene.scale(8).await;
    scene
        .wait_app("8 pods", |app| {
            app["status"]["replicas"] == 8 && app["status"]["readyReplicas"] == 8
        })
        .await;
    let partitions: Vec<_> = gate
        .steps("v2-slow-2")
        .await
        .into_iter()
        .map(|step| step.0)
        .collect();
    assert_eq!(partitions.first(), Some(&Some(4)));
    assert!(partitions.is_sorted(), "lowered while paused: {partitions:?}");

    pause(&scene, false).await;
    scene.wait_state(2, "StepPaused").await;
    walk_on(&scene, "v2-slow-2", 8).await;
}

#[tokio::test]
async fn r46_forms_of_a_pause_and_a_timed_one_across_a_restart() {
    const SECONDS: i64 = 6;
    let mut installation = Ground::with_controller().await;
    let scene = Scene::new(&installation, "r46").await;
    let steps = json!([
        {"replicas": 1},
        {"replicas": 2, "pause": {}},
        {"replicas": 3, "pause": {"duration": 0}},
        {"replicas": 4, "pause": {"duration": SECONDS}},
        {"replicas": "100%"}
    ]);
    scene.set(Some(0), &steps).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    for step in [1, 2] {
        scene.wait_state(step, "StepPaused").await;
        wait_message(&scene, "waiting for approval").await;
        scene.approve().await;
    }
    let paused = scene.wait_state(4, "StepPaused").await;
    let told = format!("goes on after {SECONDS} s");
    assert!(
        paused["status"]["message"].as_str().unwrap().contains(&told),
        "{paused:#}"
    );
    installation.kill_controller();
    let target = format!("rollout/{ROLLOUT}");
    let shown = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "status", &target, "--watch=false", "-o", "json"],
    )
    .await;
    let report: Value = serde_json::from_str(&shown.answer).unwrap();
    assert_eq!(
        (&report["pause"]["for"], &report["pause"]["seconds"]),
        (&json!("time"), &json!(SECONDS))
    );
    let time = |rollout: &Value| -> Timestamp {
        let time = rollout["status"]["canaryStatus"]["lastUpdateTime"].as_str();
        time.unwrap().parse().unwrap()
    };
    let due = time(&paused) + SignedDuration::from_secs(SECONDS);
    eventually(SOON, "the last second of the pause", async || {
        let left = due.duration_since(Timestamp::now());
        if left <= SignedDuration::from_secs(1) {
            Ok(())
        } else {
            Err(format!("{left:#} are left"))
        }
    })
    .await;
    let restarted = scene.rollout().await;
    assert_eq!(
        restarted["status"]["canaryStatus"]["currentStepState"],
        "StepPaused"
    );
    installation.start_controller().await.unwrap();

    let done = scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    // The pause was neither cut short nor begun anew.
    let late = time(&done).duration_since(due).as_secs();
    assert!((0..SECONDS - 1).contains(&late), "{late} s too late");
    let each = [
        (Some(4), 1),
        (Some(3), 2),
        (Some(2), 3),
        (Some(1), 4),
        (Some(0), 5),
    ];
    assert_eq!(
        gate.steps("v2").await,
        [&[(Some(0), 0), (HELD, 0)], &each[..]].concat()
    );
}
