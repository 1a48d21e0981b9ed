//! Kinds that are held by fields: the verbs, and what admission makes of writes.

use super::*;
use crate::admission::workload::{Outcome, Verdict, Write, review};

mod strategies;

fn deployments() -> &'static dyn Adapter {
    adapter("apps", "Deployment")
}

/// A guarded Deployment of version v1 at rest, with this strategy.
fn at_rest(strategy: &Value) -> Value {
    let template = json!({"v": 1});
    json!({"metadata": {"uid": "u", "generation": 7, "resourceVersion": "12", "namespace": "shop",
            "labels": {names::WORKLOAD_TYPE: "deployment"},
            "annotations": {"theirs": "stays", names::GUARDED_BY: Guard::text("u", "ro", &TemplateId::of(&template))}},
        "spec": {"replicas": 5, "strategy": strategy, "template": template},
        "status": {"observedGeneration": 7}})
}

fn rolling() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}})
}

/// What is stored of a write by a person.
fn stored(old: &Value, new: &Value) -> (Value, Verdict) {
    let verdict = review(
        deployments(),
        Write {
            old,
            new,
            by_controller: false,
            claimed_by: None,
        },
    );
    let mut result = new.clone();
    json_patch::patch(&mut result, &verdict.patch).unwrap();
    // Asked again, as after another webhook, it has nothing to add.
    let again = review(
        deployments(),
        Write {
            old,
            new: &result,
            by_controller: false,
            claimed_by: None,
        },
    );
    assert_eq!(again.outcome, Outcome::Unchanged, "{result:#}");
    (result, verdict)
}

/// A merge patch by a person.
fn patched(old: &Value, patch: &Value) -> Value {
    let mut new = old.clone();
    json_patch::merge(&mut new, patch);
    stored(old, &new).0
}

/// The same Deployment with a new template, held.
fn held(strategy: &Value) -> Value {
    patched(&at_rest(strategy), &json!({"spec": {"template": {"v": 2}}}))
}

fn spec_of(object: &Value) -> (Value, Value) {
    (
        object["spec"]["strategy"].clone(),
        object["spec"]["paused"].clone(),
    )
}

/// What the verb leaves of an object.
fn released(object: &Value, freedom: Freedom) -> Value {
    let view = deployments().view(object).unwrap();
    after(object, deployments().release(&view, freedom))
}

#[test]
fn a_new_template_is_held_and_everything_comes_back() {
    for (strategy, paused) in [
        (rolling(), json!(null)),
        (json!({"type": "Recreate"}), json!(null)),
        (rolling(), json!(true)),
        (json!(null), json!(null)),
    ] {
        let mut before = at_rest(&strategy);
        if strategy.is_null() {
            before["spec"].as_object_mut().unwrap().remove("strategy");
        }
        if !paused.is_null() {
            before["spec"]["paused"] = paused.clone();
        }
        let held = patched(&before, &json!({"spec": {"template": {"v": 2}}}));
        assert_eq!(spec_of(&held), (json!({"type": "Recreate"}), json!(true)));
        let view = deployments().view(&held).unwrap();
        assert_eq!(view.partition_in_force(), names::HOLD_PARTITION);
        assert_eq!(view.paused, paused == json!(true));
        let granted = after(&held, deployments().expose(&view, 4));
        let view = deployments().view(&granted).unwrap();
        assert_eq!((view.partition_in_force(), view.hold().unwrap().granted), (4, 4));
        assert!(deployments().expose(&view, 4).is_empty());
        let released = released(&granted, Freedom::Guarded);
        assert_eq!(spec_of(&released), spec_of(&before));
        assert_eq!(
            released["spec"].as_object().unwrap().len(),
            before["spec"].as_object().unwrap().len()
        );
        let names: Vec<_> = released["metadata"]["annotations"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        assert_eq!(names, [names::GUARDED_BY, "theirs"]);
    }
}

#[test]
fn our_own_hold_is_that_of_admission() {
    let mut object = at_rest(&rolling());
    object["spec"]["template"] = json!({"v": 2});
    let view = deployments().view(&object).unwrap();
    assert_eq!(after(&object, deployments().hold(&view)), held(&rolling()));
}

#[test]
fn a_manifest_that_is_applied_again_loosens_nothing_and_is_the_wish() {
    let before = held(&rolling());
    let manifest = json!({"spec": {"paused": null, "strategy": rolling()}});
    let after = patched(&before, &manifest);
    assert_eq!(after, before);
    let other = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}});
    let after = patched(&before, &json!({"spec": {"strategy": other}}));
    assert_eq!(spec_of(&after), spec_of(&before));
    assert_eq!(released(&after, Freedom::Free)["spec"]["strategy"], other);
    // Whatever leaves the fields as they are, or as they are held, asks for nothing else.
    let scaled = patched(&after, &json!({"spec": {"replicas": 6, "paused": true}}));
    assert_eq!(released(&scaled, Freedom::Free)["spec"]["strategy"], other);
    assert_eq!(released(&scaled, Freedom::Free)["spec"]["paused"], json!(null));
    // The next version, in the same write as another wish.
    let next = json!({"spec": {"template": {"v": 3}, "strategy": rolling()}});
    assert_eq!(
        released(&patched(&after, &next), Freedom::Free)["spec"]["strategy"],
        rolling()
    );
}

#[test]
fn a_part_of_the_strategy_is_a_wish_for_that_part() {
    let partly = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}});
    let after = patched(&held(&rolling()), &partly);
    assert_eq!(after["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(
        released(&after, Freedom::Free)["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}})
    );
}

#[test]
fn stripped_marks_come_back_and_pods_that_a_write_adds_are_kept_back() {
    let view = deployments().view(&held(&rolling())).unwrap();
    let step = after(&held(&rolling()), deployments().expose(&view, 4));
    let marks = [&[names::GUARDED_BY], names::RELEASE_MARKS.as_slice()].concat();
    let stripped: serde_json::Map<_, _> = marks
        .into_iter()
        .map(|mark| (mark.to_owned(), Value::Null))
        .collect();
    let patch = json!({"metadata": {"annotations": stripped, "labels": null}, "spec": {"paused": false}});
    let result = patched(&step, &patch);
    assert_eq!(spec_of(&result), spec_of(&step));
    let view = deployments().view(&result).unwrap();
    assert_eq!(
        (view.partition_in_force(), view.label.clone()),
        (4, TypeLabel::Right)
    );
    let more = patched(&step, &json!({"spec": {"replicas": 10}}));
    assert_eq!(deployments().view(&more).unwrap().partition_in_force(), 10);
}

#[test]
fn an_export_of_mid_release_is_no_wish_at_rest() {
    let export = held(&rolling());
    let rest = released(&export, Freedom::Guarded);
    let (back, verdict) = stored(&rest, &export);
    assert_eq!(verdict.outcome, Outcome::Clamped);
    assert_eq!(spec_of(&back), spec_of(&rest));
    // The stable template is another one meanwhile, and the export brings its own: held, and given back as it was.
    let old = at_rest(&rolling());
    let (held, _) = stored(&old, &export);
    assert_eq!(spec_of(&released(&held, Freedom::Free)), spec_of(&old));
}

#[test]
fn fields_that_do_not_hold_keep_nothing_back() {
    let mut loose = held(&rolling());
    loose["spec"]["paused"] = json!(false);
    let view = deployments().view(&loose).unwrap();
    assert_eq!((view.partition, view.partition_in_force()), (None, 0));
    let again = after(&loose, deployments().expose(&view, 4));
    assert_eq!(deployments().view(&again).unwrap().partition_in_force(), 4);
}

#[test]
fn what_is_ours_in_managed_fields_is_told() {
    let mut object = at_rest(&rolling());
    let ours = |fields: Value| json!([{"manager": names::FIELD_MANAGER, "operation": "Update", "fieldsV1": {"f:spec": fields}}]);
    for (fields, expected) in [
        (json!({"f:strategy": {"f:type": {}}}), true),
        (json!({"f:paused": {}}), true),
        (json!({"f:replicas": {}}), false),
    ] {
        object["metadata"]["managedFields"] = ours(fields);
        assert_eq!(deployments().view(&object).unwrap().partition_is_ours, expected);
    }
}

/// The existing controller keeps what people asked for in an annotation.
#[test]
fn what_the_existing_controller_has_left_of_a_deployment_is_let_go() {
    let strategy = json!({"rollingStyle": "Partition", "partition": 1, "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let mut object = json!({
        "metadata": {"uid": "u", "generation": 3, "annotations": {
            names::IN_PROGRESSING: r#"{"rolloutName":"ro"}"#, names::LEGACY_STRATEGY: strategy.to_string()}},
        "spec": {"replicas": 5, "paused": true, "strategy": {"type": "Recreate"}},
    });
    let view = deployments().view(&object).unwrap();
    json_patch::patch(&mut object, &deployments().let_go_of_left(&view).build()).unwrap();
    assert_eq!(
        object,
        json!({
            "metadata": {"uid": "u", "generation": 3, "annotations": {}},
            "spec": {"replicas": 5, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
        })
    );
}
