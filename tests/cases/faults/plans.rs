//! Plans as people write them: what is refused, and what odd ones mean.

use futures::future::join;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use super::fixtures::sized;
use crate::gate::Gate;
use crate::ground::Ground;
use crate::scene::{SOON, Scene, condition, partition};

/// What the API server answers to a Rollout with these steps: nothing, or the refusal.
async fn reviewed(scene: &Scene<'_>, steps: &Value) -> Result<(), String> {
    let manifest = serde_json::from_value(scene.rollout_manifest(steps)).unwrap();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match scene.untyped_rollouts().create(&params, &manifest).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{status:?}");
            Err(status.message)
        }
        Err(error) => panic!("{error}"),
    }
}

/// A step larger than the workload means all of it.
async fn larger_than_the_workload() {
    let scene = Scene::new(installed().await, "r18-large").await;
    let steps = json!([{"replicas": 2, "pause": {}}, {"replicas": 400, "pause": {}}]);
    scene.set(None, &steps).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(partition(&scene.app().await), 3);
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2", 5).await;
}

/// A share that is fewer pods than the number before it moves nothing, and the Rollout says so.
async fn smaller_than_the_step_before() {
    let scene = Scene::new(installed().await, "r18-mixed").await;
    let steps = json!([{"replicas": 4, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}]);
    scene.set(None, &steps).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    let paused = scene.wait_state(2, "StepPaused").await;
    let message = paused["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("4 of 5 pods") && message.contains("steps never go back"),
        "{message}"
    );
    scene.approve().await;
    scene.wait_released().await;
    let partitions: Vec<_> = gate.steps("v2").await.into_iter().map(|(p, _)| p).collect();
    assert_eq!(partitions, [None, Some(32_767), Some(1), Some(0), None]);
}

#[tokio::test]
async fn r18_steps_above_a_hundred_pods_and_above_all_of_them() {
    let scene = Scene::new(installed().await, "r18").await;
    for steps in [
        json!([{"replicas": 150}, {"replicas": "100%"}]),
        json!([{"replicas": 150}, {"replicas": 400}]),
        json!([{"replicas": 10}, {"replicas": "50%"}, {"replicas": "100%"}]),
    ] {
        assert_eq!(reviewed(&scene, &steps).await, Ok(()), "{steps}");
    }
    join(larger_than_the_workload(), smaller_than_the_step_before()).await;
}

/// Amounts that are none, and what the refusal says of them.
fn bad_amounts() -> Vec<(Value, &'static str)> {
    vec![
        (json!("3"), "Write 3 for a number of pods"),
        (json!("abc"), "neither a whole number nor a percentage"),
        (json!("abc%"), "neither a whole number nor a percentage"),
        (json!("-10%"), "neither a whole number nor a percentage"),
        (json!("33.5%"), "neither a whole number nor a percentage"),
        (json!("10 %"), "\"10%\" for a share"),
        (json!(-1), "at least one pod"),
        (json!(0), "at least one pod"),
        (json!("0%"), "more than none"),
        (json!("150%"), "at most all"),
        (json!(1.5), "must be of type"),
        (json!([1]), "must be of type"),
        (json!(true), "must be of type"),
    ]
}

#[tokio::test]
async fn r19_amounts_that_are_none_are_refused() {
    let scene = Scene::new(installed().await, "r19").await;
    for (amount, rule) in bad_amounts() {
        let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": amount}]);
        let refusal = reviewed(&scene, &steps).await.unwrap_err();
        assert!(
            refusal.contains("spec.strategy.canary.steps[1].replicas") && refusal.contains(rule),
            "{amount}: {refusal}"
        );
    }
    let decreasing = json!([{"replicas": "50%"}, {"replicas": "20%"}]);
    let refusal = reviewed(&scene, &decreasing).await.unwrap_err();
    assert!(
        refusal.contains("spec.strategy.canary.steps[1].replicas") && refusal.contains("\"50%\""),
        "{refusal}"
    );
}

/// Creates a Rollout with these steps and this name; the refusal otherwise.
async fn create(scene: &Scene<'_>, name: &str, workload: &str, amount: &Value) -> Result<(), String> {
    let mut manifest = scene.rollout_manifest(&json!([{"replicas": amount}, {"replicas": "100%"}]));
    manifest["metadata"]["name"] = json!(name);
    manifest["spec"]["workloadRef"]["name"] = json!(workload);
    let rollout = serde_json::from_value(manifest).unwrap();
    let created = scene
        .untyped_rollouts()
        .create(&PostParams::default(), &rollout)
        .await;
    created.map(drop).map_err(|error| error.to_string())
}

/// Where validation was not there, the schema refuses what is of another type, and the controller touches nothing for the rest.
#[tokio::test]
async fn r19_amounts_that_were_never_reviewed() {
    let mut installation = Ground::with_controller().await;
    let scene = Scene::new(&installation, "r19-unseen").await;
    let reviews: Api<ValidatingWebhookConfiguration> = Api::all(scene.admin.clone());
    let name = names::WEBHOOK_CONFIGURATION;
    eventually(SOON, "reviews are registered", async || {
        reviews.get(name).await.map_err(|error| error.to_string())
    })
    .await;
    installation.kill_controller();
    reviews.delete(name, &DeleteParams::default()).await.unwrap();
    let mut stored = Vec::new();
    for (number, (amount, rule)) in bad_amounts().into_iter().enumerate() {
        let (rollout, workload) = (format!("bad-{number}"), format!("app-{number}"));
        let mut manifest = sized(scene.manifest("v1", None), 1);
        manifest["metadata"]["name"] = json!(workload);
        let wrong_type = rule == "must be of type";
        let created = eventually(SOON, "no review is in force", async || {
            match create(&scene, &rollout, &workload, &amount).await {
                Err(refusal) if refusal.contains(names::REVIEW_WEBHOOK) => Err(refusal),
                other => Ok(other),
            }
        })
        .await;
        assert_eq!(created.is_err(), wrong_type, "{amount}: {created:?}");
        if !wrong_type && amount != json!(0) && amount != json!("0%") {
            scene.create_app(&manifest).await;
            stored.push((rollout, workload, amount));
        }
    }
    installation.start_controller().await.unwrap();
    for (rollout, workload, amount) in stored {
        eventually(SOON, &format!("{amount} is named"), async || {
            let rollout = scene.rollouts(&scene.admin).get(&rollout).await.unwrap();
            let rollout = serde_json::to_value(rollout).unwrap();
            let stalled = condition(&rollout, "Stalled");
            let message = stalled["message"].as_str().unwrap_or_default();
            if stalled["reason"] == "InvalidPlan" && message.contains("steps[0].replicas") {
                Ok(())
            } else {
                Err(format!("{:#}", rollout["status"]))
            }
        })
        .await;
        let app = scene.apps(&scene.admin).get(&workload).await.unwrap();
        assert_eq!(app.metadata.annotations, None, "{amount}");
        assert_eq!(app.metadata.generation, Some(1), "{amount}");
    }
}
