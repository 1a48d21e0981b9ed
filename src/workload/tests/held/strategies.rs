//! What people may ask for in the strategy while it is held, and what comes back.

use proptest::prelude::*;

use super::*;

/// What the API server gets to see of a write, if it refuses that.
fn left_to_refuse(old: &Value, new: &Value) -> Option<Value> {
    let judge = |new: &Value| {
        let write = Write {
            old,
            new,
            by_controller: false,
            claimed_by: None,
        };
        let verdict = review(deployments(), write);
        let mut result = new.clone();
        json_patch::patch(&mut result, &verdict.patch).unwrap();
        (verdict.outcome == Outcome::LeftToRefuse).then_some(result)
    };
    let seen = judge(new)?;
    assert_eq!(judge(&seen).as_ref(), Some(&seen), "asked again");
    Some(seen["spec"]["strategy"].clone())
}

#[test]
fn a_strategy_that_the_api_server_refuses_is_left_to_it() {
    let none = json!({"maxSurge": 0, "maxUnavailable": 0});
    let half = json!({"maxSurge": "half", "maxUnavailable": 0});
    let of = |kind: &str, rolling: &Value| json!({"type": kind, "rollingUpdate": rolling});
    let rests = at_rest(&rolling());
    let recreated = held(&json!({"type": "Recreate"}));
    for (old, strategy, seen) in [
        (
            &held(&rolling()),
            of("RollingUpdate", &none),
            of("RollingUpdate", &none),
        ),
        (
            &held(&rolling()),
            of("RollingUpdate", &half),
            of("RollingUpdate", &half),
        ),
        (
            &held(&rolling()),
            json!({"type": "half"}),
            of("half", &rolling()["rollingUpdate"]),
        ),
        // A part alone.
        (
            &held(&rolling()),
            json!({"rollingUpdate": none}),
            of("RollingUpdate", &none),
        ),
        (&recreated, json!({"rollingUpdate": none}), of("Recreate", &none)),
        (
            &recreated,
            json!({"rollingUpdate": {"maxSurge": 2}}),
            of("Recreate", &json!({"maxSurge": 2})),
        ),
        // In the same write as a new template.
        (
            &rests,
            of("Recreate", &json!({"maxSurge": 1, "maxUnavailable": "25%"})),
            of("Recreate", &rolling()["rollingUpdate"]),
        ),
        (&rests, of("RollingUpdate", &none), of("RollingUpdate", &none)),
    ] {
        for template in [json!({"v": 2}), json!({"v": 3})] {
            let mut new = old.clone();
            json_patch::merge(
                &mut new,
                &json!({"spec": {"strategy": strategy, "template": template}}),
            );
            assert_eq!(
                left_to_refuse(old, &new),
                Some(seen.clone()),
                "{strategy} {template}"
            );
        }
    }
    // A write that leaves the strategy alone is nobody's to refuse, whatever stands in the record.
    let mut recorded = held(&rolling());
    let original = json!({"spec.strategy.type": "RollingUpdate", "spec.strategy.rollingUpdate": none});
    recorded["metadata"]["annotations"][names::ORIGINAL_PARTITION] = json!(original.to_string());
    for patch in [
        json!({"spec": {"replicas": 7}}),
        json!({"spec": {"template": {"v": 1}}}),
    ] {
        let after = patched(&recorded, &patch);
        assert_eq!(spec_of(&after), spec_of(&recorded), "{patch}");
        // Its default comes back.
        assert_eq!(
            spec_of(&released(&after, Freedom::Guarded)),
            (json!(null), json!(null))
        );
    }
}

#[test]
fn what_cannot_be_in_a_field_is_not_put_there() {
    for (original, paused, strategy) in [
        (json!({"spec.paused": "yes"}), json!(null), json!(null)),
        (
            json!({"spec.strategy.type": 5, "spec.paused": true}),
            json!(true),
            json!(null),
        ),
        (
            json!({"spec.strategy.type": "RollingUpdate", "spec.strategy.rollingUpdate": "fast"}),
            json!(null),
            json!({"type": "RollingUpdate"}),
        ),
    ] {
        let mut recorded = held(&rolling());
        recorded["metadata"]["annotations"][names::ORIGINAL_PARTITION] = json!(original.to_string());
        assert_eq!(
            spec_of(&released(&recorded, Freedom::Free)),
            (strategy, paused),
            "{original}"
        );
    }
}

#[test]
fn whoever_does_not_know_of_the_hold_asks_for_all_that_they_write() {
    let before = held(&rolling());
    let mut manifest = at_rest(&json!({"type": "Recreate"}));
    manifest["metadata"]["annotations"] = json!({});
    manifest["spec"]["template"] = json!({"v": 2});
    let (after, _) = stored(&before, &manifest);
    assert_eq!(spec_of(&after), spec_of(&before));
    let recreate = (json!({"type": "Recreate"}), json!(null));
    assert_eq!(spec_of(&released(&after, Freedom::Free)), recreate);
    // What leaves the type as it is held may not mean it.
    for patch in [
        json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}),
        json!({"spec": {"paused": false}}),
        json!({"metadata": {"annotations": {names::IN_PROGRESSING: null}}}),
        // Nor does what leaves us paused ask for that.
        json!({"metadata": {"annotations": null}, "spec": {"strategy": rolling()}}),
    ] {
        let after = released(&patched(&before, &patch), Freedom::Free);
        assert_eq!(after["spec"]["strategy"], rolling(), "{patch}");
        assert_ne!(after["spec"]["paused"], true, "{patch}");
    }
}

/// Any strategy, also such as the API server refuses.
fn any_strategy() -> impl Strategy<Value = Value> {
    let amount = || {
        let values = [
            json!(null),
            json!(0),
            json!(2),
            json!("0%"),
            json!("50%"),
            json!("half"),
        ];
        proptest::sample::select(values.to_vec())
    };
    let kinds = [json!("RollingUpdate"), json!("Recreate"), json!("half")].to_vec();
    let rolling = (amount(), amount());
    let rolling =
        rolling.prop_map(|(surge, unavailable)| json!({"maxSurge": surge, "maxUnavailable": unavailable}));
    let rolling = prop_oneof![Just(Value::Null), rolling];
    (proptest::sample::select(kinds), rolling).prop_map(|(kind, rolling)| match rolling {
        Value::Null => json!({"type": kind}),
        rolling => json!({"type": kind, "rollingUpdate": rolling}),
    })
}

proptest! {
    /// Writes of people in mid-release, one after the other; what the API server would refuse is not stored.
    #[test]
    fn whatever_is_written_what_comes_back_is_taken(
        first in any_strategy(),
        writes in proptest::collection::vec((any_strategy(), any::<bool>(), any::<bool>(), 1..4_u32), 0..8),
    ) {
        let means = &deployments().paths().means;
        let taken = |object: &Value| means.refused(object, &means.original(object)).is_none();
        let mut object = at_rest(&first);
        prop_assume!(taken(&object));
        for (strategy, whole, paused, template) in writes {
            let mut new = object.clone();
            let patch = json!({"spec": {"strategy": strategy, "paused": paused, "template": {"v": template}}});
            if whole {
                new["spec"].as_object_mut().unwrap().remove("strategy");
                new["metadata"]["annotations"] = json!({});
            }
            json_patch::merge(&mut new, &patch);
            match left_to_refuse(&object, &new) {
                Some(seen) => {
                    let seen = json!({"spec": {"strategy": seen}});
                    prop_assert!(!taken(&seen), "{}", seen);
                }
                None => {
                    let (result, _) = stored(&object, &new);
                    // At rest it is for the API server alone.
                    object = if taken(&result) { result } else { object };
                }
            }
            let view = deployments().view(&object).unwrap();
            if view.template != TemplateId::of(&json!({"v": 1})) {
                prop_assert!(view.partition.is_some(), "held");
            }
            prop_assert!(taken(&released(&object, Freedom::Guarded)));
            prop_assert!(view.hold().is_none_or(|hold| means.refused(&view.skeleton.value(), &hold.original).is_none()));
        }
    }
}
