//! What operators report wrongly or not at all, what people leave out, and what must not change.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::{Identity, eventually, installed};

use super::fixtures::{approved_steps, sized};
use crate::gate::Gate;
use crate::kinds::OwnKind;
use crate::restart::own;
use crate::scene::{APP, ROLLOUT, SOON, Scene, assert_free, condition, mark, partition};
use crate::widgets::{Facts, Report, Script, Widget};
use kruise_rollout::names;

/// Waits until the Rollout says of its workload what it lacks.
async fn stalls(scene: &Scene<'_>, lacks: &str) {
    scene
        .wait(&format!("the condition Stalled names {lacks}"), |rollout| {
            let stalled = condition(rollout, "Stalled");
            stalled["status"] == "True"
                && stalled["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(lacks))
        })
        .await;
}

/// Approves until the release has ended with every pod on the version.
async fn walks(scene: &Scene<'_>, version: &str, pods: usize) {
    for step in [1, 2] {
        scene.wait_state(step, "StepPaused").await;
        scene.approve().await;
    }
    scene.wait_released().await;
    scene.wait_pods(version, pods).await;
    assert_free(&scene.app().await);
}

#[tokio::test]
async fn r14_a_counter_that_comes_late_holds_nothing_up() {
    let late: Report = Box::new(|facts| {
        Some(
            Facts {
                updated: 0,
                ..facts.clone()
            }
            .status(),
        )
    });
    let script = Script {
        report: late,
        ..Script::default()
    };
    let widget = Widget::new(installed().await, "r14-late", script).await;
    widget.set(&approved_steps()).await;
    let gate = Gate::open(&widget.scene).await;
    widget.scene.set_version("v2").await;
    let paused = widget.scene.wait_state(1, "StepPaused").await;
    assert_eq!(paused["status"]["canaryStatus"]["canaryReplicas"], 1);
    walks(&widget.scene, "v2", 5).await;
    gate.within_grants("v2").await;
}

#[tokio::test]
async fn r14_a_counter_that_the_pods_contradict_moves_nothing() {
    let early: Report = Box::new(|facts| {
        Some(
            Facts {
                updated: facts.updated + 1,
                ..facts.clone()
            }
            .status(),
        )
    });
    let script = Script {
        report: early,
        updates: 2,
        ..Script::default()
    };
    let widget = Widget::new(installed().await, "r14-early", script).await;
    let scene = &widget.scene;
    widget.set(&approved_steps()).await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_pods("v2", 2).await;
    scene
        .wait_app("three are reported", |app| app["status"]["updatedReplicas"] == 3)
        .await;
    let seen = scene.looked_at("r14").await;
    assert_eq!(seen["status"]["canaryStatus"]["currentStepState"], "StepUpgrade");
    assert_eq!(seen["status"]["canaryStatus"]["currentStepIndex"], 2);
    widget.rescript(|script| script.updates = usize::MAX);
    scene.wait_state(2, "StepPaused").await;
    gate.within_grants("v2").await;
}

/// An honest status after a change.
fn changed(change: impl Fn(&mut Value) + Send + 'static) -> Report {
    Box::new(move |facts| {
        let mut status = facts.status();
        change(&mut status);
        Some(status)
    })
}

/// A release by an operator whose status lacks what no release needs.
async fn r15_walks(prefix: &str, report: Report) {
    let script = Script {
        report,
        ..Script::default()
    };
    let widget = Widget::new(installed().await, prefix, script).await;
    widget.set(&approved_steps()).await;
    widget.scene.set_version("v2").await;
    walks(&widget.scene, "v2", 5).await;
    let target = format!("rollout/{ROLLOUT}");
    let mut kubectl = widget.scene.namespace.kubectl(Identity::Viewer).unwrap();
    kubectl.args(["kruise", "rollout", "status", &target, "--watch=false"]);
    let said = kubectl.output().await.unwrap();
    assert!(said.status.success(), "{prefix}: {said:?}");
}

#[tokio::test]
async fn r15_fields_that_no_release_needs_may_be_missing() {
    tokio::join!(
        r15_walks(
            "r15-no-updated",
            changed(|status| {
                status.as_object_mut().unwrap().remove("updatedReplicas");
            })
        ),
        r15_walks(
            "r15-null-updated",
            changed(|status| status["updatedReplicas"] = Value::Null)
        ),
        r15_walks(
            "r15-no-ready",
            changed(|status| {
                status.as_object_mut().unwrap().remove("readyReplicas");
            })
        ),
        r15_walks(
            "r15-no-current",
            changed(|status| status["currentRevision"] = json!(""))
        ),
    );
}

/// An operator that never reports enough: what is missing is named, nothing is exposed, and once it reports the release goes on.
async fn r15_stalls(prefix: &str, report: Report, lacks: &str) {
    let script = Script {
        report,
        ..Script::default()
    };
    let widget = Widget::new(installed().await, prefix, script).await;
    let scene = &widget.scene;
    widget.set(&approved_steps()).await;
    stalls(scene, lacks).await;
    let held = scene.set_version("v2").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    scene.wait_phase("Progressing").await;
    stalls(scene, lacks).await;
    widget.rescript(|script| script.report = Script::default().report);
    walks(scene, "v2", 5).await;
    assert_eq!(condition(&scene.rollout().await, "Stalled"), &Value::Null);
}

#[tokio::test]
async fn r15_a_field_that_is_needed_is_named() {
    tokio::join!(
        r15_stalls("r15-none", Box::new(|_| None), "reports no status"),
        r15_stalls("r15-empty", Box::new(|_| Some(json!({}))), "reports no status"),
        r15_stalls(
            "r15-null",
            changed(|status| status["observedGeneration"] = Value::Null),
            "status.observedGeneration"
        ),
    );
}

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
    let mut installation = own().await;
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
    let writes: Vec<_> = audit
        .since(since)
        .into_iter()
        .filter(|entry| entry.user == Identity::Controller.user() && entry.is_write())
        .filter(|entry| entry.resource == "mystatefulapps" || entry.resource == "pods")
        .collect();
    assert!(writes.is_empty(), "{writes:#?}");
}

/// `kubectl apply` of a manifest.
async fn apply(scene: &Scene<'_>, manifest: &Value) {
    scene.deploy(crate::writes::Way::Kubectl, manifest).await;
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
    let mut short = native.stateful_set("v1", 5);
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
        assert_eq!(condition(&seen, "Succeeded"), &Value::Null);
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

#[tokio::test]
async fn r31_a_workload_of_few_words_is_governed() {
    let mut installation = own().await;
    installation.kill_controller();
    let silent = Script {
        report: Box::new(|_| None),
        ..Script::default()
    };
    let widget = Widget::new(&installation, "r31", silent).await;
    let scene = &widget.scene;
    let mut manifest = scene.manifest("v1", None);
    manifest["spec"].as_object_mut().unwrap().remove("replicas");
    scene.create_app(&manifest).await;
    scene.create_rollout(&approved_steps()).await;
    installation.start_controller().await.unwrap();
    stalls(scene, "reports no status").await;

    widget.rescript(|script| script.report = Script::default().report);
    scene
        .wait("nothing is missing any more", |rollout| {
            rollout["status"]["phase"] == "Healthy" && condition(rollout, "Stalled").is_null()
        })
        .await;
    let gate = Gate::open(scene).await;
    let held = scene.set_version("v2").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    walks(scene, "v2", 1).await;
    assert_eq!(scene.app().await["spec"].get("updateStrategy"), None);

    // What the partition stands in is taken away in mid-release.
    scene.patch_app(json!({"spec": {"replicas": 5}})).await;
    scene.wait_pods("v2", 5).await;
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    let patch = json!([{"op": "remove", "path": "/spec/updateStrategy/rollingUpdate"}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let apps = scene.apps(&scene.developer);
    apps.patch(APP, &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(partition(&scene.app().await), 4);
    scene.looked_at_in(1, "r31").await;
    walks(scene, "v3", 5).await;
    for (partition, pods) in gate.steps("v3").await {
        let allowed = match partition {
            Some(kept) => 5 - kept.min(5),
            // Before and after the releases.
            None => 5,
        };
        assert!(i64::try_from(pods).unwrap() <= allowed, "{pods} at {partition:?}");
    }
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
        let tests = write.request.to_string().matches("\"op\":\"test\"").count();
        assert!(tests > 0, "a patch tests what it was made from: {write:#?}");
    }
}
