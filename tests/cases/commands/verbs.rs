//! Each verb has its effect.

use kruise_rollout::names;
use serde_json::{Value, json};
use support::{Identity, installed};

use super::{done, refused, run};
use crate::plugin::kruise;
use crate::scene::{APP, Scene, condition, mark, partition, walk_steps};

/// An approval, a long time, an approval.
fn steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {"duration": 3600}}, {"replicas": 3, "pause": {}},
        {"replicas": "100%"}])
}

#[tokio::test]
async fn a_release_is_steered() {
    use Identity::{Admin, Approver, Developer};
    let scene = Scene::new(installed().await, "steered").await;
    scene.set(None, &steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    // Paused by a person, which an approval does not lift.
    done(&scene, Developer, "pause", &[]).await;
    let again = done(&scene, Developer, "pause", &[]).await;
    assert!(again.answer.ends_with("already paused\n"), "{again:?}");
    refused(&scene, Approver, "approve", &[], "kubectl kruise rollout resume").await;
    done(&scene, Developer, "resume", &[]).await;
    refused(&scene, Developer, "resume", &[], "--step 1").await;

    done(
        &scene,
        Approver,
        "approve",
        &["--step=1", "--wait", "--timeout=60s"],
    )
    .await;
    scene.wait_state(2, "StepPaused").await;
    // A second approval does not end the timed pause that has begun.
    let second = done(&scene, Approver, "approve", &[]).await;
    assert!(
        second.answer.ends_with("unchanged\n") && second.talk.contains("3600 s"),
        "{second:?}"
    );
    let late = done(&scene, Approver, "approve", &["--step=1"]).await;
    assert!(late.talk.contains("step 1 is behind"), "{late:?}");
    scene.wait_state(2, "StepPaused").await;
    done(
        &scene,
        Approver,
        "approve",
        &["--skip-timer", "--wait=paused", "--timeout=60s"],
    )
    .await;
    let canary = &scene.rollout().await["status"]["canaryStatus"];
    assert_eq!(
        (&canary["currentStepIndex"], &canary["currentStepState"]),
        (&json!(3), &json!("StepPaused"))
    );

    // Approvers may not jump here.
    refused(&scene, Approver, "jump", &["--step=1"], "--approvers-may-jump").await;
    let back = done(&scene, Admin, "jump", &["--step=1"]).await;
    assert!(back.talk.contains("stay so"), "{back:?}");
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    refused(
        &scene,
        Admin,
        "jump",
        &["--step=1"],
        "--force takes the step again",
    )
    .await;
    refused(&scene, Admin, "jump", &["--step=5"], "possible are 1 to 4").await;
    done(&scene, Admin, "retry", &[]).await;
    scene.wait_state(1, "StepPaused").await;

    // To the end, by approvals where jumps are not allowed.
    let full = done(&scene, Approver, "promote", &["--full", "--yes", "--timeout=60s"]).await;
    assert!(full.talk.contains("you may not jump here"), "{full:?}");
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;

    // And by a jump where they are.
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    done(&scene, Admin, "promote", &["--full", "--yes", "--timeout=60s"]).await;
    scene.wait_pods("v3", 5).await;
    refused(&scene, Approver, "promote", &[], "no release is in progress").await;
}

#[tokio::test]
async fn a_restart_is_held_and_goes_by_steps() {
    let scene = Scene::new(installed().await, "restarted").await;
    scene.set(Some(0), &steps()).await;
    let workload = format!("mystatefulapps.example.io/{APP}");
    let arguments = ["rollout", "restart", &workload];
    let said = kruise(&scene, Identity::Developer, &arguments).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.answer, format!("mystatefulapp.example.io/{APP} restarted\n"));
    scene.wait_state(1, "StepPaused").await;
    let app = scene.app().await;
    assert_eq!(partition(&app), 4);
    let annotations = &app["spec"]["template"]["metadata"]["annotations"];
    assert!(annotations[names::RESTARTED_AT].is_string(), "{annotations}");
    let again = kruise(&scene, Identity::Developer, &arguments).await;
    assert!(
        again.code == 1 && again.talk.contains("a release is in progress"),
        "{again:?}"
    );
    assert_eq!(scene.app().await["spec"], app["spec"]);

    let aborted = done(
        &scene,
        Identity::Developer,
        "abort",
        &["--yes", "--wait", "--timeout=60s"],
    )
    .await;
    assert!(
        aborted.answer.contains("rolled back to revision 1"),
        "{aborted:?}"
    );
    assert_eq!(
        condition(&scene.rollout().await, "Succeeded")["reason"],
        "RolledBack"
    );
    assert_eq!(
        scene.app().await["spec"]["template"]["metadata"]["annotations"],
        Value::Null
    );
    refused(
        &scene,
        Identity::Developer,
        "abort",
        &["--yes"],
        "no release is in progress",
    )
    .await;
}

#[tokio::test]
async fn a_rollout_is_switched_off_and_on() {
    let scene = Scene::new(installed().await, "switched").await;
    scene.set(Some(0), &steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    refused(&scene, Identity::Developer, "disable", &[], "confirm with --yes").await;
    scene.wait_state(1, "StepPaused").await;
    done(&scene, Identity::Developer, "disable", &["--yes"]).await;
    scene.wait_phase("Disabled").await;
    scene.wait_pods("v2", 5).await;
    refused(
        &scene,
        Identity::Developer,
        "restart",
        &[],
        "the Rollout is not in force",
    )
    .await;
    done(&scene, Identity::Developer, "enable", &[]).await;
    scene.wait_phase("Healthy").await;
    let again = done(&scene, Identity::Developer, "enable", &[]).await;
    assert!(again.answer.ends_with("already enabled\n"), "{again:?}");
}

/// Everything of a namespace, and what may not be written is told with a role.
#[tokio::test]
async fn many_are_approved_at_once() {
    let scene = Scene::new(installed().await, "selected").await;
    scene.set(Some(0), &walk_steps()).await;
    let nothing = kruise(&scene, Identity::Approver, &["rollout", "approve", "--all"]).await;
    assert!(
        nothing.code == 0 && nothing.talk.contains("No rollouts wait for an approval"),
        "{nothing:?}"
    );
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let denied = run(&scene, Identity::Developer, "approve", &[]).await;
    assert!(
        denied.code == 1
            && denied
                .talk
                .contains("resources: [rollouts/status], verbs: [patch]"),
        "{denied:?}"
    );
    let arguments = [
        "rollout",
        "approve",
        "--all",
        "--yes",
        "--reason=looks good",
        "--wait=healthy",
        "--timeout=60s",
    ];
    let approved = kruise(&scene, Identity::Approver, &arguments).await;
    assert_eq!(approved.code, 0, "{approved:?}");
    assert!(
        approved.talk.contains("the reason is not recorded"),
        "{approved:?}"
    );
    scene.wait_pods("v2", 5).await;
    // Who may write the Rollout too leaves the reason there.
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    done(
        &scene,
        Identity::Admin,
        "approve",
        &["--reason=looks good", "--wait"],
    )
    .await;
    let rollout = scene.rollout().await;
    assert_eq!(mark(&rollout, names::APPROVED_REASON), "looks good");
    assert_eq!(mark(&rollout, names::APPROVED_BY), Identity::Admin.user());
    assert_eq!(mark(&rollout, names::APPROVED_STEP), "1");
}
