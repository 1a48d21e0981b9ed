//! How many Rollouts there are in which state, counted when somebody asks.

use jiff::Timestamp;
use kruise_rollout::api::v1beta1::phase;
use kruise_rollout::report::{RolloutReport, Seen, Sources};

use super::stored::Stored;
use super::{Key, World};

/// Phases, and last the word for a Rollout that no controller has written a phase of yet.
pub(crate) const PHASES: [&str; 7] = [
    phase::INITIAL,
    phase::HEALTHY,
    phase::PROGRESSING,
    phase::TERMINATING,
    phase::DISABLED,
    phase::DISABLING,
    "None",
];

/// Rollouts by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Rollouts in each of [`PHASES`].
    pub(crate) rollouts: [usize; PHASES.len()],
    /// Those of them that say that they do not go on by themselves.
    pub(crate) stalled: [usize; PHASES.len()],
    /// Rollouts of whose workload more pods run the new template than the step allows.
    pub(crate) in_breach: usize,
}

impl World {
    /// Counts what the stores have. Which are in breach is found out one by one, without the lock.
    pub(crate) fn census(&self) -> Census {
        let (mut census, mut progressing) = (Census::default(), Vec::new());
        for (key, known) in &self.lock().accounts {
            let Some(rollout) = &known.stored else {
                continue;
            };
            let known = PHASES.iter().position(|word| **word == *rollout.phase);
            let place = known.unwrap_or(PHASES.len() - 1);
            census.rollouts[place] += 1;
            census.stalled[place] += usize::from(rollout.stalled);
            if *rollout.phase == *phase::PROGRESSING {
                progressing.push(key.clone());
            }
        }
        let in_breach = progressing.into_iter().filter(|key| self.is_in_breach(key));
        census.in_breach = in_breach.count();
        census
    }

    /// Whether more pods run the new template than are allowed, as far as pods are known.
    fn is_in_breach(&self, key: &Key) -> bool {
        let (rollout, view, pods) = {
            let inner = self.lock();
            let rollout = inner.stored(key).and_then(Stored::rollout);
            let (Some(rollout), Some(view)) = (rollout, inner.target_view(key).cloned()) else {
                return false;
            };
            let pods = inner.pods.of(&key.namespace, &view.uid);
            (rollout, view, pods)
        };
        let report = RolloutReport::new(&Sources {
            rollout: &rollout,
            workload: Seen::Present(&view),
            pods: pods.as_deref(),
            followed: None,
            hidden: &[],
            workload_changed: None,
            now: Timestamp::now(),
        });
        report.breach.is_some()
    }
}

#[cfg(test)]
mod tests {
    use kruise_rollout::api::v1beta1::Rollout;
    use kruise_rollout::names;
    use kruise_rollout::rollout::Workload;
    use kruise_rollout::workload::{GroupKind, Guard, PodView, TemplateId};
    use serde_json::{Value, json};

    use super::super::Place;
    use super::*;

    fn rollout(name: &str, status: &Value) -> Rollout {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": name},
                "strategy": {"canary": {"steps": [{"replicas": 1, "pause": {}}, {"replicas": "100%"}]}}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn each_rollout_is_counted_in_its_phase() {
        let world = World::default();
        world.put_rollout(rollout("a", &json!({"phase": "Healthy"})));
        world.put_rollout(rollout("b", &json!({"phase": "Healthy"})));
        let stalled = json!([{"type": "Stalled", "status": "True", "reason": "X", "message": "x"}]);
        world.put_rollout(rollout(
            "c",
            &json!({"phase": "Progressing", "conditions": stalled}),
        ));
        world.put_rollout(rollout("d", &Value::Null));
        let census = world.census();
        assert_eq!(census.rollouts, [0, 2, 1, 0, 0, 0, 1]);
        assert_eq!(census.stalled, [0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(census.in_breach, 0);
    }

    #[test]
    fn pods_beyond_the_step_are_a_breach() {
        let world = World::default();
        let template = |version: &str| json!({"spec": {"containers": [{"name": "app", "image": version}]}});
        let place = Place {
            namespace: "shop".to_owned(),
            workload: Workload {
                kind: GroupKind {
                    group: "example.io".to_owned(),
                    kind: "MyStatefulApp".to_owned(),
                },
                name: "app".to_owned(),
            },
        };
        let guard = Guard::text("w", "app", &TemplateId::of(&template("v1")));
        world.put_workload(
            &place,
            &json!({
                "metadata": {"name": "app", "uid": "w", "generation": 3, "resourceVersion": "7",
                    "labels": {(names::WORKLOAD_TYPE): names::TYPE_STATEFULSET},
                    "annotations": {(names::GUARDED_BY): guard, (names::IN_PROGRESSING): "{}", (names::GRANTED_PARTITION): "2"}},
                "spec": {"replicas": 3, "template": template("v2"),
                    "updateStrategy": {"rollingUpdate": {"partition": 2}}},
                "status": {"observedGeneration": 3, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 1,
                    "currentRevision": "app-1", "updateRevision": "app-2"},
            }),
        );
        let status = json!({"phase": "Progressing", "canaryStatus": {"currentStepIndex": 1, "nextStepIndex": 2,
            "currentStepState": "StepPaused", "canaryRevision": "app-2", "stableRevision": "app-1",
            "templateId": TemplateId::of(&template("v2")).to_string()}});
        world.put_rollout(rollout("app", &status));
        let pod = |ordinal: u8, revision: &str| -> PodView {
            PodView::read(&json!({
                "metadata": {"name": format!("app-{ordinal}"), "uid": format!("{ordinal}-{revision}"),
                    "labels": {(names::CONTROLLER_REVISION_HASH): revision},
                    "ownerReferences": [{"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "app", "uid": "w",
                        "controller": true}]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }))
        };
        let runs = |revisions: [&str; 3]| {
            world.with_pods(|pods| {
                for (ordinal, revision) in (0..).zip(revisions) {
                    pods.put("shop", pod(ordinal, revision));
                }
                pods.complete("shop", &(0..3).map(|ordinal| format!("app-{ordinal}")).collect());
            });
            world.census().in_breach
        };
        assert_eq!(world.census().in_breach, 0);
        assert_eq!(runs(["app-1", "app-1", "app-2"]), 0);
        assert_eq!(runs(["app-1", "app-2", "app-2"]), 1);
    }
}
