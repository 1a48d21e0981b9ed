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

/// Sets the workload-type label that the kind needs on `object`, a workload as it was read.
///
/// # Errors
/// A kind that is not supported, or another value that may not be replaced.
pub fn label(kind: &GroupKind, object: &Value, overwrite: bool) -> Result<Labelling, Refusal> {
    let adapter = adapter_for(kind).ok_or_else(|| Refusal::UnsupportedKind(kind.to_string()))?;
    let value = adapter.type_label();
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
        let Ok(Labelling::Write { patch, .. }) = label(&custom(), object, overwrite) else {
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
            label(&custom(), &object("statefulset"), false),
            Ok(Labelling::Unchanged { value: "statefulset" })
        );
        assert!(matches!(
            label(&custom(), &object("StatefulSet"), false),
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
        let refusal = label(&job, &json!({"metadata": {}}), false).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "workloads of kind Job.batch are not supported"
        );
    }
}
