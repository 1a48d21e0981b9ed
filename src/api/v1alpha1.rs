//! The older version of the Rollout, for reading only: servers that have no other one are still in use.

use serde_json::{Map, Value, json};

/// The version as it stands in paths.
pub const VERSION: &str = "v1alpha1";

/// Annotation by which the older version tells batches from an extra workload.
const STYLE: &str = "rollouts.kruise.io/rolling-style";

/// A Rollout of the older version as one of `v1beta1`. Anything else, lists and events of watches included, comes back with the
/// Rollouts in it converted; what is unknown is kept.
#[must_use]
pub fn to_v1beta1(mut value: Value) -> Value {
    if value["spec"]["objectRef"].is_object() {
        return rollout(value);
    }
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            *item = to_v1beta1(item.take());
        }
        relabel(&mut value);
    } else if let Some(object) = value.get_mut("object") {
        *object = to_v1beta1(object.take());
    } else {
        relabel(&mut value);
    }
    value
}

fn relabel(value: &mut Value) {
    let old = format!("{}/{VERSION}", crate::names::GROUP);
    if value["apiVersion"] == old {
        value["apiVersion"] = json!(crate::names::API_VERSION);
    }
}

fn rollout(mut rollout: Value) -> Value {
    relabel(&mut rollout);
    let batches = rollout["metadata"]["annotations"][STYLE]
        .as_str()
        .is_some_and(|style| style.eq_ignore_ascii_case("partition"));
    let Some(spec) = rollout.get_mut("spec").and_then(Value::as_object_mut) else {
        return rollout;
    };
    let reference = spec
        .remove("objectRef")
        .and_then(|mut object| object.get_mut("workloadRef").map(Value::take));
    // Only a Deployment can have an extra workload.
    let extra = !batches
        && reference
            .as_ref()
            .is_some_and(|found| found["kind"] == "Deployment");
    if let Some(reference) = reference {
        spec.insert("workloadRef".to_owned(), reference);
    }
    let canary = spec
        .get_mut("strategy")
        .and_then(|strategy| strategy.get_mut("canary"))
        .and_then(Value::as_object_mut);
    if let Some(canary) = canary {
        if extra {
            canary.insert("enableExtraWorkloadForCanary".to_owned(), json!(true));
        }
        let steps = canary.get_mut("steps").and_then(Value::as_array_mut);
        for step in steps.into_iter().flatten().filter_map(Value::as_object_mut) {
            weigh(step);
        }
    }
    fill_status(&mut rollout);
    rollout
}

/// A weight is the traffic, and the replicas too where there are none.
fn weigh(step: &mut Map<String, Value>) {
    let Some(weight) = step.remove("weight").filter(|weight| !weight.is_null()) else {
        return;
    };
    let percent = json!(format!("{weight}%"));
    if step.get("replicas").is_none_or(Value::is_null) {
        step.insert("replicas".to_owned(), percent.clone());
    }
    step.insert("traffic".to_owned(), percent);
}

/// The older version has no copy of step and state at the top.
fn fill_status(rollout: &mut Value) {
    let canary = rollout["status"]["canaryStatus"].clone();
    if let Some(status) = rollout.get_mut("status").and_then(Value::as_object_mut) {
        for name in ["currentStepIndex", "currentStepState"] {
            if let (None, Some(value)) = (status.get(name), canary.get(name)) {
                status.insert(name.to_owned(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1beta1::Rollout;

    fn old() -> Value {
        json!({"apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "Rollout",
            "metadata": {"name": "web", "uid": "r", "annotations": {(STYLE): "Partition"}},
            "spec": {"objectRef": {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
                "rolloutID": "7",
                "strategy": {"canary": {"steps": [
                    {"weight": 20, "pause": {}}, {"weight": 50, "replicas": 3, "pause": {"duration": 60}}, {"replicas": "100%"}]}}},
            "status": {"phase": "Progressing", "canaryStatus": {"currentStepIndex": 1, "currentStepState": "StepPaused",
                "canaryRevision": "b", "podTemplateHash": "", "canaryReplicas": 1, "canaryReadyReplicas": 1}}})
    }

    #[test]
    fn an_old_rollout_is_read_as_a_new_one() {
        let read: Rollout = serde_json::from_value(to_v1beta1(old())).unwrap();
        assert_eq!(read.spec.workload_ref.kind, "Deployment");
        let canary = read.spec.strategy.canary.unwrap();
        assert!(!canary.enable_extra_workload_for_canary);
        let steps = serde_json::to_value(&canary.steps).unwrap();
        assert_eq!(
            steps,
            json!([{"replicas": "20%", "traffic": "20%", "pause": {}},
                {"replicas": 3, "traffic": "50%", "pause": {"duration": 60}}, {"replicas": "100%", "pause": {}}])
        );
        let status = read.status.unwrap();
        assert_eq!(
            (status.current_step_index, status.current_step_state.as_str()),
            (1, "StepPaused")
        );
    }

    #[test]
    fn without_a_style_a_deployment_has_an_extra_workload_and_others_have_batches() {
        let mut object = old();
        object["metadata"]["annotations"] = Value::Null;
        let extra = |object: &Value| {
            to_v1beta1(object.clone())["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"].clone()
        };
        assert_eq!(extra(&object), json!(true));
        object["spec"]["objectRef"]["workloadRef"]["kind"] = json!("CloneSet");
        assert_eq!(extra(&object), Value::Null);
    }

    #[test]
    fn lists_and_events_are_converted_and_nothing_else() {
        let new = to_v1beta1(old());
        let list =
            json!({"kind": "RolloutList", "apiVersion": "rollouts.kruise.io/v1alpha1", "items": [old()]});
        assert_eq!(
            to_v1beta1(list),
            json!({"kind": "RolloutList", "apiVersion": "rollouts.kruise.io/v1beta1", "items": [new]})
        );
        assert_eq!(
            to_v1beta1(json!({"type": "ADDED", "object": old()})),
            json!({"type": "ADDED", "object": new})
        );
        for other in [
            json!({"kind": "Status", "code": 404}),
            new.clone(),
            json!({"spec": {"objectRef": {}}}),
            json!([1]),
            json!(null),
        ] {
            let kept = to_v1beta1(other.clone());
            assert!(kept == other || other["spec"]["objectRef"].is_object(), "{kept}");
        }
    }
}
