//! A custom kind is enabled by one command, which its Rollouts name while they wait for it.

use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{Identity, eventually, installed};

use crate::kinds::OwnKind;
use crate::plugin::kruise;
use crate::scene::{SOON, Scene, condition, walk_steps};

#[tokio::test]
async fn a_kind_is_enabled_and_its_rollouts_go_on() {
    const KIND: &str = "enabledapps.example.io";
    const ROLE: &str =
        "clusterrole.rbac.authorization.k8s.io/kruise-rollout-controller-enabledapps.example.io";
    let installation = installed().await;
    let kind = OwnKind::new("EnabledApp");
    kind.define(installation, &[]).await;
    let _operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "enabling", kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", Some(0))).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    let enable = format!("kubectl kruise workload enable {KIND}");
    scene
        .wait("the command is named", |rollout| {
            let stalled = condition(rollout, "Stalled");
            stalled["message"]
                .as_str()
                .is_some_and(|message| message.contains(&enable))
        })
        .await;
    let explained = kruise(
        &scene,
        Identity::Admin,
        &["rollout", "explain", "rollout/my-app-rollout"],
    )
    .await;
    assert!(explained.answer.contains(&enable), "{explained:?}");

    let refused = kruise(&scene, Identity::Developer, &["workload", "enable", KIND]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused
            .talk
            .contains("you need a role with the right to list clusterroles.rbac.authorization.k8s.io\n"),
        "{refused:?}"
    );
    let run = async |more: &[&str]| {
        let said = kruise(&scene, Identity::Admin, &[&["workload", "enable"], more].concat()).await;
        assert_eq!(said.code, 0, "{said:?}");
        said.answer
    };
    let printed = run(&[KIND, "--dry-run", "-o", "yaml"]).await;
    let printed: Value = serde_saphyr::from_str(printed.trim_start_matches("---\n")).unwrap();
    assert_eq!(
        printed["metadata"]["labels"][names::AGGREGATE_TO_CONTROLLER],
        "true"
    );
    let request = run(&["EnabledApp.example.io", "-o", "patch"]).await;
    assert!(
        request.starts_with("PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/")
            && request.contains("application/apply-patch+yaml"),
        "{request}"
    );
    assert_eq!(
        run(&[KIND, "--dry-run=server"]).await,
        format!("{ROLE} applied (server dry run)\n")
    );

    assert_eq!(run(&[KIND]).await, format!("{ROLE} applied\n"));
    let healthy = scene.wait_phase("Healthy").await;
    assert_eq!(condition(&healthy, "Stalled"), &Value::Null);
    assert_eq!(run(&[KIND]).await, format!("{KIND} enabled already\n"));

    assert!(
        run(&[KIND, "--remove", "-o", "patch"])
            .await
            .starts_with("DELETE ")
    );
    assert_eq!(
        run(&[KIND, "--remove", "--dry-run=server"]).await,
        format!("{ROLE} deleted (server dry run)\n")
    );
    assert_eq!(run(&[KIND, "--remove"]).await, format!("{ROLE} deleted\n"));
    assert_eq!(run(&[KIND, "--remove"]).await, format!("{KIND} not enabled\n"));
}

#[tokio::test]
async fn kinds_that_cannot_be_released_are_not_enabled() {
    let scene = Scene::new(installed().await, "enabling-none").await;
    let enable = async |kind: &str| kruise(&scene, Identity::Admin, &["workload", "enable", kind]).await;
    let job = enable("jobs.batch").await;
    assert_eq!(job.code, 1, "{job:?}");
    assert!(
        job.talk
            .contains("jobs.batch: workloads of kind Job.batch are not supported"),
        "{job:?}"
    );
    let unknown = enable("nonsense.example.io").await;
    assert_eq!(unknown.code, 1, "{unknown:?}");
    // Its rights are among those that the controller comes with.
    let native = enable("statefulsets.apps").await;
    assert_eq!(
        (native.code, native.answer.as_str()),
        (0, "statefulsets.apps enabled already\n")
    );
}

/// Defines a kind of the group `odd.example.io`, whose fields are anybody's, and waits until it is served.
async fn define_odd(scene: &Scene<'_>, kind: &str, plural: &str, scope: &str, version: &str) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.odd.example.io")},
        "spec": {"group": "odd.example.io", "scope": scope, "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    installed()
        .await
        .kubectl_apply(&definition.to_string())
        .await
        .unwrap();
    let gvk = GroupVersionKind::gvk("odd.example.io", version, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<DynamicObject> = Api::all_with(scene.admin.clone(), &resource);
    eventually(SOON, "the kind is served", async || {
        api.list(&ListParams::default()).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn kinds_of_older_versions_are_found_and_those_of_the_cluster_are_not_enabled() {
    let scene = Scene::new(installed().await, "enabling-odd").await;
    define_odd(&scene, "OddNewer", "oddnewers", "Namespaced", "v1").await;
    define_odd(&scene, "OddOlder", "oddolders", "Namespaced", "v1beta1").await;
    define_odd(&scene, "OddCluster", "oddclusters", "Cluster", "v1").await;
    let enable = async |kind: &str| {
        let words = ["workload", "enable", kind, "--dry-run", "-o", "name"];
        kruise(&scene, Identity::Admin, &words).await
    };
    // The preferred version of its group is another one.
    for word in ["oddolders.odd.example.io", "oddolder"] {
        let found = eventually(SOON, "discovery tells of it", async || {
            let found = enable(word).await;
            if found.code == 0 {
                Ok(found)
            } else {
                Err(found.talk)
            }
        })
        .await;
        let role =
            "clusterrole.rbac.authorization.k8s.io/kruise-rollout-controller-oddolders.odd.example.io\n";
        assert_eq!(found.answer, role);
    }
    for word in [
        "oddclusters.odd.example.io",
        "oddclusters",
        "clusterroles",
        "oddolders.",
    ] {
        let refused = enable(word).await;
        assert_eq!(refused.code, 1, "{refused:?}");
        let told = format!("the server has no type of workloads {word:?}");
        assert!(refused.talk.contains(&told), "{refused:?}");
    }
    let refused = enable("roles.rbac.authorization.k8s.io").await;
    assert!(
        refused
            .talk
            .contains("workloads of kind Role.rbac.authorization.k8s.io are not supported"),
        "{refused:?}"
    );
}
