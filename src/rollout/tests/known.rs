//! Kinds that are known by name: their label is set for them.

use rstest::rstest;
use serde_json::{Value, json};

use super::driven::alone;
use super::world::{APP, ROLLOUT, manifest, rollout, steps, template};
use crate::api::v1beta1::condition;
use crate::names;
use crate::rollout::{Action, Children, Decision, EditKind, Observed, Proof, Target, Workload, decide};
use crate::workload::{GroupKind, Guard, TemplateId, adapter_for};

/// A workload as it is when it meets its Rollout: with these labels, and marked or not.
fn object(labels: &Value, marked: bool) -> Value {
    let mut object = manifest(3, None, "v1");
    let metadata = &mut object["metadata"];
    metadata["uid"] = json!("u");
    metadata["resourceVersion"] = json!("7");
    object["status"] = json!({"desiredNumberScheduled": 3});
    let metadata = &mut object["metadata"];
    metadata["labels"] = labels.clone();
    if labels.is_null() {
        metadata.as_object_mut().unwrap().remove("labels");
    }
    if marked {
        let guard = Guard::text("u", ROLLOUT, &TemplateId::of(&template("v1")));
        metadata["annotations"] = json!({ names::GUARDED_BY: guard });
    }
    object
}

fn look(kind: &GroupKind, object: &Value) -> Decision {
    let adapter = adapter_for(kind).unwrap();
    let view = adapter.view(object).unwrap();
    let (rollout, workload) = (
        rollout(&steps()),
        Workload {
            kind: kind.clone(),
            name: APP.to_owned(),
        },
    );
    let target = Target::Present {
        adapter,
        view: &view,
        children: Children::Unknown,
        revisions: &[],
        proof: &Proof::Unknown,
    };
    decide(&Observed {
        replace_stuck_pods: true,
        ..alone(&rollout, &workload, target)
    })
}

fn kind(group: &str, kind: &str) -> GroupKind {
    GroupKind {
        group: group.to_owned(),
        kind: kind.to_owned(),
    }
}

/// What the workload is after the label was set; `None` if a decision is not to set it.
fn labelled(decision: &Decision, object: &Value) -> Option<Value> {
    let [
        Action::Edit {
            kind: EditKind::Label,
            patch,
            ..
        },
    ] = decision.actions.as_slice()
    else {
        return None;
    };
    let mut after = object.clone();
    json_patch::patch(&mut after, patch).unwrap();
    Some(after)
}

#[rstest]
fn a_kind_known_by_name_gets_the_label(
    #[values(
        kind("apps", "StatefulSet"),
        kind("apps.kruise.io", "StatefulSet"),
        kind("apps.kruise.io", "CloneSet"),
        kind("apps.kruise.io", "DaemonSet")
    )]
    kind: GroupKind,
    #[values(json!(null), json!({}), json!({"app": APP}))] labels: Value,
    #[values(true, false)] marked: bool,
) {
    let found = object(&labels, marked);
    let decision = look(&kind, &found);
    let after = labelled(&decision, &found).unwrap();
    // The labels of others stay, and nothing else is touched.
    let mut expected = found.clone();
    expected["metadata"]["labels"] = labels.as_object().cloned().unwrap_or_default().into();
    expected["metadata"]["labels"][names::WORKLOAD_TYPE] = json!(adapter_for(&kind).unwrap().type_label());
    assert_eq!(after, expected);
    // Nothing is said of the guard before it is there; then it is not set again.
    let conditions = decision.status.unwrap().conditions;
    assert_eq!(condition::get(&conditions, condition::GUARDED), None);
    assert_eq!(labelled(&look(&kind, &after), &after), None);
}

#[test]
fn a_label_is_not_set_over_labels_that_came_meanwhile() {
    let kind = kind("apps", "StatefulSet");
    let found = object(&json!(null), false);
    let decision = look(&kind, &found);
    let mut meanwhile = object(&json!({names::WORKLOAD_TYPE: "theirs", "app": APP}), false);
    meanwhile["metadata"]["resourceVersion"] = json!("8");
    let Action::Edit { patch, .. } = &decision.actions[0] else {
        panic!("{decision:?}")
    };
    assert!(json_patch::patch(&mut meanwhile, patch).is_err());
}

#[rstest]
#[case::value_of_people(kind("apps", "StatefulSet"), json!({names::WORKLOAD_TYPE: "cloneset"}), "LabelWrong")]
#[case::empty_value(kind("apps.kruise.io", "StatefulSet"), json!({names::WORKLOAD_TYPE: ""}), "LabelWrong")]
#[case::custom_kind(kind("example.io", "MyStatefulApp"), json!({"app": APP}), "LabelMissing")]
#[case::custom_kind_of_a_known_name(kind("example.io", "StatefulSet"), json!(null), "LabelMissing")]
fn what_is_for_people_to_set_is_said(
    #[case] kind: GroupKind,
    #[case] labels: Value,
    #[case] reason: &str,
    #[values(true, false)] marked: bool,
) {
    let found = object(&labels, marked);
    let decision = look(&kind, &found);
    assert_eq!(labelled(&decision, &found), None);
    let status = decision.status.unwrap();
    let guarded = condition::get(&status.conditions, condition::GUARDED).unwrap();
    assert_eq!(
        (guarded.status.as_str(), guarded.reason.as_str()),
        ("False", reason)
    );
}
