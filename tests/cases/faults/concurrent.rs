//! Many releases at once, each with a plan of its own.

use futures::future::join_all;
use k8s_openapi::api::events::v1::Event;
use kruise_rollout::names;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use crate::ground::Dice;
use crate::scene::{SOON, Scene, mark, partition};

/// Pods of each workload.
const PODS: i64 = 6;
/// Workloads in each namespace.
const APPS: i64 = 6;

/// A workload and its Rollout, which have the same name.
struct Planned<'a> {
    scene: &'a Scene<'a>,
    name: String,
    /// Pods of the first step.
    first: i64,
}

impl Planned<'_> {
    async fn create(&self) {
        let name = &self.name;
        let mut app = self.scene.manifest("v1", Some(0));
        app["metadata"]["name"] = json!(name);
        app["spec"]["replicas"] = json!(PODS);
        app["spec"]["template"]["metadata"]["labels"]["app"] = json!(name);
        self.scene.create_app(&app).await;
        let steps = json!([{"replicas": self.first, "pause": {}}, {"replicas": "100%"}]);
        let mut rollout = self.scene.rollout_manifest(&steps);
        rollout["metadata"]["name"] = json!(name);
        rollout["spec"]["workloadRef"]["name"] = json!(name);
        let rollout = serde_json::from_value(rollout).unwrap();
        let rollouts = self.scene.rollouts(&self.scene.developer);
        rollouts.create(&PostParams::default(), &rollout).await.unwrap();
    }

    async fn wait(&self, what: &str, done: impl Fn(&Value) -> bool) {
        eventually(SOON, &format!("{}: {what}", self.name), async || {
            let rollout = self
                .scene
                .rollouts(&self.scene.admin)
                .get(&self.name)
                .await
                .unwrap();
            let status = serde_json::to_value(rollout.status).unwrap();
            if done(&status) {
                Ok(())
            } else {
                Err(format!("{status:#}"))
            }
        })
        .await;
    }

    async fn set_version(&self) {
        let image = json!([{"name": "app", "image": "my-registry/my-app:v2"}]);
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"containers": image}}}}));
        let apps = self.scene.apps(&self.scene.developer);
        apps.patch(&self.name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits for the end of its first step, which is its own.
    async fn is_at_its_first_step(&self) {
        let (name, first) = (&self.name, self.first);
        self.wait("its own first step", |status| {
            status["currentStepState"] == "StepPaused"
                && status["canaryStatus"]["canaryReadyReplicas"] == first
        })
        .await;
        let app = self.scene.apps(&self.scene.admin).get(name).await.unwrap();
        let app = serde_json::to_value(app).unwrap();
        assert_eq!(partition(&app), PODS - first, "{name}");
        let marked = json!(format!(r#"{{"rolloutName":"{name}"}}"#));
        assert_eq!(mark(&app, names::IN_PROGRESSING), &marked);
        let updated = app["status"]["updatedReplicas"].as_i64().unwrap_or_default();
        assert!(updated <= first, "{name}: {updated}");
    }

    async fn approve(&self) {
        let patch = Patch::Merge(json!({"status": {"canaryStatus": {"currentStepState": "StepReady"}}}));
        let rollouts = self.scene.rollouts(&self.scene.approver);
        rollouts
            .patch_status(&self.name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

/// No event tells of another workload than the one that it is about.
async fn events_keep_to_their_own(scene: &Scene<'_>) {
    let events: Api<Event> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    for event in events.list(&ListParams::default()).await.unwrap() {
        let about = event.regarding.and_then(|about| about.name).unwrap_or_default();
        let note = event.note.unwrap_or_default();
        let mut others = (0..APPS)
            .map(|i| format!("web-{i}"))
            .filter(|name| !about.starts_with(name));
        assert!(!others.any(|name| note.contains(&name)), "{about}: {note}");
    }
}

/// Eighteen workloads of the same names in three namespaces, each with a plan of its own, at once.
#[tokio::test]
async fn r28_each_release_follows_its_own_plan() {
    let installation = installed().await;
    let scenes = join_all((0..3).map(|_| Scene::new(installation, "plans"))).await;
    let mut all = Vec::new();
    for (shift, scene) in scenes.iter().enumerate() {
        all.extend((0..APPS).map(|i| Planned {
            scene,
            name: format!("web-{i}"),
            first: 1 + (i + 2 * shift as i64) % (PODS - 1),
        }));
    }
    join_all(all.iter().map(Planned::create)).await;
    join_all(
        all.iter()
            .map(|planned| planned.wait("healthy", |status| status["phase"] == "Healthy")),
    )
    .await;
    join_all(all.iter().map(Planned::set_version)).await;
    join_all(all.iter().map(Planned::is_at_its_first_step)).await;

    let mut dice = Dice::new(28);
    let mut order: Vec<_> = all.iter().collect();
    order.sort_by_cached_key(|_| dice.below(1000));
    for planned in order {
        planned.approve().await;
    }
    let over = |status: &Value| {
        status["phase"] == "Healthy" && status["canaryStatus"]["currentStepState"] == "Completed"
    };
    join_all(all.iter().map(|planned| planned.wait("its end", over))).await;
    join_all(scenes.iter().map(events_keep_to_their_own)).await;
}
