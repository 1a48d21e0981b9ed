//! The walk: a custom workload rolls out in batches.

use kruise_rollout::names;
use serde_json::{Value, json};
use support::installed;

use crate::scene::{Scene, condition, mark, partition, walk_steps};

#[tokio::test]
async fn a_release_walks_its_steps_and_hands_the_workload_back() {
    let scene = Scene::new(installed().await, "walk").await;
    scene.set(Some(0), &walk_steps()).await;
    let before = scene.app().await;

    let held = scene.set_version("v2").await;
    assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
    assert_eq!(
        mark(&held, names::IN_PROGRESSING),
        &json!(r#"{"rolloutName":"my-app-rollout"}"#)
    );

    let paused = scene.wait_state(1, "StepPaused").await;
    assert_eq!(paused["status"]["phase"], "Progressing");
    assert_eq!(paused["status"]["canaryStatus"]["canaryReadyReplicas"], 1);
    assert_eq!(partition(&scene.app().await), &json!(4));
    assert_eq!(scene.wait_pods("v2", 1).await, ["my-app-4"]);

    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(
        scene.wait_pods("v2", 3).await,
        ["my-app-2", "my-app-3", "my-app-4"]
    );

    let done = scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    assert_eq!(done["status"]["canaryStatus"]["currentStepState"], "Completed");
    assert_eq!(condition(&done, "Succeeded")["status"], "True");
    let after = scene.app().await;
    assert_eq!(after["spec"]["updateStrategy"], before["spec"]["updateStrategy"]);
    for name in names::RELEASE_MARKS {
        assert_eq!(mark(&after, name), &Value::Null);
    }
}
