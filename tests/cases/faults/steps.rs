//! Steps: what is released when people change their minds, and what is told of it.

use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{Identity, Installation, eventually, installed};

use super::fixtures::{approved_steps, sized};
use crate::gate::Gate;
use crate::plugin::kruise;
use crate::restart::own;
use crate::scene::{APP, ROLLOUT, SOON, Scene, assert_free, condition, mark, partition, walk_steps};

const HELD: Option<i64> = Some(names::HOLD_PARTITION);

/// Writes the step to go to next, as people do.
async fn jump(scene: &Scene<'_>, to: i64) {
    let patch = Patch::Merge(json!({"status": {"canaryStatus": {"nextStepIndex": to}}}));
    let rollouts = scene.rollouts(&scene.approver);
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

async fn pause(scene: &Scene<'_>, paused: bool) {
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": paused}}}))
        .await;
}

async fn wait_message(scene: &Scene<'_>, text: &str) -> Value {
    scene
        .wait(&format!("the message {text:?}"), |rollout| {
            let message = rollout["status"]["message"].as_str();
            message.is_some_and(|message| message.contains(text))
        })
        .await
}

/// Scales by the subresource.
async fn scale(scene: &Scene<'_>, replicas: u32) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let apps = scene.apps(&scene.developer);
    apps.patch_scale(APP, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Approves at every pause until the release has ended with so many pods on the version.
async fn walk_on(scene: &Scene<'_>, version: &str, pods: usize) {
    eventually(SOON, "the end of the release", async || {
        let rollout = scene.rollout().await;
        let status = &rollout["status"];
        if status["canaryStatus"]["currentStepState"] == "StepPaused" {
            scene.approve().await;
        }
        if status["phase"] == "Healthy" {
            Ok(())
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
    scene.wait_pods(version, pods).await;
    assert_free(&scene.app().await);
}

async fn wait_rolled_back(scene: &Scene<'_>) -> Value {
    scene
        .wait("rolled back", |rollout| {
            rollout["status"]["phase"] == "Healthy"
                && condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await
}

/// Waits until the pod of step 1 has been made of a version that crashes.
async fn wait_crashing(scene: &Scene<'_>) {
    scene
        .wait_app("step 1", |app| app["status"]["updatedReplicas"] == 1)
        .await;
}

fn parallel(mut manifest: Value) -> Value {
    manifest["spec"]["podManagementPolicy"] = json!("Parallel");
    manifest
}

#[tokio::test]
async fn r03_after_a_rollback_nothing_claims_a_pause() {
    let scene = Scene::new(installed().await, "r03").await;
    let manifest = parallel(scene.manifest("v1", Some(0)));
    scene.set_to(&manifest, &walk_steps()).await;
    scene.set_version("bad").await;
    scene.wait_state(1, "StepUpgrade").await;
    wait_crashing(&scene).await;
    scene.set_version("v1").await;
    let done = wait_rolled_back(&scene).await;
    let status = &done["status"];
    let canary = &status["canaryStatus"];
    assert_eq!(
        (&status["currentStepState"], &canary["currentStepState"]),
        (&json!("Completed"), &json!("Completed"))
    );
    assert_eq!(
        (&status["currentStepIndex"], &canary["currentStepIndex"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(canary["nextStepIndex"], -1);
    // What is counted are pods of the stable revision.
    assert_eq!(canary["canaryRevision"], canary["stableRevision"]);
    assert_eq!(canary["podTemplateHash"], canary["stableRevision"]);
    assert_eq!(
        scene.app().await["status"]["updateRevision"],
        canary["stableRevision"]
    );
    for message in [&status["message"], &canary["message"]] {
        assert!(!message.as_str().unwrap().contains("approv"), "{message}");
    }
    let target = format!("rollout/{ROLLOUT}");
    let said = kruise(&scene, Identity::Approver, &["rollout", "approve", &target]).await;
    assert_eq!(said.code, 1, "{}", said.answer);
    assert!(said.talk.contains("no release is in progress"), "{}", said.talk);

    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 1).await;
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

#[tokio::test]
async fn r20_a_newer_release_starts_at_the_first_step_and_goes_back_to_the_stable_one() {
    let scene = Scene::new(installed().await, "r20").await;
    scene.set(Some(0), &approved_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v3").await;
    let second = scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v3", 1).await, ["my-app-4"]);
    assert_eq!(scene.wait_pods("v2", 2).await, ["my-app-2", "my-app-3"]);
    let second = &second["status"]["canaryStatus"];

    // A restart, as `kubectl rollout restart` writes it, is a release like any other.
    let restart =
        json!({"spec": {"template": {"metadata": {"annotations": {"example.io/restarted": "now"}}}}});
    let held = scene.patch_app(restart).await;
    assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
    scene
        .wait("step 1 of the restart", |rollout| {
            let canary = &rollout["status"]["canaryStatus"];
            canary["currentStepState"] == "StepPaused" && canary["templateId"] != second["templateId"]
        })
        .await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(
        gate.steps("v3").await,
        [
            (Some(2), 0),
            (HELD, 0),
            (Some(4), 1),
            (HELD, 1),
            (Some(4), 1),
            (Some(2), 3)
        ]
    );
    let target = format!("rollout/{ROLLOUT}");
    let undone = kruise(
        &scene,
        Identity::Developer,
        &["rollout", "undo", &target, "--yes"],
    )
    .await;
    assert_eq!(undone.code, 0, "{}", undone.talk);
    wait_rolled_back(&scene).await;
    scene.wait_pods("v1", 5).await;
}

#[tokio::test]
async fn r20_a_newer_release_overtakes_one_that_crashes() {
    let scene = Scene::new(installed().await, "r20-bad").await;
    let manifest = parallel(scene.manifest("v1", Some(0)));
    scene.set_to(&manifest, &approved_steps()).await;
    scene.set_version("bad").await;
    wait_crashing(&scene).await;
    scene.wait_state(1, "StepUpgrade").await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v3", 1).await, ["my-app-4"]);
    walk_on(&scene, "v3", 5).await;
    gate.within_grants("v3").await;
}

/// The controller stops to write until the lease is given back; its webhook goes on.
async fn take_the_lease(scene: &Scene<'_>, installation: &Installation<'_>) {
    const LOST: &str = "Somebody else holds the lease.";
    let losses = || {
        let log = std::fs::read_to_string(installation.controller_log().unwrap()).unwrap();
        log.matches(LOST).count()
    };
    let before = losses();
    give_the_lease_to(scene, "somebody").await;
    eventually(SOON, "the controller has lost its lease", async || {
        if losses() > before {
            Ok(())
        } else {
            Err("it writes")
        }
    })
    .await;
    // It may take it when nothing has changed it for its whole time: that begins anew here.
    give_the_lease_to(scene, "somebody-else").await;
}

async fn give_the_lease_to(scene: &Scene<'_>, holder: &str) {
    let leases: Api<Lease> = Api::namespaced(scene.admin.clone(), names::DEFAULT_NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": holder}}));
    leases
        .patch(names::CONTROLLER, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn r21_edited_and_put_back_before_the_controller_acts() {
    let installation = own().await;
    let scene = Scene::new(&installation, "r21").await;
    let mut manifest = scene.manifest("v1", Some(2));
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = env.clone();
    scene.set_to(&manifest, &walk_steps()).await;
    let uids = async || -> Vec<_> {
        let pods = scene.all_pods().list(&Default::default()).await.unwrap();
        pods.items.into_iter().map(|pod| pod.metadata.uid).collect()
    };
    let before = uids().await;
    let template = |container: Value| json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let image = |version: &str| format!("my-registry/my-app:{version}");
    let v1 = template(json!({"name": "app", "image": image("v1"), "env": env}));
    let swapped = json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]);
    for change in [
        template(json!({"name": "app", "image": image("v2"), "env": env})),
        template(json!({"name": "app", "image": image("v1"), "env": swapped})),
    ] {
        take_the_lease(&scene, &installation).await;
        let held = scene.patch_app(change).await;
        assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
        scene.patch_app(v1.clone()).await;
        give_the_lease_to(&scene, "").await;
        let free = scene
            .wait_app("handed back", |app| mark(app, names::IN_PROGRESSING).is_null())
            .await;
        assert_free(&free);
        assert_eq!(partition(&free), &json!(2));
        let rollout = scene.wait_phase("Healthy").await;
        assert_eq!(rollout["status"]["canaryStatus"]["currentStepState"], "Completed");
    }
    // Outside the template nothing is held at all.
    let labelled = scene
        .patch_app(json!({"metadata": {"labels": {"tier": "web"}}}))
        .await;
    assert_eq!(partition(&labelled), &json!(2));
    assert!(mark(&labelled, names::IN_PROGRESSING).is_null());
    assert_eq!(uids().await, before);
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
    let installation = own().await;
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

#[tokio::test]
async fn r45_pausing_stops_no_scaling() {
    let scene = Scene::new(installed().await, "r45").await;
    let steps =
        json!([{"replicas": "20%", "pause": {}}, {"replicas": "60%", "pause": {}}, {"replicas": "100%"}]);
    scene
        .set_to(&sized(scene.manifest("v1", Some(0)), 10), &steps)
        .await;
    scene.set_version("v2-slow-2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_app("step 2", |app| partition(app) == &json!(4)).await;
    pause(&scene, true).await;
    let told = wait_message(&scene, "paused by spec.strategy.paused").await;
    assert_eq!(condition(&told, "Progressing")["reason"], "Paused");
    let gate = Gate::open(&scene).await;

    scale(&scene, 14).await;
    scene
        .wait_app("the grant for 14", |app| {
            partition(app).as_i64() >= Some(5)
                && mark(app, names::GRANTED_PARTITION).as_str() == Some(&partition(app).to_string())
        })
        .await;
    scene
        .wait_app("14 pods", |app| app["status"]["readyReplicas"] == 14)
        .await;
    // What came above the partition before it could be raised is counted, not hidden.
    let counted = scene
        .pods()
        .await
        .iter()
        .filter(|pod| pod.1 == "v2-slow-2")
        .count();
    assert_eq!(scene.app().await["status"]["updatedReplicas"], counted);
    scale(&scene, 8).await;
    scene
        .wait_app("8 pods", |app| {
            app["status"]["replicas"] == 8 && app["status"]["readyReplicas"] == 8
        })
        .await;
    let partitions: Vec<_> = gate
        .steps("v2-slow-2")
        .await
        .into_iter()
        .map(|step| step.0)
        .collect();
    assert_eq!(partitions.first(), Some(&Some(4)));
    assert!(partitions.is_sorted(), "lowered while paused: {partitions:?}");

    pause(&scene, false).await;
    scene.wait_state(2, "StepPaused").await;
    walk_on(&scene, "v2-slow-2", 8).await;
}

#[tokio::test]
async fn r46_forms_of_a_pause_and_a_timed_one_across_a_restart() {
    const SECONDS: i64 = 6;
    let mut installation = own().await;
    let scene = Scene::new(&installation, "r46").await;
    let steps = json!([
        {"replicas": 1},
        {"replicas": 2, "pause": {}},
        {"replicas": 3, "pause": {"duration": 0}},
        {"replicas": 4, "pause": {"duration": SECONDS}},
        {"replicas": "100%"}
    ]);
    scene.set(Some(0), &steps).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    for step in [1, 2] {
        scene.wait_state(step, "StepPaused").await;
        wait_message(&scene, "waiting for approval").await;
        scene.approve().await;
    }
    let paused = scene.wait_state(4, "StepPaused").await;
    let told = format!("goes on after {SECONDS} s");
    assert!(
        paused["status"]["message"].as_str().unwrap().contains(&told),
        "{paused:#}"
    );
    installation.kill_controller();
    let target = format!("rollout/{ROLLOUT}");
    let shown = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "status", &target, "--watch=false", "-o", "json"],
    )
    .await;
    let report: Value = serde_json::from_str(&shown.answer).unwrap();
    assert_eq!(
        (&report["pause"]["for"], &report["pause"]["seconds"]),
        (&json!("time"), &json!(SECONDS))
    );
    let time = |rollout: &Value| -> Timestamp {
        let time = rollout["status"]["canaryStatus"]["lastUpdateTime"].as_str();
        time.unwrap().parse().unwrap()
    };
    let due = time(&paused) + SignedDuration::from_secs(SECONDS);
    eventually(SOON, "the last second of the pause", async || {
        let left = due.duration_since(Timestamp::now());
        if left <= SignedDuration::from_secs(1) {
            Ok(())
        } else {
            Err(format!("{left:#} are left"))
        }
    })
    .await;
    let restarted = scene.rollout().await;
    assert_eq!(
        restarted["status"]["canaryStatus"]["currentStepState"],
        "StepPaused"
    );
    installation.start_controller().await.unwrap();

    let done = scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    // The pause was neither cut short nor begun anew.
    let late = time(&done).duration_since(due).as_secs();
    assert!((0..SECONDS - 1).contains(&late), "{late} s too late");
    let each = [
        (Some(4), 1),
        (Some(3), 2),
        (Some(2), 3),
        (Some(1), 4),
        (Some(0), 5),
    ];
    assert_eq!(
        gate.steps("v2").await,
        [&[(Some(0), 0), (HELD, 0)], &each[..]].concat()
    );
}
