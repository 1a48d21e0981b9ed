//! StatefulSet-like workloads: StatefulSet itself, and every custom kind of the same shape.

use serde_json::{Map, Value, json};

use super::adapter::{Adapter, Freedom, UpdateOrder};
use super::marks::{self, Guard, Marks, Original};
use super::template::TemplateId;
use super::{Ordinals, Reported, TypeLabel, View, release_id};
use crate::lens::{Field, FieldError, PatchBuilder};
use crate::names;

/// Paths of one StatefulSet-like kind.
#[derive(Debug)]
pub struct StatefulSetLike {
    replicas: Field<u32>,
    partition: Field<i64>,
    strategy_type: Field<String>,
}

/// The paths of StatefulSet, which custom kinds follow.
pub(super) static STATEFULSET_LIKE: StatefulSetLike = StatefulSetLike {
    replicas: Field::at(&["spec", "replicas"]),
    partition: Field::at(&["spec", "updateStrategy", "rollingUpdate", "partition"]),
    strategy_type: Field::at(&["spec", "updateStrategy", "type"]),
};

const UID: Field<String> = Field::at(&["metadata", "uid"]);
const GENERATION: Field<i64> = Field::at(&["metadata", "generation"]);
const RESOURCE_VERSION: Field<String> = Field::at(&["metadata", "resourceVersion"]);
const CREATION: Field<String> = Field::at(&["metadata", "creationTimestamp"]);
const DELETION: Field<String> = Field::at(&["metadata", "deletionTimestamp"]);
const POD_MANAGEMENT: Field<String> = Field::at(&["spec", "podManagementPolicy"]);
const MIN_READY_SECONDS: Field<u32> = Field::at(&["spec", "minReadySeconds"]);
const OBSERVED_GENERATION: Field<i64> = Field::at(&["status", "observedGeneration"]);
const STATUS_REPLICAS: Field<u32> = Field::at(&["status", "replicas"]);
const READY_REPLICAS: Field<u32> = Field::at(&["status", "readyReplicas"]);
const UPDATED_REPLICAS: Field<u32> = Field::at(&["status", "updatedReplicas"]);
const CURRENT_REVISION: Field<String> = Field::at(&["status", "currentRevision"]);
const UPDATE_REVISION: Field<String> = Field::at(&["status", "updateRevision"]);

fn annotation(name: &str) -> [&str; 3] {
    ["metadata", "annotations", name]
}

impl Adapter for StatefulSetLike {
    fn view(&self, object: &Value) -> Result<View, FieldError> {
        let partition = self.partition.get(object)?;
        let strategy = self
            .strategy_type
            .get(object)?
            .filter(|kind| !kind.is_empty() && kind != "RollingUpdate");
        let annotations = object["metadata"]["annotations"].as_object();
        Ok(View {
            uid: UID.get(object)?.unwrap_or_default(),
            generation: GENERATION.get(object)?.unwrap_or_default(),
            created: CREATION.get(object)?.and_then(|text| text.parse().ok()),
            resource_version: RESOURCE_VERSION.get(object)?.unwrap_or_default(),
            deleting: DELETION.get(object)?.is_some(),
            label: self.label(object),
            replicas: self.replicas.get(object)?.unwrap_or(1),
            ordinals: Ordinals::read(object),
            partition,
            partition_is_ours: self.partition_is_ours(object),
            other_strategy: strategy,
            in_order: POD_MANAGEMENT.get(object)?.as_deref() != Some("Parallel"),
            min_ready_seconds: MIN_READY_SECONDS.get(object)?.unwrap_or_default(),
            template: TemplateId::of(&object["spec"]["template"]),
            release_id: release_id::given(object),
            marks: annotations.map(Marks::read).unwrap_or_default(),
            reported: Reported {
                observed_generation: OBSERVED_GENERATION.get(object)?,
                replicas: STATUS_REPLICAS.get(object)?,
                ready_replicas: READY_REPLICAS.get(object)?,
                updated_replicas: UPDATED_REPLICAS.get(object)?,
                current_revision: CURRENT_REVISION.get(object)?.filter(|r| !r.is_empty()),
                update_revision: UPDATE_REVISION.get(object)?.filter(|r| !r.is_empty()),
            },
            rewritten: None,
            skeleton: self.skeleton(object),
        })
    }

    fn hold(&self, view: &View) -> PatchBuilder {
        let rollout = view
            .guard()
            .map(|guard| guard.rollout.as_str())
            .unwrap_or_default();
        guarded_write(view)
            .set(self.partition.path(), json!(names::HOLD_PARTITION))
            .set(
                &annotation(names::IN_PROGRESSING),
                json!(marks::in_progressing(rollout)),
            )
            .set(
                &annotation(names::GRANTED_PARTITION),
                json!(names::HOLD_PARTITION.to_string()),
            )
            .set(
                &annotation(names::ORIGINAL_PARTITION),
                json!(Original::of(view.partition).text()),
            )
    }

    fn expose(&self, view: &View, partition: i64) -> PatchBuilder {
        guarded_write(view)
            .set(self.partition.path(), json!(partition))
            .set(
                &annotation(names::GRANTED_PARTITION),
                json!(partition.to_string()),
            )
    }

    fn release(&self, view: &View, freedom: Freedom) -> PatchBuilder {
        let mut patch = guarded_write(view);
        // Asking for another partition in mid-release moves this mark alone, and neither generation nor grant.
        let original = annotation(names::ORIGINAL_PARTITION);
        if let Some(text) = view.skeleton["metadata"]["annotations"].get(original[2]) {
            patch = patch.test(original, text.clone());
        }
        if let Some(hold) = view.hold() {
            patch = match hold.original {
                Original::Partition(partition) => patch.set(self.partition.path(), json!(partition)),
                // Admission may have made the parents of the partition; they go with it, up to `spec`.
                Original::Absent => patch.prune(self.partition.path(), 1),
            };
        }
        for mark in names::RELEASE_MARKS {
            patch = patch.remove(&annotation(mark));
        }
        match (freedom, view.guard()) {
            (Freedom::Guarded, Some(guard)) => {
                let text = Guard::text(&view.uid, &guard.rollout, &view.template);
                patch.set(&annotation(names::GUARDED_BY), json!(text))
            }
            _ => patch.remove(&annotation(names::GUARDED_BY)),
        }
    }

    fn order(&self) -> UpdateOrder {
        UpdateOrder::Ordinal
    }

    fn type_label(&self) -> &'static str {
        names::TYPE_STATEFULSET
    }

    fn partition_path(&self) -> &'static [&'static str] {
        self.partition.path()
    }

    fn strategy_type_path(&self) -> &'static [&'static str] {
        self.strategy_type.path()
    }
}

impl StatefulSetLike {
    fn label(&self, object: &Value) -> TypeLabel {
        match object["metadata"]["labels"]
            .get(names::WORKLOAD_TYPE)
            .and_then(Value::as_str)
        {
            None => TypeLabel::Missing,
            Some(value) if value == self.type_label() => TypeLabel::Right,
            Some(value) => TypeLabel::Wrong(value.to_owned()),
        }
    }

    fn partition_is_ours(&self, object: &Value) -> bool {
        let field = format!("/fieldsV1/f:{}", self.partition.path().join("/f:"));
        let mut entries = object["metadata"]["managedFields"]
            .as_array()
            .into_iter()
            .flatten();
        entries.any(|entry| entry["manager"] == names::FIELD_MANAGER && entry.pointer(&field).is_some())
    }

    /// The strategy and our annotations. An annotations map that is there is kept, if empty, since it must not be written anew.
    fn skeleton(&self, object: &Value) -> Value {
        let mut metadata = Map::new();
        if let Some(annotations) = object["metadata"]["annotations"].as_object() {
            let ours = annotations
                .iter()
                .filter(|(name, _)| {
                    *name == names::GUARDED_BY || names::RELEASE_MARKS.contains(&name.as_str())
                })
                .map(|(name, value)| (name.clone(), value.clone()));
            metadata.insert("annotations".to_owned(), Value::Object(ours.collect()));
        }
        let mut spec = Map::new();
        if let Some(strategy) = object["spec"].get("updateStrategy") {
            spec.insert("updateStrategy".to_owned(), strategy.clone());
        }
        json!({ "metadata": metadata, "spec": spec })
    }
}

/// A patch that applies only to the object that was read: same UID, same generation, same guard and grant.
fn guarded_write(view: &View) -> PatchBuilder {
    let mut patch = PatchBuilder::new(view.skeleton.clone())
        .test(["metadata", "uid"], json!(view.uid))
        .test(["metadata", "generation"], json!(view.generation));
    for mark in [names::GUARDED_BY, names::GRANTED_PARTITION] {
        if let Some(text) = view.skeleton["metadata"]["annotations"].get(mark) {
            patch = patch.test(annotation(mark), text.clone());
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(original: &str) -> Value {
        let stable = TemplateId::of(&json!({"v": 1}));
        json!({"metadata": {"uid": "u", "generation": 7, "resourceVersion": "12",
                "labels": {names::WORKLOAD_TYPE: "statefulset"},
                "annotations": {"theirs": "stays", names::GUARDED_BY: Guard::text("u", "ro", &stable),
                    names::IN_PROGRESSING: marks::in_progressing("ro"), names::GRANTED_PARTITION: "4",
                    names::ORIGINAL_PARTITION: original}},
            "spec": {"replicas": 5, "template": {"v": 2}, "updateStrategy": {"rollingUpdate": {"partition": 4}}},
            "status": {"observedGeneration": 7, "updateRevision": ""}})
    }

    fn after(object: &Value, patch: PatchBuilder) -> Value {
        let mut result = object.clone();
        json_patch::patch(&mut result, &patch.build()).unwrap();
        result
    }

    #[test]
    fn a_view_reads_what_is_there() {
        let view = STATEFULSET_LIKE.view(&held("2")).unwrap();
        assert_eq!((view.replicas, view.partition, view.generation), (5, Some(4), 7));
        assert_eq!(view.hold().unwrap().original, Original::Partition(2));
        assert_eq!(view.reported.update_revision, None);
        assert_eq!(view.reported.updated_replicas, None);
        assert_eq!(view.observed(), Some(true));
        assert_eq!(view.label, TypeLabel::Right);
    }

    #[test]
    fn expose_is_silent_when_it_is_so_already() {
        let object = held("0");
        let view = STATEFULSET_LIKE.view(&object).unwrap();
        assert!(STATEFULSET_LIKE.expose(&view, 4).is_empty());
        let result = after(&object, STATEFULSET_LIKE.expose(&view, 2));
        assert_eq!(result["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 2);
        assert_eq!(result["metadata"]["annotations"][names::GRANTED_PARTITION], "2");
    }

    #[test]
    fn a_grant_for_an_older_generation_or_grant_fails() {
        let view = STATEFULSET_LIKE.view(&held("0")).unwrap();
        let patch = STATEFULSET_LIKE.expose(&view, 0).build();
        for (path, value) in [
            ("/metadata/generation", json!(8)),
            ("/metadata/uid", json!("other")),
            (
                "/metadata/annotations/rollouts.kruise.io~1granted-partition",
                json!("32767"),
            ),
        ] {
            let mut object = held("0");
            *object.pointer_mut(path).unwrap() = value;
            assert!(json_patch::patch(&mut object, &patch).is_err(), "{path}");
        }
    }

    #[test]
    fn release_restores_what_people_asked_for() {
        let object = held("2");
        let view = STATEFULSET_LIKE.view(&object).unwrap();
        let result = after(&object, STATEFULSET_LIKE.release(&view, Freedom::Guarded));
        assert_eq!(
            result["spec"]["updateStrategy"],
            json!({"rollingUpdate": {"partition": 2}})
        );
        let guard = Guard::text("u", "ro", &TemplateId::of(&json!({"v": 2})));
        assert_eq!(
            result["metadata"]["annotations"],
            json!({"theirs": "stays", names::GUARDED_BY: guard})
        );

        let object = held("none");
        let view = STATEFULSET_LIKE.view(&object).unwrap();
        let result = after(&object, STATEFULSET_LIKE.release(&view, Freedom::Free));
        assert_eq!(result["spec"].get("updateStrategy"), None);
        assert_eq!(result["metadata"]["annotations"], json!({"theirs": "stays"}));
    }

    #[test]
    fn a_copy_of_the_marks_holds_nothing() {
        let mut object = held("2");
        object["metadata"]["uid"] = json!("another");
        let view = STATEFULSET_LIKE.view(&object).unwrap();
        assert_eq!((view.guard(), view.hold()), (None, None));
        let result = after(&object, STATEFULSET_LIKE.release(&view, Freedom::Free));
        assert_eq!(result["metadata"]["annotations"], json!({"theirs": "stays"}));
        assert_eq!(result["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 4);
    }

    #[test]
    fn malformed_is_said_not_guessed() {
        let mut object = held("0");
        object["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!("80%");
        assert!(STATEFULSET_LIKE.view(&object).is_err());
        let mut object = held("0");
        object["status"]["updatedReplicas"] = json!("5");
        assert!(STATEFULSET_LIKE.view(&object).is_err());
    }
}
