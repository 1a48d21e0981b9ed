//! What the webhook takes for its own business, and what it leaves alone.

use kruise_rollout::names;
use kruise_rollout::workload::{Guard, TemplateId};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{Entry, Identity, Installation, eventually, installed};

use crate::plugin::kruise;
use crate::scene::{APP, ROLLOUT, SOON, Scene, assert_free, condition, mark, partition, walk_steps};

/// A scene of each kind.
async fn scenes(prefix: &str) -> [Scene<'static>; 2] {
    let installation = installed().await;
    [
        Scene::new(installation, prefix).await,
        Scene::with_stateful_set(installation, &format!("{prefix}-native")).await,
    ]
}

/// A template change goes to all pods at once, and the webhook rewrites nothing.
async fn updates_natively(scene: &Scene<'_>, version: &str) {
    let before = scene.app().await;
    let after = scene.set_version(version).await;
    assert_eq!(
        after["spec"]["updateStrategy"], before["spec"]["updateStrategy"],
        "{after:#}"
    );
    assert_eq!(
        after["metadata"]["annotations"],
        before["metadata"]["annotations"]
    );
    scene.wait_pods(version, 5).await;
}

#[tokio::test]
async fn r48_marks_without_a_rollout_hold_nothing() {
    let scenes = scenes("stale").await;
    // The kinds are governed, by Rollouts of other namespaces.
    let others = self::scenes("stale-other").await;
    for (scene, other) in scenes.iter().zip(&others) {
        other.set(Some(0), &walk_steps()).await;
        let mut manifest = scene.manifest("v1", Some(0));
        let copied = Guard::text("another-uid", "gone", &TemplateId::of(&json!({})));
        manifest["metadata"]["annotations"] = json!({
            names::IN_PROGRESSING: r#"{"rolloutName":"gone"}"#, names::GUARDED_BY: copied,
            names::GRANTED_PARTITION: "5", names::ORIGINAL_PARTITION: "0"});
        scene.create_app(&manifest).await;
        scene.wait_pods("v1", 5).await;
        updates_natively(scene, "v2").await;

        // A Rollout that names another workload, one that is disabled, one that is gone.
        let mut rollout = scene.rollout_manifest(&walk_steps());
        rollout["spec"]["workloadRef"]["name"] = json!("somebody-else");
        let rollout = serde_json::from_value(rollout).unwrap();
        scene
            .rollouts(&scene.developer)
            .create(&PostParams::default(), &rollout)
            .await
            .unwrap();
        scene.wait_phase("Initial").await;
        updates_natively(scene, "v3").await;
        scene
            .patch_rollout(&json!({"spec": {"disabled": true, "workloadRef": {"name": APP}}}))
            .await;
        scene.wait_phase("Disabled").await;
        updates_natively(scene, "v4").await;
        scene.delete_rollout().await;
        updates_natively(scene, "v5").await;

        // One that governs it begins with a clean workload.
        scene.create_rollout(&walk_steps()).await;
        scene.wait_phase("Healthy").await;
        assert_free(&scene.app().await);
        assert_eq!(partition(&scene.set_version("v6").await), names::HOLD_PARTITION);
        scene.wait_state(1, "StepPaused").await;
    }
}

/// The controller's writes of objects in the namespace of a scene.
fn writes(installation: &Installation<'_>, since: support::Mark, scene: &Scene<'_>) -> Vec<Entry> {
    let entries = installation.control_plane().audit().since(since);
    let ours = |entry: &Entry| {
        entry.is_write()
            && entry.user == Identity::Controller.user()
            && entry.namespace == scene.namespace.name()
    };
    entries.into_iter().filter(ours).collect()
}

#[tokio::test]
async fn r51_a_guarded_workload_at_rest_is_not_written() {
    let installation = installed().await;
    for scene in &scenes("at-rest").await {
        scene.set(Some(0), &walk_steps()).await;
        let app = scene.app().await;
        assert!(mark(&app, names::GUARDED_BY).is_string());
        let audit = installation.control_plane().audit();
        let since = audit.mark();
        // Reasons to look at it, one after the other; the last one has an answer.
        for note in 0..5 {
            scene
                .patch_app(json!({"metadata": {"annotations": {"example.io/note": note.to_string()}}}))
                .await;
        }
        scene
            .patch_rollout(&json!({"spec": {"strategy": {"canary": {"steps": [{"replicas": "100%"}]}}}}))
            .await;
        let generation = scene.rollout().await["metadata"]["generation"].clone();
        scene
            .wait("the change is seen", |rollout| {
                rollout["status"]["observedGeneration"] == generation
            })
            .await;
        let of_workloads: Vec<_> = writes(installation, since, scene)
            .into_iter()
            .filter(|entry| entry.resource != "rollouts")
            .collect();
        assert!(of_workloads.is_empty(), "{of_workloads:#?}");

        scene
            .patch_app(json!({"metadata": {"labels": {names::WORKLOAD_TYPE: null}}}))
            .await;
        if app["kind"] == "StatefulSet" {
            // A kind that is known by name gets its label back.
            scene
                .wait_app("labelled", |app| {
                    app["metadata"]["labels"][names::WORKLOAD_TYPE] == "statefulset"
                })
                .await;
        } else {
            // The label of a custom workload is people's at rest: its loss is said, and held templates need it back.
            let rollout = scene.wait_phase("Disabled").await;
            let message = rollout["status"]["message"].as_str().unwrap();
            assert!(
                message.contains("kubectl label") && message.contains(names::WORKLOAD_TYPE),
                "{message}"
            );
            scene
                .patch_app(json!({"metadata": {"labels": {names::WORKLOAD_TYPE: "statefulset"}}}))
                .await;
        }
        scene.wait_phase("Healthy").await;
        // In a release it is ours, and comes back in the same request.
        assert_eq!(partition(&scene.set_version("v2").await), names::HOLD_PARTITION);
        let app = scene
            .patch_app(json!({"metadata": {"labels": {names::WORKLOAD_TYPE: null}}}))
            .await;
        assert_eq!(app["metadata"]["labels"][names::WORKLOAD_TYPE], "statefulset");
    }
}

/// kubectl with a manifest on disk; what it prints, if its exit code is this.
async fn kubectl(scene: &Scene<'_>, arguments: &[&str], manifest: &Value, code: i32) -> String {
    let file = support::process::scratch("manifest")
        .unwrap()
        .join("manifest.json");
    std::fs::write(&file, manifest.to_string()).unwrap();
    let mut kubectl = scene.namespace.kubectl(Identity::Developer).unwrap();
    let output = kubectl
        .args(arguments)
        .arg("-f")
        .arg(file)
        .output()
        .await
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

#[tokio::test]
async fn r53_dry_runs_and_diffs_store_nothing() {
    let installation = installed().await;
    for scene in &scenes("dry-run").await {
        scene.set(Some(0), &walk_steps()).await;
        let v1 = scene.manifest("v1", Some(0));
        kubectl(scene, &["apply"], &v1, 0).await;
        let since = installation.control_plane().audit().mark();
        let (app, rollout) = (scene.app().await, scene.rollout().await);
        let v2 = scene.manifest("v2", Some(0));
        let diff = kubectl(scene, &["diff"], &v2, 1).await;
        assert!(diff.contains("my-app:v2") && diff.contains("32767"), "{diff}");
        let applied = kubectl(scene, &["apply", "--dry-run=server"], &v2, 0).await;
        assert!(applied.contains("server dry run"), "{applied}");
        let fewer = scene.rollout_manifest(&json!([{"replicas": "100%"}]));
        kubectl(scene, &["diff"], &fewer, 1).await;
        kubectl(scene, &["apply", "--dry-run=server"], &fewer, 0).await;

        // In mid-release, and by the plugin.
        let same = |before: &Value, after: &Value| {
            assert_eq!(
                before["metadata"]["resourceVersion"],
                after["metadata"]["resourceVersion"]
            );
        };
        same(&app, &scene.app().await);
        same(&rollout, &scene.rollout().await);
        assert!(writes(installation, since, scene).is_empty());
        scene.set_version("v2").await;
        let paused = scene.wait_state(1, "StepPaused").await;
        let target = format!("rollout/{ROLLOUT}");
        for run in ["--dry-run=client", "--dry-run=server"] {
            let said = kruise(scene, Identity::Approver, &["rollout", "approve", &target, run]).await;
            assert_eq!(said.code, 0, "{}", said.talk);
            assert!(said.answer.contains("dry run"), "{}", said.answer);
            let said = kruise(
                scene,
                Identity::Developer,
                &["rollout", "undo", &target, "--yes", run],
            )
            .await;
            assert_eq!(said.code, 0, "{}", said.talk);
            assert!(said.answer.contains("dry run"), "{}", said.answer);
        }
        same(&paused, &scene.rollout().await);
        assert_eq!(partition(&scene.app().await), 4);
        scene.wait_pods("v2", 1).await;
    }
}

/// A kind that is served as v1alpha1 and v1beta1.
async fn define_two_versions(installation: &Installation<'_>) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &str, storage| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "twoversionapps.example.io"},
        "spec": {
            "group": "example.io", "scope": "Namespaced",
            "names": {"kind": "TwoVersionApp", "plural": "twoversionapps", "singular": "twoversionapp",
                "listKind": "TwoVersionAppList"},
            "versions": [version("v1alpha1", false), version("v1beta1", true)],
        },
    });
    installation
        .enable_kind("example.io", "twoversionapps")
        .await
        .unwrap();
    installation.kubectl_apply(&definition.to_string()).await.unwrap();
}

fn two_versions(version: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.io", version, "TwoVersionApp"))
}

#[tokio::test]
async fn r57_another_version_of_the_kind_is_held_too() {
    let installation = installed().await;
    define_two_versions(installation).await;
    for (referred, written) in [("v1beta1", "v1alpha1"), ("v1alpha1", "v1beta1")] {
        let scene = Scene::of_kind(
            installation,
            &format!("versions-{referred}"),
            two_versions(referred),
        )
        .await;
        let manifest: DynamicObject = serde_json::from_value(scene.manifest("v1", Some(0))).unwrap();
        eventually(SOON, "the kind is served", async || {
            let apps = scene.apps(&scene.developer);
            apps.create(&PostParams::default(), &manifest).await.map(drop)
        })
        .await;
        scene.create_rollout(&walk_steps()).await;
        scene
            .wait("guarded", |rollout| {
                condition(rollout, "Guarded")["status"] == "True"
            })
            .await;
        let namespace = scene.namespace.name();
        let other: Api<DynamicObject> =
            Api::namespaced_with(scene.developer.clone(), namespace, &two_versions(written));
        let image = json!([{"name": "app", "image": "my-registry/my-app:v2"}]);
        let change = Patch::Merge(json!({"spec": {"template": {"spec": {"containers": image}}}}));
        let held = other.patch(APP, &PatchParams::default(), &change).await.unwrap();
        let held = serde_json::to_value(held).unwrap();
        assert_eq!(held["apiVersion"], format!("example.io/{written}"));
        assert_eq!(partition(&held), names::HOLD_PARTITION, "{held:#}");
        let open = Patch::Merge(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
        let clamped = other.patch(APP, &PatchParams::default(), &open).await.unwrap();
        assert_ne!(partition(&serde_json::to_value(clamped).unwrap()), 0);
    }
}

#[tokio::test]
async fn r57_a_foreign_kind_of_the_same_name_is_left_alone() {
    let installation = installed().await;
    let governed = Scene::with_stateful_set(installation, "foreign-native").await;
    governed.set(Some(0), &walk_steps()).await;
    let foreign = ApiResource::from_gvk(&GroupVersionKind::gvk("other.test", "v1", "StatefulSet"));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "statefulsets.other.test"},
        "spec": {"group": "other.test", "scope": "Namespaced",
            "names": {"kind": "StatefulSet", "plural": "statefulsets", "singular": "statefulset",
                "listKind": "StatefulSetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    installation.kubectl_apply(&definition.to_string()).await.unwrap();
    let namespace = governed.namespace.name();
    let api: Api<DynamicObject> = Api::namespaced_with(governed.admin.clone(), namespace, &foreign);
    let mut manifest = governed.manifest("v1", Some(0));
    manifest["apiVersion"] = json!("other.test/v1");
    let object: DynamicObject = serde_json::from_value(manifest).unwrap();
    eventually(SOON, "the kind is served", async || {
        api.create(&PostParams::default(), &object).await.map(drop)
    })
    .await;
    let image = json!([{"name": "app", "image": "my-registry/my-app:v2"}]);
    let change = Patch::Merge(json!({"spec": {"template": {"spec": {"containers": image}}}}));
    let answer = api.patch(APP, &PatchParams::default(), &change).await.unwrap();
    let answer = serde_json::to_value(answer).unwrap();
    assert_eq!(partition(&answer), 0);
    assert!(answer["metadata"]["annotations"].is_null(), "{answer:#}");
}

#[tokio::test]
async fn r63_the_label_leaves_or_comes_in_the_same_request() {
    for scene in &scenes("label").await {
        scene.set(Some(0), &walk_steps()).await;
        let image =
            |version: &str| json!([{"name": "app", "image": format!("my-registry/my-app:{version}")}]);
        let held = scene
            .patch_app(json!({"metadata": {"labels": {names::WORKLOAD_TYPE: null}},
                "spec": {"template": {"spec": {"containers": image("v2")}}}}))
            .await;
        assert_eq!(partition(&held), names::HOLD_PARTITION);
        assert_eq!(held["metadata"]["labels"][names::WORKLOAD_TYPE], "statefulset");
        scene.wait_state(1, "StepPaused").await;
        scene.wait_pods("v2", 1).await;

        // Subresources are none of its business.
        let apps = scene.apps(&scene.developer);
        let scale = Patch::Merge(json!({"spec": {"replicas": 6}}));
        apps.patch_scale(APP, &PatchParams::default(), &scale)
            .await
            .unwrap();
        let status = Patch::Merge(json!({"status": {"collisionCount": 1}}));
        let after = apps
            .patch_status(APP, &PatchParams::default(), &status)
            .await
            .unwrap();
        let after = serde_json::to_value(after).unwrap();
        assert_eq!(after["spec"]["replicas"], 6);
        assert_eq!(
            mark(&after, names::IN_PROGRESSING),
            r#"{"rolloutName":"my-app-rollout"}"#
        );

        // A workload that no Rollout names gets the label together with another template.
        let mut stranger = scene.manifest("v1", Some(0));
        stranger["metadata"] = json!({"name": "stranger"});
        stranger["spec"]["replicas"] = json!(0);
        let object = serde_json::from_value(stranger).unwrap();
        apps.create(&PostParams::default(), &object).await.unwrap();
        let patch = Patch::Merge(
            json!({"metadata": {"labels": {names::WORKLOAD_TYPE: "statefulset"}},
            "spec": {"template": {"spec": {"containers": image("v2")}}}}),
        );
        let answer = apps
            .patch("stranger", &PatchParams::default(), &patch)
            .await
            .unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        assert_eq!(partition(&answer), 0);
        assert!(answer["metadata"]["annotations"].is_null(), "{answer:#}");
    }
}

/// `kubectl apply` of a manifest that has lost its labels.
#[tokio::test]
async fn r63_an_applied_manifest_without_labels_is_held() {
    let scene = Scene::new(installed().await, "label-apply").await;
    scene.kubectl_apply(&scene.manifest("v1", Some(0))).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Healthy").await;
    let mut bare = scene.manifest("v2", Some(0));
    bare["metadata"]["labels"] = json!({});
    let (_, warnings) = scene.kubectl_apply(&bare).await;
    assert!(warnings.contains("is held by Rollout"), "{warnings}");
    scene.wait_state(1, "StepPaused").await;
    let (_, warnings) = scene.kubectl_apply(&bare).await;
    assert!(warnings.contains("a release is in progress"), "{warnings}");
    assert_eq!(
        scene.app().await["metadata"]["labels"][names::WORKLOAD_TYPE],
        "statefulset"
    );
    scene.wait_pods("v2", 1).await;
}
