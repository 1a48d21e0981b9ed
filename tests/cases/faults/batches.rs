//! The id of a release and the batches of its pods.

use std::collections::BTreeMap;

use kruise_rollout::names;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use super::fixtures::{approved_steps, sized};
use crate::rights::refuse_to_controller;
use crate::scene::{ROLLOUT, SOON, Scene};

/// UIDs of the pods.
async fn uids(scene: &Scene<'_>) -> Vec<Option<String>> {
    let pods = scene.all_pods().list(&Default::default()).await.unwrap();
    pods.items.into_iter().map(|pod| pod.metadata.uid).collect()
}

/// How many pods have each id and batch.
async fn counts(scene: &Scene<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in scene.batches().await {
        let labels = pod.split_once(' ').unwrap().1.to_owned();
        *counts.entry(labels).or_default() += 1;
    }
    counts
}

/// Waits until so many pods have each of these ids and batches, and no other.
async fn wait_counts(scene: &Scene<'_>, wanted: &[(&str, usize)]) {
    let wanted = wanted
        .iter()
        .map(|(labels, pods)| ((*labels).to_owned(), *pods))
        .collect();
    eventually(SOON, "the batches", async || {
        let found = counts(scene).await;
        if found == wanted {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn r22_an_id_that_changes_alone_restarts_nothing() {
    let scene = Scene::new(installed().await, "r22").await;
    let mut manifest = scene.manifest("v1", Some(0));
    manifest["metadata"]["labels"][names::ROLLOUT_ID] = json!("1");
    scene.set_to(&manifest, &approved_steps()).await;
    let pods = uids(&scene).await;
    let healthy = scene.rollout().await;
    assert_eq!(healthy["status"]["canaryStatus"]["observedRolloutID"], "1");

    scene.name_release("2").await;
    let named = scene.app().await;
    let told = scene
        .wait("the id 2", |rollout| {
            rollout["status"]["canaryStatus"]["observedRolloutID"] == "2"
        })
        .await;
    let phase = |rollout: &Value| {
        (
            rollout["status"]["phase"].clone(),
            rollout["status"]["conditions"].clone(),
        )
    };
    assert_eq!(phase(&told), phase(&healthy));
    assert_eq!((scene.app().await, uids(&scene).await), (named, pods));
    assert_eq!(scene.batches().await, [""; 0]);

    // With a template, and once more in mid-release.
    scene
        .patch_app(
            json!({"metadata": {"labels": {names::ROLLOUT_ID: "3"}}, "spec": {"template": {"spec": {
            "containers": [{"name": "app", "image": "my-registry/my-app:v2"}]}}}}),
        )
        .await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.batches().await, ["my-app-4 3 1"]);
    scene.looked_at("4").await;
    assert_eq!(scene.batches().await, ["my-app-4 4 1"]);
    assert_eq!(scene.rollout().await["status"]["currentStepState"], "StepPaused");
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(
        scene.batches().await,
        ["my-app-2 4 2", "my-app-3 4 2", "my-app-4 4 1"]
    );
    scene.approve().await;
    let done = scene.wait_released().await;
    assert_eq!(done["status"]["canaryStatus"]["observedRolloutID"], "4");
    assert_eq!(scene.batches().await.len(), 5);
}

/// An annotation serves where labels cannot be set; one that pods cannot carry is passed over.
#[tokio::test]
async fn r22_an_annotation_names_the_release_too() {
    let scene = Scene::new(installed().await, "r22-annotation").await;
    let mut manifest = scene.manifest("v1", Some(0));
    manifest["metadata"]["annotations"] = json!({names::ROLLOUT_ID: "build-7"});
    scene.set_to(&manifest, &approved_steps()).await;
    let id = async |what: &str, id: &Value| {
        scene
            .wait(what, |rollout| {
                rollout["status"]["canaryStatus"]["observedRolloutID"] == *id
            })
            .await;
    };
    id("the annotation", &json!("build-7")).await;
    scene
        .patch_app(json!({"metadata": {"annotations": {names::ROLLOUT_ID: "build 8"}}}))
        .await;
    id("the revision", &scene.app().await["status"]["updateRevision"]).await;
}

/// Writes a label of a pod, as people do by hand.
async fn relabel(scene: &Scene<'_>, pod: &str, labels: Value) {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    scene
        .all_pods()
        .patch(pod, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn r42_batches_that_are_lost_or_odd_are_put_right() {
    let scene = Scene::new(installed().await, "r42").await;
    let mut manifest = sized(scene.manifest("v1", Some(0)), 10);
    manifest["metadata"]["labels"][names::ROLLOUT_ID] = json!("new");
    let steps = json!([{"replicas": 2, "pause": {}}, {"replicas": 5, "pause": {}}, {"replicas": 10}]);
    scene.set_to(&manifest, &steps).await;
    // What an older release has left.
    for pod in ["my-app-0", "my-app-9"] {
        relabel(
            &scene,
            pod,
            json!({names::ROLLOUT_ID: "old", names::ROLLOUT_BATCH_ID: "1"}),
        )
        .await;
    }
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let first = ["my-app-0 old 1", "my-app-8 new 1", "my-app-9 new 1"];
    assert_eq!(scene.batches().await, first);
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    let second = [
        first[0],
        "my-app-5 new 2",
        "my-app-6 new 2",
        "my-app-7 new 2",
        first[1],
        first[2],
    ];
    assert_eq!(scene.batches().await, second);

    for pod in ["my-app-9", "my-app-6"] {
        scene
            .all_pods()
            .delete(pod, &DeleteParams::default())
            .await
            .unwrap();
    }
    relabel(&scene, "my-app-8", json!({names::ROLLOUT_BATCH_ID: "x"})).await;
    relabel(&scene, "my-app-7", json!({names::ROLLOUT_BATCH_ID: "99"})).await;
    scene.wait_pods("v2", 5).await;
    // Which of them is in which batch depends on who was there at the time.
    wait_counts(&scene, &[("old 1", 1), ("new 1", 2), ("new 2", 3)]).await;
    assert_eq!(scene.rollout().await["status"]["currentStepState"], "StepPaused");

    scene.approve().await;
    scene.wait_released().await;
    wait_counts(&scene, &[("new 1", 2), ("new 2", 3), ("new 3", 5)]).await;
}

/// A controller that may not write pods goes through its steps all the same, and labels what it owes once it may.
#[tokio::test]
async fn r42_labels_that_are_refused_hold_nothing_up() {
    let installation = installed().await;
    let scene = Scene::new(installation, "r42-refused").await;
    scene.set(Some(0), &approved_steps()).await;
    // Stands for a right that is missing, in this namespace alone.
    let name = scene.namespace.name();
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]});
    refuse_to_controller(installation, name, &rule).await;
    let refuses = async || {
        let by_controller = scene
            .namespace
            .client(support::Identity::Controller)
            .await
            .unwrap();
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(by_controller, name);
        let patch = Patch::Merge(json!({"metadata": {"labels": {"probe": "1"}}}));
        pods.patch("my-app-0", &PatchParams::default(), &patch).await
    };
    eventually(SOON, "the policy is in force", async || match refuses().await {
        Err(_) => Ok(()),
        Ok(_) => Err("not yet"),
    })
    .await;

    scene.set_version("v2").await;
    let paused = scene.wait_state(1, "StepPaused").await;
    assert_eq!(
        paused["status"]["conditions"]
            .to_string()
            .matches("Stalled")
            .count(),
        0
    );
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(scene.batches().await, [""; 0]);

    let bindings: kube::Api<k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding> =
        kube::Api::all(scene.admin.clone());
    bindings.delete(name, &DeleteParams::default()).await.unwrap();
    let id = scene.app().await["status"]["updateRevision"]
        .as_str()
        .unwrap()
        .to_owned();
    wait_counts(&scene, &[(&format!("{id} 1"), 1), (&format!("{id} 2"), 2)]).await;
    assert_eq!(
        scene
            .rollouts(&scene.admin)
            .get(ROLLOUT)
            .await
            .unwrap()
            .status
            .unwrap()
            .current_step_index,
        2
    );
}
