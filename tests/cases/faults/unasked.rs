//! What nobody asked for must not happen: releases without a new template, and changes of what is not ours.

use kruise_rollout::names;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::{Identity, eventually, installed};

use super::fixtures::{approved_steps, sized};
use super::reports::walks;
use crate::gate::Gate;
use crate::ground::Ground;
use crate::kinds::OwnKind;
use crate::scene::{APP, SOON, Scene, condition, mark, partition};
use crate::widgets::{Script, Widget};
use crate::writes::Way;

/// UIDs of the pods in the namespace, and the specs of the workload.
async fn untouched(scene: &Scene<'_>) -> (Vec<Option<String>>, Value) {
    let pods = scene.all_pods().list(&Default::default()).await.unwrap();
    let mut app = scene.app().await;
    (
        pods.items.into_iter().map(|pod| pod.metadata.uid).collect(),
        app["spec"].take(),
    )
}

#[tokio::test]
async fn r30_a_controller_that_starts_anew_releases_nothing() {
    let mut installation = Ground::with_controller().await;
    let mut scenes = Vec::new();
    for number in 0..10 {
        let scene = Scene::new(&installation, &format!("r30-{number}")).await;
        scene.create_app(&sized(scene.manifest("v1", Some(0)), 2)).await;
        scene.create_rollout(&approved_steps()).await;
        scenes.push(scene);
    }
    let mut before = Vec::new();
    for scene in &scenes {
        scene.wait_pods("v1", 2).await;
        scene.wait_phase("Healthy").await;
        before.push(untouched(scene).await);
    }
    installation.kill_controller();
    let audit = installation.control_plane().audit();
    let since = audit.mark();
    installation.start_controller().await.unwrap();
    for (scene, before) in scenes.iter().zip(before) {
        let seen = scene.looked_at("r30").await;
        assert_eq!(seen["status"]["phase"], "Healthy");
        assert_eq!(untouched(scene).await, before);
    }
    let by_controller = || {
        let entries = audit.since(since).into_iter();
        entries.filter(|entry| entry.user == Identity::Controller.user() && entry.is_write())
    };
    // The log has come as far as the looks.
    eventually(SOON, "the new ids are in the log", async || {
        let told = by_controller()
            .filter(|entry| entry.resource == "rollouts")
            .count();
        if told >= scenes.len() { Ok(()) } else { Err(told) }
    })
    .await;
    let others: Vec<_> = by_controller()
        .filter(|entry| matches!(entry.resource.as_str(), "mystatefulapps" | "pods"))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

/// `kubectl apply` of a manifest.
async fn apply(scene: &Scene<'_>, manifest: &Value) {
    scene.deploy(Way::Kubectl, manifest).await;
}

/// The manifest as some tools write it: with a null time, and with what the server would add.
fn in_full(mut manifest: Value) -> Value {
    let template = &mut manifest["spec"]["template"];
    template["metadata"]["creationTimestamp"] = Value::Null;
    template["spec"]["terminationGracePeriodSeconds"] = json!(30);
    template["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "protocol": "TCP"}]);
    manifest
}

#[tokio::test]
async fn r30_a_manifest_in_other_words_is_no_release() {
    let installation = installed().await;
    let native = Scene::with_stateful_set(installation, "r30-native").await;
    let mut short = native.manifest("v1", None);
    short["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    apply(&native, &short).await;
    native.wait_pods("v1", 5).await;
    native.create_rollout(&approved_steps()).await;
    native.wait_phase("Healthy").await;

    // A kind without a schema keeps every word, so admission holds the change until its operator says that it is none.
    let widget = Widget::new(installation, "r30-widget", Script::default()).await;
    apply(&widget.scene, &widget.scene.manifest("v1", Some(0))).await;
    widget.scene.wait_pods("v1", 5).await;
    widget.scene.create_rollout(&approved_steps()).await;
    widget.scene.wait_phase("Healthy").await;

    for (scene, manifest) in [
        (&native, in_full(short)),
        (&widget.scene, in_full(widget.scene.manifest("v1", Some(0)))),
    ] {
        let pods = untouched(scene).await.0;
        let gate = Gate::open(scene).await;
        apply(scene, &manifest).await;
        scene
            .wait_app("no mark is left", |app| {
                mark(app, names::IN_PROGRESSING).is_null()
            })
            .await;
        let seen = scene.looked_at("r30").await;
        assert_eq!(seen["status"]["phase"], "Healthy");
        assert_ne!(condition(&seen, "Succeeded")["status"], "False");
        assert_eq!(untouched(scene).await.0, pods);
        let asked = manifest["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
            .as_i64()
            .unwrap_or(0);
        assert_eq!(partition(&scene.app().await), asked);
        if scene.app().await["kind"] == "StatefulSet" {
            assert_eq!(gate.steps("v1").await.len(), 1, "it has never been held");
        }
    }
}

#[tokio::test]
async fn r30_an_operator_that_renames_its_revision_is_no_release() {
    let widget = Widget::new(installed().await, "r30-renamed", Script::default()).await;
    let scene = &widget.scene;
    widget.set(&approved_steps()).await;
    let before = scene.app().await;
    widget.rescript(|script| script.revision = Box::new(|version| format!("{APP}-{version}-renamed")));
    let told = scene
        .wait("the new name is shown", |rollout| {
            rollout["status"]["canaryStatus"]["canaryRevision"] == "my-app-v1-renamed"
        })
        .await;
    assert_eq!(told["status"]["phase"], "Healthy");
    let after = scene.app().await;
    assert_eq!(
        (&after["spec"], &after["metadata"]["annotations"]),
        (&before["spec"], &before["metadata"]["annotations"])
    );
}

/// Paths of our writer's managed fields, as JSON.
fn owned(app: &Value) -> Vec<String> {
    let entries = app["metadata"]["managedFields"].as_array().unwrap();
    entries
        .iter()
        .filter(|entry| entry["manager"] == names::FIELD_MANAGER)
        .map(|entry| entry["fieldsV1"].to_string())
        .collect()
}

#[tokio::test]
async fn r32_fields_that_nobody_knows_are_kept() {
    let installation = installed().await;
    let widget = Widget::new(installation, "r32", Script::default()).await;
    let scene = &widget.scene;
    let mut manifest = scene.manifest("v1", Some(0));
    manifest["spec"]["extra"] = json!({"keepMe": "yes"});
    manifest["spec"]["template"]["spec"]["containers"][0]["newField"] = json!(7);
    let audit = installation.control_plane().audit();
    let since = audit.mark();
    scene.set_to(&manifest, &approved_steps()).await;
    let mut before = scene.app().await;
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "my-registry/my-app:v2"}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(image).unwrap());
    let apps = scene.apps(&scene.developer);
    apps.patch(APP, &PatchParams::default(), &patch).await.unwrap();
    scene.wait_state(1, "StepPaused").await;
    let ours = owned(&scene.app().await).concat();
    assert!(
        ours.contains("f:partition") && ours.contains(names::GRANTED_PARTITION),
        "{ours}"
    );
    for theirs in ["f:template", "f:extra", "f:replicas", "f:labels"] {
        assert!(!ours.contains(theirs), "{ours}");
    }
    walks(scene, "v2", 5).await;
    let mut after = eventually(SOON, "our entries are gone", async || {
        let app = scene.app().await;
        if owned(&app).is_empty() {
            Ok(app)
        } else {
            Err(format!("{:#}", app["metadata"]))
        }
    })
    .await;
    for object in [&mut before, &mut after] {
        object["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(names::GUARDED_BY);
        object["spec"]["template"]["spec"]["containers"][0]["image"].take();
    }
    assert_eq!(after["spec"], before["spec"]);
    for part in ["labels", "annotations", "ownerReferences", "finalizers"] {
        assert_eq!(after["metadata"][part], before["metadata"][part], "{part}");
    }
    let ours = audit.since(since).into_iter().filter(|entry| {
        entry.user == Identity::Controller.user()
            && entry.namespace == scene.namespace.name()
            && entry.is_write()
    });
    for write in ours.filter(|entry| entry.resource == OwnKind::new("Widget").resource.plural) {
        assert_eq!(write.verb, "patch", "{write:#?}");
        let tests = write.request.to_string().contains(r#""op":"test""#);
        let version = write.request.pointer("/metadata/resourceVersion").is_some();
        assert!(tests || version, "it tests what it was made from: {write:#?}");
    }
}
