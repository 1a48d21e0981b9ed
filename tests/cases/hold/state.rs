//! States of a workload, as the table writes them.

use kruise_rollout::names;
use kruise_rollout::workload::{Guard, TemplateId};
use serde_json::{Map, Value, json};

/// The Rollout of the table.
pub const ROLLOUT: &str = "table-rollout";

/// Stands for the UID of the object in the guard mark.
const UID: &str = "UID";

/// Labels, annotations and spec of a workload.
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
        spec: json!({"replicas": 5, "template": template(version)}),
    }
}

impl State {
    /// With a rolling update at this partition.
    pub fn partition(self, partition: i64) -> Self {
        self.strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}))
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

    /// The object that has this UID.
    pub fn object(&self, uid: &str) -> Value {
        let annotations = self.annotations.iter().map(|(name, value)| {
            let text = value.as_str().unwrap_or_default();
            let own = text.strip_prefix(UID).map(|rest| format!("{uid}{rest}"));
            (name.clone(), json!(own.as_deref().unwrap_or(text)))
        });
        json!({
            "apiVersion": "example.io/v1", "kind": "TableApp",
            "metadata": {
                "uid": uid, "labels": self.labels, "annotations": Value::Object(annotations.collect()),
            },
            "spec": self.spec,
        })
    }
}
