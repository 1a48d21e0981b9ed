//! Deployments that are asked for what is rare.

use serde_json::json;

use super::*;
use crate::ground::{Dice, finish};

/// Scaled all the time, overtaken, and with a controller that dies again and again.
#[tokio::test]
async fn scaled_and_overtaken_while_the_controller_dies() {
    let mut ground = Ground::with_controller().await;
    let subject = subject_on(&ground, "storm2", rolling(json!(1), json!(1))).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    let mut dice = Dice::new(7);
    for version in ["v2", "v3", "v4"] {
        scene.set_version(version).await;
        for round in 0..8 {
            scale(scene, 2 + dice.below(8) as u32).await;
            tokio::time::sleep(std::time::Duration::from_millis(dice.below(400))).await;
            if round % 3 == 1 {
                ground.kill_controller();
                scale(scene, 2 + dice.below(8) as u32).await;
                ground.start_controller().await.unwrap();
            }
        }
        scale(scene, 5).await;
        scene.wait_state(1, "StepPaused").await;
        scene.wait_pods(version, 1).await;
        scene.wait_pods("v1", 4).await;
        assert_eq!(gate.most(version).await, 1);
    }
    finish(scene, "v4").await;
}

/// As one that was copied from a ReplicaSet has.
#[tokio::test]
async fn a_template_with_the_label_of_replica_sets_takes_steps() {
    let mut subject = subject("hash", rolling(json!(1), json!(0))).await;
    subject.manifest["spec"]["template"]["metadata"]["labels"][names::POD_TEMPLATE_HASH] = json!("abc");
    subject.walks().await;
    let scene = &subject.scene;
    // To the controller of Deployments another value is no other template.
    let gate = Gate::open(scene).await;
    let pods = scene.wait_pods("v2", 5).await;
    let label = json!({"metadata": {"labels": {names::POD_TEMPLATE_HASH: "xyz"}}});
    scene.patch_app(json!({"spec": {"template": label}})).await;
    scene
        .wait_app("handed back", |app| mark(app, names::GRANTED_PARTITION).is_null())
        .await;
    scene.wait_phase("Healthy").await;
    assert_eq!(scene.wait_pods("v2", 5).await, pods);
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(gate.most("v3").await, 1);
    scene.set_version("v2").await;
    scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    scene.wait_pods("v2", 5).await;
}
