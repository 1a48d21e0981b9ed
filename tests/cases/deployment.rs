//! Deployments, under the controllers of Kubernetes' own. They are held by the webhook, and their ReplicaSets are ours to size.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, ListParams, Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use support::{Installation, eventually, installed};

use crate::courses::Subject;
use crate::gate::Gate;
use crate::ground::Ground;
use crate::scene::{APP, SOON, Scene, assert_free, condition, image, mark};

mod odd;

fn apps(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind))
}

/// A Deployment with these members of its spec.
pub async fn subject_on<'a>(installation: &Installation<'a>, prefix: &str, spec: Value) -> Subject<'a> {
    let prefix = format!("deploy-{prefix}");
    let scene = Scene::of_kind(installation, &prefix, apps("Deployment")).await;
    let mut manifest = scene.manifest("v1", None);
    manifest["metadata"].as_object_mut().unwrap().remove("labels");
    manifest["spec"].as_object_mut().unwrap().remove("serviceName");
    for (field, value) in spec.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    Subject { scene, manifest }
}

async fn subject(prefix: &str, spec: Value) -> Subject<'static> {
    subject_on(installed().await, prefix, spec).await
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
}

/// Names and sizes of the ReplicaSets that are to have pods, by the version of their image.
async fn sets(scene: &Scene<'_>) -> Vec<(String, String, u64)> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(scene.admin.clone(), scene.namespace.name(), &apps("ReplicaSet"));
    let list = api.list(&ListParams::default()).await.unwrap();
    let set = |set: DynamicObject| {
        let image = set
            .data
            .pointer("/spec/template/spec/containers/0/image")
            .unwrap();
        let version = image.as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        let size = set.data["spec"]["replicas"].as_u64().unwrap();
        (version, set.metadata.name.unwrap(), size)
    };
    let mut sets: Vec<_> = list
        .items
        .into_iter()
        .map(set)
        .filter(|(.., size)| *size > 0)
        .collect();
    sets.sort();
    sets
}

/// Scales as `kubectl scale` and autoscalers do.
async fn scale(scene: &Scene<'_>, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    let api = scene.apps(&scene.developer);
    let _ = api
        .patch_scale(APP, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_deployment_walks_its_steps() {
    subject("walk", json!({})).await.walks().await;
}

#[tokio::test]
async fn a_deployment_rolls_back_at_the_first_step() {
    subject("back", json!({})).await.rolls_back().await;
}

#[tokio::test]
async fn a_deployment_is_overtaken_by_another_version() {
    subject("v3", json!({})).await.is_overtaken().await;
}

#[tokio::test]
async fn a_deployment_is_scaled_in_mid_release() {
    subject("size", json!({})).await.is_scaled().await;
}

#[tokio::test]
async fn a_deployment_loses_its_rollout_in_mid_release() {
    subject("lost", json!({})).await.loses_its_rollout().await;
}

#[tokio::test]
async fn a_deployment_of_a_broken_image_stops_at_the_first_step() {
    subject("bad", json!({})).await.breaks().await;
}

/// Two releases with never fewer ready pods than `least` and never more pods than `most` at any instant.
async fn keeps_its_bounds(prefix: &str, spec: Value, least: usize, most: usize) {
    let subject = subject(prefix, spec).await;
    let scene = &subject.scene;
    subject.set().await;
    let before = scene.app().await["spec"].clone();
    let gate = Gate::open(scene).await;
    for version in ["v2", "v3"] {
        scene.set_version(version).await;
        for step in [1, 2] {
            scene.wait_state(step, "StepPaused").await;
            scene.approve().await;
        }
        scene.wait_released().await;
        scene.wait_pods(version, 5).await;
        assert_eq!(scene.pods().await.len(), 5);
        let after = scene.app().await;
        assert_eq!(
            (&after["spec"]["strategy"], &after["spec"]["paused"]),
            (&before["strategy"], &before["paused"])
        );
        gate.within_grants(version).await;
    }
    let seen = gate.crowd(5).await;
    assert!(seen.0 >= least && seen.1 <= most, "{seen:?}");
}

#[tokio::test]
async fn a_surge_takes_no_pod_away() {
    keeps_its_bounds("surge", rolling(json!(1), json!(0)), 5, 6).await;
}

#[tokio::test]
async fn percentages_are_rounded_as_kubernetes_rounds_them() {
    keeps_its_bounds("percent", rolling(json!("25%"), json!("25%")), 4, 7).await;
}

/// The first pod of a release comes before one goes, for a moment, since there have to be two ReplicaSets with pods.
#[tokio::test]
async fn without_a_surge_there_is_one_pod_more_at_most() {
    keeps_its_bounds("nosurge", rolling(json!(0), json!(1)), 4, 6).await;
}

#[tokio::test]
async fn a_deployment_that_is_to_be_recreated_takes_steps_too() {
    keeps_its_bounds("recreate", json!({"strategy": {"type": "Recreate"}}), 0, 6).await;
}

/// At the end nothing moves any more: the controller of Deployments finds all done.
#[tokio::test]
async fn what_was_released_is_left_alone_by_the_controller_of_deployments() {
    let subject = subject("rest", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    subject.walks().await;
    let (before, sets_before) = (scene.pods().await, sets(scene).await);
    assert_eq!(sets_before.len(), 1);
    // Its ReplicaSet takes up what people scale, and a Rollout that has gone leaves a Deployment as any other.
    scale(scene, 7).await;
    scene.wait_pods("v2", 7).await;
    let now = scene.pods().await;
    assert!(
        before
            .iter()
            .all(|(name, ..)| now.iter().any(|(other, ..)| other == name))
    );
    assert_eq!(sets(scene).await[0].1, sets_before[0].1);
    scene.delete_rollout().await;
    scene
        .wait_app("let go", |app| mark(app, names::GUARDED_BY).is_null())
        .await;
    scene.set_version("v3").await;
    scene.wait_pods("v3", 7).await;
    scene
        .wait_app("complete", |app| app["status"]["updatedReplicas"] == 7)
        .await;
}

/// `kubectl scale`, the first time before anything is exposed.
#[tokio::test]
async fn a_deployment_is_scaled_by_its_subresource() {
    let subject = subject("hpa", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    subject.set().await;
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": true}}}))
        .await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scale(scene, 10).await;
    scene.wait_pods("v1", 10).await;
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": false}}}))
        .await;
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 1).await;
    scene.wait_pods("v1", 9).await;
    scale(scene, 5).await;
    scene.wait_pods("v1", 4).await;
    assert_eq!(gate.most("v2").await, 1);
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scale(scene, 9).await;
    scene.wait_pods("v2", 5).await;
    scene.wait_pods("v1", 4).await;
    assert_eq!(gate.most("v2").await, 5);
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2", 9).await;
}

/// What people have paused waits for them, as any other operator that is told to update nothing.
#[tokio::test]
async fn a_deployment_that_people_have_paused_waits_for_them() {
    let subject = subject("paused", json!({})).await;
    let scene = &subject.scene;
    subject.set().await;
    scene.patch_app(json!({"spec": {"paused": true}})).await;
    scene.set_version("v2").await;
    scene
        .wait("said", |rollout| {
            let message = rollout["status"]["message"].as_str().unwrap_or_default();
            message.contains("spec.paused of Deployment.apps my-app is true")
        })
        .await;
    scene.wait_pods("v1", 5).await;
    scene.patch_app(json!({"spec": {"paused": null}})).await;
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 1).await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.approve().await;
    scene.wait_released().await;
    assert_eq!(scene.app().await["spec"]["paused"], Value::Null);
}

/// A manifest that a tool applies again and again, with another strategy from some time on.
#[tokio::test]
async fn a_manifest_that_is_applied_all_the_time_releases_nothing() {
    let subject = subject("storm", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let mut manifest = subject.manifest.clone();
    manifest["spec"]["template"] = scene.manifest("v2", None)["spec"]["template"].clone();
    manifest["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 2, "maxUnavailable": 0});
    let api = scene.apps(&scene.developer);
    for round in 0..12 {
        let params = PatchParams::apply("sync").force();
        let applied = api.patch(APP, &params, &Patch::Apply(&manifest)).await.unwrap();
        let applied = serde_json::to_value(applied).unwrap();
        assert_eq!(
            applied["spec"]["strategy"],
            json!({"type": "Recreate"}),
            "{round}"
        );
        assert_eq!(applied["spec"]["paused"], true, "{round}");
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        if round == 6 {
            scene.approve().await;
        }
    }
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    scene.approve().await;
    scene.wait_released().await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(app["spec"]["strategy"], manifest["spec"]["strategy"]);
    gate.within_grants("v2").await;
    // Nothing of ours is left in the way of an apply without force.
    let params = PatchParams::apply("sync");
    eventually(SOON, "applied without force", async || {
        api.patch(APP, &params, &Patch::Apply(&manifest)).await.map(drop)
    })
    .await;
}

/// Other pods that the selector of the Deployment matches are nobody's business here.
#[tokio::test]
async fn r44_overlapping_selectors_do_not_mix_deployments_up() {
    let subject = subject("overlap", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    let mut other = subject.manifest.clone();
    other["metadata"]["name"] = json!("other");
    other["spec"]["replicas"] = json!(2);
    other["spec"]["template"] = scene.manifest("v9", None)["spec"]["template"].clone();
    let other = serde_json::from_value(other).unwrap();
    scene
        .apps(&scene.developer)
        .create(&Default::default(), &other)
        .await
        .unwrap();
    scene.wait_pods("v9", 2).await;
    subject.set().await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2", 5).await;
    scene.wait_pods("v9", 2).await;
}

/// Whole objects with nothing in their metadata but the name, as clusters that propagate manifests send them.
#[tokio::test]
async fn r52_a_whole_deployment_without_uid_is_held() {
    let subject = subject("bare", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    for version in ["v2", "v3"] {
        let mut bare = subject.manifest.clone();
        bare["metadata"] = json!({"name": APP, "namespace": scene.namespace.name()});
        bare["spec"]["template"] = scene.manifest(version, None)["spec"]["template"].clone();
        let app = scene.put(&bare).await.object();
        assert_eq!(app["spec"]["paused"], true);
        assert_eq!(app["metadata"]["labels"][names::WORKLOAD_TYPE], "deployment");
        scene.wait_pods(version, 1).await;
        scene.wait_state(1, "StepPaused").await;
        assert_eq!(gate.most(version).await, 1);
    }
}

/// On every server it is the webhook that holds, and nothing but labelled Deployments waits for it.
#[tokio::test]
async fn deployments_are_held_by_the_webhook() {
    let subject = subject("entry", json!({})).await;
    let scene = &subject.scene;
    subject.set().await;
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(scene.admin.clone());
    let found = configurations.get(names::WEBHOOK_CONFIGURATION).await.unwrap();
    let name = format!("deployments.apps.{}", names::HOLD_WEBHOOK);
    let entries = serde_json::to_value(&found.webhooks).unwrap();
    let entry = entries
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["name"] == name)
        .unwrap();
    assert_eq!(entry["failurePolicy"], "Fail");
    assert_eq!(
        entry["objectSelector"],
        json!({"matchLabels": {names::WORKLOAD_TYPE: "deployment"}})
    );
    assert!(entry["namespaceSelector"].to_string().contains("kube-system"));
}

/// To the controller of Deployments an empty member makes another template.
#[tokio::test]
async fn a_template_that_differs_in_an_empty_member_takes_steps() {
    let subject = subject("empty", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    subject.set().await;
    let mut template = image("v1");
    template["spec"]["template"]["spec"]["containers"][0]["securityContext"] = json!({});
    scene.patch_app(template).await;
    scene.wait_state(1, "StepPaused").await;
    eventually(SOON, "one pod of five", async || {
        let sizes: Vec<_> = sets(scene).await.into_iter().map(|(.., size)| size).collect();
        match &sizes[..] {
            [1, 4] | [4, 1] => Ok(()),
            _ => Err(format!("{sizes:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_deployment_rolls_back_in_batches() {
    let subject = subject("batches", rolling(json!(1), json!(0))).await;
    let scene = &subject.scene;
    subject.set().await;
    let annotation = json!({"metadata": {"annotations": {names::ROLLBACK_IN_BATCH: "true"}}});
    scene.patch_rollout(&annotation).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    scene.set_version("v1").await;
    // Two pods have never left: the first step is there, the second one brings one more.
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v1", 3).await;
    scene.wait_pods("v2", 2).await;
    scene.approve().await;
    scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    scene.wait_pods("v1", 5).await;
    assert_free(&scene.app().await);
}

/// The controller is killed in mid-step; meanwhile people scale, and nothing moves but by its hand.
#[tokio::test]
async fn a_controller_that_is_killed_in_mid_step_goes_on() {
    let mut installation = Ground::with_controller().await;
    let subject = subject_on(&installation, "crash", rolling(json!(1), json!(0))).await;
    let scene = subject.scene;
    scene.create_app(&subject.manifest).await;
    scene.wait_pods("v1", 5).await;
    let steps = json!([{"replicas": "40%", "pause": {}}, {"replicas": "80%"}, {"replicas": "100%"}]);
    scene.create_rollout(&steps).await;
    scene.wait_phase("Healthy").await;
    let gate = Gate::open(&scene).await;
    // Slow enough to be met on its way.
    scene.set_version("v2-slow-2").await;
    eventually(SOON, "a pod of v2", async || {
        let pods = scene.pods().await;
        let began = pods.iter().any(|(_, version, _)| version == "v2-slow-2");
        if began { Ok(()) } else { Err(format!("{pods:?}")) }
    })
    .await;
    installation.kill_controller();
    let down = sets(&scene).await;
    scale(&scene, 10).await;
    scene
        .wait_app("seen", |app| {
            app["status"]["observedGeneration"] == app["metadata"]["generation"]
        })
        .await;
    assert_eq!(sets(&scene).await, down);
    let answer = scene.try_version("v3").await;
    assert!(answer.unwrap_err().contains(names::HOLD_WEBHOOK));
    installation.start_controller().await.unwrap();
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2-slow-2", 4).await;
    scene.wait_pods("v1", 6).await;
    gate.within_grants("v2-slow-2").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.approve().await;
    let done = scene
        .wait("completed", |rollout| {
            condition(rollout, "Succeeded")["status"] == "True"
        })
        .await;
    assert_eq!(done["status"]["phase"], "Healthy");
    scene.wait_pods("v2-slow-2", 10).await;
    assert_eq!(scene.pods().await.len(), 10);
    gate.within_grants("v2-slow-2").await;
}
