//! The ReplicaSets of Deployments.

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::workload::{Guard, marks};

fn deployment(strategy: &Value, replicas: u32) -> Value {
    let stable = TemplateId::of(&template("v1"));
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 7,
            "annotations": {names::GUARDED_BY: Guard::text("u", "ro", &stable),
                names::IN_PROGRESSING: marks::in_progressing("ro"), names::GRANTED_PARTITION: "4",
                names::ORIGINAL_PARTITION: json!({"spec.strategy.type": strategy["type"],
                    "spec.strategy.rollingUpdate": strategy["rollingUpdate"]}).to_string()}},
        "spec": {"replicas": replicas, "paused": true, "strategy": {"type": "Recreate"}, "minReadySeconds": 3,
            "selector": {"matchLabels": {"app": "web"}}, "template": template("v2")}})
}

fn template(version: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": version}]}})
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// A ReplicaSet of a version, all of whose pods are available.
fn of_version(version: &str, replicas: u32) -> Revision {
    let mut labelled = template(version);
    labelled["metadata"]["labels"][names::POD_TEMPLATE_HASH] = json!(version);
    let set = json!({"metadata": {"name": format!("web-{version}"), "uid": version, "resourceVersion": "9",
            "labels": {names::POD_TEMPLATE_HASH: version}, "annotations": {names::DESIRED_REPLICAS: "5"}},
        "spec": {"replicas": replicas, "template": labelled},
        "status": {"replicas": replicas, "availableReplicas": replicas}});
    Revision::read(RevisionKind::ReplicaSet, &set)
}

fn pods(version: &str, ready: u32) -> Vec<PodView> {
    let pod = |n: u32| {
        PodView::read(
            &json!({"metadata": {"name": format!("{version}-{n}"), "labels": {names::POD_TEMPLATE_HASH: version}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        )
    };
    (0..ready).map(pod).collect()
}

fn drive(object: &Value, revisions: &[Revision], pods: &[PodView]) -> Drive {
    let view = DEPLOYMENT.view(object).unwrap();
    DEPLOYMENT.drive(&Driven {
        view: &view,
        revisions,
        pods,
        now: Timestamp::UNIX_EPOCH,
    })
}

#[test]
fn the_bounds_are_those_that_people_ask_for() {
    let of = |strategy: &Value, replicas| {
        let bounds = bounds(&DEPLOYMENT.view(&deployment(strategy, replicas)).unwrap());
        (bounds.surge, bounds.unavailable)
    };
    let percent = rolling(json!("25%"), json!("25%"));
    assert_eq!(
        (of(&percent, 5), of(&percent, 3), of(&percent, 0)),
        ((2, 1), (1, 0), (0, 1))
    );
    assert_eq!(of(&rolling(json!("150%"), json!(9)), 4), (6, 4));
    assert_eq!(of(&rolling(json!(0), json!("10%")), 5), (0, 1));
    assert_eq!(of(&json!({"type": "Recreate"}), 5), (0, 5));
    assert_eq!(of(&Value::Null, 8), (2, 2));
}

#[test]
fn the_first_step_makes_the_set_of_the_new_template_and_then_shrinks_the_stable_one() {
    let object = deployment(&rolling(json!(1), json!(0)), 5);
    let stable = of_version("v1", 5);
    let first = drive(&object, std::slice::from_ref(&stable), &pods("v1", 5)).moves;
    let [Move::Create { premise, replicas }] = &first[..] else {
        panic!("{first:?}")
    };
    assert!(premise.holds(&object));
    assert_eq!(*replicas, 1);
    let both = [pods("v1", 5), pods("v2", 1)].concat();
    let sets = [stable, of_version("v2", 1)];
    let second = drive(&object, &sets, &both).moves;
    let [
        Move::Resize {
            premise,
            revision,
            patch,
        },
    ] = &second[..]
    else {
        panic!("{second:?}")
    };
    assert!(premise.holds(&object));
    assert_eq!(revision, "web-v1");
    assert_eq!(
        json!(patch),
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "v1"},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "9"},
            {"op": "add", "path": "/spec/replicas", "value": 4},
            {"op": "remove", "path": "/metadata/annotations/deployment.kubernetes.io~1desired-replicas"}
        ])
    );
    let sets = [of_version("v1", 4), of_version("v2", 1)];
    assert_eq!(drive(&object, &sets, &both), Drive::default(), "all is done");
    // A pod that is seen not to be ready counts before the status says so.
    let sets = [of_version("v1", 5), of_version("v2", 1)];
    assert_eq!(drive(&object, &sets, &pods("v1", 5)), Drive::default());
}

/// From v2 to v1 and to v2 again: the ReplicaSets are as they were, and the grant is another one.
#[test]
fn a_move_is_void_once_the_deployment_is_held_anew() {
    let object = deployment(&rolling(json!(1), json!(0)), 5);
    let both = [pods("v1", 5), pods("v2", 1)].concat();
    let sets = [of_version("v1", 5), of_version("v2", 1)];
    let made = drive(&object, &sets[..1], &both[..5]).moves;
    let sized = drive(&object, &sets, &both).moves;
    for to_move in [made, sized].concat() {
        let (Move::Create { premise, .. } | Move::Resize { premise, .. }) = &to_move else {
            panic!("{to_move:?}")
        };
        for (change, holds) in [
            (json!({}), true),
            // A status write.
            (
                json!({"metadata": {"resourceVersion": "13", "labels": {"theirs": "x"}}}),
                true,
            ),
            (
                json!({"metadata": {"generation": 9, "annotations": {names::GRANTED_PARTITION: "32767"}}}),
                false,
            ),
            (json!({"metadata": {"generation": 9}}), false),
            (
                json!({"metadata": {"annotations": {names::GRANTED_PARTITION: null}}}),
                false,
            ),
            (json!({"metadata": {"uid": "another"}}), false),
        ] {
            let mut now = object.clone();
            json_patch::merge(&mut now, &change);
            assert_eq!(premise.holds(&now), holds, "{to_move:?} {change}");
        }
    }
}

#[test]
fn nothing_moves_while_people_have_paused_it() {
    let mut object = deployment(&rolling(json!(1), json!(0)), 5);
    let original = json!({"spec.paused": true}).to_string();
    object["metadata"]["annotations"][names::ORIGINAL_PARTITION] = json!(original);
    assert_eq!(
        drive(&object, &[of_version("v1", 5)], &pods("v1", 5)),
        Drive::default()
    );
}

#[test]
fn a_set_is_made_as_the_controller_of_deployments_makes_one() {
    let object = deployment(&Value::Null, 5);
    let made = DEPLOYMENT.revision(&object, 2).unwrap();
    let hash = DEPLOYMENT
        .next_revision(&DEPLOYMENT.view(&object).unwrap())
        .unwrap();
    assert_eq!(made["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(
        made["spec"]["selector"]["matchLabels"],
        json!({"app": "web", names::POD_TEMPLATE_HASH: hash})
    );
    assert_eq!(
        made["spec"]["template"]["metadata"]["labels"],
        made["spec"]["selector"]["matchLabels"]
    );
    assert_eq!(
        (&made["spec"]["replicas"], &made["spec"]["minReadySeconds"]),
        (&json!(2), &json!(3))
    );
    let read = Revision::read(RevisionKind::ReplicaSet, &made);
    assert!(read.is_of(&TemplateId::of(&object["spec"]["template"])));
    assert_eq!((read.owner.as_deref(), read.revision), (Some("u"), hash));
}

#[test]
fn an_empty_member_is_another_template_to_the_controller_of_deployments() {
    let mut other = template("v1");
    other["spec"]["securityContext"] = json!({});
    assert!(!of_version("v1", 1).is_of(&TemplateId::of(&other)));
}

/// As one that was copied from a ReplicaSet has. The controller of Deployments puts its own over it, and tells no template from another
/// one by it.
#[test]
fn a_template_with_the_label_of_replica_sets_is_as_any_other() {
    let mut object = deployment(&rolling(json!(1), json!(0)), 5);
    let plain = DEPLOYMENT.view(&object).unwrap().template;
    object["spec"]["template"]["metadata"]["labels"][names::POD_TEMPLATE_HASH] = json!("abc");
    let view = DEPLOYMENT.view(&object).unwrap();
    assert_eq!(view.template, plain);
    let made = DEPLOYMENT.revision(&object, 2).unwrap();
    let read = Revision::read(RevisionKind::ReplicaSet, &made);
    assert!(read.is_of(&view.template));
    assert_eq!(Some(&read.revision), DEPLOYMENT.next_revision(&view).as_ref());
    assert_eq!(
        made["spec"]["template"]["metadata"]["labels"][names::POD_TEMPLATE_HASH],
        read.revision
    );
    // Of other kinds the label is as any other.
    let of_sets = crate::workload::ADAPTERS[0].paths();
    assert_ne!(of_sets.template_id(&object["spec"]["template"]), plain);
}
