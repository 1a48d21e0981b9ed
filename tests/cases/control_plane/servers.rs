//! API servers: two at once, and one that becomes a newer version.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use support::{Component, ControlPlane, Identity, Options, eventually};

use super::{SOON, config_map, processes};

fn config_maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

#[tokio::test]
async fn two_serve_the_same_objects() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let second = control_plane.start_second_api_server().await.unwrap();
    let here = config_maps(&control_plane.client(Identity::Developer).await.unwrap());
    let there = config_maps(&second.client(Identity::Developer).await.unwrap());
    let mark = control_plane.audit().mark();
    let params = PostParams::default();
    let created = there.create(&params, &config_map("both")).await.unwrap();
    assert_eq!(here.get("both").await.unwrap().uid(), created.uid());
    let patch = Patch::Merge(json!({"data": {"seen": "by both"}}));
    let patched = here.patch("both", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(there.get("both").await.unwrap(), patched);
    // Tokens and rights are the same, and so is the audit log.
    let viewer = config_maps(&second.client(Identity::Viewer).await.unwrap());
    let refused = viewer.create(&params, &config_map("no")).await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
    eventually(SOON, "the requests to both are logged", async || {
        let entries = control_plane.audit().since(mark);
        let maps = entries.iter().filter(|entry| entry.resource == "configmaps");
        let verbs: Vec<_> = maps.map(|entry| (entry.verb.as_str(), entry.code)).collect();
        if [("create", 201), ("patch", 200), ("create", 403)]
            .iter()
            .all(|entry| verbs.contains(entry))
        {
            Ok(())
        } else {
            Err(format!("{verbs:?}"))
        }
    })
    .await;

    control_plane.stop_component(Component::ApiServer).await;
    assert_eq!(there.get("both").await.unwrap(), patched);
    control_plane
        .restart_component(Component::ApiServer)
        .await
        .unwrap();
    control_plane
        .restart_component(Component::SecondApiServer)
        .await
        .unwrap();
    for maps in [&here, &there] {
        assert_eq!(maps.get("both").await.unwrap(), patched);
    }
    let folder = control_plane.folder().to_owned();
    let pids: Vec<u32> = control_plane.pids().into_values().collect();
    assert_eq!(pids.len(), 6);
    control_plane.stop().await;
    processes::assert_gone(&pids, &folder).await;
}

/// Whether it serves admission policies that change objects, which Kubernetes 1.36 brought.
async fn serves_mutating_policies(client: &Client) -> bool {
    let version = "admissionregistration.k8s.io/v1";
    let served = client.list_api_group_resources(version).await.unwrap().resources;
    let served: Vec<_> = served.iter().map(|resource| resource.name.as_str()).collect();
    assert!(served.contains(&"mutatingwebhookconfigurations"), "{served:?}");
    served.contains(&"mutatingadmissionpolicies")
}

#[tokio::test]
async fn one_is_upgraded_and_keeps_its_objects() {
    let options = Options {
        api_server_flags: vec!["--emulated-version=1.35".to_owned()],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let client = control_plane.client(Identity::Admin).await.unwrap();
    assert!(!serves_mutating_policies(&client).await);
    let maps = config_maps(&client);
    let params = PostParams::default();
    let created = maps.create(&params, &config_map("kept")).await.unwrap();

    control_plane.set_flags(Component::ApiServer, &[]);
    control_plane
        .restart_component(Component::ApiServer)
        .await
        .unwrap();
    assert!(serves_mutating_policies(&client).await);
    assert_eq!(maps.get("kept").await.unwrap(), created);
}
