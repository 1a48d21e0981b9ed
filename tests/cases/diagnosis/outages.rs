//! While nobody controls.

use kube::api::PostParams;
use serde_json::json;
use support::Identity;

use super::{answer, command, explained, has, run, wait_cause, wait_found, wait_mended};
use crate::ground::{Ground, called, without_reviews};
use crate::scene::{ROLLOUT, Scene, walk_steps};

#[tokio::test]
async fn the_controller_stops() {
    let mut ground = Ground::with_controller().await;
    let scene = Scene::new(&ground, "diagnosis-stopped").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    ground.kill_controller();
    // Approved, and nobody is there to go on.
    scene.approve().await;
    let cause = wait_cause(&scene, "the controller is not running").await;
    assert_eq!(explained(&scene).await["causes"][0], cause);
    let found = wait_found(&scene, Identity::Viewer, "D03", "the controller is not running").await;
    run(&scene, Identity::Admin, command(&found)).await;
    // The pods of the Deployment run nothing here; this stands for them.
    ground.start_controller().await.unwrap();
    wait_mended(&scene, Identity::Viewer, "D03").await;
    scene.wait_state(2, "StepPaused").await;

    // Somebody scales it down.
    let down = "kubectl scale deployment/kruise-rollout-controller -n kruise-rollout --replicas=0";
    run(&scene, Identity::Admin, down).await;
    let found = wait_found(&scene, Identity::Viewer, "D03", "scaled to 0 replicas").await;
    run(&scene, Identity::Admin, command(&found)).await;
    wait_mended(&scene, Identity::Viewer, "D03").await;
}

/// Nobody reviews Rollouts while no controller runs and its registration has gone.
#[tokio::test]
async fn two_rollouts_name_one_workload() {
    let mut ground = Ground::with_controller().await;
    let scene = Scene::new(&ground, "diagnosis-two").await;
    scene.set(Some(0), &walk_steps()).await;
    ground.kill_controller();
    without_reviews(&ground).await;
    let mut late = scene.rollout_manifest(&walk_steps());
    late["metadata"]["name"] = json!("late");
    let late = serde_json::from_value(late).unwrap();
    let rollouts = scene.rollouts(&scene.developer);
    rollouts.create(&PostParams::default(), &late).await.unwrap();
    ground.start_controller().await.unwrap();
    called(&ground).await;

    let found = wait_found(&scene, Identity::Viewer, "D10", "two Rollouts").await;
    let arguments = ["rollout", "explain", "rollout/late"];
    let explanation = answer(&scene, Identity::Viewer, &arguments, &[0]).await;
    assert!(has(&explanation["causes"][0], "two Rollouts"), "{explanation:#}");
    // Of both, the one that does not act is to go.
    assert_eq!(command(&found), command(&explanation["causes"][0]));
    assert!(command(&found).contains(" late "), "{found:#}");
    run(&scene, Identity::Developer, command(&found)).await;
    wait_mended(&scene, Identity::Viewer, "D10").await;
    assert!(scene.rollouts(&scene.admin).get(ROLLOUT).await.is_ok());
}
