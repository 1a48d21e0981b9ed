//! The switch as it is documented, in mid-release, and the two controllers at once.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Event;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use support::{Identity, Installation, eventually};

use super::left::{STEP_1, define_batch_releases, is_tidy, nothing_registered};
use crate::gate::Gate;
use crate::ground::{Ground, called, finish};
use crate::plugin::kruise;
use crate::scene::{ROLLOUT, SOON, Scene, condition, partition};

/// The registration of the existing controller, which nobody answers for.
pub fn registration(failure_policy: &str) -> Value {
    let entry = |name: &str,
                 group: &str,
                 version: &str,
                 resources: &str,
                 operations: &[&str],
                 selected: bool| {
        let mut entry = json!({
            "name": name, "failurePolicy": failure_policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 2, "clientConfig": {"url": "https://127.0.0.1:1/mutate", "caBundle": ""},
            "rules": [{"apiGroups": [group], "apiVersions": [version], "resources": [resources], "operations": operations}],
        });
        if selected {
            entry["objectSelector"] =
                json!({"matchExpressions": [{"key": names::WORKLOAD_TYPE, "operator": "Exists"}]});
        }
        entry
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": names::LEGACY_WEBHOOK_CONFIGURATION},
        "webhooks": [
            entry("mcloneset.kb.io", "apps.kruise.io", "v1alpha1", "clonesets", &["UPDATE"], true),
            entry("mdaemonset.kb.io", "apps.kruise.io", "v1alpha1", "daemonsets", &["UPDATE"], true),
            entry("mdaemonset-native.kb.io", "apps", "v1", "daemonsets", &["UPDATE"], false),
            entry("mdeployment.kb.io", "apps", "v1", "deployments", &["UPDATE"], true),
            entry("munifiedworload.kb.io", "*", "*", "*", &["CREATE", "UPDATE"], true),
        ],
    })
}

async fn registrations(ground: &Installation<'_>) -> Api<MutatingWebhookConfiguration> {
    Api::all(ground.control_plane().client(Identity::Admin).await.unwrap())
}

/// Runs a command of the documentation as the administrator.
async fn run(scene: &Scene<'_>, command: &str) {
    let documented = include_str!("../../../docs/migration.md");
    let unindented: String = documented
        .lines()
        .flat_map(|line| [line.strip_prefix("   ").unwrap_or(line), "\n"])
        .collect();
    assert!(unindented.contains(command), "not documented: {command}");
    let mut kubectl = scene.namespace.kubectl(Identity::Admin).unwrap();
    let words = shell_words(command);
    let output = kubectl.args(&words[1..]).output().await.unwrap();
    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The words of a command in which nothing but single quotes means anything, and lines go on after a backslash.
fn shell_words(command: &str) -> Vec<String> {
    let joined = command.replace("\\\n", " ");
    let quoted = joined.split('\'').enumerate();
    let words = quoted.flat_map(|(part, text)| match part % 2 {
        0 => text.split_whitespace().map(str::to_owned).collect(),
        _ => vec![text.to_owned()],
    });
    words.collect()
}

const EXEMPT: &str = r#"kubectl patch mutatingwebhookconfiguration kruise-rollout-mutating-webhook-configuration --type=strategic -p '
webhooks:
  - {name: mcloneset.kb.io, matchConditions: &ours [{name: not-the-new-controller,
      expression: "request.userInfo.username != \"system:serviceaccount:kruise-rollout:kruise-rollout-controller\""}]}
  - {name: mdaemonset.kb.io, matchConditions: *ours}
  - {name: mdaemonset-native.kb.io, matchConditions: *ours}
  - {name: mdeployment.kb.io, matchConditions: *ours}
  - {name: munifiedworload.kb.io, matchConditions: *ours}'"#;
const REMOVE: &str =
    "kubectl delete mutatingwebhookconfiguration kruise-rollout-mutating-webhook-configuration";

async fn said(ground: &Installation<'_>, scene: &Scene<'_>, is: bool) {
    eventually(SOON, &format!("that there are two is said: {is}"), async || {
        let metrics = ground.metrics().await.unwrap();
        let counted = metrics.contains(&format!("kruise_rollout_other_controller {}", i64::from(is)));
        let doctor = kruise(
            scene,
            Identity::Admin,
            &["doctor", &format!("rollout/{ROLLOUT}"), "-o", "json"],
        )
        .await;
        let told = doctor.answer.contains("is registered too") && doctor.answer.contains(REMOVE);
        if counted && told == is {
            Ok(())
        } else {
            Err(doctor.answer)
        }
    })
    .await;
}

#[tokio::test]
async fn the_switch_leaves_no_gap() {
    let mut ground = Ground::take().await;
    nothing_registered(&ground).await;
    define_batch_releases(&ground).await;
    let scene = Scene::new(&ground, "switch").await;
    STEP_1.in_scene(&scene).await;
    let gate = Gate::open(&scene).await;
    // Theirs is stopped, and what it has registered stands.
    ground
        .kubectl_apply(&registration("Fail").to_string())
        .await
        .unwrap();
    eventually(SOON, "nobody changes a template", async || {
        match scene.try_version("v3").await {
            Err(refused) if refused.contains("munifiedworload.kb.io") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    run(&scene, EXEMPT).await;
    ground.start_controller().await.unwrap();
    called(&ground).await;
    scene
        .wait("guarded", |rollout| {
            condition(rollout, "Guarded")["status"] == "True"
        })
        .await;
    said(&ground, &scene, true).await;
    // Neither is there an instant in which a write would pass unseen, nor does the release move.
    assert!(scene.try_version("v3").await.is_err());
    let paused = scene.wait_state(1, "StepPaused").await;
    assert!(
        paused["metadata"]["finalizers"].is_array(),
        "theirs may still be at work"
    );
    run(&scene, REMOVE).await;
    said(&ground, &scene, false).await;
    is_tidy(&scene).await;
    assert_eq!(gate.most("v2").await, 1);
    // The manifest as its owner has it does not open the release.
    let again = scene
        .patch_app(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}))
        .await;
    assert_eq!(partition(&again), 4);
    finish(&scene, "v2").await;
    let log = std::fs::read_to_string(ground.controller_log().unwrap()).unwrap();
    let stop = "kubectl -n kruise-rollout scale deployment kruise-rollout-controller-manager --replicas=0";
    assert!(log.contains(stop), "{log}");
}

#[tokio::test]
async fn another_controller_beside_ours_is_said() {
    let ground = Ground::with_controller().await;
    let scene = Scene::new(&ground, "beside").await;
    scene.set(Some(0), &super::left::steps()).await;
    said(&ground, &scene, false).await;
    ground
        .kubectl_apply(&registration("Ignore").to_string())
        .await
        .unwrap();
    said(&ground, &scene, true).await;
    eventually(SOON, "an event", async || {
        let events: Api<Event> = Api::all(scene.admin.clone());
        let found = events
            .list(&ListParams::default().fields("reason=TwoControllers"))
            .await
            .unwrap();
        if found.items.is_empty() {
            Err("none")
        } else {
            Ok(())
        }
    })
    .await;
    let other = registrations(&ground).await;
    other
        .delete(names::LEGACY_WEBHOOK_CONFIGURATION, &DeleteParams::default())
        .await
        .unwrap();
    said(&ground, &scene, false).await;
}
