//! States of a workload, as the table writes them, and the shapes that kinds give them.

use kruise_rollout::names;
use kruise_rollout::workload::{Adapter, GroupKind, Guard, TemplateId, adapter_for};
use serde_json::{Map, Value, json};

/// The Rollout of the table.
pub const ROLLOUT: &str = "table-rollout";

const REPLICAS: i64 = 5;

/// Stands for the UID of the object in the guard mark.
const UID: &str = "UID";

/// A kind, with the group that its adapter knows it by.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

/// One kind of each adapter.
pub const SHAPES: [Shape; 3] = [
    Shape {
        group: "example.io",
        kind: "TableApp",
        plural: "tableapps",
    },
    Shape {
        group: "apps.kruise.io",
        kind: "CloneSet",
        plural: "clonesets",
    },
    Shape {
        group: "apps.kruise.io",
        kind: "DaemonSet",
        plural: "daemonsets",
    },
];

impl Shape {
    pub fn adapter(self) -> &'static dyn Adapter {
        let kind = GroupKind {
            group: self.group.to_owned(),
            kind: self.kind.to_owned(),
        };
        adapter_for(&kind).unwrap()
    }

    /// What is at the partition's place.
    pub fn partition(self, object: &Value) -> &Value {
        let path = self.adapter().partition_path().unwrap().iter();
        path.fold(object, |at, name| &at[*name])
    }
}

/// Labels, annotations and spec of a workload, written in the shape of a StatefulSet.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    spec: Value,
}

fn template(version: &str) -> Value {
    json!({"spec": {"containers": [{"name": "app", "image": format!("app:{version}")}]}})
}

/// A workload of five replicas with the label and this version, and no partition.
pub fn at(version: &str) -> State {
    let mut labels = Map::new();
    labels.insert(names::WORKLOAD_TYPE.to_owned(), json!(names::TYPE_STATEFULSET));
    State {
        labels,
        annotations: Map::new(),
        spec: json!({"replicas": REPLICAS, "template": template(version)}),
    }
}

impl State {
    /// With a rolling update at this partition.
    pub fn partition(self, partition: i64) -> Self {
        self.strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}))
    }

    /// With a rolling update at this percentage.
    pub fn share(self, percentage: &str) -> Self {
        self.strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": percentage}}))
    }

    /// With this update strategy.
    pub fn strategy(mut self, strategy: Value) -> Self {
        self.spec["updateStrategy"] = strategy;
        self
    }

    /// Governed by the Rollout, with v1 as the stable version.
    pub fn guarded(self) -> Self {
        let stable = TemplateId::of(&template("v1"));
        self.mark(names::GUARDED_BY, &Guard::text(UID, ROLLOUT, &stable))
    }

    /// Governed, and in a release with this grant and original partition.
    pub fn held(self, granted: &str, original: &str) -> Self {
        let in_progressing = json!({ "rolloutName": ROLLOUT }).to_string();
        self.guarded()
            .mark(names::IN_PROGRESSING, &in_progressing)
            .mark(names::GRANTED_PARTITION, granted)
            .mark(names::ORIGINAL_PARTITION, original)
    }

    /// With this annotation.
    pub fn mark(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(name.to_owned(), json!(value));
        self
    }

    /// Without this annotation.
    pub fn without(mut self, name: &str) -> Self {
        self.annotations.remove(name);
        self
    }

    /// Without any annotation.
    pub fn unmarked(mut self) -> Self {
        self.annotations.clear();
        self
    }

    /// Without labels.
    pub fn unlabelled(mut self) -> Self {
        self.labels.clear();
        self
    }

    /// With another label, which nobody cares about.
    pub fn tier(mut self) -> Self {
        self.labels.insert("tier".to_owned(), json!("web"));
        self
    }

    /// With so many replicas.
    pub fn replicas(mut self, replicas: i64) -> Self {
        self.spec["replicas"] = json!(replicas);
        self
    }

    /// With an annotation in the pod template.
    pub fn template_note(mut self) -> Self {
        self.spec["template"]["metadata"] = json!({"annotations": {"note": "x"}});
        self
    }

    /// Whether the shape can be in this state: it has replicas that people write, and update types that ignore the partition.
    pub fn suits(&self, shape: Shape) -> bool {
        let adapter = shape.adapter();
        (self.spec["replicas"] == REPLICAS || adapter.replicas_path().is_some())
            && (self.spec["updateStrategy"]["type"] != "OnDelete" || adapter.strategy_type_path().is_some())
    }

    /// The object of this shape that has this UID.
    pub fn object(&self, shape: Shape, uid: &str) -> Value {
        let annotations = self.annotations.iter().map(|(name, value)| {
            let text = value.as_str().unwrap_or_default();
            let own = text.strip_prefix(UID).map(|rest| format!("{uid}{rest}"));
            (name.clone(), json!(own.as_deref().unwrap_or(text)))
        });
        let mut labels = self.labels.clone();
        if let Some(label) = labels.get_mut(names::WORKLOAD_TYPE) {
            *label = json!(shape.adapter().type_label());
        }
        json!({
            "apiVersion": format!("{}/v1", shape.group), "kind": shape.kind,
            "metadata": {
                "uid": uid, "labels": labels, "annotations": Value::Object(annotations.collect()),
            },
            "spec": self.spec_of(shape),
        })
    }

    fn spec_of(&self, shape: Shape) -> Value {
        let mut spec = self.spec.clone();
        if shape.adapter().replicas_path().is_none() {
            spec.as_object_mut().unwrap().remove("replicas");
        }
        if let (None, Some(strategy)) = (
            shape.adapter().strategy_type_path(),
            spec.get_mut("updateStrategy").and_then(Value::as_object_mut),
        ) {
            if let Some(Value::Object(rolling)) = strategy.remove("rollingUpdate") {
                strategy.extend(rolling);
            }
            if let Some(kind) = strategy.get_mut("type") {
                *kind = json!("InPlaceIfPossible");
            }
        }
        spec
    }
}
