//! Deployments that are asked for what is rare.

use serde_json::json;
use support::Identity;

use super::*;
use crate::ground::{Dice, finish};

/// Scaled all the time, overtaken, and with a controller that dies again and again.
#[tokio::test]
async fn scaled_and_overtaken_while_the_controller_dies() {
    let mut ground = Ground::with_controller().await;
    let subject = subject_on(&ground, "storm2", rolling(json!(1), json!(1))).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    let mut dice = Dice::new(7);
    for version in ["v2", "v3", "v4"] {
        scene.set_version(version).await;
        for round in 0..8 {
            scale(scene, 2 + dice.below(8) as u32).await;
            tokio::time::sleep(std::time::Duration::from_millis(dice.below(400))).await;
            if round % 3 == 1 {
                ground.kill_controller();
                scale(scene, 2 + dice.below(8) as u32).await;
                ground.start_controller().await.unwrap();
            }
        }
        scale(scene, 5).await;
        scene.wait_state(1, "StepPaused").await;
        scene.wait_pods(version, 1).await;
        scene.wait_pods("v1", 4).await;
        assert_eq!(gate.most(version).await, 1);
    }
    finish(scene, "v4").await;
}

/// The developer's patch as the API server answers it.
async fn refusal(scene: &Scene<'_>, spec: &Value) -> kube::core::Status {
    let patch = Patch::Merge(json!({"spec": spec}));
    let answer = scene
        .apps(&scene.developer)
        .patch(APP, &PatchParams::default(), &patch)
        .await;
    match answer {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("{spec}: {other:?}"),
    }
}

/// Whoever asks for it learns so at once, from the API server, and not when the release has come to its end.
#[tokio::test]
async fn a_strategy_that_cannot_be_is_refused_in_mid_release() {
    let subject = subject("refused", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    let refused = [
        (
            rolling(json!(0), json!(0)),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            rolling(json!("half"), json!(1)),
            "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"half\"",
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "101%"}}}),
            "must not be greater than 100%",
        ),
        (
            json!({"strategy": {"type": "half"}}),
            "spec.strategy: Unsupported value",
        ),
    ];
    // Together with the template that begins the release.
    let mut with_template = image("v2")["spec"].clone();
    with_template["strategy"] = refused[0].0["strategy"].clone();
    let answer = refusal(scene, &with_template).await;
    assert_eq!(answer.code, 422, "{}", answer.message);
    assert!(answer.message.contains(refused[0].1), "{}", answer.message);
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let before = scene.app().await;
    for (spec, told) in &refused {
        let answer = refusal(scene, spec).await;
        assert_eq!(answer.code, 422, "{}", answer.message);
        assert!(answer.message.contains(told), "{}", answer.message);
    }
    let after = scene.app().await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(
        mark(&after, names::ORIGINAL_PARTITION),
        mark(&before, names::ORIGINAL_PARTITION)
    );
    assert_eq!(gate.most("v2").await, 1);
    finish(scene, "v2").await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(app["spec"]["strategy"], rolling(json!(1), json!(0))["strategy"]);
}

/// As a version of ours has recorded it that did not look: the default comes in its place, and people are told.
#[tokio::test]
async fn a_record_of_a_strategy_that_cannot_be_holds_nothing_up() {
    let default =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    for deleted in [false, true] {
        let prefix = if deleted { "recorded-del" } else { "recorded" };
        let subject = subject(prefix, rolling(json!(1), json!(0))).await;
        let scene = &subject.scene;
        subject.set().await;
        scene.set_version("v2").await;
        scene.wait_state(1, "StepPaused").await;
        let recorded = json!({"spec.strategy.type": "RollingUpdate",
            "spec.strategy.rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}});
        let ours = scene.namespace.client(Identity::Controller).await.unwrap();
        let params = PatchParams {
            field_manager: Some(names::FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let record = json!({"metadata": {"annotations": {names::ORIGINAL_PARTITION: recorded.to_string()}}});
        scene
            .apps(&ours)
            .patch(APP, &params, &Patch::Merge(record))
            .await
            .unwrap();
        // Nobody who writes something else has to answer for it.
        let app = scene.patch_app(json!({"spec": {"minReadySeconds": 1}})).await;
        assert_eq!(*mark(&app, names::ORIGINAL_PARTITION), recorded.to_string());
        if deleted {
            scene.delete_rollout().await;
            scene.wait_pods("v2", 5).await;
        } else {
            finish(scene, "v2").await;
        }
        let app = scene
            .wait_app("handed back", |app| mark(app, names::GRANTED_PARTITION).is_null())
            .await;
        assert_eq!(app["spec"]["strategy"], default);
        assert_eq!(app["spec"]["paused"], Value::Null);
        eventually(SOON, "an event", async || {
            match &scene.events("DefaultStrategy").await[..] {
                [told] if told.contains("Deployment.apps my-app: spec.strategy gets its default") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

/// A whole object without our marks is no echo of our hold, although the type of its strategy is the one that holds.
#[tokio::test]
async fn a_whole_object_of_the_type_recreate_asks_for_it() {
    let subject = subject("wish", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let recreate = json!({"type": "Recreate"});
    // In a part of an object it is what stands there already.
    scene
        .patch_app(json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}))
        .await;
    let original = rolling(json!(1), json!(0))["strategy"]["rollingUpdate"].clone();
    let asked = |app: &Value| -> Value {
        serde_json::from_str(mark(app, names::ORIGINAL_PARTITION).as_str().unwrap()).unwrap()
    };
    assert_eq!(asked(&scene.app().await)["spec.strategy.rollingUpdate"], original);
    let mut manifest = subject.manifest.clone();
    manifest["spec"]["template"] = scene.manifest("v2", None)["spec"]["template"].clone();
    manifest["spec"]["strategy"] = recreate.clone();
    let app = scene.put(&manifest).await.object();
    assert_eq!(asked(&app), json!({"spec.strategy.type": "Recreate"}));
    assert_eq!(app["spec"]["paused"], true);
    assert_eq!(gate.most("v2").await, 1);
    finish(scene, "v2").await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(app["spec"]["strategy"], recreate);
}

/// As one that was copied from a ReplicaSet has.
#[tokio::test]
async fn a_template_with_the_label_of_replica_sets_takes_steps() {
    let mut subject = subject("hash", rolling(json!(1), json!(0))).await;
    subject.manifest["spec"]["template"]["metadata"]["labels"][names::POD_TEMPLATE_HASH] = json!("abc");
    subject.walks().await;
    let scene = &subject.scene;
    // To the controller of Deployments another value is no other template.
    let gate = Gate::open(scene).await;
    let pods = scene.wait_pods("v2", 5).await;
    let label = json!({"metadata": {"labels": {names::POD_TEMPLATE_HASH: "xyz"}}});
    scene.patch_app(json!({"spec": {"template": label}})).await;
    scene
        .wait_app("handed back", |app| mark(app, names::GRANTED_PARTITION).is_null())
        .await;
    scene.wait_phase("Healthy").await;
    assert_eq!(scene.wait_pods("v2", 5).await, pods);
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(gate.most("v3").await, 1);
    scene.set_version("v2").await;
    scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    scene.wait_pods("v2", 5).await;
}
