//! What tools that judge by kstatus and by conditions make of a Rollout.

use std::sync::{Arc, Mutex};

use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use support::{eventually, installed};
use tokio::task::JoinSet;

use crate::changes::follow;
use crate::ground::{Ground, without_reviews};
use crate::scene::{ROLLOUT, SOON, Scene, condition, walk_steps};

/// The generic rules of kstatus, in their order.
fn kstatus(rollout: &Value) -> &'static str {
    let observed = &rollout["status"]["observedGeneration"];
    let holds = |type_: &str| condition(rollout, type_)["status"] == "True";
    if !observed.is_null() && *observed != rollout["metadata"]["generation"] {
        "InProgress"
    } else if holds("Stalled") {
        "Failed"
    } else if holds("Reconciling")
        || ["False", "Unknown"]
            .map(Value::from)
            .contains(&condition(rollout, "Ready")["status"])
    {
        "InProgress"
    } else {
        "Current"
    }
}

/// Every state of a namespace's Rollouts, from now on.
async fn record(scene: &Scene<'_>, watches: &mut JoinSet<()>) -> Arc<Mutex<Vec<Value>>> {
    let rollouts = scene.untyped_rollouts();
    let list = rollouts.list(&ListParams::default()).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    watches.spawn({
        let seen = seen.clone();
        async move {
            let note = |rollout: &DynamicObject, _| {
                seen.lock().unwrap().push(serde_json::to_value(rollout).unwrap());
            };
            let failure = follow(rollouts, list.metadata.resource_version.unwrap(), note).await;
            panic!("the watch has a gap: {failure}");
        }
    });
    seen
}

/// Waits until a recorded state satisfies the condition, and gives all of them.
async fn recorded(seen: &Mutex<Vec<Value>>, what: &str, reached: impl Fn(&Value) -> bool) -> Vec<Value> {
    eventually(SOON, what, async || {
        let seen = seen.lock().unwrap().clone();
        match seen.iter().any(&reached) {
            true => Ok(seen),
            false => Err(format!("{:#}", seen.last().unwrap_or(&Value::Null)["status"])),
        }
    })
    .await
}

fn is_up_to_date(rollout: &Value) -> bool {
    rollout["status"]["observedGeneration"] == rollout["metadata"]["generation"]
}

/// Created and edited while no controller runs, nothing is taken for done before one has looked at it.
#[tokio::test]
async fn r88_what_nobody_has_looked_at_is_not_done() {
    let mut installation = Ground::with_controller().await;
    let edited = Scene::new(&installation, "r88-edited").await;
    edited.set(Some(0), &walk_steps()).await;
    assert_eq!(kstatus(&edited.rollout().await), "Current");
    let created = Scene::new(&installation, "r88-created").await;
    created.create_app(&created.manifest("v1", Some(0))).await;
    created.wait_pods("v1", 5).await;
    let mut watches = JoinSet::new();
    let states = [
        record(&edited, &mut watches).await,
        record(&created, &mut watches).await,
    ];

    installation.kill_controller();
    // Nobody reviews what is written meanwhile; the controller brings the registration back.
    without_reviews(&installation).await;
    let disabled = json!({"spec": {"disabled": true}});
    let rollouts = edited.rollouts(&edited.developer);
    eventually(SOON, "the edit gets through", async || {
        let patch = kube::api::Patch::Merge(&disabled);
        let answer = rollouts
            .patch(ROLLOUT, &kube::api::PatchParams::default(), &patch)
            .await;
        answer.map(drop).map_err(|error| error.to_string())
    })
    .await;
    created.create_rollout(&walk_steps()).await;
    let stale = edited.rollout().await;
    assert_eq!(
        (kstatus(&stale), stale["status"]["phase"].as_str()),
        ("InProgress", Some("Healthy"))
    );
    let unseen = created.rollout().await;
    assert_eq!(
        (kstatus(&unseen), &unseen["status"]["observedGeneration"]),
        ("InProgress", &json!(-1))
    );

    installation.start_controller().await.unwrap();
    let [edited, created] = &states;
    let over = recorded(edited, "disabled", |rollout| {
        rollout["status"]["phase"] == "Disabled"
    })
    .await;
    for rollout in over
        .iter()
        .filter(|rollout| rollout["spec"]["disabled"] == true && is_up_to_date(rollout))
    {
        let phase = rollout["status"]["phase"].as_str().unwrap();
        assert!(["Disabling", "Disabled"].contains(&phase), "{rollout:#}");
        assert_eq!(condition(rollout, "Ready")["status"], "False", "{rollout:#}");
    }
    let begun = recorded(created, "healthy", |rollout| {
        rollout["status"]["phase"] == "Healthy"
    })
    .await;
    for rollout in &begun {
        let done =
            rollout["status"]["phase"] == "Healthy" && condition(rollout, "Guarded")["status"] == "True";
        assert!(done || kstatus(rollout) != "Current", "{rollout:#}");
    }
    assert_eq!(kstatus(begun.last().unwrap()), "Current");
}

/// In every state that a release has, conditions tell whether it works, waits for somebody, was stopped, or is over.
#[tokio::test]
async fn r88_conditions_tell_work_from_waiting_and_from_the_end() {
    let scene = Scene::new(installed().await, "r88-conditions").await;
    scene.set(Some(0), &walk_steps()).await;
    let mut watches = JoinSet::new();
    let states = record(&scene, &mut watches).await;
    let is = |rollout: &Value, verdict: &str, reason: &str| {
        is_up_to_date(rollout)
            && kstatus(rollout) == verdict
            && condition(rollout, "Ready")["reason"] == reason
    };
    scene.set_version("v2").await;
    scene
        .wait("waiting", |rollout| is(rollout, "InProgress", "StepPaused"))
        .await;
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": true}}}))
        .await;
    scene
        .wait("stopped", |rollout| is(rollout, "InProgress", "Paused"))
        .await;
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": false}}}))
        .await;
    scene
        .wait("waiting again", |rollout| is(rollout, "InProgress", "StepPaused"))
        .await;
    scene.approve().await;
    let done = recorded(&states, "the end", |rollout| {
        condition(rollout, "Succeeded")["status"] == "True"
    })
    .await;
    assert!(
        done.iter()
            .any(|rollout| is(rollout, "InProgress", "StepUpgrade"))
    );
    assert!(
        is(done.last().unwrap(), "Current", "Healthy"),
        "{:#}",
        done.last().unwrap()
    );
    // Nothing that is taken for done has a release in progress.
    for rollout in done.iter().filter(|rollout| kstatus(rollout) == "Current") {
        assert_eq!(rollout["status"]["phase"], "Healthy", "{rollout:#}");
    }

    // A template that cannot be carried out: said to have failed once its deadline has passed.
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"canary": {"progressDeadlineSeconds": 1}}}}))
        .await;
    scene.set_version("bad").await;
    scene
        .wait("failed", |rollout| is(rollout, "Failed", "StepUpgrade"))
        .await;
    scene.set_version("v2").await;
    scene
        .wait("healthy again", |rollout| is(rollout, "Current", "Healthy"))
        .await;
}
