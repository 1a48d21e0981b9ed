//! Other writers of a guarded workload: whole objects, server-side apply, and admission that changes what it sees.

use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::names;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{Identity, Installation, eventually, installed};

use crate::gate::Gate;
use crate::scene::{SOON, Scene, assert_free, condition, mark, partition, walk_steps};
use crate::writes::{Answer, Write};

/// A scene of each kind.
async fn scenes(prefix: &str) -> [Scene<'static>; 2] {
    let installation = installed().await;
    [
        Scene::new(installation, prefix).await,
        Scene::with_stateful_set(installation, &format!("{prefix}-native")).await,
    ]
}

/// Waits until the release has ended well, with approvals where they are asked for.
async fn completes(scene: &Scene<'_>, version: &str) {
    eventually(SOON, "the release ends", async || {
        let rollout = scene.rollout().await;
        if rollout["status"]["currentStepState"] == "StepPaused" {
            scene.approve_if_paused().await;
        }
        if mark(&scene.app().await, names::IN_PROGRESSING).is_null()
            && rollout["status"]["phase"] == "Healthy"
        {
            Ok(())
        } else {
            Err(format!("{:#}", rollout["status"]))
        }
    })
    .await;
    scene.wait_pods(version, 5).await;
    assert_free(&scene.app().await);
}

/// A release begins with one pod of this version, and the label is there.
async fn gated(scene: &Scene<'_>, app: &Value, version: &str) {
    assert_eq!(partition(app), names::HOLD_PARTITION, "{app:#}");
    assert_eq!(app["metadata"]["labels"][names::WORKLOAD_TYPE], "statefulset");
    assert!(mark(app, names::GUARDED_BY).is_string());
    scene.wait_pods(version, 1).await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods(version, 1).await.len(), 1);
}

#[tokio::test]
async fn r52_whole_objects_without_uid_are_held() {
    for scene in &scenes("bare").await {
        scene.set(Some(0), &walk_steps()).await;
        let gate = Gate::open(scene).await;
        let bare = |version: &str| {
            let mut manifest = scene.manifest(version, Some(0));
            manifest["metadata"] =
                json!({"name": manifest["metadata"]["name"], "namespace": manifest["metadata"]["namespace"]});
            manifest
        };
        let answer = scene.put(&bare("v2")).await.object();
        gated(scene, &answer, "v2").await;

        // The next one as kubectl does it.
        let file = support::process::scratch("bare").unwrap().join("v3.json");
        std::fs::write(&file, bare("v3").to_string()).unwrap();
        let mut kubectl = scene.namespace.kubectl(Identity::Developer).unwrap();
        let output = kubectl
            .args(["replace", "-o", "json", "-f"])
            .arg(&file)
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        gated(scene, &answer, "v3").await;
        completes(scene, "v3").await;
        gate.within_grants("v3").await;

        // At rest without the marks, too.
        let answer = scene.put(&bare("v4")).await.object();
        gated(scene, &answer, "v4").await;
    }
}

/// Server-side apply by a pipeline.
async fn apply(scene: &Scene<'_>, manifest: &Value, force: bool) -> Answer {
    let write = Write::Apply {
        manager: "ci",
        force,
        manifest,
    };
    scene.write(&scene.developer, write).await
}

#[tokio::test]
async fn r61_nobody_fights_over_the_partition() {
    for scene in &scenes("owners").await {
        let v1 = scene.manifest("v1", Some(0));
        apply(scene, &v1, false).await.object();
        scene.wait_pods("v1", 5).await;
        scene.create_rollout(&walk_steps()).await;
        scene.wait_phase("Healthy").await;
        let gate = Gate::open(scene).await;

        let v2 = scene.manifest("v2", Some(0));
        assert_eq!(
            partition(&apply(scene, &v2, false).await.object()),
            names::HOLD_PARTITION
        );
        scene.wait_state(1, "StepPaused").await;
        // The very same again: the conflict has our name, and force is clamped.
        let conflict = apply(scene, &v2, false).await;
        let message = conflict.body["message"].as_str().unwrap_or_default();
        assert!(
            conflict.code == 409 && message.contains(names::FIELD_MANAGER) && message.contains("partition"),
            "{conflict:?}"
        );
        assert_eq!(partition(&apply(scene, &v2, true).await.object()), 4);
        completes(scene, "v2").await;

        // Nothing of ours is left on the partition.
        let v3 = scene.manifest("v3", Some(0));
        assert_eq!(
            partition(&apply(scene, &v3, false).await.object()),
            names::HOLD_PARTITION
        );
        completes(scene, "v3").await;
        gate.within_grants("v3").await;
    }
}

/// A manifest without a partition has nothing to fight over.
#[tokio::test]
async fn r61_a_manifest_without_a_partition_never_conflicts() {
    for scene in &scenes("owners-none").await {
        apply(scene, &scene.manifest("v1", None), false).await.object();
        scene.wait_pods("v1", 5).await;
        scene.create_rollout(&walk_steps()).await;
        scene.wait_phase("Healthy").await;
        for version in ["v2", "v3"] {
            let manifest = scene.manifest(version, None);
            let held = apply(scene, &manifest, false).await.object();
            assert_eq!(partition(&held), names::HOLD_PARTITION);
            scene.wait_state(1, "StepPaused").await;
            assert_eq!(partition(&apply(scene, &manifest, false).await.object()), 4);
            completes(scene, version).await;
        }
    }
}

const INJECTED: &str = "injected.example.io/by";

/// Admission that gives every pod of these namespaces a label, an annotation and a sidecar, and every workload an annotation in its
/// template.
async fn inject(installation: &Installation<'_>, scenes: &[Scene<'_>]) {
    let namespaces: Vec<_> = scenes.iter().map(|scene| scene.namespace.name()).collect();
    let escaped = INJECTED.replace('/', "~1");
    let add = |path: &str, value: &str| format!("JSONPatch{{op: 'add', path: '{path}', value: {value}}}");
    let pod = [
        add(&format!("/metadata/labels/{escaped}"), "'policy'"),
        add(&format!("/metadata/annotations/{escaped}"), "'policy'"),
        add(
            "/spec/containers/-",
            "Object.spec.containers{name: 'sidecar', image: 'my-registry/sidecar:v1'}",
        ),
    ];
    let template = add(
        &format!("/spec/template/metadata/annotations/{escaped}"),
        "'policy'",
    );
    let rule = |group: &str, resource: &str, operations: &[&str]| json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]});
    let both = ["CREATE", "UPDATE"];
    let policies = [
        (
            "inject-pods",
            // A sidecar twice would be one too many.
            "Never",
            pod.join(", "),
            json!([rule("", "pods", &["CREATE"])]),
        ),
        (
            "inject-templates",
            "IfNeeded",
            template,
            json!([
                rule("apps", "statefulsets", &both),
                rule("example.io", "mystatefulapps", &both)
            ]),
        ),
    ];
    for (name, reinvocation, patch, rules) in policies {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail", "reinvocationPolicy": reinvocation,
                "matchConstraints": {"resourceRules": rules, "namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]}},
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!("[{patch}]")}}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name},
        });
        installation.kubectl_apply(&policy.to_string()).await.unwrap();
        installation.kubectl_apply(&binding.to_string()).await.unwrap();
    }
}

/// A workload whose template has annotations, so that there is room for one more.
fn annotated(scene: &Scene<'_>, version: &str) -> Value {
    let mut manifest = scene.manifest(version, Some(0));
    manifest["spec"]["template"]["metadata"]["annotations"] = json!({"example.io/note": "x"});
    manifest
}

/// Every pod has what was injected.
async fn intact(scene: &Scene<'_>) {
    let pods: Api<Pod> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(pods.len(), 5);
    for pod in pods {
        let pod = serde_json::to_value(pod).unwrap();
        assert_eq!(pod["metadata"]["labels"][INJECTED], "policy", "{pod:#}");
        assert_eq!(pod["metadata"]["annotations"][INJECTED], "policy");
        assert_eq!(pod["spec"]["containers"][1]["name"], "sidecar");
    }
}

#[tokio::test]
async fn r60_what_others_inject_stays_and_is_no_change() {
    let installation = installed().await;
    let scenes = scenes("inject").await;
    inject(installation, &scenes).await;
    for scene in &scenes {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let manifest = annotated(scene, "v1");
        let probe = serde_json::from_value(manifest.clone()).unwrap();
        eventually(SOON, "the policies are in force", async || {
            let apps = scene.apps(&scene.developer);
            let answer = apps
                .create(&dry_run, &probe)
                .await
                .map_err(|error| error.to_string())?;
            let template = &answer.data["spec"]["template"]["metadata"]["annotations"];
            if template[INJECTED] == "policy" {
                Ok(())
            } else {
                Err(template.to_string())
            }
        })
        .await;
        scene.create_app(&manifest).await;
        scene.wait_pods("v1", 5).await;
        scene.create_rollout(&walk_steps()).await;
        scene.wait_phase("Healthy").await;
        let gate = Gate::open(scene).await;

        scene.put(&annotated(scene, "v2")).await.object();
        scene.wait_state(1, "StepPaused").await;
        completes(scene, "v2").await;
        intact(scene).await;
        gate.within_grants("v2").await;

        // The manifest again, which says nothing of what is injected: no release.
        let again = scene.put(&annotated(scene, "v2")).await.object();
        assert_eq!(partition(&again), 0);
        assert_free(&again);

        let v3 = json!([{"name": "app", "image": "my-registry/my-app:v3"}]);
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"containers": v3}}}}));
        let apps = scene.apps(&scene.developer);
        apps.patch(crate::scene::APP, &PatchParams::default(), &patch)
            .await
            .unwrap();
        scene.wait_state(1, "StepPaused").await;
        let answer = scene.put(&annotated(scene, "v2")).await;
        assert!(
            answer.warnings.iter().any(|text| text.contains("rolls back")),
            "{answer:?}"
        );
        scene
            .wait("rolled back", |rollout| {
                condition(rollout, "Succeeded")["reason"] == "RolledBack"
            })
            .await;
        scene.wait_pods("v2", 5).await;
        intact(scene).await;
    }
}
