//! The CustomResourceDefinition.

use clap::Args;
use serde_json::{Value, json};

use crate::kind::Kind;

/// What may differ from one CRD of this shape to the next.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct SchemaArgs {
    /// Leave the partition out of the schema, so that the server prunes it
    #[arg(long, conflicts_with = "partition_maximum")]
    no_partition: bool,

    /// Highest partition that the schema allows
    #[arg(long, value_name = "N")]
    partition_maximum: Option<u32>,
}

/// The definition of the kind.
pub(crate) fn manifest(kind: &Kind, schema: SchemaArgs) -> Value {
    let resource = &kind.resource;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": format!("{}List", resource.kind),
                "plural": resource.plural,
                "singular": resource.kind.to_lowercase(),
            },
            "versions": [{
                "name": resource.version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {"spec": spec(schema), "status": status()},
                }},
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                    {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
                    {"name": "Updated", "type": "integer", "jsonPath": ".status.updatedReplicas"},
                    {
                        "name": "Partition", "type": "integer",
                        "jsonPath": ".spec.updateStrategy.rollingUpdate.partition",
                    },
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            }],
        },
    })
}

fn spec(schema: SchemaArgs) -> Value {
    let count = json!({"type": "integer", "format": "int32", "minimum": 0});
    let mut replicas = count.clone();
    replicas["default"] = 1.into();
    let mut rolling_update = json!({"type": "object"});
    if !schema.no_partition {
        let mut partition = count.clone();
        partition["description"] =
            "Pods with a lower ordinal are not updated, and return on the current revision when they are lost.".into();
        if let Some(maximum) = schema.partition_maximum {
            partition["maximum"] = maximum.into();
        }
        rolling_update["properties"] = json!({"partition": partition});
    }
    json!({
        "type": "object",
        "required": ["template"],
        "properties": {
            "replicas": replicas,
            "podManagementPolicy": {"type": "string", "enum": ["OrderedReady", "Parallel"]},
            "revisionHistoryLimit": count,
            "updateStrategy": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": ["", "RollingUpdate", "OnDelete"]},
                    "rollingUpdate": rolling_update,
                },
            },
            "template": template(),
        },
    })
}

fn template() -> Value {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {"type": "object", "properties": {"labels": strings, "annotations": strings}},
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    })
}

fn status() -> Value {
    let count = json!({"type": "integer", "format": "int32"});
    json!({
        "type": "object",
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            "replicas": count,
            "readyReplicas": count,
            "updatedReplicas": count,
            "currentRevision": {"type": "string"},
            "updateRevision": {"type": "string"},
            "selector": {"type": "string"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::STATUS_FIELDS;
    use crate::plan::tests::kind;

    const PARTITION: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties\
                             /updateStrategy/properties/rollingUpdate/properties/partition";

    #[test]
    fn the_partition_can_be_left_out_and_bounded() {
        let default = manifest(&kind(), SchemaArgs::default());
        assert_eq!(default.pointer(PARTITION).unwrap()["minimum"], 0);
        assert_eq!(default.pointer(PARTITION).unwrap().get("maximum"), None);
        let bounded = manifest(
            &kind(),
            SchemaArgs {
                partition_maximum: Some(10),
                ..SchemaArgs::default()
            },
        );
        assert_eq!(bounded.pointer(PARTITION).unwrap()["maximum"], 10);
        let without = manifest(
            &kind(),
            SchemaArgs {
                no_partition: true,
                ..SchemaArgs::default()
            },
        );
        assert_eq!(without.pointer(PARTITION), None);
    }

    #[test]
    fn the_schema_has_every_status_field() {
        let schema = status();
        assert!(
            STATUS_FIELDS
                .iter()
                .all(|field| schema["properties"].get(*field).is_some())
        );
    }
}
