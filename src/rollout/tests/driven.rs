//! Kinds that are held by fields, and whose pods are moved by us: what is decided of a Deployment.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::world::{APP, NAMESPACE, ROLLOUT, rollout, steps, template};
use crate::api::v1beta1::Rollout;
use crate::names;
use crate::rollout::{Action, Children, Decision, EditKind, Observed, Proof, Target, Workload, decide};
use crate::workload::{
    Adapter, GroupKind, Guard, Move, PodView, Revision, RevisionKind, TemplateId, adapter_for, with_revisions,
};

fn deployments() -> (GroupKind, &'static dyn Adapter) {
    let kind = GroupKind {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
    };
    let adapter = adapter_for(&kind).unwrap();
    (kind, adapter)
}

/// A Deployment of five pods on v1 that is held with this template.
fn held(template_now: &Value, grant: i64) -> Value {
    let guard = Guard::text("u", ROLLOUT, &TemplateId::of(&template("v1")));
    json!({"metadata": {"name": APP, "uid": "u", "generation": 3, "resourceVersion": "7",
            "labels": {names::WORKLOAD_TYPE: "deployment"},
            "annotations": {names::GUARDED_BY: guard, names::IN_PROGRESSING: "{}",
                names::GRANTED_PARTITION: grant.to_string(), names::ORIGINAL_PARTITION: "{}"}},
        "spec": {"replicas": 5, "paused": true, "strategy": {"type": "Recreate"}, "template": template_now},
        "status": {"observedGeneration": 3, "replicas": 5, "readyReplicas": 5}})
}

fn set(version: &str, replicas: u32) -> Revision {
    let object = json!({"metadata": {"name": version, "uid": version, "resourceVersion": "1",
            "labels": {names::POD_TEMPLATE_HASH: version}},
        "spec": {"replicas": replicas, "template": template(version)},
        "status": {"replicas": replicas, "availableReplicas": replicas}});
    Revision::read(RevisionKind::ReplicaSet, &object)
}

fn pods(version: &str) -> Vec<PodView> {
    let pod = |n: u32| {
        PodView::read(
            &json!({"metadata": {"name": format!("{version}-{n}"), "labels": {names::POD_TEMPLATE_HASH: version}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        )
    };
    (0..5).map(pod).collect()
}

/// A Rollout and its workload with nothing around them, after the first look; pods in the way are not replaced.
pub(super) fn alone<'a>(rollout: &'a Rollout, workload: &'a Workload, target: Target<'a>) -> Observed<'a> {
    Observed {
        rollout: Some(rollout),
        namespace: NAMESPACE,
        name: ROLLOUT,
        workload: Some(workload),
        target,
        strays: Vec::new(),
        rival: None,
        own_namespace: "kruise-rollout",
        beside_another: false,
        replace_stuck_pods: false,
        keeps_held: false,
        first_look: false,
        now: Timestamp::UNIX_EPOCH,
    }
}

/// What is decided of it, with these ReplicaSets and pods; without them before they have been seen.
fn look(object: &Value, seen: Option<(&[Revision], &[PodView])>) -> Decision {
    let (kind, adapter) = deployments();
    let mut view = adapter.view(object).unwrap();
    let (mut revisions, mut children): (&[Revision], _) = (&[], Children::Unknown);
    if let Some((sets, pods)) = seen {
        view.reported = with_revisions(&view, sets, adapter.next_revision(&view));
        (revisions, children) = (sets, Children::Pods(pods));
    }
    let (rollout, workload) = (
        rollout(&steps()),
        Workload {
            kind,
            name: APP.to_owned(),
        },
    );
    let target = Target::Present {
        adapter,
        view: &view,
        children,
        revisions,
        proof: &Proof::Proven,
    };
    decide(&alone(&rollout, &workload, target))
}

fn edits(decision: &Decision) -> Vec<EditKind> {
    let edit = |action: &Action| match action {
        Action::Edit { kind, .. } => Some(*kind),
        _ => None,
    };
    decision.actions.iter().filter_map(edit).collect()
}

fn moves(decision: &Decision) -> Vec<&Move> {
    let all = decision.actions.iter().filter_map(|action| match action {
        Action::Move(_, to_move) => Some(to_move),
        _ => None,
    });
    all.collect()
}

#[test]
fn a_grant_is_written_before_anything_moves() {
    let (sets, pods) = ([set("v1", 5)], pods("v1"));
    let before = look(
        &held(&template("v2"), names::HOLD_PARTITION),
        Some((&sets, &pods)),
    );
    assert_eq!((edits(&before), moves(&before)), (vec![EditKind::Grant], vec![]));
    let after = look(&held(&template("v2"), 4), Some((&sets, &pods)));
    assert_eq!(edits(&after), []);
    let moves = moves(&after);
    assert!(
        matches!(moves[..], [Move::Create { replicas: 1, .. }, ..]),
        "{moves:?}"
    );
    // Nothing moves as long as nobody knows what there is.
    let unseen = look(&held(&template("v2"), 4), None);
    assert!(self::moves(&unseen).is_empty());
    // Nor where the fields that hold do not.
    let mut loose = held(&template("v2"), 4);
    loose["spec"]["paused"] = json!(false);
    let again = look(&loose, Some((&sets, &pods)));
    assert_eq!(
        (edits(&again), self::moves(&again)),
        (vec![EditKind::Grant], vec![])
    );
}

#[test]
fn whether_a_template_is_another_one_is_known_once_its_revision_is() {
    let mut almost = template("v1");
    almost["spec"]["securityContext"] = json!({});
    let object = held(&almost, names::HOLD_PARTITION);
    let unseen = look(&object, None);
    assert_eq!(edits(&unseen), []);
    assert!(
        unseen
            .status
            .unwrap()
            .message
            .starts_with("waiting for the operator")
    );
    // The controller of Deployments takes it for another one.
    let (sets, pods) = ([set("v1", 5)], pods("v1"));
    let seen = look(&object, Some((&sets, &pods)));
    assert_eq!(edits(&seen), [EditKind::Grant]);
    assert_eq!(seen.status.unwrap().canary_status.unwrap().current_step_index, 1);
}
