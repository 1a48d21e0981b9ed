//! Ordinals, revisions and owners: which pods belong to a release, and to which step.

use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use super::fixtures::{approved_steps, sized};
use crate::gate::Gate;
use crate::scene::{APP, SOON, Scene, partition};
use crate::widgets::{Script, Widget, owner};

/// Waits for the end of the release, with every pod on v2.
async fn ends(scene: &Scene<'_>) {
    scene.wait_released().await;
    scene.wait_pods("v2", 5).await;
}

#[tokio::test]
async fn r12_a_start_ordinal_shifts_names_and_not_the_partition() {
    let scene = Scene::with_stateful_set(installed().await, "r12").await;
    let mut manifest = scene.manifest("v1", None);
    manifest["spec"]["ordinals"] = json!({"start": 10});
    scene.set_to(&manifest, &approved_steps()).await;
    let gate = Gate::open(&scene).await;

    scene.set_version("v2").await;
    let paused = scene.looked_at_in(1, "r12").await;
    assert_eq!(paused["status"]["canaryStatus"]["canaryReplicas"], 1);
    assert_eq!(partition(&scene.app().await), 4);
    assert_eq!(scene.wait_pods("v2", 1).await, ["my-app-14"]);
    assert_eq!(scene.batches().await, ["my-app-14 r12 1"]);

    scene.lose_pod("my-app-11").await;
    scene.wait_pods("v1", 4).await;

    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(partition(&scene.app().await), 2);
    let updated = ["my-app-12", "my-app-13", "my-app-14"];
    assert_eq!(scene.wait_pods("v2", 3).await, updated);
    let batches = ["my-app-12 r12 2", "my-app-13 r12 2", "my-app-14 r12 1"];
    assert_eq!(scene.batches().await, batches);
    scene.approve().await;
    ends(&scene).await;
    gate.within_grants("v2").await;
}

#[tokio::test]
async fn r12_a_scale_up_from_a_start_ordinal_exposes_no_more_pods() {
    let scene = Scene::with_stateful_set(installed().await, "r12-scale").await;
    let mut manifest = scene.manifest("v1", None);
    manifest["spec"]["ordinals"] = json!({"start": 10});
    scene.set_to(&manifest, &approved_steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.patch_app(json!({"spec": {"replicas": 8}})).await;
    scene.wait_pods("v1", 7).await;
    scene.looked_at_in(1, "r12").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    let updated = ["my-app-13", "my-app-14", "my-app-15", "my-app-16", "my-app-17"];
    assert_eq!(scene.wait_pods("v2", 5).await, updated);
    for (partition, pods) in gate.steps("v2").await {
        let allowed = if partition == Some(3) { 5 } else { 1 };
        assert!(pods <= allowed, "{pods} at {partition:?}");
    }
}

#[tokio::test]
async fn r13_reserved_ordinals_leave_gaps_and_the_partition_counts_pods() {
    let script = Script {
        ordinals: vec![0, 2, 4, 5, 6, 7, 8, 9],
        ..Script::default()
    };
    let widget = Widget::new(installed().await, "r13", script).await;
    let scene = &widget.scene;
    let mut manifest = scene.manifest("v1", Some(0));
    manifest["spec"]["reserveOrdinals"] = json!([1, 3]);
    scene.set_to(&manifest, &approved_steps()).await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(partition(&scene.app().await), 4);
    assert_eq!(scene.wait_pods("v2", 1).await, ["my-app-6"]);
    assert_eq!(scene.batches().await, ["my-app-6 my-app-v2 1"]);
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(partition(&scene.app().await), 2);
    assert_eq!(
        scene.wait_pods("v2", 3).await,
        ["my-app-4", "my-app-5", "my-app-6"]
    );
    gate.within_grants("v2").await;

    // 60 % of 8, three of which are there, with ordinals that are no places.
    scene.patch_app(json!({"spec": {"replicas": 8}})).await;
    scene.wait_pods("v2", 5).await;
    scene.wait_pods("v1", 3).await;
    scene.looked_at_in(2, "r13").await;
    assert_eq!(scene.wait_pods("v2", 5).await.len(), 5);
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2", 8).await;
}

/// How an operator writes the revision of a hash in its status, and on pods.
type Form = fn(&str) -> String;

/// A hash for each version.
fn hash(version: &str) -> &'static str {
    if version == "v2" { "7f9c" } else { "1b2d" }
}

/// A release by an operator that writes revisions in these forms, with one more pod that has none.
async fn r16(prefix: &str, status: Form, label: Form) {
    let script = Script {
        revision: Box::new(move |version| status(hash(version))),
        label: Box::new(move |version| label(hash(version))),
        ..Script::default()
    };
    let widget = Widget::new(installed().await, prefix, script).await;
    let scene = &widget.scene;
    widget.set(&approved_steps()).await;
    let app = scene.apps(&scene.admin).get(APP).await.unwrap();
    let bare = json!({"metadata": {"name": "bare", "labels": {"app": APP}, "ownerReferences": [owner(&app)]},
        "spec": {"containers": [{"name": "app", "image": "my-registry/my-app:bare"}]}});
    let bare = serde_json::from_value(bare).unwrap();
    scene
        .all_pods()
        .create(&PostParams::default(), &bare)
        .await
        .unwrap();
    scene.wait_pods("bare", 1).await;

    scene.set_version("v2").await;
    let paused = scene.looked_at_in(1, "r16").await;
    assert_eq!(paused["status"]["canaryStatus"]["canaryReplicas"], 1, "{prefix}");
    let labelled = if status("").is_empty() && status("x").is_empty() {
        vec![]
    } else {
        vec!["my-app-4 r16 1"]
    };
    assert_eq!(scene.batches().await, labelled, "{prefix}");
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.approve().await;
    ends(scene).await;
}

#[tokio::test]
async fn r16_revisions_come_in_several_shapes() {
    let bare: Form = str::to_owned;
    let full: Form = |hash| format!("my-app-{hash}");
    let other: Form = |hash| format!("another-name-that-is-longer-{hash}");
    let none: Form = |_| String::new();
    tokio::join!(
        r16("r16-bare-bare", bare, bare),
        r16("r16-bare-full", bare, full),
        r16("r16-full-bare", full, bare),
        r16("r16-full-full", full, full),
        r16("r16-other-bare", other, bare),
        r16("r16-none-bare", none, bare),
    );
}

/// Two different revisions with a common tail are not equal: no pod is counted, so the step goes on waiting.
#[tokio::test]
async fn r16_a_common_tail_is_not_enough() {
    let script = Script {
        label: Box::new(|version| format!("other-{version}")),
        ..Script::default()
    };
    let widget = Widget::new(installed().await, "r16-tail", script).await;
    let scene = &widget.scene;
    widget.set(&approved_steps()).await;
    scene.set_version("v2").await;
    scene.wait_pods("v2", 1).await;
    let seen = scene.looked_at("r16").await;
    assert_eq!(seen["status"]["canaryStatus"]["currentStepState"], "StepUpgrade");
    assert_eq!(scene.batches().await, [""; 0]);
    // The way on: an operator that names them alike.
    widget.rescript(|script| script.label = Box::new(|version| format!("{APP}-{version}")));
    let pods = scene.all_pods();
    pods.delete("my-app-4", &DeleteParams::default()).await.unwrap();
    scene.wait_state(1, "StepPaused").await;
}

#[tokio::test]
async fn r43_a_template_with_a_hash_label_of_its_own_goes_through_all_steps() {
    let scene = Scene::with_stateful_set(installed().await, "r43").await;
    let mut manifest = scene.manifest("v1", None);
    manifest["spec"]["template"]["metadata"]["labels"] =
        json!({"app": APP, "controller-revision-hash": "fixed", "pod-template-hash": "abc123"});
    scene.set_to(&manifest, &approved_steps()).await;
    scene.set_version("v2").await;
    let paused = scene.looked_at_in(1, "r43").await;
    assert_eq!(paused["status"]["canaryStatus"]["canaryReplicas"], 1);
    eventually(SOON, "the pod has its batch", async || {
        let batches = scene.batches().await;
        if batches == ["my-app-4 r43 1"] {
            Ok(())
        } else {
            Err(format!("{batches:?}"))
        }
    })
    .await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(scene.wait_pods("v2", 3).await.len(), 3);
    scene.approve().await;
    ends(&scene).await;
}

#[tokio::test]
async fn r44_pods_are_told_by_their_owner_and_not_by_labels() {
    let scene = Scene::with_stateful_set(installed().await, "r44").await;
    scene.set_to(&scene.manifest("v1", None), &approved_steps()).await;
    let mut other = sized(scene.manifest("v1", None), 3);
    other["metadata"] = json!({"name": "my-admin", "namespace": scene.namespace.name()});
    scene.create_app(&other).await;
    scene.wait_pods("v1", 8).await;

    scene.set_version("v2").await;
    let image = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "app", "image": "my-registry/my-app:v2"}]}}}});
    let sets = scene.apps(&scene.developer);
    let patch = kube::api::Patch::Merge(image);
    sets.patch("my-admin", &Default::default(), &patch).await.unwrap();
    scene.wait_state(1, "StepPaused").await;
    let app = scene.app().await;
    let loose = json!({"metadata": {"name": "loose", "labels": {"app": APP,
            "controller-revision-hash": app["status"]["updateRevision"]}},
        "spec": {"containers": [{"name": "app", "image": "my-registry/my-app:v2"}]}});
    let loose = serde_json::from_value(loose).unwrap();
    scene
        .all_pods()
        .create(&PostParams::default(), &loose)
        .await
        .unwrap();
    // One of ours, three of the other's, and the loose one.
    scene.wait_pods("v2", 5).await;

    let seen = scene.looked_at_in(1, "r44").await;
    assert_eq!(seen["status"]["canaryStatus"]["canaryReplicas"], 1);
    assert_eq!(scene.batches().await, ["my-app-4 r44 1"]);
    scene.approve().await;
    let seen = scene.wait_state(2, "StepPaused").await;
    assert_eq!(seen["status"]["canaryStatus"]["canaryReplicas"], 3);
    let batches = ["my-app-2 r44 2", "my-app-3 r44 2", "my-app-4 r44 1"];
    assert_eq!(scene.batches().await, batches);
    let admin: Value = serde_json::to_value(sets.get("my-admin").await.unwrap()).unwrap();
    assert_eq!(admin["metadata"].get("annotations"), None);
    scene.approve().await;
    scene.wait_released().await;
}
