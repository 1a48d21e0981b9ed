//! The custom object: what is read of its spec, and its status.

use std::collections::BTreeSet;

use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// What the operator acts on. The template is not part of it: `revision` turns it into a name.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) replicas: u32,
    /// Pods with a lower ordinal stay on, or return on, the current revision.
    pub(crate) partition: u32,
    pub(crate) update: UpdateStrategy,
    pub(crate) management: PodManagementPolicy,
    pub(crate) revision_history_limit: usize,
    /// `status.currentRevision` as last written.
    pub(crate) current_revision: Option<String>,
    /// Selector of the app's pods, for the scale subresource.
    pub(crate) selector: String,
    pub(crate) ordinals: Ordinals,
    pub(crate) pace: Pace,
}

/// Which ordinals the pods have: all from `start` on but the reserved ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ordinals {
    pub(crate) start: u32,
    pub(crate) reserved: BTreeSet<u32>,
}

impl Ordinals {
    /// The first so many ordinals.
    pub(crate) fn first(&self, count: u32) -> impl Iterator<Item = u32> {
        let free = (self.start..).filter(|ordinal| !self.reserved.contains(ordinal));
        free.take(count as usize)
    }
}

/// How many pods are updated at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// None at all.
    pub(crate) paused: bool,
    pub(crate) max_unavailable: u32,
    /// Pods beyond the wanted count while others are updated.
    pub(crate) max_surge: u32,
    /// Pods get new images instead of being replaced.
    pub(crate) in_place: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            paused: false,
            max_unavailable: 1,
            max_surge: 0,
            in_place: false,
        }
    }
}

/// `spec.updateStrategy.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateStrategy {
    RollingUpdate,
    OnDelete,
}

/// `spec.podManagementPolicy`: whether pods are created and removed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodManagementPolicy {
    OrderedReady,
    Parallel,
}

/// An object that nothing can be done about until somebody changes it.
#[derive(Debug, Error, PartialEq)]
#[error("{field}: {reason}")]
pub(crate) struct Invalid {
    pub(crate) field: &'static str,
    pub(crate) reason: String,
}

impl App {
    /// Reads an app. Absent and null members mean their defaults.
    ///
    /// # Errors
    /// A member is of another type or out of its range.
    pub(crate) fn read(object: &DynamicObject) -> Result<App, Invalid> {
        let meta = &object.metadata;
        Ok(App {
            name: required("metadata.name", meta.name.clone())?,
            namespace: required("metadata.namespace", meta.namespace.clone())?,
            uid: required("metadata.uid", meta.uid.clone())?,
            generation: meta.generation.unwrap_or_default(),
            replicas: count("spec.replicas", member(object, "/spec/replicas"), 1)?,
            partition: count(
                "spec.updateStrategy.rollingUpdate.partition",
                member(object, "/spec/updateStrategy/rollingUpdate/partition"),
                0,
            )?,
            update: update_strategy(object)?,
            management: match text(
                "spec.podManagementPolicy",
                member(object, "/spec/podManagementPolicy"),
            )? {
                "" | "OrderedReady" => PodManagementPolicy::OrderedReady,
                "Parallel" => PodManagementPolicy::Parallel,
                other => return Err(unknown("spec.podManagementPolicy", other)),
            },
            revision_history_limit: count(
                "spec.revisionHistoryLimit",
                member(object, "/spec/revisionHistoryLimit"),
                10,
            )? as usize,
            current_revision: member(object, "/status/currentRevision")
                .and_then(Value::as_str)
                .map(str::to_owned),
            selector: String::new(),
            ordinals: Ordinals::default(),
            pace: Pace::default(),
        })
    }
}

fn update_strategy(object: &DynamicObject) -> Result<UpdateStrategy, Invalid> {
    match text(
        "spec.updateStrategy.type",
        member(object, "/spec/updateStrategy/type"),
    )? {
        "" | "RollingUpdate" => Ok(UpdateStrategy::RollingUpdate),
        "OnDelete" => Ok(UpdateStrategy::OnDelete),
        other => Err(unknown("spec.updateStrategy.type", other)),
    }
}

/// A member of the object, unless it is null.
pub(crate) fn member<'o>(object: &'o DynamicObject, pointer: &str) -> Option<&'o Value> {
    object.data.pointer(pointer).filter(|value| !value.is_null())
}

fn required(field: &'static str, value: Option<String>) -> Result<String, Invalid> {
    value.ok_or_else(|| Invalid {
        field,
        reason: "missing".to_owned(),
    })
}

pub(crate) fn count(field: &'static str, value: Option<&Value>, default: u32) -> Result<u32, Invalid> {
    let Some(value) = value else { return Ok(default) };
    value
        .as_u64()
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| Invalid {
            field,
            reason: format!("not a count: {value}"),
        })
}

fn text<'v>(field: &'static str, value: Option<&'v Value>) -> Result<&'v str, Invalid> {
    let Some(value) = value else { return Ok("") };
    value.as_str().ok_or_else(|| Invalid {
        field,
        reason: format!("not a string: {value}"),
    })
}

fn unknown(field: &'static str, value: &str) -> Invalid {
    Invalid {
        field,
        reason: format!("unknown value {value:?}"),
    }
}

/// The status that the operator writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) observed_generation: i64,
    /// Pods that exist, terminating ones too.
    pub(crate) replicas: u32,
    /// Pods that are Running and Ready.
    pub(crate) ready_replicas: u32,
    /// Pods on the update revision that are not terminating, also when it is the current one.
    pub(crate) updated_replicas: u32,
    pub(crate) current_revision: String,
    pub(crate) update_revision: String,
    pub(crate) selector: String,
}

/// Members of the status, for `--omit-status`.
pub(crate) const STATUS_FIELDS: [&str; 7] = [
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "currentRevision",
    "updateRevision",
    "selector",
];

impl Status {
    /// All members.
    pub(crate) fn report(&self) -> Report {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        }
    }
}

/// A status as it is written.
pub(crate) type Report = Map<String, Value>;

/// The members that differ from what the object says, without those that this operator does not report.
pub(crate) fn changes(mut report: Report, object: &DynamicObject, omitted: &[String]) -> Report {
    let written = object.data.get("status");
    report.retain(|field, value| {
        !omitted.contains(field) && written.and_then(|status| status.get(field)) != Some(value)
    });
    report
}

/// Whether nothing differs but numbers of pods.
pub(crate) fn only_counts(changes: &Report) -> bool {
    changes.values().all(Value::is_number) && !changes.contains_key("observedGeneration")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(spec: Value, status: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "example.io/v1",
            "kind": "MyStatefulApp",
            "metadata": {"name": "my-app", "namespace": "default", "uid": "u", "generation": 3},
            "spec": spec,
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn absent_and_null_members_mean_the_defaults() {
        for spec in [
            json!({}),
            json!({"replicas": null, "updateStrategy": null}),
            json!({"updateStrategy": {"type": "", "rollingUpdate": {"partition": null}}}),
        ] {
            let app = App::read(&object(spec, Value::Null)).unwrap();
            assert_eq!((app.replicas, app.partition), (1, 0));
            assert_eq!(app.update, UpdateStrategy::RollingUpdate);
            assert_eq!(app.management, PodManagementPolicy::OrderedReady);
        }
    }

    #[test]
    fn a_malformed_member_is_named() {
        for (spec, field) in [
            (json!({"replicas": "5"}), "spec.replicas"),
            (json!({"replicas": -1}), "spec.replicas"),
            (
                json!({"updateStrategy": {"type": "Recreate"}}),
                "spec.updateStrategy.type",
            ),
            (
                json!({"updateStrategy": {"rollingUpdate": {"partition": "50%"}}}),
                "spec.updateStrategy.rollingUpdate.partition",
            ),
        ] {
            assert_eq!(App::read(&object(spec, Value::Null)).unwrap_err().field, field);
        }
    }

    #[test]
    fn only_changed_and_reported_members_are_written() {
        let status = Status {
            replicas: 5,
            ready_replicas: 4,
            ..Status::default()
        };
        let object = object(
            json!({}),
            json!({"replicas": 5, "readyReplicas": 5, "updatedReplicas": 0}),
        );
        let omitted = ["observedGeneration", "currentRevision", "updateRevision"].map(str::to_owned);
        let found = changes(status.report(), &object, &omitted);
        assert_eq!(Value::from(found), json!({"readyReplicas": 4, "selector": ""}));
    }

    #[test]
    fn the_omittable_fields_are_the_fields() {
        let Value::Object(status) = serde_json::to_value(Status::default()).unwrap() else {
            unreachable!()
        };
        assert_eq!(status.len(), STATUS_FIELDS.len());
        assert!(STATUS_FIELDS.iter().all(|field| status.contains_key(*field)));
    }
}
