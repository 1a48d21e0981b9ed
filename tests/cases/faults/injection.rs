//! Other mutating webhooks that change pod templates, called before ours or after it.

use futures::future::{join, join_all};
use kruise_rollout::names;
use serde_json::{Value, json};
use support::{eventually, installed};

use super::fixtures::sized;
use super::injector::{Injection, Injector};
use crate::gate::Gate;
use crate::scene::{SOON, Scene, assert_free, condition, mark, partition};

/// Names of the others' registrations: before ours and after it.
const ORDERS: [&str; 2] = ["aa", "zzz"];

fn steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}])
}

/// A workload of three pods without a partition.
fn three(scene: &Scene<'_>, version: &str) -> Value {
    sized(scene.manifest(version, None), 3)
}

/// A whole release, a manifest that lacks what is injected, and a rollback by such a manifest.
async fn always_the_same(order: &str) {
    let scene = Scene::new(installed().await, &format!("inject-{order}")).await;
    let injector = Injector::register(&scene, order, Injection::Annotation).await;
    scene.set_to(&three(&scene, "v1"), &steps()).await;
    let gate = Gate::open(&scene).await;
    scene.put(&three(&scene, "v2")).await.object();
    scene.wait_state(1, "StepPaused").await;
    scene.put(&three(&scene, "v2")).await.object();
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2", 3).await;
    let expected = [
        (None, 0),
        (Some(32_767), 0),
        (Some(2), 1),
        (Some(0), 3),
        (None, 3),
    ];
    assert_eq!(gate.steps("v2").await, expected);

    let rest = scene.app().await;
    scene.put(&three(&scene, "v2")).await.object();
    let app = scene.app().await;
    assert_eq!(
        app["spec"], rest["spec"],
        "the manifest once more changes something"
    );
    assert_free(&app);

    scene.put(&three(&scene, "v3")).await.object();
    scene.wait_state(1, "StepPaused").await;
    scene.put(&three(&scene, "v2")).await.object();
    scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
                && rollout["status"]["phase"] == "Healthy"
        })
        .await;
    scene.wait_pods("v2", 3).await;
    let app = scene.app().await;
    assert_eq!(partition(&app), &Value::Null);
    assert_free(&app);
    let note = &app["spec"]["template"]["metadata"]["annotations"]["injector.example.io/note"];
    assert_eq!(note, "always the same");
    injector.remove().await;
}

#[tokio::test]
async fn a_template_that_another_webhook_completes_is_released_as_any_other() {
    join_all(ORDERS.map(always_the_same)).await;
}

/// At most so many pods have run the version at any instant, and no more than the partition in force allowed.
async fn stepwise(gate: &Gate, version: &str, replicas: i64) {
    for (partition, pods) in gate.steps(version).await {
        let allowed = replicas - partition.unwrap_or(0).min(replicas);
        assert!(
            i64::try_from(pods).unwrap() <= allowed,
            "{version}: {pods} pods at {partition:?}"
        );
    }
}

/// Writes a label of the app; what the server answers.
async fn label(scene: &Scene<'_>, value: &str) -> u16 {
    let answer = scene
        .merge(&json!({"metadata": {"labels": {"tier": value}}}))
        .await;
    if answer.code != 200 {
        let message = answer.body["message"].as_str().unwrap_or_default();
        // The policy comes first where there is one.
        let confirmed = [names::CONFIRM_WEBHOOK, "kruise-rollout-confirm-statefulset"];
        assert!(confirmed.iter().any(|name| message.contains(name)), "{answer:?}");
    }
    answer.code
}

/// The webhook comes while the workload is at rest, and the next write is somebody's label.
async fn comes_at_rest(order: &str) {
    let scene = Scene::new(installed().await, &format!("inject-rest-{order}")).await;
    scene.set_to(&three(&scene, "v1"), &steps()).await;
    let gate = Gate::open(&scene).await;
    let injector = Injector::register(&scene, order, Injection::Pin).await;
    eventually(SOON, "the injector is in force", async || {
        // Before it is, the label is written and nothing else happens.
        let code = label(&scene, &format!("web-{}", injector.calls())).await;
        if injector.calls() > 0 {
            Ok(())
        } else {
            Err(format!("answered {code}"))
        }
    })
    .await;
    if order == "aa" {
        // The change came with the label, and goes by steps.
        scene.wait_state(1, "StepPaused").await;
        scene.wait_pods("v1-pinned", 1).await;
        scene.approve().await;
        scene.wait_released().await;
    } else {
        // Nobody held it, so that nothing was stored; with a change of the template it comes in.
        assert_eq!(label(&scene, "again").await, 403);
        let app = scene.app().await;
        assert_eq!(
            app["spec"]["template"]["spec"]["containers"][0]["image"],
            "my-registry/my-app:v1"
        );
        scene.set_version("v2").await;
        scene.wait_state(1, "StepPaused").await;
        scene.wait_pods("v2-pinned", 1).await;
        scene.approve().await;
        scene.wait_released().await;
        assert_eq!(label(&scene, "at-last").await, 200);
    }
    let version = if order == "aa" { "v1-pinned" } else { "v2-pinned" };
    scene.wait_pods(version, 3).await;
    let steps = gate.steps(version).await;
    assert_eq!(
        steps,
        [
            (None, 0),
            (Some(32_767), 0),
            (Some(2), 1),
            (Some(0), 3),
            (None, 3)
        ]
    );
    injector.remove().await;
}

#[tokio::test]
async fn what_another_webhook_brings_with_any_write_is_held_or_not_stored() {
    join_all(ORDERS.map(comes_at_rest)).await;
}

/// The webhook comes in mid-release: the grants of the controller bring its change along.
async fn comes_in_mid_release() {
    let scene = Scene::new(installed().await, "inject-late").await;
    scene.set_to(&three(&scene, "v1"), &steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let injector = Injector::register(&scene, "aa", Injection::Pin).await;
    eventually(SOON, "the injector is in force", async || {
        label(&scene, "web").await;
        label(&scene, "db").await;
        if injector.calls() > 0 {
            Ok(())
        } else {
            Err("not called")
        }
    })
    .await;
    // Another template, from the first step on.
    scene.wait_pods("v2-pinned", 1).await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2-pinned", 3).await;
    stepwise(&gate, "v2-pinned", 3).await;
    assert_free(&scene.app().await);
    injector.remove().await;
}

/// A webhook whose every change is another one. Nothing can be released by steps then; it is said, nothing is written again and
/// again, and both ways on work.
async fn never_the_same(order: &str) {
    let scene = Scene::new(installed().await, &format!("inject-never-{order}")).await;
    let mut manifest = three(&scene, "v1");
    manifest["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 1}});
    scene.set_to(&manifest, &steps()).await;
    let gate = Gate::open(&scene).await;
    let injector = Injector::register(&scene, order, Injection::Restless).await;
    eventually(SOON, "the injector is in force", async || {
        scene.set_version("v2").await;
        if injector.calls() > 0 {
            Ok(())
        } else {
            Err("not called")
        }
    })
    .await;
    let stalled = scene
        .wait("it is said", |rollout| {
            condition(rollout, "Stalled")["reason"] == "TemplateRewritten"
        })
        .await;
    let message = stalled["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("webhook") && message.contains("disabled"),
        "{message}"
    );
    // Not even one pod, since no two writes are about the same template.
    let generation = scene.app().await["metadata"]["generation"].as_i64().unwrap();
    assert!(generation < 12, "{generation} changes");
    for call in 0..=injector.calls() {
        stepwise(&gate, &format!("v2-n{call}"), 3).await;
    }
    scene.wait_pods("v1", 3).await;

    scene.patch_rollout(&json!({"spec": {"disabled": true}})).await;
    scene.wait_phase("Disabled").await;
    let app = scene
        .wait_app("let go", |app| mark(app, names::GUARDED_BY).is_null())
        .await;
    assert_free(&app);
    assert_eq!(partition(&app), 1);
    injector.remove().await;
    // Without that webhook it is a workload as any other.
    scene.patch_rollout(&json!({"spec": {"disabled": false}})).await;
    scene.wait_phase("Healthy").await;
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v3", 3).await;
}

#[tokio::test]
async fn a_template_that_never_stays_the_same_releases_nothing_and_blocks_nobody() {
    join(comes_in_mid_release(), join_all(ORDERS.map(never_the_same))).await;
}
