//! The operator and the kubelet of the simulated world.

use serde_json::json;

use super::world::{APP, Pod, World, revision};

impl World {
    /// One sync of the operator: creates what is missing, removes what is too much, updates one pod, reports.
    pub(super) fn operate(&mut self) {
        let Some(object) = &self.workload else { return };
        let object = object.clone();
        let view = self.view();
        let update = revision(&object["spec"]["template"]);
        let mut current = self.oracle.current.clone().unwrap_or_else(|| update.clone());
        let rolling = view.other_strategy.is_none();
        let partition = u32::try_from(view.partition_in_force()).unwrap();
        let (replicas, live) = (view.replicas, |pod: &Pod| !pod.terminating);
        let in_order = object["spec"]["podManagementPolicy"] == "OrderedReady";
        let now = self.now;
        let mut complete = true;
        for ordinal in 0..replicas {
            if let std::collections::btree_map::Entry::Vacant(e) = self.pods.entry(ordinal) {
                let held_back = rolling && ordinal < partition;
                let revision = if held_back {
                    current.clone()
                } else {
                    update.clone()
                };
                self.pods_made += 1;
                e.insert(Pod {
                    created: now,
                    since: now,
                    revision,
                    uid: format!("p{}", self.pods_made),
                    ..Pod::default()
                });
                self.oracle_sees_a_pod(ordinal, &update, &current);
            }
            let pod = &self.pods[&ordinal];
            complete = pod.ready && live(pod);
            if in_order && !complete {
                break;
            }
        }
        if let Some(condemned) = self
            .pods
            .keys()
            .next_back()
            .copied()
            .filter(|last| *last >= replicas)
        {
            self.delete_pod(condemned);
        } else if rolling && (complete || !in_order) {
            let next = self
                .pods
                .iter()
                .rev()
                .take_while(|(ordinal, _)| **ordinal >= partition);
            let next = next.map(|(ordinal, pod)| (*ordinal, pod.clone()));
            let mut next = next.skip_while(|(_, pod)| pod.revision == update && pod.ready && live(pod));
            if let Some((ordinal, pod)) = next.next()
                && pod.revision != update
                && live(&pod)
            {
                self.delete_pod(ordinal);
            }
        }
        let count = |picked: &dyn Fn(&Pod) -> bool| self.pods.values().filter(|pod| picked(pod)).count();
        let updated = count(&|pod| live(pod) && pod.revision == update);
        let ready = count(&|pod| live(pod) && pod.ready);
        let all = [updated, ready, self.pods.len()]
            .iter()
            .all(|n| *n == replicas as usize);
        if rolling && all {
            current.clone_from(&update);
        }
        let mut status = json!({"replicas": self.pods.len(), "readyReplicas": ready});
        if self.habits.observed_generation {
            status["observedGeneration"] = json!(view.generation);
        }
        if self.habits.revisions {
            status["updatedReplicas"] = json!(updated);
            status["currentRevision"] = json!(if self.habits.current_at_once {
                &update
            } else {
                &current
            });
            status["updateRevision"] = json!(update);
        }
        self.oracle.current = Some(current);
        let mut new = object;
        new["status"] = status;
        self.store(new);
    }

    /// Pods that were asked to go are gone, the others become ready unless they are broken.
    pub(super) fn kubelet(&mut self) {
        self.pods.retain(|_, pod| !pod.terminating);
        for pod in self.pods.values_mut() {
            let ready = !self
                .broken
                .iter()
                .any(|image| pod.revision == format!("{APP}-{image}"));
            if pod.ready != ready {
                (pod.ready, pod.since) = (ready, self.now);
            }
        }
        self.oracle_looks();
    }
}
