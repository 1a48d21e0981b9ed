//! Properties of the verdict over arbitrary pairs of objects. The table of cases is in `tests/cases/hold.rs`, since the webhook
//! is bound by it too.

use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::workload::{GroupKind, View, adapter_for};

fn adapter() -> &'static dyn Adapter {
    adapter_for(&GroupKind {
        group: "example.io".to_owned(),
        kind: "MyStatefulApp".to_owned(),
    })
    .unwrap()
}

/// Any object.
fn object() -> impl Strategy<Value = Value> {
    (
        prop_oneof![3 => Just(Some("u")), 1 => Just(Some("copy")), 1 => Just(None)],
        any::<bool>(),
    )
        .prop_flat_map(|(guard, held)| object_with(guard, held))
}

/// An object with any mixture of marks, partitions and strategies, including ones that nobody should write.
fn object_with(guard: Option<&'static str>, held: bool) -> impl Strategy<Value = Value> {
    let partition = prop_oneof![
        Just(Value::Null),
        (0..8_i64).prop_map(|n| json!(n)),
        Just(json!(names::HOLD_PARTITION)),
        Just(json!("50%"))
    ];
    let strategy = prop_oneof![
        Just(None),
        Just(Some("")),
        Just(Some("RollingUpdate")),
        Just(Some("OnDelete"))
    ];
    let grant = option::of(prop_oneof![
        (0..8_i64).prop_map(|n| n.to_string()),
        Just("32767".to_owned()),
        Just("junk".to_owned())
    ]);
    let original = option::of(prop_oneof![
        (0..8_i64).prop_map(|n| n.to_string()),
        Just("none".to_owned()),
        Just("junk".to_owned())
    ]);
    (
        partition,
        strategy,
        grant,
        original,
        0..8_u32,
        1..4_u32,
        any::<bool>(),
    )
        .prop_map(
            move |(partition, strategy, grant, original, replicas, template, label)| {
                let mut annotations = Map::new();
                if let Some(uid) = guard {
                    let text = Guard::text(uid, "ro", &TemplateId::of(&json!({"v": 1})));
                    annotations.insert(names::GUARDED_BY.to_owned(), json!(text));
                }
                if held {
                    annotations.insert(
                        names::IN_PROGRESSING.to_owned(),
                        json!(marks::in_progressing("ro")),
                    );
                }
                for (name, value) in [
                    (names::GRANTED_PARTITION, grant),
                    (names::ORIGINAL_PARTITION, original),
                ] {
                    annotations.extend(value.map(|value| (name.to_owned(), json!(value))));
                }
                let mut object = json!({
                    "metadata": {"uid": "u", "name": "a", "namespace": "n", "annotations": annotations},
                    "spec": {"replicas": replicas, "template": {"v": template},
                        "updateStrategy": {"rollingUpdate": {"partition": partition}}}
                });
                if let Some(strategy) = strategy {
                    object["spec"]["updateStrategy"]["type"] = json!(strategy);
                }
                if label {
                    object["metadata"]["labels"] = json!({names::WORKLOAD_TYPE: "statefulset"});
                }
                object
            },
        )
}

fn judged(old: &Value, new: &Value, claimed_by: Option<&str>) -> (Value, Verdict) {
    let verdict = review(
        adapter(),
        Write {
            old,
            new,
            by_controller: false,
            claimed_by,
        },
    );
    let mut result = new.clone();
    json_patch::patch(&mut result, &verdict.patch).unwrap();
    (result, verdict)
}

fn seen(object: &Value) -> View {
    adapter().view(object).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_verdict_is_idempotent(old in object(), new in object(), claim in option::of(Just("ro"))) {
        let (once, _) = judged(&old, &new, claim);
        let (twice, second) = judged(&old, &once, claim);
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(second.outcome, Outcome::Unchanged);
    }

    #[test]
    fn a_template_never_changes_unheld(old in any::<bool>().prop_flat_map(|held| object_with(Some("u"), held)), mut new in object()) {
        new["spec"]["template"] = json!({"v": 9});
        let (result, _) = judged(&old, &new, None);
        let view = seen(&result);
        prop_assert!(view.partition_in_force() >= names::HOLD_PARTITION);
        prop_assert_eq!(view.hold().map(|hold| hold.granted), Some(names::HOLD_PARTITION));
        prop_assert!(view.other_strategy.is_none());
    }

    #[test]
    fn nobody_but_the_controller_lowers_a_grant(old in object_with(Some("u"), true), new in object()) {
        let granted = Marks::read(annotations(&old).unwrap()).hold.unwrap().granted;
        let (result, _) = judged(&old, &new, None);
        let view = seen(&result);
        prop_assert!(view.partition_in_force() >= granted);
        prop_assert!(view.hold().is_some_and(|hold| hold.granted >= granted));
        prop_assert!(view.other_strategy.is_none());
        // Pods that the write adds are kept back too.
        if view.replicas > old["spec"]["replicas"].as_u64().unwrap() as u32 {
            prop_assert!(view.partition_in_force() >= i64::from(view.replicas));
        }
        let label = |object: &Value| object["metadata"]["labels"].get(names::WORKLOAD_TYPE).cloned();
        if label(&old).is_some() {
            prop_assert_eq!(label(&result), label(&old));
        }
    }

    #[test]
    fn outside_a_release_only_marks_are_put_right(old in object_with(Some("u"), false), mut new in object()) {
        new["spec"]["template"] = old["spec"]["template"].clone();
        let (result, _) = judged(&old, &new, None);
        match echo(&new, read_partition(adapter(), &new)) {
            Some(asked) => prop_assert_eq!(Original::of(read_partition(adapter(), &result)), asked),
            None => prop_assert_eq!(&result["spec"], &new["spec"]),
        }
        prop_assert_eq!(&result["metadata"]["annotations"][names::GUARDED_BY], &old["metadata"]["annotations"][names::GUARDED_BY]);
        prop_assert!(names::RELEASE_MARKS.iter().all(|mark| result["metadata"]["annotations"].get(*mark).is_none()));
    }

    #[test]
    fn an_ungoverned_workload_is_left_alone(
        old in any::<bool>().prop_flat_map(|held| prop_oneof![object_with(None, held), object_with(Some("copy"), held)]),
        new in object(),
    ) {
        let (result, _) = judged(&old, &new, None);
        prop_assert_eq!(result, new);
    }
}

#[test]
fn a_claimed_workload_is_held_before_it_is_marked() {
    let old = json!({"metadata": {"uid": "u"}, "spec": {"template": {"v": 1}}});
    let new = json!({"metadata": {"uid": "u"}, "spec": {"template": {"v": 2}}});
    let (result, verdict) = judged(&old, &new, Some("ro"));
    let view = seen(&result);
    assert_eq!(verdict.outcome, Outcome::Held);
    assert_eq!(view.partition, Some(names::HOLD_PARTITION));
    assert_eq!(
        view.guard().unwrap().stable,
        Some(TemplateId::of(&json!({"v": 1})))
    );
    assert_eq!(view.hold().unwrap().original, Original::Absent);
}

#[test]
fn the_controller_passes_unless_it_changes_the_template() {
    let stable = TemplateId::of(&json!({"v": 1}));
    let old = json!({"metadata": {"uid": "u", "annotations": {names::GUARDED_BY: Guard::text("u", "ro", &stable)}},
        "spec": {"template": {"v": 1}}});
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({});
    let ours = |new: &Value| {
        review(
            adapter(),
            Write {
                old: &old,
                new,
                by_controller: true,
                claimed_by: None,
            },
        )
        .outcome
    };
    assert_eq!(ours(&new), Outcome::Unchanged);
    // It lets go, and another webhook changes the template in the same write.
    new["spec"]["template"] = json!({"v": 2});
    assert_eq!(ours(&new), Outcome::Unchanged);
    new["metadata"]["annotations"] = old["metadata"]["annotations"].clone();
    assert_eq!(ours(&new), Outcome::Held);
}

#[test]
fn the_writer_is_told_whether_a_template_is_held_or_leads_back() {
    let stable = TemplateId::of(&json!({"v": 1}));
    let old = json!({"metadata": {"uid": "u", "annotations": {
            names::GUARDED_BY: Guard::text("u", "ro", &stable), names::IN_PROGRESSING: "{}"}},
        "spec": {"template": {"v": 2}}});
    let told = |version: u32| {
        let mut new = old.clone();
        new["spec"]["template"] = json!({"v": version});
        judged(&old, &new, None).1.warning.unwrap()
    };
    assert!(
        told(3).starts_with("the new template is held by Rollout ro; see: kubectl kruise rollout status ro")
    );
    assert!(told(1).starts_with("the template is the stable one again: Rollout ro rolls back"));
}
