//! StatefulSets of Kubernetes' own, under its own controllers.

use futures::future::join;
use serde_json::{Value, json};
use support::{ControlPlane, Installation, Options, installed};

use crate::courses::Subject;
use crate::scene::Scene;

async fn subject(prefix: &str, spec: Value) -> Subject<'static> {
    subject_on(installed().await, prefix, spec).await
}

/// A StatefulSet with these members of its spec.
pub async fn subject_on<'a>(installation: &Installation<'a>, prefix: &str, spec: Value) -> Subject<'a> {
    let scene = Scene::with_stateful_set(installation, &format!("native-{prefix}")).await;
    let mut manifest = scene.manifest("v1", None);
    manifest["metadata"].as_object_mut().unwrap().remove("labels");
    for (field, value) in spec.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    Subject { scene, manifest }
}

#[tokio::test]
async fn a_stateful_set_walks_its_steps() {
    subject("walk", json!({})).await.walks().await;
}

#[tokio::test]
async fn a_stateful_set_rolls_back_at_the_first_step() {
    subject("back", json!({})).await.rolls_back().await;
}

#[tokio::test]
async fn a_stateful_set_is_overtaken_by_another_version() {
    subject("v3", json!({})).await.is_overtaken().await;
}

#[tokio::test]
async fn a_stateful_set_is_scaled_in_mid_release() {
    subject("size", json!({})).await.is_scaled().await;
}

#[tokio::test]
async fn a_stateful_set_loses_its_rollout_in_mid_release() {
    subject("lost", json!({})).await.loses_its_rollout().await;
}

#[tokio::test]
async fn a_stateful_set_of_a_broken_image_stops_at_the_first_step() {
    subject("bad", json!({})).await.breaks().await;
}

#[tokio::test]
async fn a_stateful_set_walks_five_steps_by_time() {
    subject("time", json!({})).await.walks_by_time().await;
}

/// A partition counts pods, not ordinals.
#[tokio::test]
async fn a_stateful_set_whose_ordinals_start_late() {
    let subject = subject("start", json!({"ordinals": {"start": 7}})).await;
    subject.walks().await;
    let names = subject.scene.wait_pods("v2", 5).await;
    assert_eq!(
        names,
        ["my-app-10", "my-app-11", "my-app-7", "my-app-8", "my-app-9"]
    );
    // The highest ordinal is the first again, and the first to come back.
    subject.scene.set_version("v3").await;
    subject.scene.wait_state(1, "StepPaused").await;
    assert_eq!(subject.scene.wait_pods("v3", 1).await, ["my-app-11"]);
    subject.scene.set_version("v2").await;
    subject.scene.wait_phase("Healthy").await;
    subject.scene.wait_pods("v2", 5).await;
}

/// Where all pods may be unavailable at a time, only the partition keeps them from being updated. The server has this behind a gate.
#[tokio::test]
async fn stateful_sets_that_may_update_all_pods_at_once() {
    let gate = "--feature-gates=MaxUnavailableStatefulSet=true".to_owned();
    let options = Options {
        api_server_flags: vec![gate.clone()],
        controller_manager_flags: vec![gate],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let installation = Installation::start(&control_plane).await.unwrap();
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "partition": 0}});
    let at_once = async |prefix| {
        let spec = json!({"podManagementPolicy": "Parallel", "updateStrategy": strategy});
        subject_on(&installation, prefix, spec).await
    };
    let (forward, back) = (at_once("walk").await, at_once("back").await);
    join(forward.walks(), back.rolls_back()).await;
    assert_eq!(forward.scene.app().await["spec"]["updateStrategy"], strategy);
}

#[tokio::test]
async fn a_stateful_set_gets_its_own_partition_back() {
    let spec = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}});
    subject("own", spec).await.walks().await;
}
