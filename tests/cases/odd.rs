//! Odd objects, and people who do many things at once.

use kruise_rollout::names;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use crate::gate::Gate;
use crate::scene::{APP, SOON, Scene, condition, mark, partition, walk_steps};

#[tokio::test]
async fn a_rollout_with_the_longest_name_governs() {
    let scene = Scene::new(installed().await, "odd-name").await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    let long = "n".repeat(253);
    let mut manifest = scene.rollout_manifest(&walk_steps());
    manifest["metadata"]["name"] = json!(long);
    let rollouts = scene.rollouts(&scene.developer);
    let rollout = serde_json::from_value(manifest).unwrap();
    rollouts.create(&PostParams::default(), &rollout).await.unwrap();
    let state = async |what: &str, done: &dyn Fn(&Value) -> bool| {
        eventually(SOON, what, async || {
            let rollout = serde_json::to_value(rollouts.get(&long).await.unwrap()).unwrap();
            if done(&rollout["status"]) {
                Ok(())
            } else {
                Err(format!("{:#}", rollout["status"]))
            }
        })
        .await;
    };
    state("healthy", &|status| status["phase"] == "Healthy").await;
    scene.set_version("v2").await;
    state("step 1", &|status| status["currentStepState"] == "StepPaused").await;
}

#[tokio::test]
async fn marks_that_a_person_forges_change_nothing() {
    let scene = Scene::new(installed().await, "odd-marks").await;
    scene.set(Some(0), &walk_steps()).await;
    let guard = mark(&scene.app().await, names::GUARDED_BY).clone();
    let forged = scene
        .patch_app(json!({"metadata": {"annotations": {
            names::GUARDED_BY: "x/y/z", names::IN_PROGRESSING: "{}", names::GRANTED_PARTITION: "0",
            names::ORIGINAL_PARTITION: "5"}}}))
        .await;
    assert_eq!(mark(&forged, names::GUARDED_BY), &guard);
    for name in names::RELEASE_MARKS {
        assert_eq!(mark(&forged, name), &Value::Null);
    }
}

#[tokio::test]
async fn templates_that_flap_end_with_the_last_one() {
    let scene = Scene::new(installed().await, "odd-flap").await;
    scene
        .set(
            Some(0),
            &json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}]),
        )
        .await;
    let gate = Gate::open(&scene).await;
    for round in 0..10 {
        for version in ["v2", "v1", "v3"] {
            scene
                .set_version(&format!(
                    "{version}{}",
                    if version == "v1" {
                        String::new()
                    } else {
                        round.to_string()
                    }
                ))
                .await;
        }
    }
    scene
        .wait("the last template waits", |rollout| {
            rollout["status"]["canaryStatus"]["currentStepState"] == "StepPaused"
        })
        .await;
    scene.wait_pods("v39", 1).await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v39", 5).await;
    gate.within_grants("v39").await;
    for version in ["v20", "v35"] {
        for (partition, pods) in gate.steps(version).await {
            assert!(pods <= 1, "{version}: {pods} at {partition:?}");
        }
    }
}

#[tokio::test]
async fn two_approvals_at_once_take_one_step() {
    let scene = Scene::new(installed().await, "odd-approve").await;
    let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}, {"replicas": "100%"}]);
    scene.set(Some(0), &steps).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let approve = || scene.approve_if_paused();
    let (one, two, three) = tokio::join!(approve(), approve(), approve());
    assert!(one || two || three);
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(scene.wait_pods("v2", 2).await.len(), 2);
}

#[tokio::test]
async fn sizes_that_change_in_mid_release_end_well() {
    let scene = Scene::new(installed().await, "odd-sizes").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let scale: Api<DynamicObject> = scene.apps(&scene.admin);
    for replicas in [8, 3, 0, 5] {
        scene.patch_app(json!({"spec": {"replicas": replicas}})).await;
        let patch = json!({"spec": {"replicas": replicas}});
        scale
            .patch_scale(APP, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
    // With or without a pause: while there are no pods, there is nothing to approve.
    eventually(SOON, "the release ends", async || {
        let rollout = scene.rollout().await;
        if rollout["status"]["phase"] == "Healthy" {
            return Ok(());
        }
        if rollout["status"]["currentStepState"] == "StepPaused" {
            scene.approve_if_paused().await;
        }
        Err(format!("{:#}", rollout["status"]))
    })
    .await;
    scene.wait_pods("v2", 5).await;
    assert_eq!(partition(&scene.app().await), 0);
}

#[tokio::test]
async fn a_rollout_made_anew_in_mid_release_goes_on_or_lets_go() {
    let scene = Scene::new(installed().await, "odd-anew").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.delete_rollout().await;
    scene.create_rollout(&walk_steps()).await;
    // Deleted in mid-release it releases the rest, unless the new one was there first: both end with v2 everywhere.
    eventually(SOON, "an end", async || {
        let rollout = scene.rollout().await;
        if rollout["status"]["currentStepState"] == "StepPaused" {
            scene.approve_if_paused().await;
        }
        if rollout["status"]["phase"] == "Healthy" {
            Ok(())
        } else {
            Err(format!("{:#}", rollout["status"]))
        }
    })
    .await;
    scene.wait_pods("v2", 5).await;
    scene
        .wait("guarded", |rollout| {
            condition(rollout, "Guarded")["status"] == "True"
        })
        .await;
}

#[tokio::test]
async fn disabled_and_paused_in_mid_release() {
    let scene = Scene::new(installed().await, "odd-pause").await;
    scene.set(Some(2), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": true}}}))
        .await;
    scene.approve().await;
    scene
        .wait("paused", |rollout| {
            condition(rollout, "Progressing")["reason"] == "Paused"
        })
        .await;
    assert_eq!(partition(&scene.app().await), 4);
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": false}}}))
        .await;
    scene.wait_state(2, "StepPaused").await;
    scene.patch_rollout(&json!({"spec": {"disabled": true}})).await;
    scene.wait_phase("Disabled").await;
    scene.wait_pods("v2", 5).await;
    let app = scene.app().await;
    assert_eq!(
        (partition(&app), mark(&app, names::GUARDED_BY)),
        (&json!(2), &Value::Null)
    );
    scene.patch_rollout(&json!({"spec": {"disabled": false}})).await;
    scene.wait_phase("Healthy").await;
}
