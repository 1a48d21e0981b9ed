//! Steering: jumps that lead nowhere, what happens while a release is paused, ways back by steps, and what tools see of all this.

use futures::future::join;
use k8s_openapi::api::core::v1::Event;
use kruise_rollout::names;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use crate::gate::{Gate, Step};
use crate::scene::{ROLLOUT, SOON, Scene, assert_free, condition, mark, partition};

const HELD: Option<i64> = Some(names::HOLD_PARTITION);

/// Approval after 2 and after 4 of 5 pods.
fn steps() -> Value {
    json!([{"replicas": 2, "pause": {}}, {"replicas": 4, "pause": {}}, {"replicas": "100%"}])
}

/// What is in force one after the other until step 2 is done, and how many pods may run the new version.
const FORTH: [Step; 4] = [(Some(0), 0), (HELD, 0), (Some(3), 2), (Some(1), 4)];

/// An app of which 4 of 5 pods run v2, at the pause of step 2, and the gate from the beginning.
async fn at_step_2<'a>(prefix: &str) -> (Scene<'a>, Gate) {
    let scene = Scene::new(installed().await, prefix).await;
    scene.set(Some(0), &steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 4).await;
    (scene, gate)
}

/// Writes the step to go to next.
async fn jump(scene: &Scene<'_>, to: i64) {
    let patch = Patch::Merge(json!({"status": {"canaryStatus": {"nextStepIndex": to}}}));
    // Approvers may not, unless the controller is told so.
    let rollouts = scene.rollouts(&scene.admin);
    rollouts
        .patch_status(ROLLOUT, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn pause(scene: &Scene<'_>, paused: bool) {
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": paused}}}))
        .await;
}

/// Waits until the controller has seen that the release is paused.
async fn wait_paused(scene: &Scene<'_>) -> Value {
    scene
        .wait("paused", |rollout| {
            condition(rollout, "Progressing")["reason"] == "Paused"
        })
        .await
}

/// Waits for the end of a rollback, with the workload as it was before the release.
async fn rolled_back(scene: &Scene<'_>) -> Value {
    let done = scene
        .wait("rolled back", |rollout| {
            rollout["status"]["phase"] == "Healthy"
                && condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    assert_eq!(condition(&done, "Succeeded")["status"], "False");
    assert_eq!(done["status"]["canaryStatus"]["currentStepState"], "Completed");
    scene.wait_pods("v1", 5).await;
    let app = scene.app().await;
    assert_eq!(partition(&app), 0);
    assert_free(&app);
    done
}

/// Asks for steps on the way back, or does not any more.
async fn by_steps(scene: &Scene<'_>, wanted: bool) {
    let value = wanted.then_some("true");
    scene
        .patch_rollout(&json!({"metadata": {"annotations": {names::ROLLBACK_IN_BATCH: value}}}))
        .await;
}

/// v1 is written again at step 2; 2 of 5 pods run it once step 1 of the way back is done.
async fn at_step_1_of_the_way_back<'a>(prefix: &str) -> (Scene<'a>, Gate) {
    let (scene, gate) = at_step_2(prefix).await;
    by_steps(&scene, true).await;
    let held = scene.set_version("v1").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    let back = scene.wait_state(1, "StepPaused").await;
    assert_eq!(condition(&back, "Succeeded"), &Value::Null);
    let message = back["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("rolling back in batches, step 1 of 3"),
        "{message}"
    );
    // One has never left it, and one returned.
    assert_eq!(scene.wait_pods("v1", 2).await, ["my-app-0", "my-app-4"]);
    (scene, gate)
}

#[tokio::test]
async fn a_rollback_in_batches_takes_the_steps_with_their_approvals() {
    let (scene, gate) = at_step_1_of_the_way_back("back-steps").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(scene.wait_pods("v2", 1).await, ["my-app-1"]);
    scene.approve().await;
    rolled_back(&scene).await;
    let back = [(HELD, 4), (Some(4), 4), (Some(2), 3), (Some(0), 1)];
    assert_eq!(gate.steps("v2").await, [&FORTH[..], &back].concat());
}

#[tokio::test]
async fn a_rollback_in_batches_opens_at_once_when_steps_are_not_wanted_any_more() {
    let (scene, gate) = at_step_1_of_the_way_back("back-opens").await;
    by_steps(&scene, false).await;
    rolled_back(&scene).await;
    let back = [(HELD, 4), (Some(4), 4), (Some(0), 3)];
    assert_eq!(gate.steps("v2").await, [&FORTH[..], &back].concat());
}

/// Messages of the warnings with this reason.
async fn warnings(scene: &Scene<'_>, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    let fields = format!("involvedObject.kind=Rollout,type=Warning,reason={reason}");
    let events = events.list(&ListParams::default().fields(&fields)).await.unwrap();
    events
        .items
        .into_iter()
        .filter_map(|event| event.message)
        .collect()
}

/// Waits until a warning says that this number, which somebody wrote, is no step.
async fn wait_warning(scene: &Scene<'_>, written: i64) {
    let words = format!("nextStepIndex {written} was written");
    eventually(SOON, &words, async || {
        let warnings = warnings(scene, "NoSuchStep").await;
        match warnings.iter().filter(|warning| warning.contains(&words)).count() {
            1 => Ok(()),
            _ => Err(format!("{warnings:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_jump_to_no_step_is_put_right_and_said() {
    let scene = Scene::new(installed().await, "jumps").await;
    let plan = json!([{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}, {"replicas": 3, "pause": {}},
        {"replicas": "100%"}]);
    scene.set(Some(0), &plan).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    let before = scene.wait_state(1, "StepPaused").await;
    let canary = |rollout: &Value, field: &str| rollout["status"]["canaryStatus"][field].clone();
    for written in [0, 99, -5] {
        jump(&scene, written).await;
        let said = format!("nextStepIndex {written} was written, which is no step: possible are 1 to 4");
        let told = scene
            .wait(&said, |rollout| {
                canary(rollout, "nextStepIndex") == 2 && condition(rollout, "StepJump")["message"] == said
            })
            .await;
        let condition = condition(&told, "StepJump");
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("NoSuchStep"))
        );
        for field in ["currentStepIndex", "currentStepState", "lastUpdateTime"] {
            assert_eq!(canary(&told, field), canary(&before, field), "{field}");
        }
        wait_warning(&scene, written).await;
    }
    jump(&scene, 3).await;
    let there = scene.wait_state(3, "StepPaused").await;
    assert_eq!(canary(&there, "nextStepIndex"), 4);
    assert_eq!(condition(&there, "StepJump"), &Value::Null);
    scene.wait_pods("v2", 3).await;
    // Back, which undoes no pods, and to the last one, which releases all.
    jump(&scene, 2).await;
    scene.wait_state(2, "StepPaused").await;
    jump(&scene, 4).await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    let passed = [
        (Some(0), 0),
        (HELD, 0),
        (Some(4), 1),
        (Some(2), 3),
        (Some(5), 3),
        (Some(0), 5),
    ];
    assert_eq!(gate.steps("v2").await, passed);

    // At rest no number leads anywhere.
    for written in [2, 77] {
        jump(&scene, written).await;
        let still = scene
            .wait("put right", |rollout| canary(rollout, "nextStepIndex") == -1)
            .await;
        assert_eq!(still["status"]["phase"], "Healthy");
        assert_eq!(canary(&still, "currentStepState"), "Completed");
        assert_eq!(condition(&still, "Ready")["status"], "True");
        wait_warning(&scene, written).await;
    }
    assert_eq!(gate.steps("v2").await, passed);
}

/// A revert is a rollback at once, also of a template that was pushed while the release was paused.
async fn reverted_while_paused(prefix: &str, pushed: bool) {
    let (scene, gate) = at_step_2(prefix).await;
    pause(&scene, true).await;
    wait_paused(&scene).await;
    let mut expected = FORTH.to_vec();
    if pushed {
        scene.set_version("v3").await;
        scene.wait_state(1, "StepUpgrade").await;
    }
    scene.set_version("v1").await;
    let done = rolled_back(&scene).await;
    assert_eq!(done["spec"]["strategy"]["paused"], true);
    expected.extend([(HELD, 4), (Some(0), 4)]);
    assert_eq!(gate.steps("v2").await, expected);
    assert!(gate.steps("v3").await.iter().all(|(_, pods)| *pods == 0));
}

#[tokio::test]
async fn while_paused_a_revert_is_a_rollback_at_once() {
    join(
        reverted_while_paused("paused-back", false),
        reverted_while_paused("paused-back-v3", true),
    )
    .await;
}

/// Scales as autoscalers do, and waits until all pods are ready.
async fn scale(scene: &Scene<'_>, replicas: u32) {
    scene.scale(replicas).await;
    scene
        .wait_app("the size", |app| {
            app["status"]["replicas"] == replicas && app["status"]["readyReplicas"] == replicas
        })
        .await;
}

#[tokio::test]
async fn while_paused_a_newer_template_is_held_and_unpausing_begins_it() {
    let (scene, gate) = at_step_2("paused-push").await;
    pause(&scene, true).await;
    wait_paused(&scene).await;
    // Given for v2; it counts for nothing else.
    scene.approve().await;
    let held = scene.set_version("v3").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    scene.wait_state(1, "StepUpgrade").await;
    for replicas in [7, 3, 6] {
        scale(&scene, replicas).await;
    }
    let told = wait_paused(&scene).await;
    assert_eq!(told["status"]["currentStepIndex"], 1);
    let held = gate.steps("v3").await;
    assert!(held.iter().all(|(_, pods)| *pods == 0), "{held:?}");
    assert_eq!(held.last().unwrap().0, HELD);

    pause(&scene, false).await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v3", 2).await, ["my-app-4", "my-app-5"]);
    let most = gate.steps("v3").await.into_iter().map(|step| step.1).max();
    assert_eq!(most, Some(2));
}

#[tokio::test]
async fn while_paused_scaling_is_followed_and_unpausing_goes_on_with_the_same_step() {
    let (scene, gate) = at_step_2("paused-scale").await;
    pause(&scene, true).await;
    wait_paused(&scene).await;
    // Pods that come with the workload itself are held in the same request, and nothing is granted meanwhile.
    scene.patch_app(json!({"spec": {"replicas": 8}})).await;
    let raised = scene
        .wait_app("8 pods", |app| app["status"]["readyReplicas"] == 8)
        .await;
    assert_eq!(
        (partition(&raised), mark(&raised, names::GRANTED_PARTITION)),
        (&json!(8), &json!("8"))
    );
    assert_eq!(wait_paused(&scene).await["status"]["currentStepIndex"], 2);
    scene.wait_pods("v2", 4).await;
    pause(&scene, false).await;
    scene
        .wait("not paused", |rollout| {
            condition(rollout, "Progressing")["reason"] == "InRolling"
        })
        .await;
    let same = scene.wait_state(2, "StepPaused").await;
    assert_eq!(same["status"]["canaryStatus"]["nextStepIndex"], 3);
    let steps = gate.steps("v2").await;
    assert!(steps.iter().all(|(_, pods)| *pods <= 4), "{steps:?}");
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 8).await;
}
