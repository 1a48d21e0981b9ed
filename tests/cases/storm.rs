//! Storms: whoever writes the app again and again during a pause releases nothing.

use std::time::Duration;

use kruise_rollout::names;
use serde_json::{Value, json};
use support::installed;
use tokio::time::{Interval, interval};

use crate::gate::Gate;
use crate::scene::{Scene, WALK, assert_free, mark, partition, walk_steps};
use crate::writes::{Answer, Way, Write};

/// How often each writer writes.
const ROUNDS: usize = 10;

/// A sync tool's rhythm.
fn rhythm() -> Interval {
    interval(Duration::from_millis(500))
}

/// An app deployed in this way whose release of v2 pauses at step 1.
async fn paused(prefix: &str, way: Way) -> (Scene<'static>, Gate) {
    let scene = Scene::new(installed().await, prefix).await;
    scene.deploy(way, &scene.manifest("v1", Some(0))).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Healthy").await;
    let gate = Gate::open(&scene).await;
    scene.deploy(way, &scene.manifest("v2", Some(0))).await;
    scene.wait_state(1, "StepPaused").await;
    (scene, gate)
}

/// After a storm: nothing has moved; then the release goes on as if there had been none.
async fn calm(scene: &Scene<'_>, gate: &Gate) {
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(gate.steps("v2").await, [&[(Some(0), 0)], &WALK[..2]].concat());
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    assert_free(&scene.app().await);
    assert_eq!(gate.steps("v2").await, [&[(Some(0), 0)], &WALK[..]].concat());
}

/// The write succeeded and left the hold as it is; its writer was told.
fn clamped(answer: Answer) -> Value {
    let warned = answer.warned();
    let warnings = answer.warnings.clone();
    let app = answer.object();
    assert_eq!(partition(&app), &json!(4), "{app:#}");
    let strategy = &app["spec"]["updateStrategy"]["type"];
    assert!(strategy.is_null() || strategy == "RollingUpdate", "{app:#}");
    assert_eq!(mark(&app, names::GRANTED_PARTITION), "4");
    assert_eq!(
        mark(&app, names::IN_PROGRESSING),
        r#"{"rolloutName":"my-app-rollout"}"#
    );
    assert!(mark(&app, names::GUARDED_BY).is_string());
    assert_eq!(
        app["metadata"]["labels"][names::WORKLOAD_TYPE],
        names::TYPE_STATEFULSET
    );
    assert!(warned, "nobody told the writer");
    assert!(
        warnings.iter().all(|text| text.contains("my-app-rollout")),
        "{warnings:?}"
    );
    app
}

#[tokio::test]
async fn kubectl_apply_of_the_manifest_releases_nothing() {
    let (scene, gate) = paused("storm-kubectl", Way::Kubectl).await;
    let manifest = scene.manifest("v2", Some(0));
    let mut rhythm = rhythm();
    for _ in 0..ROUNDS {
        rhythm.tick().await;
        let (_, stderr) = scene.kubectl_apply(&manifest).await;
        assert!(
            stderr.contains("a release is in progress: the partition stays at 4 or above"),
            "{stderr}"
        );
        assert_eq!(partition(&scene.app().await), &json!(4));
    }
    calm(&scene, &gate).await;
    let (stdout, stderr) = scene.kubectl_apply(&manifest).await;
    assert!(
        stdout.contains("unchanged") && stderr.is_empty(),
        "{stdout}{stderr}"
    );
}

#[tokio::test]
async fn server_side_apply_conflicts_in_mid_release_and_is_clamped_when_forced() {
    let (scene, gate) = paused("storm-apply", Way::ServerSide).await;
    let manifest = scene.manifest("v2", Some(0));
    let mut rhythm = rhythm();
    for _ in 0..ROUNDS {
        rhythm.tick().await;
        let refused = scene.apply(&manifest, false).await;
        assert_eq!(refused.code, 409, "{refused:?}");
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.contains(names::FIELD_MANAGER), "{message}");
    }
    for _ in 0..ROUNDS {
        rhythm.tick().await;
        clamped(scene.apply(&manifest, true).await);
    }
    calm(&scene, &gate).await;
    let applied = scene.apply(&manifest, false).await;
    assert!(!applied.warned(), "{applied:?}");
    assert_eq!(partition(&applied.object()), &json!(0));
}

#[tokio::test]
async fn no_other_write_releases_anything() {
    let scene = Scene::new(installed().await, "storm").await;
    scene.set(Some(0), &walk_steps()).await;
    let gate = Gate::open(&scene).await;
    let held = scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let paused = scene.app().await;

    let marks = |value: Value| {
        let all = names::RELEASE_MARKS.iter().chain([&names::GUARDED_BY]);
        all.map(|name| ((*name).to_owned(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
    };
    let at = |partition: i64| json!({"rollingUpdate": {"partition": partition}});
    let patches = [
        json!({"spec": {"updateStrategy": at(0)}}),
        json!({"spec": {"updateStrategy": at(3)}}),
        json!({"spec": {"updateStrategy": null}}),
        json!({"spec": {"updateStrategy": {"rollingUpdate": null}}}),
        json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}),
        json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"labels": null}, "spec": {"updateStrategy": at(0)}}),
        json!({"metadata": {"labels": null, "annotations": marks(Value::Null)}, "spec": {"updateStrategy": at(0)}}),
        json!({"metadata": {"annotations": {names::GRANTED_PARTITION: "0"}}, "spec": {"updateStrategy": at(0)}}),
        json!({"metadata": {"annotations": marks(json!("junk"))}, "spec": {"updateStrategy": at(0)}}),
        json!({"metadata": {"annotations": {names::IN_PROGRESSING: null}}, "spec": {"updateStrategy": at(0)}}),
    ];
    // An export of the paused state in which somebody has set the partition, and one from before the first grant.
    let mut old_export = paused.clone();
    old_export["spec"]["updateStrategy"] = at(0);
    let manifest = scene.manifest("v2", Some(0));

    let mut rhythm = rhythm();
    for _ in 0..ROUNDS {
        rhythm.tick().await;
        for patch in &patches {
            clamped(scene.merge(patch).await);
        }
        clamped(scene.put(&old_export).await);
        clamped(scene.put(&held).await);
        let as_controller = Write::Merge(&patches[0]);
        let controller = scene
            .namespace
            .client(support::Identity::Controller)
            .await
            .unwrap();
        clamped(scene.write(&controller, as_controller).await);
        // What people asked for last is what comes back.
        let app = clamped(scene.put(&manifest).await);
        assert_eq!(mark(&app, names::ORIGINAL_PARTITION), "0");
    }
    calm(&scene, &gate).await;
}

#[tokio::test]
async fn pods_added_in_mid_release_stay_on_the_stable_version() {
    let scene = Scene::new(installed().await, "storm-scale").await;
    scene.set(Some(0), &walk_steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    let patch = json!({"spec": {"replicas": 8, "updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    let answer = scene.merge(&patch).await;
    assert!(answer.warned());
    assert_eq!(partition(&answer.object()), &json!(8));
    scene.wait_pods("v1", 7).await;
    scene.wait_state(1, "StepPaused").await;
    // my-app-4 runs v2 already, so step 1 needs no pod of the new ones, and step 2 three of them.
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 8).await;
    let steps = gate.steps("v2").await;
    assert_eq!(
        steps,
        [
            &[(Some(0), 0)],
            &WALK[..2],
            &[(Some(8), 1), (Some(4), 4), (Some(0), 8)]
        ]
        .concat()
    );
}
