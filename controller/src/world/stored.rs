//! Rollouts as the store keeps them.

use std::sync::Arc;

use jiff::Timestamp;
use kruise_rollout::api::v1beta1::{Rollout, condition};
use kruise_rollout::lens::AtRest;
use kruise_rollout::names;

use super::Place;

/// A Rollout at rest: what is looked for among all of them, and the whole as text, since few are decided on at a time.
pub(super) struct Stored {
    pub(super) uid: Option<String>,
    pub(super) resource_version: String,
    pub(super) created: Option<Timestamp>,
    /// The workload that it names.
    pub(super) target: Arc<Place>,
    /// Whether it says that its workload is guarded.
    pub(super) guarded: Option<bool>,
    /// It is enabled, and nobody has asked for its deletion.
    pub(super) governs: bool,
    /// It says that it does not go on by itself.
    pub(super) stalled: bool,
    /// Its phase; empty where no controller has written one.
    pub(super) phase: Box<str>,
    content: AtRest,
}

impl Stored {
    /// What is kept of a Rollout, with the workload that it names.
    pub(super) fn of(mut rollout: Rollout, target: Arc<Place>) -> Self {
        // Large, and of no use here.
        rollout.metadata.managed_fields = None;
        if let Some(annotations) = &mut rollout.metadata.annotations {
            annotations.remove(names::LAST_APPLIED);
        }
        let status = rollout.status.as_ref();
        let says = |type_: &str| {
            let condition = condition::get(&status?.conditions, type_)?;
            Some(condition.status == condition::TRUE)
        };
        Self {
            uid: rollout.metadata.uid.clone(),
            resource_version: rollout.metadata.resource_version.clone().unwrap_or_default(),
            created: rollout.metadata.creation_timestamp.as_ref().map(|time| time.0),
            target,
            guarded: says(condition::GUARDED),
            governs: !rollout.spec.disabled && rollout.metadata.deletion_timestamp.is_none(),
            stalled: says(condition::STALLED) == Some(true),
            phase: status.map_or("", |status| status.phase.as_str()).into(),
            content: AtRest::of(&rollout),
        }
    }

    /// The whole of it.
    pub(super) fn rollout(&self) -> Option<Arc<Rollout>> {
        self.content.read().map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::target_of;
    use super::*;

    #[test]
    fn a_rollout_comes_out_as_it_went_in() {
        let text = |seconds| format!("2026-01-01T00:00:{seconds:02}Z");
        let whole = json!({
            "apiVersion": names::API_VERSION, "kind": "Rollout",
            "metadata": {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": text(1), "annotations": {"x": "y"}, "finalizers": ["f"]},
            "spec": {"disabled": false, "workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "app"},
                "strategy": {"canary": {"steps": [{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {"duration": 5}}]}}},
            "status": {"phase": "Progressing", "observedGeneration": 3,
                "conditions": [{"type": "Guarded", "status": "True", "reason": "Proven", "message": "m", "lastTransitionTime": text(2),
                    "lastUpdateTime": text(3)}],
                "canaryStatus": {"currentStepIndex": 1, "currentStepState": "StepPaused", "nextStepIndex": 2,
                    "lastUpdateTime": "2026-01-01T00:00:04.123456Z", "canaryReplicas": 1, "canaryReadyReplicas": 1}},
        });
        let rollout: Rollout = serde_json::from_value(whole).unwrap();
        let mut applied = rollout.clone();
        let annotations = applied.metadata.annotations.as_mut().unwrap();
        annotations.insert(names::LAST_APPLIED.to_owned(), "{}".to_owned());
        let place = Place {
            namespace: "shop".to_owned(),
            workload: target_of(&applied),
        };
        let stored = Stored::of(applied, Arc::new(place));
        let out = stored.rollout().unwrap();
        let value = |rollout: &Rollout| -> Value { serde_json::to_value(rollout).unwrap() };
        assert_eq!(value(&out), value(&rollout));
        assert_eq!(
            (stored.guarded, stored.governs, stored.stalled),
            (Some(true), true, false)
        );
    }
}
