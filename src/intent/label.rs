use json_patch::Patch;
use serde_json::{Value, json};

use super::Refusal;
use crate::lens::PatchBuilder;
use crate::names;
use crate::workload::{GroupKind, adapter_for};

/// What becomes of the workload-type label.
#[derive(Clone, Debug, PartialEq)]
pub enum Labelling {
    /// It has the value already.
    Unchanged {
        /// The value.
        value: &'static str,
    },
    /// It is to be written.
    Write {
        /// The value.
        value: &'static str,
        /// For the workload.
        patch: Patch,
    },
}

/// Sets the workload-type label on `object`, a workload as it was read: to the value that its kind needs, which `wanted` has to be
/// where it is given.
///
/// # Errors
/// A kind that is not supported, a value that is not the kind's, or another value that may not be replaced.
pub fn label(
    kind: &GroupKind,
    object: &Value,
    wanted: Option<&str>,
    overwrite: bool,
) -> Result<Labelling, Refusal> {
    let adapter = adapter_for(kind).ok_or_else(|| Refusal::UnsupportedKind(kind.to_string()))?;
    let value = adapter.type_label();
    if let Some(wanted) = wanted.filter(|wanted| *wanted != value) {
        return Err(Refusal::OtherType {
            kind: kind.to_string(),
            value,
            asked: wanted.to_owned(),
        });
    }
    let labels = object["metadata"].get("labels");
    match labels
        .and_then(|labels| labels.get(names::WORKLOAD_TYPE))
        .and_then(Value::as_str)
    {
        Some(present) if present == value => return Ok(Labelling::Unchanged { value }),
        Some(present) if !overwrite => {
            return Err(Refusal::OtherLabel {
                name: names::WORKLOAD_TYPE,
                value: present.to_owned(),
            });
        }
        _ => {}
    }
    let mut metadata = json!({});
    if let Some(labels) = labels {
        metadata["labels"] = labels.clone();
    }
    let patch = PatchBuilder::new(json!({ "metadata": metadata }))
        .test(["metadata", "uid"], object["metadata"]["uid"].clone())
        .set(&["metadata", "labels", names::WORKLOAD_TYPE], json!(value))
        .build();
    Ok(Labelling::Write { value, patch })
}

/// Takes the workload-type label away. `None`: there is none.
///
/// # Errors
/// A release is in progress, during which admission keeps the label.
pub fn unlabel(kind: &GroupKind, object: &Value) -> Result<Option<Patch>, Refusal> {
    let metadata = &object["metadata"];
    if metadata["labels"].get(names::WORKLOAD_TYPE).is_none() {
        return Ok(None);
    }
    let view = adapter_for(kind).and_then(|adapter| adapter.view(object).ok());
    if view.is_some_and(|view| view.hold().is_some()) {
        return Err(Refusal::Held);
    }
    let skeleton = json!({"metadata": {"labels": metadata["labels"]}});
    let patch = PatchBuilder::new(skeleton)
        .test(["metadata", "uid"], metadata["uid"].clone())
        .remove(&["metadata", "labels", names::WORKLOAD_TYPE])
        .build();
    Ok(Some(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom() -> GroupKind {
        GroupKind {
            group: "example.io".to_owned(),
            kind: "MyStatefulApp".to_owned(),
        }
    }

    fn labelled(object: &Value, overwrite: bool) -> Value {
        let Ok(Labelling::Write { patch, .. }) = label(&custom(), object, None, overwrite) else {
            panic!("nothing is written to {object}");
        };
        let mut after = object.clone();
        json_patch::patch(&mut after, &patch).unwrap();
        after["metadata"]["labels"].clone()
    }

    #[test]
    fn the_label_is_set_beside_others() {
        let bare = json!({"metadata": {"uid": "u"}});
        assert_eq!(
            labelled(&bare, false),
            json!({ (names::WORKLOAD_TYPE): "statefulset" })
        );
        let other = json!({"metadata": {"uid": "u", "labels": {"app": "a"}}});
        assert_eq!(
            labelled(&other, false),
            json!({ "app": "a", (names::WORKLOAD_TYPE): "statefulset" })
        );
    }

    #[test]
    fn the_same_value_is_no_change_and_another_one_is_replaced_only_when_told() {
        let object =
            |value: &str| json!({"metadata": {"uid": "u", "labels": {(names::WORKLOAD_TYPE): value}}});
        assert_eq!(
            label(&custom(), &object("statefulset"), None, false),
            Ok(Labelling::Unchanged { value: "statefulset" })
        );
        assert!(matches!(
            label(&custom(), &object("StatefulSet"), None, false),
            Err(Refusal::OtherLabel { .. })
        ));
        assert_eq!(
            labelled(&object("StatefulSet"), true),
            json!({ (names::WORKLOAD_TYPE): "statefulset" })
        );
    }

    #[test]
    fn kinds_without_an_adapter_are_refused() {
        let job = GroupKind {
            group: "batch".to_owned(),
            kind: "Job".to_owned(),
        };
        let refusal = label(&job, &json!({"metadata": {}}), None, false).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "workloads of kind Job.batch are not supported"
        );
    }

    #[test]
    fn a_kind_has_one_value() {
        let bare = json!({"metadata": {"uid": "u"}});
        assert!(label(&custom(), &bare, Some("statefulset"), false).is_ok());
        let refusal = label(&custom(), &bare, Some("cloneset"), true).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the label of kind MyStatefulApp.example.io is statefulset, not cloneset: leave --type out"
        );
    }

    #[test]
    fn the_label_goes_alone_and_not_in_mid_release() {
        let mut object = json!({"metadata": {"uid": "u", "labels": {"app": "a", (names::WORKLOAD_TYPE): "statefulset"}},
            "spec": {"template": {}}});
        let patch = unlabel(&custom(), &object).unwrap().unwrap();
        let mut after = object.clone();
        json_patch::patch(&mut after, &patch).unwrap();
        assert_eq!(after["metadata"]["labels"], json!({"app": "a"}));
        assert_eq!(unlabel(&custom(), &after), Ok(None));
        object["metadata"]["annotations"] =
            json!({(names::GUARDED_BY): "u/web/x", (names::IN_PROGRESSING): "{}"});
        assert_eq!(unlabel(&custom(), &object), Err(Refusal::Held));
    }
}
