//! Rollouts that end, workloads that go, and releases that follow each other, in every state.

use futures::future::{join, join_all, join3};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use super::fixtures::{approved_steps, sized};
use crate::gate::Gate;
use crate::ground::Ground;
use crate::kinds::OwnKind;
use crate::scene::{APP, ROLLOUT, SOON, Scene, assert_free, condition, mark, partition};

/// Where a Rollout may stand when somebody ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its workload has not come.
    NotThere,
    /// Nothing is being released.
    AtRest,
    /// A change is held, and nothing of it granted.
    Held,
    /// A pod of step 1 does not get ready.
    Upgrading,
    /// Step 1 waits for a person.
    AwaitingApproval,
    /// Step 1 waits for its time.
    Waiting,
    /// Back from a version whose pod is in the way.
    GoingBack,
}

impl State {
    const ALL: [Self; 7] = [
        Self::NotThere,
        Self::AtRest,
        Self::Held,
        Self::Upgrading,
        Self::AwaitingApproval,
        Self::Waiting,
        Self::GoingBack,
    ];

    /// The partition of the manifest. While a pod is in the way nothing would be complete, which one above 0 waits for.
    fn original(self) -> i64 {
        if matches!(self, Self::Upgrading | Self::GoingBack) {
            0
        } else {
            2
        }
    }

    /// Whether somebody who ends the Rollout now lets go of something that is held back.
    fn holds_back(self) -> bool {
        matches!(
            self,
            Self::Held | Self::Upgrading | Self::AwaitingApproval | Self::Waiting
        )
    }

    /// A workload of three pods and its Rollout in this state.
    async fn reach(self, prefix: &str) -> Scene<'static> {
        let name = format!("{prefix}-{self:?}").to_lowercase();
        let scene = Scene::new(installed().await, &name).await;
        let pause = if self == Self::Waiting {
            json!({"duration": 300})
        } else {
            json!({})
        };
        let steps = json!([{"replicas": 1, "pause": pause}, {"replicas": "100%"}]);
        if self == Self::NotThere {
            scene.create_rollout(&steps).await;
            scene.wait_phase("Initial").await;
            return scene;
        }
        let manifest = sized(scene.manifest("v1", Some(self.original())), 3);
        scene.set_to(&manifest, &steps).await;
        match self {
            Self::NotThere | Self::AtRest => {}
            Self::Held => {
                scene
                    .patch_rollout(&json!({"spec": {"strategy": {"paused": true}}}))
                    .await;
                scene.set_version("v2").await;
                scene.wait_phase("Progressing").await;
            }
            Self::Upgrading => has_begun(&scene).await,
            Self::AwaitingApproval | Self::Waiting => {
                scene.set_version("v2").await;
                scene.wait_state(1, "StepPaused").await;
            }
            Self::GoingBack => {
                has_begun(&scene).await;
                scene.set_version("v1").await;
                scene.wait_app("opened", |app| partition(app) == 0).await;
            }
        }
        scene
    }

    /// Nothing of ours is left, and the release goes on as the operator does it.
    async fn is_free(self, scene: &Scene<'_>) {
        if self == Self::NotThere {
            return;
        }
        let app = scene
            .wait_app("let go", |app| mark(app, names::GUARDED_BY).is_null())
            .await;
        assert_free(&app);
        assert_eq!(partition(&app), self.original());
        match self {
            Self::AtRest => drop(scene.wait_pods("v1", 3).await),
            Self::Held | Self::AwaitingApproval | Self::Waiting => drop(scene.wait_pods("v2", 3).await),
            Self::NotThere | Self::Upgrading | Self::GoingBack => {}
        }
    }
}

/// A release of a version whose pods do not get ready has replaced one.
async fn has_begun(scene: &Scene<'_>) {
    scene.set_version("bad").await;
    eventually(SOON, "a pod on the bad version", async || {
        let pods = scene.pods().await;
        if pods.iter().any(|pod| pod.1 == "bad") {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn a_rollout_is_disabled_in_every_state_and_enabled_again() {
    let each = State::ALL.map(async |state| {
        let scene = state.reach("disabled").await;
        scene.patch_rollout(&json!({"spec": {"disabled": true}})).await;
        let disabled = scene.wait_phase("Disabled").await;
        assert_eq!(condition(&disabled, "Guarded")["status"], "False");
        state.is_free(&scene).await;
        let enabled = json!({"spec": {"disabled": false, "strategy": {"paused": false}}});
        scene.patch_rollout(&enabled).await;
        let again = if state == State::NotThere {
            scene.wait_phase("Initial").await
        } else {
            scene.wait_phase("Healthy").await
        };
        if state == State::Upgrading {
            // What goes on without steps is not shown as a release of ours.
            let message = again["status"]["message"].as_str().unwrap();
            assert!(message.contains("began before it was guarded"), "{message}");
        }
    });
    join_all(each).await;
}

/// Reasons of the events about the workload.
async fn told_about_the_workload(scene: &Scene<'_>) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    let about = format!("involvedObject.kind=MyStatefulApp,involvedObject.name={APP}");
    let events = events.list(&ListParams::default().fields(&about)).await.unwrap();
    let reasons = events.items.into_iter().filter_map(|event| event.reason);
    reasons.collect()
}

#[tokio::test]
async fn r33_a_rollout_is_deleted_in_every_state() {
    let each = State::ALL.map(async |state| {
        let scene = state.reach("r33").await;
        scene.delete_rollout().await;
        let left = scene.rollouts(&scene.admin).get_opt(ROLLOUT).await.unwrap();
        assert!(left.is_none(), "a deletion waits for nobody");
        state.is_free(&scene).await;
        if state.holds_back() {
            eventually(SOON, "an event tells that the rest is released", async || {
                let told = told_about_the_workload(&scene).await;
                if told.iter().any(|reason| reason == "Released") {
                    Ok(())
                } else {
                    Err(format!("{state:?}: {told:?}"))
                }
            })
            .await;
        }
    });
    join_all(each).await;
}

/// Deletes the Rollout with the finalizer that the existing controller gives it, which nobody but us removes.
async fn delete_with_finalizer(scene: &Scene<'_>) {
    scene
        .patch_rollout(&json!({"metadata": {"finalizers": [names::LEGACY_FINALIZER]}}))
        .await;
    scene.delete_rollout().await;
}

async fn is_gone(scene: &Scene<'_>) {
    eventually(SOON, "the Rollout is gone", async || {
        match scene.rollouts(&scene.admin).get_opt(ROLLOUT).await.unwrap() {
            None => Ok(()),
            Some(rollout) => Err(format!("{:?}", rollout.metadata)),
        }
    })
    .await;
}

async fn after_its_workload() {
    let scene = State::Upgrading.reach("r34").await;
    scene.delete_app().await;
    delete_with_finalizer(&scene).await;
    is_gone(&scene).await;
}

async fn after_its_kind() {
    let installation = installed().await;
    let kind = OwnKind::new("EndedApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let _operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "r34-kind", kind.resource.clone()).await;
    scene.set(Some(0), &approved_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let kinds: Api<CustomResourceDefinition> = Api::all(scene.admin.clone());
    kinds
        .delete("endedapps.example.io", &DeleteParams::default())
        .await
        .unwrap();
    delete_with_finalizer(&scene).await;
    is_gone(&scene).await;
}

async fn with_its_namespace() {
    let scene = State::Upgrading.reach("r34-namespace").await;
    scene
        .patch_rollout(&json!({"metadata": {"finalizers": [names::LEGACY_FINALIZER]}}))
        .await;
    let namespaces: Api<Namespace> = Api::all(scene.admin.clone());
    let name = scene.namespace.name();
    namespaces.delete(name, &DeleteParams::default()).await.unwrap();
    eventually(SOON, "the namespace is gone", async || {
        match namespaces.get_opt(name).await.unwrap() {
            None => Ok(()),
            Some(namespace) => Err(format!("{:?}", namespace.status)),
        }
    })
    .await;
}

#[tokio::test]
async fn r34_a_deleted_rollout_is_soon_gone() {
    join3(after_its_workload(), after_its_kind(), with_its_namespace()).await;
}

#[tokio::test]
async fn r34_also_while_another_replica_takes_over() {
    let mut installation = Ground::with_controller().await;
    let scene = Scene::new(&installation, "r34-leader").await;
    scene.set(Some(2), &approved_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let _spare = installation.spare_controller().unwrap();
    installation.kill_controller();
    delete_with_finalizer(&scene).await;
    is_gone(&scene).await;
    scene.wait_pods("v2", 5).await;
    let app = scene
        .wait_app("let go", |app| mark(app, names::GUARDED_BY).is_null())
        .await;
    assert_free(&app);
    assert_eq!(partition(&app), 2);
}

#[tokio::test]
async fn a_release_that_is_overtaken_twice_goes_back_to_where_it_began() {
    let scene = Scene::new(installed().await, "overtaken").await;
    scene.set(None, &approved_steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    for version in ["v3", "v4"] {
        scene.set_version(version).await;
        scene.wait_pods(version, 1).await;
        scene.wait_state(1, "StepPaused").await;
    }
    // No pod went back to v3 or v2, and none that had come to v2 left it for a template that was not granted.
    assert_eq!(scene.wait_pods("v4", 1).await, ["my-app-4"]);
    assert_eq!(scene.wait_pods("v2", 2).await, ["my-app-2", "my-app-3"]);
    scene.set_version("v1").await;
    let back = scene
        .wait("rolled back", |rollout| {
            rollout["status"]["phase"] == "Healthy"
                && condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    assert_eq!(back["status"]["canaryStatus"]["currentStepState"], "Completed");
    assert_eq!(scene.wait_pods("v1", 5).await.len(), scene.pods().await.len());
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(partition(&app), &Value::Null);
    for (version, most) in [("v2", 3), ("v3", 1), ("v4", 1)] {
        let pods = gate.steps(version).await.into_iter().map(|(_, pods)| pods).max();
        assert_eq!(pods, Some(most), "{version}");
    }
}

/// Condition of a pod that the cases set, and its readiness waits for.
const UP: &str = "example.io/up";

/// Says that a pod is up.
async fn bring_up(scene: &Scene<'_>, pod: &str) {
    let pods: Api<Pod> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    let up = json!({"status": {"conditions": [{"type": UP, "status": "True"}]}});
    eventually(SOON, &format!("{pod} is there and on v2"), async || {
        let found = scene.pods().await;
        if !found
            .iter()
            .any(|(name, version, _)| name == pod && version == "v2")
        {
            return Err(format!("{found:?}"));
        }
        let patch = Patch::Strategic(&up);
        let patched = pods.patch_status(pod, &PatchParams::default(), &patch).await;
        patched.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

/// A release whose first step has two pods that get ready, and a third one that does not.
async fn with_a_failing_pod(prefix: &str, threshold: Option<&str>) -> Scene<'static> {
    let scene = Scene::new(installed().await, prefix).await;
    let steps = json!([{"replicas": 3, "pause": {}}, {"replicas": "100%"}]);
    scene.set(None, &steps).await;
    if let Some(threshold) = threshold {
        scene
            .patch_rollout(&json!({"spec": {"strategy": {"canary": {"failureThreshold": threshold}}}}))
            .await;
    }
    let image = json!([{"name": "app", "image": "my-registry/my-app:v2"}]);
    let template = json!({"spec": {"containers": image, "readinessGates": [{"conditionType": UP}]}});
    scene.patch_app(json!({"spec": {"template": template}})).await;
    for pod in ["my-app-4", "my-app-3"] {
        bring_up(&scene, pod).await;
    }
    scene
        .wait_app("the third pod is there", |app| {
            app["status"]["updatedReplicas"] == 3
        })
        .await;
    scene
}

async fn is_tolerated() {
    let scene = with_a_failing_pod("failing-tolerated", Some("30%")).await;
    let paused = scene.wait_state(1, "StepPaused").await;
    let canary = &paused["status"]["canaryStatus"];
    assert_eq!(
        (&canary["canaryReplicas"], &canary["canaryReadyReplicas"]),
        (&json!(3), &json!(2))
    );
    assert_eq!(partition(&scene.app().await), 2);
    // All the same, the end waits for every pod.
    scene.approve().await;
    scene.wait_state(2, "StepUpgrade").await;
    for pod in ["my-app-2", "my-app-1", "my-app-0"] {
        bring_up(&scene, pod).await;
    }
    scene.wait_released().await;
}

async fn is_waited_for() {
    let scene = with_a_failing_pod("failing-waited", None).await;
    // The controller has seen the pods that are there: it says what it waits for.
    let upgrading = scene.wait_state(1, "StepUpgrade").await;
    assert_eq!(upgrading["status"]["phase"], "Progressing");
    bring_up(&scene, "my-app-2").await;
    scene.wait_state(1, "StepPaused").await;
}

#[tokio::test]
async fn a_failing_pod_is_tolerated_by_the_threshold_alone() {
    join(is_tolerated(), is_waited_for()).await;
}
