//! Definitions of kinds, which need nobody to be there.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, PostParams, PropagationPolicy};
use kube::core::GroupVersionKind;
use serde_json::json;
use support::{Component, Identity, eventually};

use crate::ground::{Ground, at_work};
use crate::scene::{APP, ROLLOUT, SOON, Scene};

#[tokio::test]
async fn r58_definitions_need_nobody_to_be_there() {
    let installation = Ground::without_rollouts().await;
    let control_plane = installation.control_plane();
    let scene = Scene::new(&installation, "conversion").await;
    let definition = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let definitions: Api<DynamicObject> = Api::all_with(scene.admin.clone(), &definition);
    let found = definitions.get("rollouts.rollouts.kruise.io").await.unwrap();
    let versions = found.data["spec"]["versions"].as_array().unwrap();
    assert_eq!(
        versions
            .iter()
            .filter(|version| version["served"] == true)
            .count(),
        1,
        "{versions:#?}"
    );
    assert_eq!(found.data["spec"]["conversion"]["strategy"], "None");

    {
        let controller = installation.replica(None, &["--leader-elect=false"]).unwrap();
        at_work(&installation, &controller).await;
        // All that another product of this API may have left in it.
        let mut odd = scene.rollout_manifest(
            &json!([{"replicas": "7%", "pause": {"duration": 2_147_483_647}}, {"replicas": 100_000}]),
        );
        odd["spec"]["strategy"]["canary"]["failureThreshold"] = json!("10%");
        odd["metadata"]["annotations"] = json!({"rollouts.kruise.io/rolling-style": "Partition"});
        let rollout: DynamicObject = serde_json::from_value(odd).unwrap();
        let resource = ApiResource::erase::<kruise_rollout::api::v1beta1::Rollout>(&());
        let rollouts: Api<DynamicObject> =
            Api::namespaced_with(scene.developer.clone(), scene.namespace.name(), &resource);
        rollouts.create(&PostParams::default(), &rollout).await.unwrap();
        scene.wait_phase("Initial").await;
    }

    let mut kubectl = scene.namespace.kubectl(Identity::Viewer).unwrap();
    let output = kubectl
        .args(["get", "rollouts.rollouts.kruise.io", "-A"])
        .output()
        .await
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && listed.contains(ROLLOUT), "{listed}");

    // The garbage collector has to see all kinds before it removes anything.
    let deployments: Api<DynamicObject> = Api::namespaced_with(
        scene.developer.clone(),
        scene.namespace.name(),
        &ApiResource::erase::<Deployment>(&()),
    );
    let mut manifest = scene.manifest("v1", None);
    manifest["apiVersion"] = json!("apps/v1");
    manifest["kind"] = json!("Deployment");
    manifest["metadata"] = json!({"name": "unrelated"});
    manifest["spec"]["selector"] = json!({"matchLabels": {"app": APP}});
    let deployment = serde_json::from_value(manifest).unwrap();
    deployments
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    scene.wait_pods("v1", 5).await;
    control_plane
        .restart_component(Component::ControllerManager)
        .await
        .unwrap();
    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    deployments.delete("unrelated", &foreground).await.unwrap();
    eventually(SOON, "the cascade ends", async || {
        let pods = scene.pods().await;
        let left = deployments
            .get_opt("unrelated")
            .await
            .map_err(|error| error.to_string())?;
        if pods.is_empty() && left.is_none() {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await;
}
