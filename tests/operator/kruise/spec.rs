//! What is read of the objects, with numbers of pods for percentages.

use kube::api::DynamicObject;
use serde_json::Value;

use super::Kruise;
use crate::app::{App, Invalid, Pace, UpdateStrategy, count, member};

/// Which way a percentage of pods is rounded.
#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
}

/// Reads an object of this kind; a DaemonSet wants one pod on each of so many nodes.
///
/// # Errors
/// A member is of another type or out of its range.
pub(crate) fn read(kind: Kruise, object: &DynamicObject, nodes: usize) -> Result<App, Invalid> {
    // What differs from kind to kind is left out, and read here.
    let mut plain = object.clone();
    if let Some(spec) = plain.data.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("updateStrategy");
    }
    let mut app = App::read(&plain)?;
    if kind == Kruise::Daemonsets {
        app.replicas = u32::try_from(nodes).unwrap_or(u32::MAX);
    }
    if member(object, "/spec/updateStrategy/type").is_some_and(|way| way == "OnDelete") {
        app.update = UpdateStrategy::OnDelete;
    }
    let rolling = match kind {
        Kruise::Clonesets => "/spec/updateStrategy",
        Kruise::Daemonsets | Kruise::Statefulsets => "/spec/updateStrategy/rollingUpdate",
    };
    let of = |name: &str| member(object, &format!("{rolling}/{name}"));
    app.partition = amount("partition", of("partition"), 0, app.replicas, Round::Up)?;
    if kind == Kruise::Clonesets && leaves_all(of("partition"), &app) {
        app.partition = app.replicas - 1;
    }
    let surge = amount("maxSurge", of("maxSurge"), 0, app.replicas, Round::Up)?;
    let rounds = if surge > 0 { Round::Down } else { Round::Up };
    let usual = match kind {
        Kruise::Clonesets => app.replicas.div_ceil(5),
        Kruise::Daemonsets | Kruise::Statefulsets => 1,
    };
    let unavailable = amount(
        "maxUnavailable",
        of("maxUnavailable"),
        usual,
        app.replicas,
        rounds,
    )?;
    app.pace = Pace {
        paused: of("paused") == Some(&Value::Bool(true)),
        // A set that may do neither would never be updated.
        max_unavailable: if surge == 0 {
            unavailable.max(1)
        } else {
            unavailable
        },
        max_surge: surge,
        in_place: of(way(kind)).is_some_and(|way| way == "InPlaceIfPossible" || way == "InPlaceOnly"),
    };
    if kind == Kruise::Statefulsets {
        let start = member(object, "/spec/ordinals/start");
        app.ordinals.start = count("spec.ordinals.start", start, 0)?;
        let reserved = member(object, "/spec/reserveOrdinals").and_then(Value::as_array);
        let reserved = reserved.into_iter().flatten().filter_map(Value::as_u64);
        app.ordinals.reserved = reserved
            .filter_map(|ordinal| u32::try_from(ordinal).ok())
            .collect();
    }
    Ok(app)
}

/// The member that tells how a pod is updated.
fn way(kind: Kruise) -> &'static str {
    match kind {
        Kruise::Clonesets => "type",
        Kruise::Daemonsets => "rollingUpdateType",
        Kruise::Statefulsets => "podUpdatePolicy",
    }
}

/// Whether a percentage below 100 % comes to all pods. A CloneSet of several pods updates one of them then.
fn leaves_all(partition: Option<&Value>, app: &App) -> bool {
    let percentage = partition.and_then(Value::as_str);
    percentage.is_some_and(|text| text != "100%") && app.replicas > 1 && app.partition >= app.replicas
}

/// A number of pods, or a percentage of `all`.
fn amount(
    field: &'static str,
    value: Option<&Value>,
    default: u32,
    all: u32,
    round: Round,
) -> Result<u32, Invalid> {
    let Some(text) = value.and_then(Value::as_str) else {
        return count(field, value, default);
    };
    let percent: u64 = text
        .strip_suffix('%')
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| Invalid {
            field,
            reason: format!("neither a count nor a percentage: {text}"),
        })?;
    let hundredths = percent * u64::from(all);
    let pods = match round {
        Round::Up => hundredths.div_ceil(100),
        Round::Down => hundredths / 100,
    };
    Ok(u32::try_from(pods).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(spec: &Value) -> DynamicObject {
        serde_json::from_value(
            json!({"metadata": {"name": "my-app", "namespace": "default", "uid": "u"}, "spec": spec}),
        )
        .unwrap()
    }

    #[test]
    fn a_partition_in_percent_is_a_number_of_pods() {
        for (replicas, partition, pods) in [
            (5, json!(null), 0),
            (5, json!(4), 4),
            (5, json!(32767), 32767),
            (5, json!("0%"), 0),
            (5, json!("50%"), 3),
            // All pods stay only at 100 %.
            (5, json!("99%"), 4),
            (5, json!("100%"), 5),
            (1, json!("99%"), 1),
            (0, json!("50%"), 0),
        ] {
            let spec = json!({"replicas": replicas, "updateStrategy": {"partition": partition}});
            let app = read(Kruise::Clonesets, &object(&spec), 0).unwrap();
            assert_eq!(app.partition, pods, "{partition} of {replicas}");
        }
        let spec = json!({"updateStrategy": {"rollingUpdate": {"partition": "99%"}}});
        let app = read(Kruise::Daemonsets, &object(&spec), 5).unwrap();
        assert_eq!((app.replicas, app.partition), (5, 5));
        let spec = json!({"updateStrategy": {"partition": "half"}});
        assert_eq!(
            read(Kruise::Clonesets, &object(&spec), 0).unwrap_err().field,
            "partition"
        );
    }

    #[test]
    fn the_pace_is_that_of_the_kind() {
        for (kind, strategy, unavailable, surge) in [
            (Kruise::Clonesets, json!({}), 2, 0),
            (Kruise::Clonesets, json!({"maxUnavailable": 0}), 1, 0),
            (
                Kruise::Clonesets,
                json!({"maxUnavailable": "25%", "maxSurge": "1%"}),
                2,
                1,
            ),
            (Kruise::Daemonsets, json!({}), 1, 0),
            (
                Kruise::Statefulsets,
                json!({"rollingUpdate": {"maxUnavailable": "50%"}}),
                5,
                0,
            ),
        ] {
            let spec = json!({"replicas": 10, "updateStrategy": strategy});
            let pace = read(kind, &object(&spec), 10).unwrap().pace;
            assert_eq!(
                (pace.max_unavailable, pace.max_surge),
                (unavailable, surge),
                "{kind:?} {strategy}"
            );
        }
    }

    #[test]
    fn ordinals_start_late_and_have_gaps() {
        let spec = json!({"replicas": 3, "ordinals": {"start": 10}, "reserveOrdinals": [2, 11]});
        let app = read(Kruise::Statefulsets, &object(&spec), 0).unwrap();
        assert_eq!(app.ordinals.first(3).collect::<Vec<_>>(), [10, 12, 13]);
    }
}
