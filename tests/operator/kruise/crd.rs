//! The CustomResourceDefinitions: schemas of our own with the fields that matter. What OpenKruise's own admission defaults is
//! defaulted here by the schema.

use serde_json::{Value, json};

use super::{GROUP, Kruise, NEWER, OLDER};

/// The definition of a kind, in both of its versions.
pub(crate) fn manifest(kind: Kruise) -> Value {
    let (_, name, plural) = kind.names();
    let short = match kind {
        Kruise::Clonesets => "clone",
        Kruise::Daemonsets => "daemon",
        Kruise::Statefulsets => "asts",
    };
    let versions = [OLDER, NEWER].map(|version| {
        json!({
            "name": version,
            "served": true,
            "storage": version == kind.stored(),
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": spec(kind, version), "status": status(kind)},
            }},
            "subresources": subresources(kind),
        })
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": name,
                "listKind": format!("{name}List"),
                "plural": plural,
                "singular": name.to_lowercase(),
                "shortNames": [short],
            },
            "conversion": {"strategy": "None"},
            "versions": versions,
        },
    })
}

fn subresources(kind: Kruise) -> Value {
    match kind {
        Kruise::Daemonsets => json!({"status": {}}),
        Kruise::Clonesets | Kruise::Statefulsets => json!({
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.labelSelector",
            },
        }),
    }
}

fn count() -> Value {
    json!({"type": "integer", "format": "int32", "minimum": 0})
}

fn words(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn with_default(mut schema: Value, default: Value) -> Value {
    schema["default"] = default;
    schema
}

fn count_or_percentage() -> Value {
    json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
}

/// An object that is there even if nobody writes it, so that the defaults in it are.
fn object(properties: Value) -> Value {
    json!({"type": "object", "default": {}, "properties": properties})
}

fn spec(kind: Kruise, version: &str) -> Value {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut properties = json!({
        "selector": free,
        "template": free,
        "minReadySeconds": count(),
        "revisionHistoryLimit": count(),
        "updateStrategy": strategy(kind, version),
    });
    if kind != Kruise::Daemonsets {
        properties["replicas"] = with_default(count(), json!(1));
    }
    if kind == Kruise::Statefulsets {
        properties["serviceName"] = json!({"type": "string"});
        properties["podManagementPolicy"] =
            with_default(words(&["OrderedReady", "Parallel"]), json!("OrderedReady"));
        properties["ordinals"] = json!({"type": "object", "properties": {"start": count()}});
        properties["reserveOrdinals"] = json!({"type": "array", "items": count_or_percentage()});
    }
    json!({"type": "object", "required": ["selector", "template"], "properties": properties})
}

fn strategy(kind: Kruise, version: &str) -> Value {
    let paused = json!({"type": "boolean"});
    match kind {
        // Nothing converts, so a member is only to be found where the version that is stored has it.
        Kruise::Clonesets if version == NEWER => object(json!({
            "type": with_default(words(&["RollingUpdate", "OnDelete"]), json!("RollingUpdate")),
            "rollingUpdate": object(json!({
                "podUpdatePolicy": words(&["ReCreate", "InPlaceIfPossible", "InPlaceOnly"]),
                "partition": count_or_percentage(),
                "maxUnavailable": count_or_percentage(),
                "maxSurge": count_or_percentage(),
                "paused": paused,
            })),
        })),
        Kruise::Clonesets => object(json!({
            "type": with_default(words(&["ReCreate", "InPlaceIfPossible", "InPlaceOnly"]), json!("ReCreate")),
            "partition": with_default(count_or_percentage(), json!(0)),
            "maxUnavailable": with_default(count_or_percentage(), json!("20%")),
            "maxSurge": with_default(count_or_percentage(), json!(0)),
            "paused": paused,
        })),
        Kruise::Daemonsets => object(json!({
            "type": with_default(words(&["RollingUpdate", "OnDelete"]), json!("RollingUpdate")),
            "rollingUpdate": object(json!({
                "rollingUpdateType": with_default(words(&["Standard", "Surging", "InPlaceIfPossible"]), json!("Standard")),
                "partition": with_default(count_or_percentage(), json!(0)),
                "maxUnavailable": with_default(count_or_percentage(), json!(1)),
                "maxSurge": with_default(count_or_percentage(), json!(0)),
                "paused": paused,
            })),
        })),
        Kruise::Statefulsets => object(json!({
            "type": with_default(words(&["RollingUpdate", "OnDelete"]), json!("RollingUpdate")),
            "rollingUpdate": object(json!({
                "partition": with_default(count(), json!(0)),
                "maxUnavailable": with_default(count_or_percentage(), json!(1)),
                "podUpdatePolicy": with_default(words(&["ReCreate", "InPlaceIfPossible", "InPlaceOnly"]), json!("ReCreate")),
                "minReadySeconds": count(),
                "paused": paused,
            })),
        })),
    }
}

fn status(kind: Kruise) -> Value {
    let text = json!({"type": "string"});
    let mut properties = json!({"observedGeneration": {"type": "integer", "format": "int64"}});
    let (counts, texts): (&[&str], &[&str]) = match kind {
        Kruise::Clonesets => (
            &[
                "replicas",
                "readyReplicas",
                "availableReplicas",
                "updatedReplicas",
                "updatedReadyReplicas",
                "updatedAvailableReplicas",
                "expectedUpdatedReplicas",
            ],
            &["currentRevision", "updateRevision", "labelSelector"],
        ),
        Kruise::Daemonsets => (
            &[
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberMisscheduled",
                "updatedNumberScheduled",
                "numberReady",
                "numberAvailable",
                "numberUnavailable",
            ],
            // The older version of OpenKruise's own definition calls it daemonSetHash, and converts.
            &["updateRevision"],
        ),
        Kruise::Statefulsets => (
            &[
                "replicas",
                "readyReplicas",
                "availableReplicas",
                "updatedReplicas",
                "updatedReadyReplicas",
                "updatedAvailableReplicas",
            ],
            &["currentRevision", "updateRevision", "labelSelector"],
        ),
    };
    for field in counts {
        properties[*field] = count();
    }
    for field in texts {
        properties[*field] = text.clone();
    }
    json!({"type": "object", "properties": properties})
}
