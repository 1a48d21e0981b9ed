//! Those who may see less are shown less, and told which right is missing.

use serde_json::json;
use support::{Identity, eventually, installed};

use crate::plugin::{Said, kruise};
use crate::scene::{ROLLOUT, SOON, Scene, walk_steps};

/// Lets somebody read these resources and Rollouts, and nothing else.
async fn allow(scene: &Scene<'_>, user: &str, rules: &[(&str, &str)]) {
    let rules: Vec<_> = [("rollouts.kruise.io", "rollouts")]
        .iter()
        .chain(rules)
        .map(|(group, resource)| {
            json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]})
        })
        .collect();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": user, "namespace": scene.namespace.name()}, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": scene.namespace.name()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    for object in [role, binding] {
        let applied = installed().await.kubectl_apply(&object.to_string()).await;
        applied.unwrap();
    }
}

async fn see(scene: &Scene<'_>, user: &str, arguments: &[&str]) -> Said {
    kruise(
        scene,
        Identity::Admin,
        &[arguments, &[&format!("--as={user}")]].concat(),
    )
    .await
}

#[tokio::test]
async fn what_may_not_be_read_is_hidden_and_named_once() {
    let scene = Scene::new(installed().await, "views-rights").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let namespace = scene.namespace.name();
    allow(&scene, "eve", &[]).await;
    allow(&scene, "ian", &[("example.io", "mystatefulapps")]).await;

    // A role is in force a moment after it is stored.
    let get = eventually(SOON, "the role is in force", async || {
        let said = see(&scene, "eve", &["rollout", "get", ROLLOUT]).await;
        if said.code == 0 { Ok(said) } else { Err(said.talk) }
    })
    .await;
    assert!(get.answer.contains("AwaitingApproval"), "{}", get.answer);
    assert_eq!(
        get.talk,
        format!(
            "the workload and its pods are not shown: you may not get mystatefulapps.example.io in namespace {namespace}\n\
             history is not shown: you may not list controllerrevisions.apps in namespace {namespace}\n\
             events are not shown: you may not list events in namespace {namespace}\n"
        )
    );

    let get = eventually(SOON, "the role is in force", async || {
        let said = see(&scene, "ian", &["rollout", "get", ROLLOUT, "-o", "json"]).await;
        if said.code == 0 { Ok(said) } else { Err(said.talk) }
    })
    .await;
    let detail: serde_json::Value = serde_json::from_str(&get.answer).unwrap();
    super::documented::check(&detail);
    // Without its pods the operator's own counts are shown.
    assert_eq!(detail["report"]["workload"]["updated"], 1, "{detail:#}");
    let hidden: Vec<_> = super::each(&detail["report"]["overlays"], "type");
    assert_eq!(hidden, ["PartialView"; 3], "{detail:#}");
    assert!(detail.get("pods").is_none() && detail.get("events").is_none());

    let list = see(&scene, "eve", &["rollout", "list"]).await;
    assert_eq!(list.code, 0, "{}", list.talk);
    assert!(
        list.answer.contains(ROLLOUT) && list.answer.contains("AwaitingApproval"),
        "{}",
        list.answer
    );
    assert_eq!(
        list.talk,
        "workloads are not shown: you may not get mystatefulapps.example.io\n"
    );

    // What a command is about is no part of it.
    for (command, right) in [("pods", "list pods"), ("events", "list events")] {
        let said = see(&scene, "ian", &["rollout", command, ROLLOUT]).await;
        assert_eq!(said.code, 1, "{}", said.answer);
        assert!(
            said.talk
                .contains(&format!("you need a role with the right to {right} in")),
            "{}",
            said.talk
        );
    }
    let all = see(&scene, "eve", &["rollout", "list", "-A"]).await;
    assert_eq!(all.code, 1);
    assert!(
        all.talk
            .contains("list rollouts.rollouts.kruise.io in all namespaces"),
        "{}",
        all.talk
    );
}
