//! States in which nothing is to be released: at rest, disabled, being deleted, and what is not carried out at all.

use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{Installation, eventually};

use super::left::{Left, STEP_1, define_batch_releases, is_tidy, nothing_registered};
use crate::gate::Gate;
use crate::ground::{Ground, called, finish};
use crate::scene::{ROLLOUT, SOON, Scene, assert_free, condition, mark, partition};

const AT_REST: Left = Left {
    version: "v1",
    partition: None,
    marks: (false, false),
    phase: "Healthy",
    reason: "Completed",
    step: 3,
    state: "Completed",
    releases: "v1",
};
const DISABLED: Left = Left {
    phase: "Disabled",
    ..AT_REST
};
/// Its admission held a change just before it was disabled, and nobody has taken that back.
const DISABLED_AND_HELD: Left = Left {
    version: "v2",
    partition: Some(names::HOLD_PARTITION),
    marks: (true, false),
    ..DISABLED
};
const DISABLING: Left = Left {
    phase: "Disabling",
    ..STEP_1
};
const TERMINATING: Left = Left {
    phase: "Terminating",
    ..STEP_1
};

/// A merge patch of the Rollout while nobody reviews it.
async fn patch(scene: &Scene<'_>, patch: &Value) {
    let rollouts = scene.rollouts(&scene.admin);
    rollouts
        .patch(ROLLOUT, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn is_gone(scene: &Scene<'_>) {
    eventually(SOON, "the Rollout is gone", async || {
        match scene.rollouts(&scene.admin).get_opt(ROLLOUT).await.unwrap() {
            None => Ok(()),
            Some(rollout) => Err(format!("{rollout:?}")),
        }
    })
    .await;
}

async fn rests(scene: &Scene<'_>, _: &Gate) {
    scene
        .wait("guarded", |rollout| {
            condition(rollout, "Guarded")["status"] == "True"
        })
        .await;
    is_tidy(scene).await;
    assert_eq!(partition(&scene.app().await), &Value::Null);
    assert_eq!(partition(&scene.set_version("v2").await), names::HOLD_PARTITION);
    scene.wait_state(1, "StepPaused").await;
    finish(scene, "v2").await;
}

async fn stays_disabled(scene: &Scene<'_>, _: &Gate) {
    is_tidy(scene).await;
    assert_eq!(scene.wait_phase("Disabled").await["spec"]["disabled"], true);
    assert_free(&scene.app().await);
    scene.set_version("v3").await;
    scene.wait_pods("v3", 5).await;
}

async fn releases_the_rest(scene: &Scene<'_>, _: &Gate) {
    scene.wait_phase("Disabled").await;
    is_tidy(scene).await;
    scene.wait_pods("v2", 5).await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(
        (partition(&app), mark(&app, names::GUARDED_BY)),
        (&json!(0), &Value::Null)
    );
}

async fn is_deleted(scene: &Scene<'_>, _: &Gate) {
    is_gone(scene).await;
    is_tidy(scene).await;
    scene.wait_pods("v2", 5).await;
    assert_free(&scene.app().await);
}

/// Both the Rollout and the object of the release have finalizers that nobody else removes.
async fn goes_with_its_namespace(scene: &Scene<'_>, _: &Gate) {
    let namespaces: Api<Namespace> = Api::all(scene.admin.clone());
    let name = scene.namespace.name();
    namespaces.delete(name, &DeleteParams::default()).await.unwrap();
    eventually(SOON, "the namespace is gone", async || {
        match namespaces.get_opt(name).await.unwrap() {
            None => Ok(()),
            Some(namespace) => Err(format!("{:?}", namespace.status)),
        }
    })
    .await;
}

async fn is_refused(scene: &Scene<'_>, gate: &Gate) {
    let refused = scene
        .wait("refused", |rollout| {
            condition(rollout, "Stalled")["status"] == "True"
        })
        .await;
    let message = condition(&refused, "Stalled")["message"].as_str().unwrap();
    assert!(
        message.contains("trafficRoutings is not supported: remove it"),
        "{message}"
    );
    assert_eq!(
        (refused["status"]["phase"].as_str(), gate.most("v2").await),
        (Some("Progressing"), 1)
    );
    // As it says. The list of traffic is the only thing that stands in the way.
    patch(
        scene,
        &json!({"spec": {"strategy": {"canary": {"trafficRoutings": null}}}}),
    )
    .await;
    scene
        .wait("goes on", |rollout| {
            condition(rollout, "Guarded")["status"] == "True"
        })
        .await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(gate.most("v2").await, 1);
    finish(scene, "v2").await;
    is_tidy(scene).await;
}

async fn case<'a>(ground: &Installation<'a>, name: &str, left: Left, spec: Value) -> (Scene<'a>, Gate) {
    let scene = Scene::new(ground, &format!("from-{name}")).await;
    left.in_scene(&scene).await;
    patch(&scene, &json!({ "spec": spec })).await;
    let gate = Gate::open(&scene).await;
    (scene, gate)
}

#[tokio::test]
async fn states_in_which_nothing_is_to_be_released() {
    let mut ground = Ground::take().await;
    nothing_registered(&ground).await;
    define_batch_releases(&ground).await;
    let traffic = json!([{"service": "web", "ingress": {"name": "web"}}]);
    let wanted = [
        ("rest", AT_REST, json!({})),
        ("disabled", DISABLED, json!({"disabled": true})),
        ("leak", DISABLED_AND_HELD, json!({"disabled": true})),
        ("disabling", DISABLING, json!({"disabled": true})),
        ("terminating", TERMINATING, json!({})),
        ("namespace", STEP_1, json!({})),
        (
            "traffic",
            STEP_1,
            json!({"strategy": {"canary": {"trafficRoutings": traffic}}}),
        ),
    ];
    let made = wanted.map(|(name, left, spec)| case(&ground, name, left, spec));
    let scenes = join_all(made).await;
    scenes[4]
        .0
        .rollouts(&scenes[4].0.admin)
        .delete(ROLLOUT, &DeleteParams::default())
        .await
        .unwrap();
    ground.start_controller().await.unwrap();
    called(&ground).await;
    let [rest, disabled, leak, disabling, terminating, namespace, traffic] = &scenes[..] else {
        panic!("{} scenes", scenes.len())
    };
    rests(&rest.0, &rest.1).await;
    stays_disabled(&disabled.0, &disabled.1).await;
    releases_the_rest(&leak.0, &leak.1).await;
    releases_the_rest(&disabling.0, &disabling.1).await;
    is_deleted(&terminating.0, &terminating.1).await;
    goes_with_its_namespace(&namespace.0, &namespace.1).await;
    is_refused(&traffic.0, &traffic.1).await;
}
