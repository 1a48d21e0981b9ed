//! The roles of people, each alone, and the way to repair a status.

use serde_json::json;
use support::{Identity, eventually};

use super::{Stage, impersonated, manifest, own, table};
use crate::scene::SOON;

/// What kubectl does for somebody: whether it succeeds, and what it says.
async fn kubectl(stage: &Stage, who: Identity, arguments: &[&str]) -> (bool, String) {
    let mut command = stage.namespace.kubectl(who).unwrap();
    let output = command.args(arguments).output().await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// Binds a ClusterRole in the namespace to a user, and waits until it is in force.
async fn bind(stage: &Stage, role: &str, user: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": stage.namespace.name()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    own().await.kubectl_apply(&binding.to_string()).await.unwrap();
    let rollouts = impersonated(&stage.namespace, user, &[]).await;
    eventually(SOON, "the role is in force", async || {
        rollouts.get("probe").await.map(drop)
    })
    .await;
}

/// A merge patch of the status, as a string.
fn merge(status: &serde_json::Value) -> String {
    json!({"status": status}).to_string()
}

#[tokio::test]
async fn an_approver_approves_with_the_plugin_and_does_nothing_else() {
    let stage = Stage::new("approver", false).await;
    bind(&stage, "kruise-rollout-approver", "ann").await;
    let as_ann = async |arguments: &[&str]| {
        kubectl(&stage, Identity::Admin, &[arguments, &["--as=ann"]].concat()).await
    };
    stage.rollout("mine", &table::paused()).await;
    let target = "rollout/mine";
    let (done, said) = as_ann(&["get", "rollouts"]).await;
    assert!(done && said.contains("mine"), "{said}");

    let spec = r#"{"spec": {"disabled": true}}"#;
    let (phase, jump) = (
        merge(&json!({"phase": "Healthy"})),
        merge(&table::jump(&json!(3))),
    );
    let patch = ["patch", target, "--type=merge"];
    let status = [&patch[..], &["--subresource=status"]].concat();
    for refused in [
        [&patch[..], &["-p", spec]].concat(),
        vec!["annotate", target, "example.io/note=x"],
        vec!["delete", target],
        [&status[..], &["-p", &phase]].concat(),
        [&status[..], &["-p", &jump]].concat(),
        vec!["delete", "rollouts", "--all"],
        vec!["get", "pods"],
    ] {
        let before = stage.stored("mine").await;
        let (done, said) = as_ann(&refused).await;
        assert!(
            !done && said.to_lowercase().contains("forbidden"),
            "{refused:?}: {said}"
        );
        assert_eq!(stage.stored("mine").await, before, "{refused:?}");
    }

    let (done, said) = as_ann(&["kruise", "rollout", "approve", target]).await;
    assert!(done && said.ends_with("approved\n"), "{said}");
    let stored = stage.stored("mine").await;
    assert_eq!(stored["status"]["canaryStatus"]["currentStepState"], "StepReady");
}

#[tokio::test]
async fn an_editor_writes_rollouts_and_does_not_approve() {
    let stage = Stage::new("editor", false).await;
    bind(&stage, "kruise-rollout-editor", "eve").await;
    let as_eve = async |arguments: &[&str]| {
        kubectl(&stage, Identity::Admin, &[arguments, &["--as=eve"]].concat()).await
    };
    let eve = impersonated(&stage.namespace, "eve", &[]).await;
    let object = serde_json::from_value(manifest("hers")).unwrap();
    eve.create(&Default::default(), &object).await.unwrap();
    let spec = r#"{"spec": {"strategy": {"paused": true}}}"#;
    let (done, said) = as_eve(&["patch", "rollout/hers", "--type=merge", "-p", spec]).await;
    assert!(done, "{said}");
    stage.rollout("waits", &table::paused()).await;
    let (done, said) = as_eve(&["kruise", "rollout", "approve", "rollout/waits"]).await;
    assert!(
        !done && said.contains("patch rollouts.rollouts.kruise.io/status"),
        "{said}"
    );
    let (done, said) = as_eve(&["delete", "rollout/hers"]).await;
    assert!(done, "{said}");
}

#[tokio::test]
async fn a_viewer_looks() {
    let stage = Stage::new("viewer", false).await;
    bind(&stage, "kruise-rollout-viewer", "vic").await;
    stage.rollout("shown", &table::paused()).await;
    let as_vic = async |arguments: &[&str]| {
        kubectl(&stage, Identity::Admin, &[arguments, &["--as=vic"]].concat()).await
    };
    let (done, said) = as_vic(&["get", "rollout/shown"]).await;
    assert!(done, "{said}");
    for refused in [
        &["kruise", "rollout", "approve", "rollout/shown"][..],
        &["delete", "rollout/shown"],
        &["annotate", "rollout/shown", "example.io/note=x"],
    ] {
        let (done, said) = as_vic(refused).await;
        assert!(!done && said.to_lowercase().contains("forbidden"), "{said}");
    }
}

/// As the documentation has it: the group gets a right, a person the right to act as a member.
#[tokio::test]
async fn a_person_breaks_the_glass() {
    let stage = Stage::new("glass", false).await;
    let group = "rollouts.kruise.io:break-glass";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "rollouts-break-glass"},
        "rules": [
            {"apiGroups": [""], "resources": ["users"], "resourceNames": ["approver"], "verbs": ["impersonate"]},
            {"apiGroups": [""], "resources": ["groups"], "resourceNames": [group], "verbs": ["impersonate"]},
        ],
    });
    own().await.kubectl_apply(&role.to_string()).await.unwrap();
    for arguments in [
        [
            "rollouts-break-glass",
            "--clusterrole=rollouts-break-glass",
            "--user=approver",
        ],
        [
            "rollouts-repair",
            "--clusterrole=kruise-rollout-approver",
            "--group=rollouts.kruise.io:break-glass",
        ],
    ] {
        let (done, said) = kubectl(
            &stage,
            Identity::Admin,
            &[&["create", "clusterrolebinding"][..], &arguments].concat(),
        )
        .await;
        assert!(done, "{said}");
    }
    stage.rollout("damaged", &table::paused()).await;
    let patch = ["patch", "rollout/damaged", "--subresource=status", "--type=json"];
    let removal = ["-p", r#"[{"op": "remove", "path": "/status"}]"#];
    let (done, said) = kubectl(&stage, Identity::Approver, &[&patch[..], &removal].concat()).await;
    assert!(!done && said.contains(group), "{said}");

    let member = ["--as=approver", "--as-group=rollouts.kruise.io:break-glass"];
    let repair = [&patch[..], &removal, &member].concat();
    eventually(SOON, "the rights are in force", async || {
        match kubectl(&stage, Identity::Approver, &repair).await {
            (true, _) => Ok(()),
            (false, said) => Err(said),
        }
    })
    .await;
    assert_eq!(stage.stored("damaged").await["status"], table::blank());
    // The group is for repairs of the status, and gives no other right.
    let delete = [&["delete", "rollout/damaged"][..], &member].concat();
    let (done, said) = kubectl(&stage, Identity::Approver, &delete).await;
    assert!(!done && said.to_lowercase().contains("forbidden"), "{said}");
}
