//! The verbs of all adapters.

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::lens::PatchBuilder;
use crate::names;

mod held;

fn adapter(group: &str, kind: &str) -> &'static dyn Adapter {
    let kind = GroupKind {
        group: group.to_owned(),
        kind: kind.to_owned(),
    };
    adapter_for(&kind).unwrap()
}

fn kruise(kind: &str) -> &'static dyn Adapter {
    adapter("apps.kruise.io", kind)
}

fn sets() -> &'static dyn Adapter {
    adapter("example.io", "MyStatefulApp")
}

/// A member at a path, the first of a list of one, and so on.
fn put(object: &mut Value, path: &[&str], value: Value) {
    let patch = PatchBuilder::new(object.clone()).set(path, value).build();
    json_patch::patch(object, &patch).unwrap();
}

fn take<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |at, name| at.get(*name))
}

/// A workload of five pods at partition 4 in a release, and what people asked for.
fn held(adapter: &dyn Adapter, original: &str) -> Value {
    let stable = TemplateId::of(&json!({"v": 1}));
    let mut object = json!({"metadata": {"uid": "u", "generation": 7, "resourceVersion": "12",
            "labels": {names::WORKLOAD_TYPE: adapter.type_label()},
            "annotations": {"theirs": "stays", names::GUARDED_BY: Guard::text("u", "ro", &stable),
                names::IN_PROGRESSING: marks::in_progressing("ro"), names::GRANTED_PARTITION: "4",
                names::ORIGINAL_PARTITION: original}},
        "spec": {"template": {"v": 2}},
        "status": {"observedGeneration": 7}});
    put(&mut object, adapter.partition_path().unwrap(), json!(4));
    match &adapter.paths().replicas {
        Replicas::Written(field) | Replicas::Reported(field) => put(&mut object, field.path(), json!(5)),
    }
    put(
        &mut object,
        adapter.paths().status.update_revision[0].path(),
        json!(""),
    );
    object
}

fn after(object: &Value, patch: PatchBuilder) -> Value {
    let mut result = object.clone();
    json_patch::patch(&mut result, &patch.build()).unwrap();
    result
}

#[test]
fn kinds_are_known_by_group_and_kind() {
    let label = |group: &str, kind: &str| {
        let kind = GroupKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        };
        adapter_for(&kind).map(Adapter::type_label)
    };
    for (group, kind, expected) in [
        ("apps", "StatefulSet", Some("statefulset")),
        ("apps.kruise.io", "StatefulSet", Some("statefulset")),
        ("apps.kruise.io", "CloneSet", Some("cloneset")),
        ("apps.kruise.io", "DaemonSet", Some("daemonset")),
        ("apps.kruise.io", "SidecarSet", None),
        ("apps", "DaemonSet", Some("daemonset")),
        ("apps", "Deployment", Some("deployment")),
        ("apps", "ReplicaSet", None),
        ("example.io", "CloneSet", Some("statefulset")),
        ("example.io", "DaemonSet", Some("statefulset")),
    ] {
        assert_eq!(label(group, kind), expected, "{group} {kind}");
    }
    // Policies are named by it, those of kinds with a partition.
    let partitioned = ADAPTERS
        .iter()
        .filter(|adapter| adapter.partition_path().is_some());
    let labels: Vec<_> = partitioned.map(|adapter| adapter.type_label()).collect();
    let different: BTreeSet<_> = labels.iter().collect();
    assert_eq!(different.len(), labels.len());
}

#[rstest]
#[case(sets())]
#[case(kruise("CloneSet"))]
#[case(kruise("DaemonSet"))]
fn a_view_reads_what_is_there(#[case] adapter: &dyn Adapter) {
    let view = adapter.view(&held(adapter, "2")).unwrap();
    assert_eq!(
        (view.replicas, view.partition, view.generation),
        (5, Some(Partition::Count(4)), 7)
    );
    assert!(view.replicas_known && !view.paused);
    assert_eq!(
        view.hold().unwrap().original,
        Original::Partition(Partition::Count(2))
    );
    assert_eq!(view.reported.update_revision, None);
    assert_eq!(view.reported.updated_replicas, None);
    assert_eq!(view.observed(), Some(true));
    assert_eq!(view.label, TypeLabel::Right);
}

#[rstest]
#[case(sets())]
#[case(kruise("CloneSet"))]
#[case(kruise("DaemonSet"))]
fn expose_is_silent_when_it_is_so_already(#[case] adapter: &dyn Adapter) {
    let object = held(adapter, "0");
    let view = adapter.view(&object).unwrap();
    assert!(adapter.expose(&view, 4).is_empty());
    let result = after(&object, adapter.expose(&view, 2));
    assert_eq!(take(&result, adapter.partition_path().unwrap()), Some(&json!(2)));
    assert_eq!(result["metadata"]["annotations"][names::GRANTED_PARTITION], "2");
}

#[test]
fn a_grant_for_an_older_generation_or_grant_fails() {
    let view = sets().view(&held(sets(), "0")).unwrap();
    let patch = sets().expose(&view, 0).build();
    for (path, value) in [
        ("/metadata/generation", json!(8)),
        ("/metadata/uid", json!("other")),
        (
            "/metadata/annotations/rollouts.kruise.io~1granted-partition",
            json!("32767"),
        ),
    ] {
        let mut object = held(sets(), "0");
        *object.pointer_mut(path).unwrap() = value;
        assert!(json_patch::patch(&mut object, &patch).is_err(), "{path}");
    }
}

#[rstest]
#[case(sets())]
#[case(kruise("CloneSet"))]
#[case(kruise("DaemonSet"))]
fn release_restores_what_people_asked_for(#[case] adapter: &dyn Adapter) {
    for (original, expected) in [("2", json!(2)), ("20%", json!("20%")), ("0%", json!("0%"))] {
        let object = held(adapter, original);
        let view = adapter.view(&object).unwrap();
        let result = after(&object, adapter.release(&view, Freedom::Guarded));
        assert_eq!(take(&result, adapter.partition_path().unwrap()), Some(&expected));
        let guard = Guard::text("u", "ro", &TemplateId::of(&json!({"v": 2})));
        assert_eq!(
            result["metadata"]["annotations"],
            json!({"theirs": "stays", names::GUARDED_BY: guard})
        );
    }
    let object = held(adapter, "none");
    let view = adapter.view(&object).unwrap();
    let result = after(&object, adapter.release(&view, Freedom::Free));
    assert_eq!(result["spec"].get("updateStrategy"), None);
    assert_eq!(result["metadata"]["annotations"], json!({"theirs": "stays"}));
}

#[rstest]
#[case(sets())]
#[case(kruise("CloneSet"))]
#[case(kruise("DaemonSet"))]
fn an_ungated_change_is_held_with_what_people_asked_for(#[case] adapter: &dyn Adapter) {
    for asked in [None, Some(json!(3)), Some(json!("20%"))] {
        let mut object = held(adapter, "0");
        for mark in names::RELEASE_MARKS {
            object["metadata"]["annotations"]
                .as_object_mut()
                .unwrap()
                .remove(mark);
        }
        object["spec"]["updateStrategy"] = json!(null);
        if let Some(asked) = &asked {
            put(&mut object, adapter.partition_path().unwrap(), asked.clone());
        }
        let result = after(&object, adapter.hold(&adapter.view(&object).unwrap()));
        assert_eq!(
            take(&result, adapter.partition_path().unwrap()),
            Some(&json!(names::HOLD_PARTITION))
        );
        let view = adapter.view(&result).unwrap();
        let back = after(&result, adapter.release(&view, Freedom::Free));
        assert_eq!(take(&back, adapter.partition_path().unwrap()), asked.as_ref());
    }
}

#[test]
fn a_copy_of_the_marks_holds_nothing() {
    let mut object = held(sets(), "2");
    object["metadata"]["uid"] = json!("another");
    let view = sets().view(&object).unwrap();
    assert_eq!((view.guard(), view.hold()), (None, None));
    let result = after(&object, sets().release(&view, Freedom::Free));
    assert_eq!(result["metadata"]["annotations"], json!({"theirs": "stays"}));
    assert_eq!(result["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 4);
}

#[rstest]
#[case(sets())]
#[case(kruise("CloneSet"))]
#[case(kruise("DaemonSet"))]
fn malformed_is_said_not_guessed(#[case] adapter: &dyn Adapter) {
    let mut object = held(adapter, "0");
    put(&mut object, adapter.partition_path().unwrap(), json!("half"));
    let error = adapter.view(&object).unwrap_err().to_string();
    assert!(error.contains("an integer or a percentage"), "{error}");
    let mut object = held(adapter, "0");
    put(&mut object, adapter.paths().status.updated.path(), json!("5"));
    assert!(adapter.view(&object).is_err());
}

#[test]
fn a_percentage_is_a_share_of_what_there_is() {
    let mut object = held(kruise("CloneSet"), "0");
    put(
        &mut object,
        kruise("CloneSet").partition_path().unwrap(),
        json!("30%"),
    );
    let view = kruise("CloneSet").view(&object).unwrap();
    assert_eq!(
        (view.partition, view.partition_in_force()),
        (Some(Partition::Percent(30)), 2)
    );
}

#[test]
fn how_many_pods_a_daemonset_has_is_for_its_operator_to_say() {
    let mut object = held(kruise("DaemonSet"), "0");
    object["spec"]["replicas"] = json!(9);
    object["status"] = json!({"observedGeneration": 7, "desiredNumberScheduled": 3, "currentNumberScheduled": 2,
        "updatedNumberScheduled": 1, "numberReady": 2, "daemonSetHash": "6d4cf56db6"});
    let view = kruise("DaemonSet").view(&object).unwrap();
    assert_eq!((view.replicas, view.replicas_known), (3, true));
    let reported = &view.reported;
    assert_eq!(
        (
            reported.replicas,
            reported.updated_replicas,
            reported.ready_replicas
        ),
        (Some(2), Some(1), Some(2))
    );
    assert_eq!(
        (reported.update_revision.as_deref(), &reported.current_revision),
        (Some("6d4cf56db6"), &None)
    );
    object["status"]["desiredNumberScheduled"] = json!(0);
    let view = kruise("DaemonSet").view(&object).unwrap();
    assert_eq!((view.replicas, view.replicas_known), (0, true));
    object["status"] = json!(null);
    let view = kruise("DaemonSet").view(&object).unwrap();
    assert_eq!((view.replicas, view.replicas_known), (0, false));
}

#[rstest]
#[case(json!({"updateRevision": "6d4cf56db6"}), Some("6d4cf56db6"))]
#[case(json!({"daemonSetHash": "6d4cf56db6"}), Some("6d4cf56db6"))]
#[case(json!({"updateRevision": "", "daemonSetHash": "6d4cf56db6"}), Some("6d4cf56db6"))]
#[case(json!({}), None)]
fn each_version_of_a_daemonset_names_the_revision_in_its_own_field(
    #[case] status: Value,
    #[case] revision: Option<&str>,
) {
    let mut object = held(kruise("DaemonSet"), "0");
    object["status"] = status;
    let view = kruise("DaemonSet").view(&object).unwrap();
    assert_eq!(view.reported.update_revision.as_deref(), revision);
}

#[test]
fn which_update_types_heed_the_partition() {
    let other = |adapter: &dyn Adapter, kind: &str| {
        let mut object = held(adapter, "0");
        object["spec"]["updateStrategy"]["type"] = json!(kind);
        adapter.view(&object).unwrap().other_strategy
    };
    assert_eq!(other(sets(), "OnDelete").as_deref(), Some("OnDelete"));
    assert_eq!(
        other(kruise("DaemonSet"), "OnDelete").as_deref(),
        Some("OnDelete")
    );
    assert_eq!(other(kruise("DaemonSet"), "RollingUpdate"), None);
    for kind in ["ReCreate", "InPlaceIfPossible", "InPlaceOnly"] {
        assert_eq!(other(kruise("CloneSet"), kind), None);
    }
}

#[test]
fn people_may_have_paused_it() {
    let paused = |adapter: &dyn Adapter, path: &[&str], value: Value| {
        let mut object = held(adapter, "0");
        put(&mut object, path, value);
        adapter.view(&object).unwrap().paused
    };
    let rolling = ["spec", "updateStrategy", "rollingUpdate", "paused"];
    let strategy = ["spec", "updateStrategy", "paused"];
    for (adapter, path, other) in [
        (kruise("StatefulSet"), &rolling[..], &strategy[..]),
        (kruise("CloneSet"), &strategy[..], &rolling[..]),
        (kruise("DaemonSet"), &rolling[..], &strategy[..]),
    ] {
        assert!(paused(adapter, path, json!(true)));
        assert!(!paused(adapter, path, json!(false)));
        assert!(!paused(adapter, path, json!("true")));
        assert!(!paused(adapter, other, json!(true)));
    }
}

#[test]
fn an_advanced_stateful_set_has_its_own_ways() {
    let adapter = kruise("StatefulSet");
    let view = |strategy: Value| {
        let mut object = held(adapter, "0");
        object["spec"]["reserveOrdinals"] = json!([1, "3-4"]);
        object["spec"]["updateStrategy"]["rollingUpdate"] = strategy;
        adapter.view(&object).unwrap()
    };
    let ordered = view(json!({"partition": 4, "minReadySeconds": 7, "podUpdatePolicy": "InPlaceIfPossible"}));
    assert_eq!((ordered.in_order, ordered.min_ready_seconds), (true, 7));
    let places: Vec<_> = (0..6).map(|ordinal| ordered.order.place(ordinal)).collect();
    assert_eq!(places, [Some(0), None, Some(1), None, None, Some(2)]);
    let unordered = view(json!({"partition": 4, "unorderedUpdate": {"priorityStrategy": {}}}));
    assert_eq!(unordered.order, UpdateOrder::Any);
    assert_eq!(unordered.order.place(0), None);
    for kind in ["CloneSet", "DaemonSet"] {
        let mut object = held(kruise(kind), "0");
        object["spec"]["minReadySeconds"] = json!(30);
        let view = kruise(kind).view(&object).unwrap();
        assert_eq!((view.order, view.in_order), (UpdateOrder::Any, false));
        assert_eq!(view.min_ready_seconds, 30);
    }
}
