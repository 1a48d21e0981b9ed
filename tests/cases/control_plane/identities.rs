//! Who may do what before the product is installed.

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::json;
use support::{ControlPlane, Identity, Options, TestNamespace, shared};

use super::config_map;

/// Whether the API server lets `identity` do this: verb, group, resource, subresource.
async fn may(namespace: &TestNamespace<'_>, identity: Identity, question: [&str; 4]) -> bool {
    let [verb, group, resource, subresource] = question;
    let attributes = json!({
        "namespace": namespace.name(), "verb": verb, "group": group, "resource": resource, "subresource": subresource,
    });
    let review = serde_json::from_value(json!({"spec": {"resourceAttributes": attributes}})).unwrap();
    let reviews: Api<SelfSubjectAccessReview> = Api::all(namespace.client(identity).await.unwrap());
    reviews
        .create(&PostParams::default(), &review)
        .await
        .unwrap()
        .status
        .unwrap()
        .allowed
}

#[tokio::test]
async fn identities_have_their_rights_and_no_others() {
    let namespace = TestNamespace::create(shared().await, "rights").await.unwrap();
    let viewer = namespace.client(Identity::Viewer).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(viewer, namespace.name());
    maps.list(&Default::default()).await.unwrap();
    let refused = maps
        .create(&PostParams::default(), &config_map("no"))
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );

    use Identity::{Admin, Approver, Developer, Viewer};
    const OURS: &str = "rollouts.kruise.io";
    for (identity, question, answer) in [
        (Admin, ["delete", "", "nodes", ""], true),
        (Developer, ["patch", "apps", "statefulsets", ""], true),
        (Developer, ["create", "example.io", "mystatefulapps", ""], true),
        (Developer, ["create", OURS, "rollouts", ""], true),
        (Developer, ["patch", OURS, "rollouts", "status"], false),
        (
            Developer,
            ["create", "rbac.authorization.k8s.io", "clusterroles", ""],
            false,
        ),
        (Approver, ["patch", OURS, "rollouts", "status"], true),
        (Approver, ["patch", OURS, "rollouts", ""], false),
        (Approver, ["get", "", "pods", ""], true),
        (Approver, ["patch", "apps", "statefulsets", ""], false),
        (Viewer, ["list", OURS, "rollouts", ""], true),
        (Viewer, ["create", "", "pods", ""], false),
    ] {
        assert_eq!(
            may(&namespace, identity, question).await,
            answer,
            "{identity:?} {question:?}"
        );
    }
}

#[tokio::test]
async fn the_controller_has_no_rights_before_the_manifests_give_them() {
    // On a control plane of its own: other cases install the manifests in the shared one.
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let namespace = TestNamespace::create(&control_plane, "rights").await.unwrap();
    for resource in [
        ["list", "", "pods", ""],
        ["list", "rollouts.kruise.io", "rollouts", ""],
    ] {
        assert!(
            !may(&namespace, Identity::Controller, resource).await,
            "{resource:?}"
        );
    }
}

#[tokio::test]
async fn the_controller_is_its_service_account() {
    let control_plane = shared().await;
    let kubectl = control_plane
        .kubectl(Identity::Controller)
        .args(["auth", "whoami", "-o", "json"])
        .output();
    let answer: serde_json::Value = serde_json::from_slice(&kubectl.await.unwrap().stdout).unwrap();
    let user = &answer["status"]["userInfo"];
    assert_eq!(
        user["username"],
        "system:serviceaccount:kruise-rollout:kruise-rollout-controller"
    );
    assert!(
        user["groups"]
            .as_array()
            .unwrap()
            .contains(&json!("system:serviceaccounts:kruise-rollout"))
    );
}
