//! Properties of the verdict over arbitrary pairs of objects. The table of cases is in `tests/cases/hold.rs`, since the webhook
//! is bound by it too.

use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::workload::ADAPTERS;

/// Any adapter of kinds with a partition.
fn adapters() -> impl Strategy<Value = &'static dyn Adapter> {
    let all = ADAPTERS.into_iter();
    let partitioned: Vec<_> = all.filter(|adapter| adapter.partition_path().is_some()).collect();
    proptest::sample::select(partitioned)
}

/// Any object.
fn object() -> impl Strategy<Value = Value> {
    (
        prop_oneof![3 => Just(Some("u")), 1 => Just(Some("copy")), 1 => Just(None)],
        any::<bool>(),
    )
        .prop_flat_map(|(guard, held)| object_with(guard, held))
}

/// The object with its partition where the adapter has it.
fn shaped(adapter: &dyn Adapter, mut object: Value) -> Value {
    let partition = object["spec"]["updateStrategy"]["rollingUpdate"].take();
    object["spec"]["updateStrategy"]
        .as_object_mut()
        .unwrap()
        .remove("rollingUpdate");
    PatchBuilder::new(object)
        .set(adapter.partition_path().unwrap(), partition["partition"].clone())
        .object()
        .clone()
}

/// An object with any mixture of marks, partitions and strategies, including ones that nobody should write.
fn object_with(guard: Option<&'static str>, held: bool) -> impl Strategy<Value = Value> {
    let partition = prop_oneof![
        Just(Value::Null),
        (0..8_i64).prop_map(|n| json!(n)),
        Just(json!(names::HOLD_PARTITION)),
        (0..101_u32).prop_map(|n| json!(format!("{n}%"))),
        Just(json!("half"))
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
        (0..101_u32).prop_map(|n| format!("{n}%")),
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

fn judged(adapter: &dyn Adapter, old: &Value, new: &Value, claimed_by: Option<&str>) -> (Value, Verdict) {
    let verdict = review(
        adapter,
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

/// An adapter with the objects before and after a write.
type Case = (&'static dyn Adapter, Value, Value);

fn case(old: impl Strategy<Value = Value>) -> impl Strategy<Value = Case> {
    let shape = |(adapter, old, new)| (adapter, shaped(adapter, old), shaped(adapter, new));
    (adapters(), old, object()).prop_map(shape)
}

fn sets() -> &'static dyn Adapter {
    ADAPTERS[0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_verdict_is_idempotent((adapter, old, new) in case(object()), claim in option::of(Just("ro"))) {
        let (once, _) = judged(adapter, &old, &new, claim);
        let (twice, second) = judged(adapter, &old, &once, claim);
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(second.outcome, Outcome::Unchanged);
    }

    #[test]
    fn a_template_never_changes_unheld(
        (adapter, old, mut new) in case(any::<bool>().prop_flat_map(|held| object_with(Some("u"), held)))
    ) {
        new["spec"]["template"] = json!({"v": 9});
        let (result, _) = judged(adapter, &old, &new, None);
        let view = adapter.view(&result).unwrap();
        prop_assert!(view.partition.is_some_and(|partition| partition.count().is_some()));
        prop_assert!(view.partition_in_force() >= names::HOLD_PARTITION);
        prop_assert_eq!(view.hold().map(|hold| hold.granted), Some(names::HOLD_PARTITION));
        prop_assert!(view.other_strategy.is_none());
    }

    #[test]
    fn nobody_but_the_controller_lowers_a_grant((adapter, old, new) in case(object_with(Some("u"), true))) {
        let granted = Marks::read(annotations(&old).unwrap()).hold.unwrap().granted;
        let (result, _) = judged(adapter, &old, &new, None);
        let view = adapter.view(&result).unwrap();
        prop_assert!(view.partition.is_some_and(|partition| partition.count().is_some()));
        prop_assert!(view.partition_in_force() >= granted);
        prop_assert!(view.hold().is_some_and(|hold| hold.granted >= granted));
        prop_assert!(view.other_strategy.is_none());
        // Pods that the write adds are kept back too.
        let written = adapter.replicas_path().is_some();
        if written && view.replicas > old["spec"]["replicas"].as_u64().unwrap() as u32 {
            prop_assert!(view.partition_in_force() >= i64::from(view.replicas));
        }
        let label = |object: &Value| object["metadata"]["labels"].get(names::WORKLOAD_TYPE).cloned();
        if label(&old).is_some() {
            prop_assert_eq!(label(&result), label(&old));
        }
    }

    #[test]
    fn outside_a_release_only_marks_are_put_right((adapter, old, mut new) in case(object_with(Some("u"), false))) {
        new["spec"]["template"] = old["spec"]["template"].clone();
        let (result, _) = judged(adapter, &old, &new, None);
        let means = &adapter.paths().means;
        match echo(means, &new) {
            Some(asked) => prop_assert_eq!(Original::of(means.seen(&result, None)), asked),
            None => prop_assert_eq!(&result["spec"], &new["spec"]),
        }
        prop_assert_eq!(&result["metadata"]["annotations"][names::GUARDED_BY], &old["metadata"]["annotations"][names::GUARDED_BY]);
        prop_assert!(names::RELEASE_MARKS.iter().all(|mark| result["metadata"]["annotations"].get(*mark).is_none()));
    }

    #[test]
    fn an_ungoverned_workload_is_left_alone(
        (adapter, old, new) in case(
            any::<bool>().prop_flat_map(|held| prop_oneof![object_with(None, held), object_with(Some("copy"), held)])
        ),
    ) {
        let (result, _) = judged(adapter, &old, &new, None);
        prop_assert_eq!(result, new);
    }
}

#[test]
fn a_claimed_workload_is_held_before_it_is_marked() {
    let old = json!({"metadata": {"uid": "u"}, "spec": {"template": {"v": 1}}});
    let new = json!({"metadata": {"uid": "u"}, "spec": {"template": {"v": 2}}});
    let (result, verdict) = judged(sets(), &old, &new, Some("ro"));
    let view = sets().view(&result).unwrap();
    assert_eq!(verdict.outcome, Outcome::Held);
    assert_eq!(view.partition, Some(Partition::Count(names::HOLD_PARTITION)));
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
            sets(),
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
        judged(sets(), &old, &new, None).1.warning.unwrap()
    };
    assert!(
        told(3).starts_with("the new template is held by Rollout ro; see: kubectl kruise rollout status ro")
    );
    assert!(told(1).starts_with("the template is the stable one again: Rollout ro rolls back"));
}
