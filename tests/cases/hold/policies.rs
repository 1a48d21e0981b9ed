//! The table with the policies alone: no process of ours runs.

use kruise_rollout::admission::policy::{
    Governed, Scope, confirm, hold, mutating_binding, tell, validating_binding,
};
use kruise_rollout::names;
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options};

use super::table::{Row, Told};
use super::{PLURAL, Stage, adapter, keeps_the_table};

/// The policies and their bindings.
fn objects() -> Vec<Value> {
    let governed = [Governed {
        group: "example.io".to_owned(),
        version: "v1".to_owned(),
        plural: PLURAL.to_owned(),
    }];
    let scope = Scope {
        username: Identity::Controller.user(),
        namespace: names::DEFAULT_NAMESPACE,
        governed: &governed,
    };
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    vec![
        object("MutatingAdmissionPolicy", "hold", hold(adapter(), &scope)),
        object("MutatingAdmissionPolicyBinding", "hold", mutating_binding("hold")),
        object("ValidatingAdmissionPolicy", "confirm", confirm(adapter(), &scope)),
        object(
            "ValidatingAdmissionPolicyBinding",
            "confirm",
            validating_binding("confirm", "Deny"),
        ),
        object("ValidatingAdmissionPolicy", "tell", tell(&scope)),
        object(
            "ValidatingAdmissionPolicyBinding",
            "tell",
            validating_binding("tell", "Warn"),
        ),
    ]
}

/// What the policy says of a row: it sees what is stored, and what was stored before.
fn said(row: &Row) -> Option<&'static str> {
    let in_release = row.old != row.old.clone().without(names::IN_PROGRESSING);
    match row.told {
        Told::Held if !in_release => Some("the new template is held by Rollout table-rollout; see: kubectl"),
        Told::Held | Told::Back => {
            Some("held by Rollout table-rollout, which rolls back if it is the stable one; see: kubectl")
        }
        Told::InProgress => Some("or above until Rollout table-rollout grants more; see: kubectl"),
        // A write that changes nothing may be one whose changes were all put right.
        Told::Nothing if in_release && row.new == row.old && !row.writer.is_controller() => {
            Some("a release is in progress")
        }
        Told::Nothing | Told::Kept => None,
    }
}

#[tokio::test]
async fn the_policies_keep_the_table_alone() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let installation = Installation::new(&control_plane).unwrap();
    let stage = Stage::on(&installation).await;
    for object in objects() {
        installation.kubectl_apply(&object.to_string()).await.unwrap();
    }
    stage.until_held().await;
    keeps_the_table(&stage, |row, warnings| {
        let said = said(row);
        assert_eq!(
            warnings.len(),
            usize::from(said.is_some()),
            "{}: {warnings:?}",
            row.name
        );
        assert!(
            said.is_none_or(|said| warnings[0].contains(said)),
            "{}: {warnings:?}",
            row.name
        );
    })
    .await;
}
