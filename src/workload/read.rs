//! What is read of a workload, from the paths of its kind.

use serde_json::{Map, Value, json};

use super::means::parts;
use super::paths::{Paths, Replicas};
use super::{Marks, Reported, TypeLabel, UpdateOrder, View, release_id};
use crate::lens::{AtRest, Field, FieldError};
use crate::names;

const UID: Field<String> = Field::at(&["metadata", "uid"]);
const GENERATION: Field<i64> = Field::at(&["metadata", "generation"]);
const RESOURCE_VERSION: Field<String> = Field::at(&["metadata", "resourceVersion"]);
const CREATION: Field<String> = Field::at(&["metadata", "creationTimestamp"]);
const DELETION: Field<String> = Field::at(&["metadata", "deletionTimestamp"]);
const OBSERVED_GENERATION: Field<i64> = Field::at(&["status", "observedGeneration"]);

/// See [`super::Adapter::view`].
pub(super) fn view(paths: &Paths, order: UpdateOrder, object: &Value) -> Result<View, FieldError> {
    let annotations = object["metadata"]["annotations"].as_object();
    let marks = annotations.map(Marks::read).unwrap_or_default();
    let skeleton = skeleton(paths, object);
    let asked = paths.means.as_asked(&skeleton, marks.hold.as_ref());
    let replicas = match &paths.replicas {
        Replicas::Written(field) => Some(field.get(object)?.unwrap_or(1)),
        Replicas::Reported(field) => field.get(object)?,
    };
    Ok(View {
        uid: UID.get(object)?.unwrap_or_default(),
        generation: GENERATION.get(object)?.unwrap_or_default(),
        created: CREATION.get(object)?.and_then(|text| text.parse().ok()),
        resource_version: RESOURCE_VERSION.get(object)?.unwrap_or_default(),
        deleting: DELETION.get(object)?.is_some(),
        label: label(paths, object),
        replicas: replicas.unwrap_or_default(),
        replicas_known: replicas.is_some(),
        order,
        partition: paths.means.in_force(object, marks.hold.as_ref())?,
        partition_is_ours: paths.means.is_ours(object),
        other_strategy: other_strategy(paths, &asked)?,
        paused: paths.paused.as_ref().and_then(|field| field.peek(&asked)) == Some(true),
        in_order: in_order(paths, object)?,
        min_ready_seconds: min_ready_seconds(paths, object)?,
        template: paths.template_id(&object["spec"]["template"]),
        release_id: release_id::given(object),
        marks,
        reported: reported(paths, object)?,
        rewritten: None,
        skeleton: AtRest::of(&skeleton),
    })
}

fn label(paths: &Paths, object: &Value) -> TypeLabel {
    match object["metadata"]["labels"]
        .get(names::WORKLOAD_TYPE)
        .and_then(Value::as_str)
    {
        None => TypeLabel::Missing,
        Some(value) if value == paths.type_label => TypeLabel::Right,
        Some(value) => TypeLabel::Wrong(value.to_owned()),
    }
}

fn other_strategy(paths: &Paths, object: &Value) -> Result<Option<String>, FieldError> {
    let Some(field) = &paths.strategy_type else {
        return Ok(None);
    };
    let kind = field.get(object)?;
    Ok(kind.filter(|kind| !kind.is_empty() && kind != "RollingUpdate"))
}

fn in_order(paths: &Paths, object: &Value) -> Result<bool, FieldError> {
    match &paths.pod_management {
        Some(field) => Ok(field.get(object)?.as_deref() != Some("Parallel")),
        None => Ok(false),
    }
}

fn min_ready_seconds(paths: &Paths, object: &Value) -> Result<u32, FieldError> {
    for field in paths.min_ready_seconds {
        if let Some(seconds) = field.get(object)? {
            return Ok(seconds);
        }
    }
    Ok(0)
}

fn reported(paths: &Paths, object: &Value) -> Result<Reported, FieldError> {
    let status = &paths.status;
    let revision = |field: &Field<String>| -> Result<Option<String>, FieldError> {
        Ok(field.get(object)?.filter(|revision| !revision.is_empty()))
    };
    let current = status.current_revision.as_ref().map(revision).transpose()?;
    let mut update = None;
    for field in status.update_revision {
        update = update.or(revision(field)?);
    }
    Ok(Reported {
        observed_generation: OBSERVED_GENERATION.get(object)?,
        replicas: status.replicas.get(object)?,
        ready_replicas: status.ready.get(object)?,
        updated_replicas: status.updated.get(object)?,
        misplaced: status
            .misplaced
            .as_ref()
            .map_or(Ok(None), |field| field.get(object))?,
        current_revision: current.flatten(),
        update_revision: update,
    })
}

fn is_mark(name: &str) -> bool {
    name == names::GUARDED_BY || names::RELEASE_MARKS.contains(&name) || names::LEGACY_MARKS.contains(&name)
}

/// What the hold is part of, our annotations, and those of the existing controller. A map of annotations or labels that is there is kept, if empty, since it must not
/// be written anew.
fn skeleton(paths: &Paths, object: &Value) -> Value {
    let mut metadata = Map::new();
    if let Some(annotations) = object["metadata"]["annotations"].as_object() {
        let ours = annotations
            .iter()
            .filter(|(name, _)| is_mark(name))
            .map(|(name, value)| (name.clone(), value.clone()));
        metadata.insert("annotations".to_owned(), Value::Object(ours.collect()));
    }
    if object["metadata"]["labels"].is_object() {
        metadata.insert("labels".to_owned(), json!({}));
    }
    let spec = parts(object, &paths.means.members());
    json!({ "metadata": metadata, "spec": spec })
}
