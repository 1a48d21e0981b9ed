//! The guard: a workload that cannot be held is said to be so within seconds, nobody's update fails because of us, and once the
//! cause is gone the Rollout heals by itself.

use std::time::Duration;

use kruise_rollout::names;
use serde_json::{Value, json};
use support::{Installation, eventually, installed};

use crate::gate::Gate;
use crate::kinds::OwnKind;
use crate::scene::{APP, Scene, condition, image, mark, partition, walk_steps};

/// Within this time the Rollout says what is wrong, also on a busy machine.
const SAID_WITHIN: Duration = Duration::from_secs(5);

/// Waits until a condition has this status and reason; its message.
async fn says(scene: &Scene<'_>, kind: &str, status: &str, reason: &str) -> String {
    eventually(SAID_WITHIN, &format!("{kind}={status} {reason}"), async || {
        let rollout = scene.rollout().await;
        let found = condition(&rollout, kind);
        if found["status"] == status && found["reason"] == reason {
            Ok(found["message"].as_str().unwrap_or_default().to_owned())
        } else {
            Err(format!("{:#}", rollout["status"]))
        }
    })
    .await
}

/// An app of a kind of its own, with its operator running.
async fn app_of<'a>(installation: &Installation<'a>, kind: &OwnKind, prefix: &str) -> Scene<'a> {
    let scene = Scene::of_kind(installation, prefix, kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    scene
}

/// An ungoverned update goes through, is not touched, and reaches every pod.
async fn updates_freely(scene: &Scene<'_>, version: &str) {
    let answer = scene.merge(&image(version)).await;
    assert_eq!(answer.warnings, [""; 0]);
    let app = answer.object();
    assert_eq!(mark(&app, names::GUARDED_BY), &Value::Null);
    assert_eq!(mark(&app, names::IN_PROGRESSING), &Value::Null);
    scene.wait_pods(version, 5).await;
}

/// A release begins, and its first step is reached.
async fn is_held(scene: &Scene<'_>, version: &str) {
    let gate = Gate::open(scene).await;
    let held = scene.set_version(version).await;
    assert_eq!(partition(&held), &json!(names::HOLD_PARTITION));
    scene.wait_state(1, "StepPaused").await;
    let steps = gate.steps(version).await;
    assert_eq!(steps[1..], [(Some(names::HOLD_PARTITION), 0), (Some(4), 1)]);
}

#[tokio::test]
async fn a_workload_without_the_label_is_named_with_the_command_that_sets_it() {
    let scene = Scene::new(installed().await, "guard-label").await;
    let mut manifest = scene.manifest("v1", Some(0));
    manifest["metadata"]["labels"] = json!({});
    scene.create_app(&manifest).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    let message = says(&scene, "Guarded", "False", "LabelMissing").await;
    let command = format!(
        "kubectl label mystatefulapp.example.io/{APP} -n {} {}=statefulset",
        scene.namespace.name(),
        names::WORKLOAD_TYPE
    );
    assert!(message.contains(&command), "{message}");
    let status = &scene.rollout().await["status"];
    assert_eq!(status["phase"], "Disabled");
    assert_eq!(status["message"], message);
    updates_freely(&scene, "v2").await;

    let value = scene
        .patch_app(json!({"metadata": {"labels": {names::WORKLOAD_TYPE: "StatefulSet"}}}))
        .await;
    assert_eq!(value["metadata"]["labels"][names::WORKLOAD_TYPE], "StatefulSet");
    let message = says(&scene, "Guarded", "False", "LabelWrong").await;
    assert!(message.contains(&command), "{message}");

    // The very command.
    let mut kubectl = scene.namespace.kubectl(support::Identity::Developer).unwrap();
    let words = command.split(' ').skip(1);
    let output = kubectl.args(words).arg("--overwrite").output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    says(&scene, "Guarded", "True", "Proven").await;
    scene.wait_phase("Healthy").await;
    is_held(&scene, "v3").await;
}

/// A kind whose schema does not let its workloads be held: said with this reason, in nobody's way, and healed by the right schema.
/// The message that said so.
async fn unfit_until_mended(kind: &str, schema: &[&str], reason: &str) -> String {
    let installation = installed().await;
    let kind = OwnKind::new(kind);
    kind.enable(installation).await;
    kind.define(installation, schema).await;
    let _operator = kind.operate(installation, &[]);
    let scene = app_of(installation, &kind, "guard-schema").await;
    scene.create_rollout(&walk_steps()).await;
    let message = says(&scene, "Guarded", "False", reason).await;
    assert_eq!(scene.rollout().await["status"]["phase"], "Disabled");
    updates_freely(&scene, "v2").await;

    kind.define(installation, &[]).await;
    says(&scene, "Guarded", "True", "Proven").await;
    scene.wait_phase("Healthy").await;
    is_held(&scene, "v3").await;
    message
}

#[tokio::test]
async fn a_schema_without_the_partition() {
    let said = unfit_until_mended("PrunedApp", &["--no-partition"], "PartitionNotKept").await;
    assert!(
        said.contains("spec.updateStrategy.rollingUpdate.partition"),
        "{said}"
    );
}

#[tokio::test]
async fn a_schema_whose_maximum_is_below_the_hold() {
    let said = unfit_until_mended("LimitedApp", &["--partition-maximum", "100"], "PartitionRefused").await;
    // What the server answered.
    assert!(said.contains("should be less than or equal to 100"), "{said}");
}

#[tokio::test]
async fn a_partition_above_the_hold_is_no_obstacle() {
    let scene = Scene::new(installed().await, "guard-high").await;
    scene.set(Some(100_000), &walk_steps()).await;
    let held = scene.set_version("v2").await;
    assert_eq!(partition(&held), &json!(100_000));
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(partition(&scene.app().await), &json!(4));
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    assert_eq!(partition(&scene.app().await), &json!(100_000));
}

#[tokio::test]
async fn a_schema_that_loses_the_partition_later() {
    let installation = installed().await;
    let kind = OwnKind::new("LosingApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let _operator = kind.operate(installation, &[]);
    let scene = app_of(installation, &kind, "guard-losing").await;
    scene.create_rollout(&walk_steps()).await;
    says(&scene, "Guarded", "True", "Proven").await;

    kind.define(installation, &["--partition-maximum", "100"]).await;
    says(&scene, "Guarded", "False", "PartitionRefused").await;
    updates_freely(&scene, "v2").await;
    kind.define(installation, &[]).await;
    says(&scene, "Guarded", "True", "Proven").await;
    is_held(&scene, "v3").await;
}

#[tokio::test]
async fn an_operator_that_does_not_say_what_it_has_seen() {
    let installation = installed().await;
    let kind = OwnKind::new("MuteApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let mute = kind.operate(installation, &["--omit-status", "observedGeneration"]);
    let scene = app_of(installation, &kind, "guard-mute").await;
    scene.create_rollout(&walk_steps()).await;
    let message = says(&scene, "Stalled", "True", "NoObservedGeneration").await;
    assert!(message.contains("status.observedGeneration"), "{message}");
    assert_eq!(condition(&scene.rollout().await, "Ready")["status"], "False");

    // An update is held, and waits.
    scene.set_version("v2").await;
    scene.wait_state(1, "StepUpgrade").await;
    says(&scene, "Stalled", "True", "NoObservedGeneration").await;
    scene.wait_pods("v2", 1).await;

    mute.kill();
    let _operator = kind.operate(installation, &[]);
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(condition(&scene.rollout().await, "Stalled"), &Value::Null);
    scene.approve().await;
    let healthy = scene.wait_phase("Healthy").await;
    assert_eq!(condition(&healthy, "Ready")["status"], "True");
}

#[tokio::test]
async fn an_operator_that_does_not_run() {
    let installation = installed().await;
    let kind = OwnKind::new("SilentApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let scene = Scene::of_kind(installation, "guard-silent", kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.create_rollout(&walk_steps()).await;
    let message = says(&scene, "Stalled", "True", "OperatorSilent").await;
    assert!(message.contains("is it running?"), "{message}");
    let _operator = kind.operate(installation, &[]);
    scene
        .wait("not stalled", |rollout| condition(rollout, "Stalled").is_null())
        .await;
    scene.wait_pods("v1", 5).await;
    is_held(&scene, "v2").await;
}
