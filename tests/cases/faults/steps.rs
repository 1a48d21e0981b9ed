//! Steps: what is released when people change their minds, and what is told of it.

use futures::future::join;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use super::fixtures::{approved_steps, sized, wait_message, walk_on};
use crate::gate::Gate;
use crate::ground::Ground;
use crate::scene::{ROLLOUT, SOON, Scene, condition, partition};

const HELD: Option<i64> = Some(names::HOLD_PARTITION);

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

async fn edit_steps(scene: &Scene<'_>, steps: &Value) {
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"canary": {"steps": steps}}}}))
        .await;
}

#[tokio::test]
async fn r08_replicas_and_template_changed_together_start_one_release() {
    let scene = Scene::new(installed().await, "r08-both").await;
    scene.set(Some(0), &approved_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    let image = json!([{"name": "app", "image": "my-registry/my-app:v3"}]);
    let both = json!({"spec": {"replicas": 8, "template": {"spec": {"containers": image}}}});
    let held = scene.patch_app(both).await;
    assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v3", 1).await;
    scene.wait_pods("v2", 3).await;
    walk_on(&scene, "v3", 8).await;
}

#[tokio::test]
async fn r08_sizes_that_flap_leave_the_status_as_it_is() {
    let scene = Scene::new(installed().await, "r08-flap").await;
    scene.set(Some(0), &approved_steps()).await;
    scene.set_version("v2").await;
    let before = scene.wait_state(1, "StepPaused").await;
    for replicas in [8, 4].into_iter().cycle().take(6) {
        scene.patch_app(json!({"spec": {"replicas": replicas}})).await;
    }
    scene
        .wait_app("the size", |app| {
            app["status"]["replicas"] == 4 && app["status"]["readyReplicas"] == 4
        })
        .await;
    scene.wait_pods("v2", 1).await;
    let after = wait_message(&scene, "1 of 4 pods").await;
    for field in [
        "stableRevision",
        "canaryRevision",
        "currentStepIndex",
        "currentStepState",
        "nextStepIndex",
        "lastUpdateTime",
        "rolloutHash",
    ] {
        let at = |rollout: &Value| rollout["status"]["canaryStatus"][field].clone();
        assert_eq!(at(&after), at(&before), "{field}");
    }
    walk_on(&scene, "v2", 4).await;
}

/// Three of five pods run v2; then the step has one, by what is done.
async fn smaller(prefix: &str, done: impl AsyncFnOnce(&Scene<'_>), step: i64) {
    let scene = Scene::new(installed().await, prefix).await;
    scene.set(Some(0), &approved_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    done(&scene).await;
    let truth = "3 of 5 pods are updated: 2 pods more than the step has stay on the new template";
    let told = wait_message(&scene, truth).await;
    let canary = &told["status"]["canaryStatus"];
    assert_eq!(
        (&canary["currentStepIndex"], &canary["currentStepState"]),
        (&json!(step), &json!("StepPaused"))
    );
    assert_eq!(
        (&canary["canaryReplicas"], &canary["canaryReadyReplicas"]),
        (&json!(3), &json!(3))
    );
    scene.wait_pods("v2", 3).await;

    let gate = Gate::open(&scene).await;
    scene.set_version("v3").await;
    assert_eq!(scene.wait_pods("v3", 1).await, ["my-app-4"]);
    scene.wait_pods("v2", 2).await;
    scene.wait_pods("v1", 2).await;
    wait_message(&scene, "step 1 of 3: 1 of 5 pods are updated and ready").await;
    // More than the step has keeps everything back.
    assert_eq!(gate.steps("v3").await, [(Some(5), 0), (HELD, 0), (Some(4), 1)]);
    walk_on(&scene, "v3", 5).await;
}

#[tokio::test]
async fn r10_a_smaller_step_and_a_jump_back_tell_the_truth_and_undo_no_pods() {
    let shrunk =
        json!([{"replicas": 1, "pause": {}}, {"replicas": "20%", "pause": {}}, {"replicas": "100%"}]);
    join(
        smaller("r10-shrunk", async |scene| edit_steps(scene, &shrunk).await, 2),
        smaller("r10-back", async |scene| jump(scene, 1).await, 1),
    )
    .await;
}

/// Edits the steps while nobody reviews Rollouts: the review is registered again at once, so it takes some tries.
async fn edit_unreviewed(scene: &Scene<'_>, steps: &Value) {
    let reviews: Api<ValidatingWebhookConfiguration> = Api::all(scene.admin.clone());
    let patch = Patch::Merge(json!({"spec": {"strategy": {"canary": {"steps": steps}}}}));
    let rollouts = scene.rollouts(&scene.developer);
    eventually(SOON, "the edit gets through", async || {
        // It may be gone from the last try.
        drop(
            reviews
                .delete(names::WEBHOOK_CONFIGURATION, &DeleteParams::default())
                .await,
        );
        let answer = rollouts.patch(ROLLOUT, &PatchParams::default(), &patch).await;
        answer.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test]
async fn r24_fewer_steps_than_the_current_index() {
    let installation = Ground::with_controller().await;
    let begin = async |prefix: &str| {
        let scene = Scene::new(&installation, prefix).await;
        scene.set(Some(0), &approved_steps()).await;
        scene.set_version("v2").await;
        scene.wait_state(1, "StepPaused").await;
        scene.approve().await;
        scene.wait_state(2, "StepPaused").await;
        scene
    };
    let (one, other) = join(begin("r24"), begin("r24-other")).await;
    let process = std::fs::read_to_string(installation.controller_log().unwrap()).unwrap();

    let whole = json!([{"replicas": "100%"}]);
    let patch = Patch::Merge(json!({"spec": {"strategy": {"canary": {"steps": whole}}}}));
    let refused = one.rollouts(&one.developer);
    let refused = refused.patch(ROLLOUT, &PatchParams::default(), &patch).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("the number of steps, 3, cannot change"),
        "{refused}"
    );
    let paused = one.wait_state(2, "StepPaused").await;
    assert_eq!(paused["status"]["phase"], "Progressing");

    // One step that is not the whole: the release does not go beyond it.
    edit_unreviewed(&one, &json!([{"replicas": "80%", "pause": {}}])).await;
    one.wait_state(1, "StepPaused").await;
    one.wait_pods("v2", 4).await;
    // None at all, and more than before.
    edit_unreviewed(&one, &json!([])).await;
    one.wait("no plan", |rollout| {
        condition(rollout, "Stalled")["reason"] == "InvalidPlan"
    })
    .await;
    let more = json!([{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}, {"replicas": 3, "pause": {}},
        {"replicas": 4, "pause": {}}, {"replicas": "100%"}]);
    edit_unreviewed(&one, &more).await;
    let recovered = one
        .wait("a plan again", |rollout| {
            condition(rollout, "Stalled").is_null() && rollout["status"]["canaryStatus"]["nextStepIndex"] == 2
        })
        .await;
    assert_eq!(
        recovered["status"]["canaryStatus"]["currentStepState"],
        "StepPaused"
    );
    one.wait_pods("v2", 4).await;
    edit_unreviewed(&one, &whole).await;
    one.wait_phase("Healthy").await;
    one.wait_pods("v2", 5).await;

    // The other one has not noticed, and the process is the same.
    let untouched = other.wait_state(2, "StepPaused").await;
    assert_eq!(untouched["status"]["phase"], "Progressing");
    walk_on(&other, "v2", 5).await;
    let log = std::fs::read_to_string(installation.controller_log().unwrap()).unwrap();
    assert!(log.starts_with(&process) && !log.contains("panicked"), "{log}");
}

#[tokio::test]
async fn r25_a_larger_step_releases_more_and_a_later_one_nothing() {
    let scene = Scene::new(installed().await, "r25").await;
    let plan = |first: &str, last: &str| json!([{"replicas": first, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": last, "pause": {}}]);
    let manifest = sized(scene.manifest("v1", Some(0)), 10);
    scene.set_to(&manifest, &plan("20%", "100%")).await;
    scene.set_version("v2").await;
    let first = scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 2).await;
    let gate = Gate::open(&scene).await;

    edit_steps(&scene, &plan("40%", "100%")).await;
    scene.wait_pods("v2", 4).await;
    let again = scene
        .wait("paused at step 1 again", |rollout| {
            let canary = &rollout["status"]["canaryStatus"];
            canary["currentStepState"] == "StepPaused" && canary["canaryReplicas"] == 4
        })
        .await;
    let canary = &again["status"]["canaryStatus"];
    assert_eq!(canary["currentStepIndex"], 1);
    let changed = |rollout: &Value, field: &str| rollout["status"]["canaryStatus"][field].clone();
    assert_ne!(
        changed(&again, "lastUpdateTime"),
        changed(&first, "lastUpdateTime")
    );

    edit_steps(&scene, &plan("40%", "90%")).await;
    let later = scene
        .wait("the plan is known", |rollout| {
            changed(rollout, "rolloutHash") != changed(&again, "rolloutHash")
        })
        .await;
    for field in ["currentStepIndex", "currentStepState", "lastUpdateTime"] {
        assert_eq!(changed(&later, field), changed(&again, field), "{field}");
    }

    jump(&scene, 3).await;
    scene.wait_state(3, "StepPaused").await;
    scene.wait_pods("v2", 9).await;
    jump(&scene, 2).await;
    let back = scene.wait_state(2, "StepPaused").await;
    assert_eq!(changed(&back, "nextStepIndex"), 3);
    let message = back["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("9 of 10 pods are updated: 4 pods more"),
        "{message}"
    );
    scene.wait_pods("v2", 9).await;
    assert_eq!(
        gate.steps("v2").await,
        [(Some(8), 2), (Some(6), 4), (Some(1), 9), (Some(10), 9)]
    );
    walk_on(&scene, "v2", 10).await;
}

#[tokio::test]
async fn r26_a_strategy_without_steps_is_refused() {
    let scene = Scene::new(installed().await, "r26").await;
    scene.create_app(&scene.manifest("v1", Some(0))).await;
    scene.wait_pods("v1", 5).await;
    let strategies = [json!({}), json!({"canary": {}}), json!({"canary": {"steps": []}})];
    for (strategy, version) in strategies.into_iter().zip(["v2", "v3", "v4"]) {
        let mut rollout = scene.rollout_manifest(&json!([]));
        rollout["spec"]["strategy"] = strategy.clone();
        let rollout = serde_json::from_value(rollout).unwrap();
        let rollouts = scene.rollouts(&scene.developer);
        let answer = rollouts.create(&PostParams::default(), &rollout).await;
        match answer {
            Err(kube::Error::Api(status)) => {
                assert!(matches!(status.code, 403 | 422), "{strategy}: {status:?}");
                assert!(status.message.contains("steps"), "{strategy}: {}", status.message);
            }
            other => panic!("{strategy}: {other:?}"),
        }
        // Nobody holds it.
        let free = scene.set_version(version).await;
        assert_eq!(partition(&free), &json!(0));
        scene.wait_pods(version, 5).await;
    }
}
