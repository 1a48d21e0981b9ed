//! What a release of every kind goes through: the walk, the ways back, and what befalls it on the way. A subject is a workload of
//! some kind; a gate watches that no more of its pods run the new version than the step allows, at any instant.

use kruise_rollout::names;
use serde_json::{Value, json};
use support::eventually;

use crate::gate::{Exposure, Gate};
use crate::scene::{ROLLOUT, SOON, Scene, assert_free, condition, mark};

/// A workload that is to be released, with five pods.
pub struct Subject<'a> {
    pub scene: Scene<'a>,
    /// Its manifest, of version v1.
    pub manifest: Value,
}

/// By number and by percentage; the first two wait for approval.
fn steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}])
}

/// The walk of five pods by these steps.
const WALK: [Exposure; 5] = [(5, 0), (0, 0), (1, 1), (3, 3), (5, 5)];

impl Subject<'_> {
    /// All pods on v1, guarded, at rest. The controller has set the label that the manifest lacks.
    pub async fn set(&self) {
        self.set_by(&steps()).await;
    }

    /// The same, with other steps.
    pub async fn set_by(&self, steps: &Value) {
        let scene = &self.scene;
        assert!(self.manifest["metadata"]["labels"].is_null());
        scene.create_app(&self.manifest).await;
        scene.wait_pods("v1", 5).await;
        scene.create_rollout(steps).await;
        scene.wait_phase("Healthy").await;
        let label = &scene.app().await["metadata"]["labels"][names::WORKLOAD_TYPE];
        assert_eq!(*label, self.manifest["kind"].as_str().unwrap().to_lowercase());
    }

    /// The same, with v2 at its first pause and a gate that has seen all of it.
    async fn begun(&self) -> Gate {
        self.set().await;
        let gate = Gate::open(&self.scene).await;
        self.scene.set_version("v2").await;
        self.paused(1, "v2", 1).await;
        gate
    }

    /// Waits for the pause of a step, with so many pods on a version.
    async fn paused(&self, step: i64, version: &str, pods: usize) {
        self.scene.wait_state(step, "StepPaused").await;
        self.scene.wait_pods(version, pods).await;
    }

    /// Waits until the release has ended as it says, with five pods on the version and nothing of ours left but the guard.
    async fn ended(&self, reason: &str, version: &str) {
        let scene = &self.scene;
        let ended = |rollout: &Value| {
            rollout["status"]["phase"] == "Healthy" && condition(rollout, "Succeeded")["reason"] == reason
        };
        scene.wait(reason, ended).await;
        self.handed_back(version).await;
        assert!(mark(&scene.app().await, names::GUARDED_BY).is_string());
    }

    async fn handed_back(&self, version: &str) {
        let scene = &self.scene;
        scene.wait_pods(version, 5).await;
        scene
            .wait_app("handed back", |app| mark(app, names::GRANTED_PARTITION).is_null())
            .await;
        assert_free(&scene.app().await);
        assert_eq!(scene.pods().await.len(), 5);
    }

    /// Where the hold is, as people have it.
    async fn strategy(&self) -> Value {
        let spec = &self.scene.app().await["spec"];
        json!([spec["updateStrategy"], spec["strategy"], spec["paused"]])
    }

    /// Forward by all steps; the partition that people had set is in force again at the end.
    pub async fn walks(&self) {
        self.set().await;
        self.walks_on().await;
    }

    /// The same where all is set.
    pub async fn walks_on(&self) {
        let (scene, before) = (&self.scene, self.strategy().await);
        let gate = Gate::open(scene).await;
        scene.set_version("v2").await;
        self.paused(1, "v2", 1).await;
        scene.approve().await;
        self.paused(2, "v2", 3).await;
        scene.approve().await;
        self.ended("Success", "v2").await;
        assert_eq!(self.strategy().await, before);
        let seen = gate.exposures("v2").await;
        let own = seen[0].0;
        let back = if own == 5 { vec![] } else { vec![(own, 5)] };
        assert_eq!(seen, [&[(own, 0)], &WALK[1..], &back].concat());
    }

    /// Back to v1 from the first pause.
    pub async fn rolls_back(&self) {
        let gate = self.begun().await;
        self.scene.set_version("v1").await;
        self.ended("RolledBack", "v1").await;
        assert_eq!(gate.most("v2").await, 1);
    }

    /// v3 at the second pause of v2.
    pub async fn is_overtaken(&self) {
        let scene = &self.scene;
        let gate = self.begun().await;
        scene.approve().await;
        self.paused(2, "v2", 3).await;
        scene.set_version("v3").await;
        self.paused(1, "v3", 1).await;
        // Nobody is sent back, and no pod is made anew beyond the step.
        assert_eq!((gate.most("v2").await, gate.most("v3").await), (3, 1));
        scene.approve().await;
        self.paused(2, "v3", 3).await;
        scene.approve().await;
        self.ended("Success", "v3").await;
        let v3 = gate.exposures("v3").await;
        assert_eq!(v3[v3.len() - 4..], WALK[1..]);
    }

    /// From five pods to ten and back, at the pause of a number and at that of a percentage.
    pub async fn is_scaled(&self) {
        let scene = &self.scene;
        let gate = self.begun().await;
        self.sized(10, &[("v1", 9), ("v2", 1)]).await;
        self.sized(5, &[("v1", 4), ("v2", 1)]).await;
        scene.wait_state(1, "StepPaused").await;
        assert_eq!(gate.most("v2").await, 1);
        scene.approve().await;
        self.paused(2, "v2", 3).await;
        self.sized(10, &[("v1", 5), ("v2", 5)]).await;
        scene.wait_state(2, "StepPaused").await;
        assert_eq!(gate.most("v2").await, 5);
        scene.patch_app(json!({"spec": {"replicas": 5}})).await;
        eventually(SOON, "five pods", async || match scene.pods().await.len() {
            5 => Ok(()),
            more => Err(more),
        })
        .await;
        scene.wait_state(2, "StepPaused").await;
        scene.approve().await;
        self.ended("Success", "v2").await;
    }

    /// Another size, and how many ready pods of each version that comes to.
    async fn sized(&self, replicas: u32, pods: &[(&str, usize)]) {
        self.scene
            .patch_app(json!({"spec": {"replicas": replicas}}))
            .await;
        for (version, count) in pods {
            self.scene.wait_pods(version, *count).await;
        }
    }

    /// The Rollout is deleted at its first pause: the rest is released.
    pub async fn loses_its_rollout(&self) {
        self.set().await;
        let (scene, before) = (&self.scene, self.strategy().await);
        scene.set_version("v2").await;
        self.paused(1, "v2", 1).await;
        scene.delete_rollout().await;
        self.handed_back("v2").await;
        let app = scene.app().await;
        assert!(mark(&app, names::GUARDED_BY).is_null());
        assert_eq!(self.strategy().await, before);
    }

    /// The same under a controller that keeps workloads held then: it stays as it is, and that is told.
    pub async fn is_kept(&self) {
        let scene = &self.scene;
        self.set().await;
        scene.set_version("v2").await;
        self.paused(1, "v2", 1).await;
        scene.delete_rollout().await;
        let told = eventually(SOON, "it is told", async || {
            match scene.events("KeptHeld").await {
                told if told.is_empty() => Err("nothing"),
                told => Ok(told),
            }
        })
        .await;
        assert!(told.len() == 1 && told[0].contains(ROLLOUT), "{told:?}");
        scene.wait_pods("v2", 1).await;
    }

    /// Kept, it goes on where it was when the Rollout is there again.
    pub async fn is_kept_and_goes_on(&self) {
        self.is_kept().await;
        let (scene, own) = (&self.scene, &self.manifest["spec"]);
        let gate = Gate::open(scene).await;
        // Whoever applies it again lets nothing go.
        scene.patch_app(json!({"spec": own})).await;
        scene.set_version("v2").await;
        scene.create_rollout(&steps()).await;
        self.paused(1, "v2", 1).await;
        assert_eq!(gate.most("v2").await, 1);
        scene.approve().await;
        self.paused(2, "v2", 3).await;
        scene.approve().await;
        self.ended("Success", "v2").await;
    }

    /// By five steps, each after a pause, without anybody's doing: one pod a step, and each carries the label of its batch.
    pub async fn walks_by_time(&self) {
        let scene = &self.scene;
        let share = |step: u32| json!({"replicas": format!("{}%", step * 20), "pause": {"duration": 1}});
        self.set_by(&json!((1..=5).map(share).collect::<Vec<_>>())).await;
        let gate = Gate::open(scene).await;
        scene.name_release("by-time").await;
        scene.set_version("v2").await;
        self.ended("Success", "v2").await;
        let seen = gate.exposures("v2").await;
        let walk: Vec<_> = (0..=5)
            .map(|pods| (pods, usize::try_from(pods).unwrap()))
            .collect();
        assert_eq!(seen[1..], walk);
        self.batches("by-time", &[1, 1, 1, 1, 1]).await;
    }

    /// Waits until so many pods carry the label of the first batch of a release, of the second, and so on.
    pub async fn batches(&self, id: &str, sizes: &[usize]) {
        eventually(SOON, "every pod has its batch", async || {
            let batches = self.scene.batches().await;
            let of = |batch: usize| {
                let end = format!(" {id} {batch}");
                batches.iter().filter(|pod| pod.ends_with(&end)).count()
            };
            let found: Vec<_> = (1..=sizes.len()).map(of).collect();
            let all = sizes.iter().sum::<usize>() == batches.len();
            if found == sizes && all {
                Ok(())
            } else {
                Err(batches.join(", "))
            }
        })
        .await;
    }

    /// A version whose pods crash stays at the first step, and the stable one brings all pods back.
    pub async fn breaks(&self) {
        let scene = &self.scene;
        self.set().await;
        let gate = Gate::open(scene).await;
        scene.set_version("bad").await;
        scene.wait_some("bad").await;
        let status = &scene.looked_at("broken").await["status"];
        assert_eq!(
            (&status["currentStepIndex"], &status["currentStepState"]),
            (&json!(1), &json!("StepUpgrade"))
        );
        scene.wait_pods("v1", 4).await;
        scene.set_version("v1").await;
        self.ended("RolledBack", "v1").await;
        assert_eq!(gate.most("bad").await, 1);
    }
}
