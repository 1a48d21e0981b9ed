//! Order: Rollout, workload, kind and rights may appear in any order, and what cannot work is refused with a sentence.

use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};
use support::{TestNamespace, installed};

use crate::kinds::OwnKind;
use crate::scene::{ROLLOUT, Scene, condition, mark, partition, walk_steps};

/// The refusal of a Rollout in this namespace.
async fn refused(scene: &Scene<'_>, namespace: &str, rollout: &Value) -> String {
    let resource = ApiResource::erase::<kruise_rollout::api::v1beta1::Rollout>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(scene.admin.clone(), namespace, &resource);
    let mut rollout = rollout.clone();
    rollout["metadata"]["namespace"] = json!(namespace);
    let object = serde_json::from_value(rollout).unwrap();
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{status:?}");
            status.message
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// A release of this version walks its first step.
async fn releases(scene: &Scene<'_>, version: &str) {
    let held = scene.set_version(version).await;
    assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods(version, 1).await;
}

#[tokio::test]
async fn a_rollout_may_come_before_its_workload() {
    let scene = Scene::new(installed().await, "order-first").await;
    scene.create_rollout(&walk_steps()).await;
    let waiting = scene.wait_phase("Initial").await;
    let message = waiting["status"]["message"].as_str().unwrap();
    assert!(message.contains("waiting for it"), "{message}");
    scene.create_app(&scene.manifest("v1", Some(0))).await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v1", 5).await;
    releases(&scene, "v2").await;
}

#[tokio::test]
async fn a_rollout_may_come_before_the_kind_and_the_right_to_govern_it() {
    let installation = installed().await;
    let kind = OwnKind::new("LaterApp");
    let scene = Scene::of_kind(installation, "order-kind", kind.resource.clone()).await;
    scene.create_rollout(&walk_steps()).await;
    let stalled =
        |reason: &'static str| move |rollout: &Value| condition(rollout, "Stalled")["reason"] == reason;
    let without = scene.wait("no kind", stalled("KindNotFound")).await;
    let message = without["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("LaterApp") && message.contains("CRD"),
        "{message}"
    );

    kind.define(installation, &[]).await;
    let refused = scene.wait("no right", stalled("WorkloadUnreadable")).await;
    let message = refused["status"]["message"].as_str().unwrap();
    let label = format!("{}=true", names::AGGREGATE_TO_CONTROLLER);
    assert!(
        message.contains("ClusterRole") && message.contains(&label),
        "{message}"
    );
    assert!(
        message.contains("kubectl kruise workload enable laterapps.example.io"),
        "{message}"
    );

    let _operator = kind.operate(installation, &[]);
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    kind.enable(installation).await;
    let healthy = scene.wait_phase("Healthy").await;
    assert_eq!(condition(&healthy, "Stalled"), &Value::Null);
    assert_eq!(condition(&healthy, "Guarded")["status"], "True");
    releases(&scene, "v2").await;
}

#[tokio::test]
async fn a_rollout_takes_the_template_that_it_finds_as_the_stable_one() {
    let scene = Scene::new(installed().await, "order-after").await;
    scene.create_app(&scene.manifest("v1", Some(0))).await;
    scene.wait_pods("v1", 5).await;
    let ungated = scene.set_version("v2").await;
    assert_eq!(partition(&ungated), &json!(0));
    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    let app = scene.app().await;
    assert_eq!(mark(&app, names::IN_PROGRESSING), &Value::Null);
    assert_eq!(partition(&app), &json!(0));
    releases(&scene, "v3").await;
    scene.set_version("v2").await;
    let back = scene.wait_phase("Healthy").await;
    assert_eq!(condition(&back, "Succeeded")["reason"], "RolledBack");
}

#[tokio::test]
async fn a_workload_that_is_made_anew_is_a_new_one() {
    let scene = Scene::new(installed().await, "order-again").await;
    scene.set(Some(0), &walk_steps()).await;
    releases(&scene, "v2").await;
    let exported = scene.app().await;
    let apps = scene.apps(&scene.developer);
    apps.delete(crate::scene::APP, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    scene.wait_phase("Initial").await;
    scene.wait_pods("v2", 0).await;
    // With the marks of the old one in it, as an export has them.
    let mut manifest = scene.manifest("v3", Some(0));
    manifest["metadata"]["annotations"] = exported["metadata"]["annotations"].clone();
    scene.create_app(&manifest).await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v3", 5).await;
    let uid = scene.app().await["metadata"]["uid"].as_str().unwrap().to_owned();
    let app = scene
        .wait_app("marked anew", |app| {
            mark(app, names::GUARDED_BY)
                .as_str()
                .is_some_and(|mark| mark.starts_with(&uid))
        })
        .await;
    assert_eq!(partition(&app), &json!(0));
    releases(&scene, "v4").await;
}

#[tokio::test]
async fn what_cannot_work_is_refused_with_a_sentence() {
    let scene = Scene::new(installed().await, "order-refused").await;
    scene.set(Some(0), &walk_steps()).await;
    let namespace = scene.namespace.name();

    let mut second = scene.rollout_manifest(&walk_steps());
    second["metadata"]["name"] = json!("second");
    let text = refused(&scene, namespace, &second).await;
    assert!(text.contains(ROLLOUT) && text.contains("my-app"), "{text}");

    let text = refused(&scene, "kube-system", &second).await;
    assert!(text.contains("kube-system"), "{text}");
    let own = names::DEFAULT_NAMESPACE;
    let text = refused(&scene, own, &second).await;
    assert!(text.contains(own), "{text}");

    let other = TestNamespace::create(scene.namespace.control_plane(), "order-other")
        .await
        .unwrap();
    let mut traffic = scene.rollout_manifest(&walk_steps());
    traffic["spec"]["strategy"]["canary"]["trafficRoutings"] = json!([{"service": "web"}]);
    let text = refused(&scene, other.name(), &traffic).await;
    assert!(text.contains("trafficRoutings"), "{text}");

    let mut blue_green = scene.rollout_manifest(&walk_steps());
    blue_green["spec"]["strategy"] = json!({"blueGreen": {"steps": [{"replicas": "100%"}]}});
    let text = refused(&scene, other.name(), &blue_green).await;
    assert!(text.contains("blueGreen"), "{text}");

    let text = refused(&scene, other.name(), &scene.rollout_manifest(&json!([]))).await;
    assert!(text.contains("steps"), "{text}");
}
