//! What operators report wrongly or not at all, and what people leave out.

use kruise_rollout::names;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::{Identity, installed};

use super::fixtures::approved_steps;
use crate::gate::Gate;
use crate::ground::Ground;
use crate::scene::{APP, ROLLOUT, Scene, assert_free, condition, partition};
use crate::widgets::{Facts, Report, Script, Widget};

/// Waits until the Rollout says of its workload what it lacks.
async fn stalls(scene: &Scene<'_>, lacks: &str) {
    scene
        .wait(&format!("the condition Stalled names {lacks}"), |rollout| {
            let stalled = condition(rollout, "Stalled");
            stalled["status"] == "True"
                && stalled["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(lacks))
        })
        .await;
}

/// Approves until the release has ended with every pod on the version.
pub(super) async fn walks(scene: &Scene<'_>, version: &str, pods: usize) {
    for step in [1, 2] {
        scene.wait_state(step, "StepPaused").await;
        scene.approve().await;
    }
    scene.wait_released().await;
    scene.wait_pods(version, pods).await;
    assert_free(&scene.app().await);
}

#[tokio::test]
async fn r14_a_counter_that_comes_late_holds_nothing_up() {
    let late: Report = Box::new(|facts| {
        Some(
            Facts {
                updated: 0,
                ..facts.clone()
            }
            .status(),
        )
    });
    let script = Script {
        report: late,
        ..Script::default()
    };
    let widget = Widget::new(installed().await, "r14-late", script).await;
    widget.set(&approved_steps()).await;
    let gate = Gate::open(&widget.scene).await;
    widget.scene.set_version("v2").await;
    let paused = widget.scene.wait_state(1, "StepPaused").await;
    assert_eq!(paused["status"]["canaryStatus"]["canaryReplicas"], 1);
    walks(&widget.scene, "v2", 5).await;
    gate.within_grants("v2").await;
}

#[tokio::test]
async fn r14_a_counter_that_the_pods_contradict_moves_nothing() {
    let early: Report = Box::new(|facts| {
        Some(
            Facts {
                updated: facts.updated + 1,
                ..facts.clone()
            }
            .status(),
        )
    });
    let script = Script {
        report: early,
        updates: 2,
        ..Script::default()
    };
    let widget = Widget::new(installed().await, "r14-early", script).await;
    let scene = &widget.scene;
    widget.set(&approved_steps()).await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_pods("v2", 2).await;
    scene
        .wait_app("three are reported", |app| app["status"]["updatedReplicas"] == 3)
        .await;
    let seen = scene.looked_at("r14").await;
    assert_eq!(seen["status"]["canaryStatus"]["currentStepState"], "StepUpgrade");
    assert_eq!(seen["status"]["canaryStatus"]["currentStepIndex"], 2);
    widget.rescript(|script| script.updates = usize::MAX);
    scene.wait_state(2, "StepPaused").await;
    gate.within_grants("v2").await;
}

/// An honest status after a change.
fn changed(change: impl Fn(&mut Value) + Send + 'static) -> Report {
    Box::new(move |facts| {
        let mut status = facts.status();
        change(&mut status);
        Some(status)
    })
}

/// A release by an operator whose status lacks what no release needs.
async fn r15_walks(prefix: &str, report: Report) {
    let script = Script {
        report,
        ..Script::default()
    };
    let widget = Widget::new(installed().await, prefix, script).await;
    widget.set(&approved_steps()).await;
    widget.scene.set_version("v2").await;
    walks(&widget.scene, "v2", 5).await;
    let target = format!("rollout/{ROLLOUT}");
    let mut kubectl = widget.scene.namespace.kubectl(Identity::Viewer).unwrap();
    kubectl.args(["kruise", "rollout", "status", &target, "--watch=false"]);
    let said = kubectl.output().await.unwrap();
    assert!(said.status.success(), "{prefix}: {said:?}");
}

#[tokio::test]
async fn r15_fields_that_no_release_needs_may_be_missing() {
    tokio::join!(
        r15_walks(
            "r15-no-updated",
            changed(|status| {
                status.as_object_mut().unwrap().remove("updatedReplicas");
            })
        ),
        r15_walks(
            "r15-null-updated",
            changed(|status| status["updatedReplicas"] = Value::Null)
        ),
        r15_walks(
            "r15-no-ready",
            changed(|status| {
                status.as_object_mut().unwrap().remove("readyReplicas");
            })
        ),
        r15_walks(
            "r15-no-current",
            changed(|status| status["currentRevision"] = json!(""))
        ),
    );
}

/// An operator that never reports enough: what is missing is named, nothing is exposed, and once it reports the release goes on.
async fn r15_stalls(prefix: &str, report: Report, lacks: &str) {
    let script = Script {
        report,
        ..Script::default()
    };
    let widget = Widget::new(installed().await, prefix, script).await;
    let scene = &widget.scene;
    widget.set(&approved_steps()).await;
    stalls(scene, lacks).await;
    let held = scene.set_version("v2").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    scene.wait_phase("Progressing").await;
    stalls(scene, lacks).await;
    widget.rescript(|script| script.report = Script::default().report);
    walks(scene, "v2", 5).await;
    assert_eq!(condition(&scene.rollout().await, "Stalled"), &Value::Null);
}

#[tokio::test]
async fn r15_a_field_that_is_needed_is_named() {
    tokio::join!(
        r15_stalls("r15-none", Box::new(|_| None), "reports no status"),
        r15_stalls("r15-empty", Box::new(|_| Some(json!({}))), "reports no status"),
        r15_stalls(
            "r15-null",
            changed(|status| status["observedGeneration"] = Value::Null),
            "status.observedGeneration"
        ),
    );
}

#[tokio::test]
async fn r31_a_workload_of_few_words_is_governed() {
    let mut installation = Ground::with_controller().await;
    let silent = Script {
        report: Box::new(|_| None),
        ..Script::default()
    };
    let widget = Widget::new(&installation, "r31", silent).await;
    let scene = &widget.scene;
    let mut manifest = scene.manifest("v1", None);
    manifest["spec"].as_object_mut().unwrap().remove("replicas");
    scene.create_rollout(&approved_steps()).await;
    let told = scene.wait_phase("Initial").await;
    assert_ne!(told["status"]["message"], Value::Null);
    // Nobody is there when the workload comes.
    installation.kill_controller();
    scene.create_app(&manifest).await;
    installation.start_controller().await.unwrap();
    stalls(scene, "reports no status").await;

    widget.rescript(|script| script.report = Script::default().report);
    scene
        .wait("nothing is missing any more", |rollout| {
            rollout["status"]["phase"] == "Healthy" && condition(rollout, "Stalled").is_null()
        })
        .await;
    let gate = Gate::open(scene).await;
    let held = scene.set_version("v2").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    walks(scene, "v2", 1).await;
    assert_eq!(scene.app().await["spec"].get("updateStrategy"), None);

    // What the partition stands in is taken away in mid-release.
    scene.patch_app(json!({"spec": {"replicas": 5}})).await;
    scene.wait_pods("v2", 5).await;
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    let patch = json!([{"op": "remove", "path": "/spec/updateStrategy/rollingUpdate"}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let apps = scene.apps(&scene.developer);
    apps.patch(APP, &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(partition(&scene.app().await), 4);
    scene.looked_at_in(1, "r31").await;
    walks(scene, "v3", 5).await;
    for (partition, pods) in gate.steps("v3").await {
        let allowed = match partition {
            Some(kept) => 5 - kept.min(5),
            // Before and after the releases.
            None => 5,
        };
        assert!(i64::try_from(pods).unwrap() <= allowed, "{pods} at {partition:?}");
    }
}
