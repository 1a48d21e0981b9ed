//! Plans as people write them: what is refused, and what odd ones mean.

use futures::future::join;
use kube::api::PostParams;
use serde_json::{Value, json};
use support::installed;

use crate::gate::Gate;
use crate::scene::{Scene, partition};

/// What the API server answers to a Rollout with these steps: nothing, or the refusal.
async fn reviewed(scene: &Scene<'_>, steps: &Value) -> Result<(), String> {
    let manifest = serde_json::from_value(scene.rollout_manifest(steps)).unwrap();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match scene.untyped_rollouts().create(&params, &manifest).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{status:?}");
            Err(status.message)
        }
        Err(error) => panic!("{error}"),
    }
}

/// A step larger than the workload means all of it.
async fn larger_than_the_workload() {
    let scene = Scene::new(installed().await, "r18-large").await;
    let steps = json!([{"replicas": 2, "pause": {}}, {"replicas": 400, "pause": {}}]);
    scene.set(None, &steps).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(partition(&scene.app().await), 3);
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2", 5).await;
}

/// A share that is fewer pods than the number before it moves nothing, and the Rollout says so.
async fn smaller_than_the_step_before() {
    let scene = Scene::new(installed().await, "r18-mixed").await;
    let steps = json!([{"replicas": 4, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}]);
    scene.set(None, &steps).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    let paused = scene.wait_state(2, "StepPaused").await;
    let message = paused["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("4 of 5 pods") && message.contains("steps never go back"),
        "{message}"
    );
    scene.approve().await;
    scene.wait_released().await;
    let partitions: Vec<_> = gate.steps("v2").await.into_iter().map(|(p, _)| p).collect();
    assert_eq!(partitions, [None, Some(32_767), Some(1), Some(0), None]);
}

#[tokio::test]
async fn r18_steps_above_a_hundred_pods_and_above_all_of_them() {
    let scene = Scene::new(installed().await, "r18").await;
    for steps in [
        json!([{"replicas": 150}, {"replicas": "100%"}]),
        json!([{"replicas": 150}, {"replicas": 400}]),
        json!([{"replicas": 10}, {"replicas": "50%"}, {"replicas": "100%"}]),
    ] {
        assert_eq!(reviewed(&scene, &steps).await, Ok(()), "{steps}");
    }
    join(larger_than_the_workload(), smaller_than_the_step_before()).await;
}

/// Amounts that are none, and what the refusal says of them.
fn bad_amounts() -> Vec<(Value, &'static str)> {
    vec![
        (json!("3"), "Write 3 for a number of pods"),
        (json!("abc"), "neither a whole number nor a percentage"),
        (json!("abc%"), "neither a whole number nor a percentage"),
        (json!("-10%"), "neither a whole number nor a percentage"),
        (json!("33.5%"), "neither a whole number nor a percentage"),
        (json!("10 %"), "\"10%\" for a share"),
        (json!(-1), "at least one pod"),
        (json!(0), "at least one pod"),
        (json!("0%"), "more than none"),
        (json!("150%"), "at most all"),
        (json!(1.5), "must be of type"),
        (json!([1]), "must be of type"),
        (json!(true), "must be of type"),
    ]
}

#[tokio::test]
async fn r19_amounts_that_are_none_are_refused() {
    let scene = Scene::new(installed().await, "r19").await;
    for (amount, rule) in bad_amounts() {
        let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": amount}]);
        let refusal = reviewed(&scene, &steps).await.unwrap_err();
        assert!(
            refusal.contains("spec.strategy.canary.steps[1].replicas") && refusal.contains(rule),
            "{amount}: {refusal}"
        );
    }
    let decreasing = json!([{"replicas": "50%"}, {"replicas": "20%"}]);
    let refusal = reviewed(&scene, &decreasing).await.unwrap_err();
    assert!(
        refusal.contains("spec.strategy.canary.steps[1].replicas") && refusal.contains("\"50%\""),
        "{refusal}"
    );
}
