//! The table with the policies alone: no process of ours runs.

use kruise_rollout::admission::policy::{
    Governed, Names, Scope, confirm, hold, mutating_binding, tell, validating_binding,
};
use kruise_rollout::area::Area;
use kruise_rollout::names;
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options};

use super::mid_release::step_1;
use super::state::{SHAPES, Shape};
use super::table::{PERSON, Row, Told};
use super::{Stage, keeps_the_table};

/// The policies for a kind, and their bindings.
fn objects(shape: Shape) -> Vec<Value> {
    let adapter = shape.adapter();
    let area = Area::whole(names::DEFAULT_NAMESPACE);
    let names = Names::of(adapter, &area).unwrap();
    let governed = [Governed {
        group: shape.group.to_owned(),
        version: "v1".to_owned(),
        plural: shape.plural.to_owned(),
    }];
    let scope = Scope {
        username: Identity::Controller.user(),
        area: &area,
        governed: &governed,
    };
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    vec![
        object(
            "MutatingAdmissionPolicy",
            &names.hold,
            hold(adapter, &scope).unwrap(),
        ),
        object(
            "MutatingAdmissionPolicyBinding",
            &names.hold,
            mutating_binding(&names.hold),
        ),
        object(
            "ValidatingAdmissionPolicy",
            &names.confirm,
            confirm(adapter, &scope).unwrap(),
        ),
        object(
            "ValidatingAdmissionPolicyBinding",
            &names.confirm,
            validating_binding(&names.confirm, "Deny"),
        ),
        object("ValidatingAdmissionPolicy", &names.tell, tell(&scope)),
        object(
            "ValidatingAdmissionPolicyBinding",
            &names.tell,
            validating_binding(&names.tell, "Warn"),
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
    for shape in SHAPES {
        let stage = Stage::on(&installation, shape).await;
        for object in objects(shape) {
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
        if shape.adapter().replicas_path().is_some() {
            more_replicas_in_another_notation(&stage).await;
        }
    }
}

/// A number that is sent as `8.0` is stored as 8, and is no way around the hold.
async fn more_replicas_in_another_notation(stage: &Stage<'_>) {
    let state = step_1();
    let uid = stage.create("float", &state).await;
    let mut new = state.object(stage.shape, &uid);
    new["spec"]["replicas"] = json!(8.0);
    let answer = stage.write("float", &new, PERSON, false).await;
    let result = answer.object();
    let marks = &result["metadata"]["annotations"];
    assert_eq!(marks[names::GRANTED_PARTITION], "8", "{result:#}");
}
