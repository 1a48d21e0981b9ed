//! The walk: a custom workload rolls out in batches.

use futures::future::join3;
use kruise_rollout::names;
use serde_json::{Value, json};
use support::installed;

use crate::gate::Gate;
use crate::scene::{Scene, WALK, assert_free, condition, mark, partition, walk_steps};
use crate::writes::Way;

#[tokio::test]
async fn a_release_walks_its_steps_and_hands_the_workload_back() {
    let scene = Scene::new(installed().await, "walk").await;
    scene.set(Some(0), &walk_steps()).await;
    let before = scene.app().await;
    let gate = Gate::open(&scene).await;

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
    assert_free(&after);
    assert_eq!(gate.steps("v2").await, [&[(Some(0), 0)], &WALK[..]].concat());
}

/// Deploys v1 and v2 in one way, walks the release, and deploys v2 once more.
async fn walks_and_is_at_rest(way: Way, original: Option<i64>) {
    let prefix = format!(
        "{way:?}-{}",
        original.map_or("none".to_owned(), |p| p.to_string())
    );
    let scene = Scene::new(installed().await, &prefix.to_lowercase()).await;
    let before = scene.deploy(way, &scene.manifest("v1", original)).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Healthy").await;
    let gate = Gate::open(&scene).await;

    let manifest = scene.manifest("v2", original);
    let held = scene.deploy(way, &manifest).await;
    assert!(mark(&held, names::IN_PROGRESSING).is_string(), "{held:#}");
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    let after = scene
        .wait_app("handed back", |app| mark(app, names::GRANTED_PARTITION).is_null())
        .await;
    scene.wait_pods("v2", 5).await;
    assert_free(&after);
    assert_eq!(after["spec"]["updateStrategy"], before["spec"]["updateStrategy"]);
    let handed_back = if original == Some(0) {
        vec![]
    } else {
        vec![(original, 5)]
    };
    assert_eq!(
        gate.steps("v2").await,
        [&[(original, 0)], &WALK[..], &handed_back].concat()
    );

    // A pod that is lost returns on the new version, also below the restored partition.
    scene.lose_pod("my-app-0").await;
    scene.wait_pods("v2", 5).await;

    let settled = |app: &Value| {
        let status = &app["status"];
        let all = ["readyReplicas", "updatedReplicas"].map(|field| status[field] == 5);
        all == [true; 2] && status["observedGeneration"] == app["metadata"]["generation"]
    };
    let mut rest = scene.wait_app("settled", settled).await;
    if way == Way::ServerSide {
        // The applier has lost the field to the controller and takes it again: a write of managed fields, once.
        let mut once = scene.deploy(way, &manifest).await;
        assert_eq!(once["spec"], rest["spec"]);
        assert_eq!(once["metadata"]["annotations"], rest["metadata"]["annotations"]);
        assert_eq!(once["metadata"]["generation"], rest["metadata"]["generation"]);
        std::mem::swap(&mut rest, &mut once);
    }
    let again = scene.deploy(way, &manifest).await;
    assert_eq!(
        without_status(again),
        without_status(rest),
        "a manifest that is in force already changes something"
    );
}

/// The object but for what its operator may write at any time.
fn without_status(mut app: Value) -> Value {
    app["status"].take();
    app["metadata"]["resourceVersion"].take();
    if let Some(entries) = app["metadata"]["managedFields"].as_array_mut() {
        entries.retain(|entry| entry["subresource"] != "status");
    }
    app
}

macro_rules! walks {
    ($($name:ident: $way:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            join3(
                walks_and_is_at_rest($way, Some(0)),
                walks_and_is_at_rest($way, Some(2)),
                walks_and_is_at_rest($way, None),
            )
            .await;
        }
    )*};
}

walks! {
    every_partition_comes_back_under_kubectl_apply: Way::Kubectl;
    every_partition_comes_back_under_server_side_apply: Way::ServerSide;
    every_partition_comes_back_under_put: Way::Put;
    every_partition_comes_back_under_merge_patches: Way::Merge;
}
