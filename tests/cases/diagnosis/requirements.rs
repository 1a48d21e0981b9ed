//! What a custom workload must bring is told row by row, and each printed command mends its row.

use kruise_rollout::names;
use serde_json::{Value, json};
use support::{Identity, eventually, installed};

use super::{answer, command, run};
use crate::kinds::OwnKind;
use crate::plugin::kruise;
use crate::scene::{APP, SOON, Scene, condition, walk_steps};

const PARTITION: &str = "spec.updateStrategy.rollingUpdate.partition";
const RIGHTS: &str = "controller's rights";

fn row<'a>(fitness: &'a Value, field: &str) -> &'a Value {
    let rows = fitness["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["field"] == field);
    row.unwrap_or_else(|| panic!("no row {field} in {fitness:#}"))
}

fn verdicts(fitness: &Value, verdict: &str) -> Vec<String> {
    let rows = fitness["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["verdict"] == verdict);
    rows.map(|row| row["field"].as_str().unwrap().to_owned())
        .collect()
}

fn label() -> String {
    format!("label {}", names::WORKLOAD_TYPE)
}

fn target(kind: &OwnKind) -> String {
    format!("{}/{APP}", crd(kind))
}

fn crd(kind: &OwnKind) -> String {
    format!("{}.{}", kind.resource.plural, kind.resource.group)
}

/// The check of a kind, as the administrator, who may look at everything.
async fn of_kind(scene: &Scene<'_>, kind: &OwnKind, code: i32) -> Value {
    let arguments = ["workload", "check", "--crd", &crd(kind)];
    answer(scene, Identity::Admin, &arguments, &[code]).await
}

/// The check of the app.
async fn of_app(scene: &Scene<'_>, kind: &OwnKind, code: i32) -> Value {
    let arguments = ["workload", "check", &target(kind), "--probe"];
    answer(scene, Identity::Admin, &arguments, &[code]).await
}

#[tokio::test]
async fn a_good_kind_lacks_rights_and_a_label_until_the_printed_commands_are_run() {
    let installation = installed().await;
    let kind = OwnKind::new("RequiredApp");
    kind.define(installation, &[]).await;
    let _operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "requirements", kind.resource.clone()).await;
    let mut manifest = scene.manifest("v1", Some(0));
    manifest["metadata"].as_object_mut().unwrap().remove("labels");
    scene.create_app(&manifest).await;
    scene.wait_pods("v1", 5).await;

    let bare = of_kind(&scene, &kind, 3).await;
    assert_eq!(verdicts(&bare, "unfit"), [RIGHTS]);
    run(&scene, Identity::Admin, command(row(&bare, RIGHTS))).await;
    let enabled = of_kind(&scene, &kind, 0).await;
    assert_eq!(verdicts(&enabled, "unknown"), [""; 0]);

    let unlabelled = of_app(&scene, &kind, 3).await;
    assert_eq!(verdicts(&unlabelled, "unfit"), [label()]);
    run(&scene, Identity::Developer, command(row(&unlabelled, &label()))).await;
    let fit = of_app(&scene, &kind, 0).await;
    assert_eq!(verdicts(&fit, "unknown"), [""; 0]);
    assert_eq!(row(&fit, "pods")["live"], "5 owned, 5 labelled");
    // What was tried has changed nothing.
    assert_eq!(
        scene.app().await["spec"]["updateStrategy"]["rollingUpdate"]["partition"],
        0
    );

    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Healthy").await;
}

/// The printed command mends a schema that does not take the partition that holds.
async fn is_mended(name: &str, schema: &str) {
    let installation = installed().await;
    let kind = OwnKind::new(name);
    kind.enable(installation).await;
    kind.define(installation, &[schema]).await;
    let _operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, &name.to_lowercase(), kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    let unfit = of_kind(&scene, &kind, 3).await;
    assert_eq!(verdicts(&unfit, "unfit"), [PARTITION]);
    assert_eq!(verdicts(&of_app(&scene, &kind, 3).await, "unfit"), [PARTITION]);
    run(&scene, Identity::Admin, command(row(&unfit, PARTITION))).await;
    of_kind(&scene, &kind, 0).await;
    // The server may take objects by the old schema for a moment.
    eventually(SOON, "the mended schema is in force", async || {
        let arguments = ["workload", "check", &target(&kind), "--probe"];
        let said = kruise(&scene, Identity::Admin, &arguments).await;
        if said.code == 0 { Ok(()) } else { Err(said.answer) }
    })
    .await;
}

#[tokio::test]
async fn a_schema_bounds_the_partition() {
    is_mended("BoundedApp", "--partition-maximum=100").await;
}

#[tokio::test]
async fn a_schema_has_no_partition() {
    is_mended("PartitionlessApp", "--no-partition").await;
}

#[tokio::test]
async fn an_operator_does_not_say_what_it_has_seen() {
    let installation = installed().await;
    let kind = OwnKind::new("UnseeingApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let _operator = kind.operate(installation, &["--omit-status", "observedGeneration"]);
    let scene = Scene::of_kind(installation, "requirements-unseen", kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    let unfit = of_app(&scene, &kind, 3).await;
    assert_eq!(verdicts(&unfit, "unfit"), ["status.observedGeneration"]);
    let why = row(&unfit, "status.observedGeneration")["why"].as_str().unwrap();
    assert!(why.contains("the operator does not report it"), "{why}");
}

/// What is called lacking must not keep a release from its end.
async fn is_released_all_the_same(name: &str, options: &[&str], lacking: &[&str]) {
    let installation = installed().await;
    let kind = OwnKind::new(name);
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let _operator = kind.operate(installation, options);
    let scene = Scene::of_kind(installation, &name.to_lowercase(), kind.resource.clone()).await;
    scene.set(Some(0), &walk_steps()).await;
    let fit = of_app(&scene, &kind, 0).await;
    let found = verdicts(&fit, "lacking");
    assert!(
        lacking.iter().all(|field| found.iter().any(|row| row == field)),
        "{fit:#}"
    );
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 1).await;
    scene.approve().await;
    let healthy = scene.wait_phase("Healthy").await;
    assert_eq!(condition(&healthy, "Succeeded")["status"], "True");
    scene.wait_pods("v2", 5).await;
}

#[tokio::test]
async fn an_operator_that_names_no_revision_is_believed() {
    let options = [
        "--omit-status",
        "updateRevision",
        "--omit-status",
        "currentRevision",
    ];
    is_released_all_the_same("UnnamedApp", &options, &["status.updateRevision"]).await;
}

#[tokio::test]
async fn an_operator_that_counts_no_updated_pods_has_them_counted() {
    let options = ["--omit-status", "updatedReplicas"];
    is_released_all_the_same("UncountedApp", &options, &["status.updatedReplicas"]).await;
}

#[tokio::test]
async fn pods_without_a_revision_label_are_not_counted() {
    let options = ["--revision-label", "example.io/revision"];
    is_released_all_the_same("UnlabelledPodsApp", &options, &["pods"]).await;
}

#[tokio::test]
async fn what_may_not_be_looked_at_is_unknown_and_no_verdict() {
    let scene = Scene::new(installed().await, "requirements-rights").await;
    scene.create_app(&scene.manifest("v1", Some(0))).await;
    scene.wait_pods("v1", 5).await;
    let app = format!("mystatefulapps.example.io/{APP}");
    let check = async |who: Identity, more: &[&str]| {
        kruise(&scene, who, &[&["workload", "check"], more].concat()).await
    };

    let kind = check(Identity::Developer, &["--crd", "mystatefulapps.example.io"]).await;
    assert_eq!(kind.code, 1, "{kind:?}");
    assert!(
        kind.talk
            .contains("get customresourcedefinitions.apiextensions.k8s.io"),
        "{kind:?}"
    );
    let tried = check(Identity::Viewer, &[&app, "--probe"]).await;
    assert_eq!(tried.code, 0, "{tried:?}");
    assert!(
        tried
            .talk
            .contains("nothing was tried: you may not patch mystatefulapps.example.io"),
        "{tried:?}"
    );
    let looked = answer(&scene, Identity::Developer, &["workload", "check", &app], &[0]).await;
    for field in ["scope", RIGHTS] {
        let rows = looked["rows"].as_array().unwrap();
        let known = rows
            .iter()
            .any(|row| row["field"] == field && row["verdict"] != "unknown");
        assert!(!known, "{looked:#}");
    }
    assert_eq!(row(&looked, RIGHTS)["verdict"], json!("unknown"));
}
