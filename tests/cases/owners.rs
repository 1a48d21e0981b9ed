//! An operator that has its pods made by a StatefulSet: they belong to the workload through one owner in between.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use support::{eventually, installed};

use crate::kinds::OwnKind;
use crate::scene::{APP, SOON, Scene, walk_steps};

/// One turn of such an operator: template and partition go down to the StatefulSet, its status comes up. The case plays it.
struct Wrapper {
    apps: Api<DynamicObject>,
    sets: Api<StatefulSet>,
}

impl Wrapper {
    fn new(scene: &Scene<'_>, admin: &Client) -> Self {
        Self {
            apps: scene.apps(admin),
            sets: Api::namespaced(admin.clone(), scene.namespace.name()),
        }
    }

    async fn turn(&self) -> Result<Value, String> {
        let app = self.apps.get(APP).await.map_err(|error| error.to_string())?;
        let spec = &app.data["spec"];
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": APP, "ownerReferences": [{"apiVersion": "example.io/v1", "kind": "WrapperApp",
                "name": APP, "uid": app.metadata.uid, "controller": true, "blockOwnerDeletion": false}]},
            "spec": {"replicas": spec["replicas"], "serviceName": APP, "selector": {"matchLabels": {"app": APP}},
                "podManagementPolicy": "Parallel", "template": spec["template"],
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
                    "partition": spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0)}}},
        });
        let params = PatchParams::apply("wrapper").force();
        let set = self
            .sets
            .patch(APP, &params, &Patch::Apply(set))
            .await
            .map_err(|error| error.to_string())?;
        let below = serde_json::to_value(&set).map_err(|error| error.to_string())?;
        if below["status"]["observedGeneration"] != below["metadata"]["generation"] {
            return Err(format!("the StatefulSet has not been seen: {}", below["status"]));
        }
        let field = |name: &str| below["status"][name].clone();
        let status = json!({"status": {
            "observedGeneration": app.metadata.generation, "replicas": field("replicas"),
            "readyReplicas": field("readyReplicas"), "updatedReplicas": field("updatedReplicas"),
            "currentRevision": field("currentRevision"), "updateRevision": field("updateRevision"),
        }});
        let app = self
            .apps
            .patch_status(APP, &PatchParams::default(), &Patch::Merge(status))
            .await;
        serde_json::to_value(app.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn pods_made_by_a_stateful_set_of_the_operator_are_found() {
    let installation = installed().await;
    let kind = OwnKind::new("WrapperApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let scene = Scene::of_kind(installation, "owners", kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", Some(0))).await;
    let wrapper = Wrapper::new(&scene, &scene.admin);
    let until = async |what: &str, done: &dyn Fn(&Value, &Value) -> bool| {
        eventually(SOON, what, async || {
            let app = wrapper.turn().await?;
            let rollout = scene.rollouts(&scene.admin).get_opt(crate::scene::ROLLOUT).await;
            let rollout = serde_json::to_value(rollout.unwrap()).unwrap();
            if done(&app, &rollout) {
                Ok(())
            } else {
                Err(format!("{:#} {:#}", app["status"], rollout["status"]))
            }
        })
        .await;
    };
    until("5 pods", &|app, _| app["status"]["readyReplicas"] == 5).await;
    scene.create_rollout(&walk_steps()).await;
    until("healthy", &|_, rollout| rollout["status"]["phase"] == "Healthy").await;
    scene.set_version("v2").await;
    until("step 1", &|_, rollout| {
        rollout["status"]["currentStepState"] == "StepPaused"
    })
    .await;
    let status = scene.rollout().await["status"].clone();
    assert_eq!(status["canaryStatus"]["canaryReplicas"], 1, "{status:#}");
    assert_eq!(scene.wait_pods("v2", 1).await, ["my-app-4"]);
    scene.approve().await;
    until("the end", &|_, rollout| {
        rollout["status"]["phase"] == "Healthy" && rollout["status"]["currentStepState"] == "Completed"
    })
    .await;
    scene.wait_pods("v2", 5).await;
}
