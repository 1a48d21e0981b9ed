//! The operator and the kubelet of the simulated world.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::world::{Pod, World, is_of, nested, revision};
use crate::workload::{Replicas, RevisionKind, UpdateOrder, View};

/// A workload as an operator sees it, be its watch late, and how many of its pods are allowed to run its template then.
#[derive(Clone, Debug)]
pub(super) struct Sync {
    pub(super) object: Value,
    pub(super) view: View,
    /// `None`: any number.
    pub(super) limit: Option<u32>,
    /// Ordinals that the scale subresource added.
    exempt: BTreeSet<u32>,
}

impl World {
    /// From now on the operator does not see what becomes of the workload.
    pub(super) fn freeze(&mut self) {
        let limit = self.limit();
        self.frozen = self.workload.as_ref().map(|object| Sync {
            object: object.clone(),
            view: self.view(),
            limit,
            exempt: self.oracle.exempt.clone(),
        });
    }

    /// One sync of the operator: creates what is missing, removes what is too much, updates one pod, reports.
    pub(super) fn operate(&mut self) {
        self.sync();
        self.report();
    }

    /// The report of the last sync arrives.
    pub(super) fn report(&mut self) {
        let Some((uid, status)) = self.late.take() else {
            return;
        };
        let Some(mut new) = self.workload.clone() else {
            return;
        };
        if new["metadata"]["uid"] == uid {
            new["status"] = status;
            self.store(new);
        }
    }

    /// What it will report of this sync.
    pub(super) fn report_later(&mut self, sync: &Sync, mut status: Value) {
        if self.habits.observed_generation {
            status["observedGeneration"] = json!(sync.view.generation);
        }
        self.late = Some((sync.object["metadata"]["uid"].clone(), status));
    }

    /// What the operator acts on: on what is or, if its watch stands still, on what was.
    fn begin_sync(&self) -> Option<Sync> {
        let object = self.workload.as_ref()?;
        let exempt = &self.oracle.exempt;
        Some(match &self.frozen {
            Some(frozen) if frozen.object["metadata"]["uid"] == object["metadata"]["uid"] => Sync {
                exempt: exempt | &frozen.exempt,
                ..frozen.clone()
            },
            _ => Sync {
                object: object.clone(),
                view: self.view(),
                limit: self.limit(),
                exempt: exempt.clone(),
            },
        })
    }

    /// One sync whose report is still on its way.
    pub(super) fn sync(&mut self) {
        let Some(sync) = self.begin_sync() else { return };
        match self.adapter.paths().revisions {
            Some(RevisionKind::ReplicaSet) => self.sync_deployment(&sync),
            Some(RevisionKind::ControllerRevision) => self.sync_daemons(&sync),
            None => self.sync_by_partition(sync),
        }
    }

    fn sync_by_partition(&mut self, sync: Sync) {
        let Sync {
            object,
            view,
            limit,
            exempt,
        } = sync.clone();
        let update = revision(&object["spec"]["template"]);
        let current = self.oracle.current.clone().unwrap_or_else(|| update.clone());
        let operator = Operator {
            wanted: match self.adapter.replicas_path() {
                Some(_) => view.replicas,
                None => self.nodes,
            },
            holds_new_pods: self.adapter.paths().status.current_revision.is_some(),
            view,
            limit,
            exempt,
            update,
            current,
            in_order: object["spec"]["podManagementPolicy"] == "OrderedReady",
        };
        if self.complete(&operator) && !self.condemn(&operator) {
            self.update(&operator);
        }
        let status = self.status_by(&operator);
        self.report_later(&sync, status);
    }

    /// A pod of the present workload, of this template.
    pub(super) fn new_pod(&mut self, template: &Value) -> Pod {
        self.pods_made += 1;
        Pod {
            // One after the other.
            created: self.now + SignedDuration::from_nanos(self.pods_made as i64),
            since: self.now,
            uid: format!("p{}", self.pods_made),
            owner: self.view().uid,
            revision: revision(template),
            ..Pod::default()
        }
    }

    /// Adds it under the next number, where pods have no ordinals.
    pub(super) fn add_pod(&mut self, pod: Pod) {
        self.pods.insert(u32::try_from(self.pods_made).unwrap(), pod);
    }

    /// Creates pods that are missing; true when the sync goes on after that.
    fn complete(&mut self, operator: &Operator) -> bool {
        for ordinal in 0..operator.wanted {
            match self.pods.get_mut(&ordinal) {
                None => {
                    self.pods_made += 1;
                    let revision = operator.revision_of(ordinal, self.held_back(operator));
                    let pod = Pod {
                        created: self.now,
                        since: self.now,
                        uid: format!("p{}", self.pods_made),
                        owner: operator.view.uid.clone(),
                        revision: revision.to_owned(),
                        ..Pod::default()
                    };
                    self.pods.insert(ordinal, pod);
                    self.oracle_sees_a_pod(ordinal, operator);
                }
                // Of another workload of the same name, or done: it has to go first.
                Some(pod) if pod.owner != operator.view.uid || pod.failed => pod.terminating = true,
                Some(_) => {}
            }
            let pod = &self.pods[&ordinal];
            if operator.in_order && (!pod.ready || pod.terminating) {
                return false;
            }
        }
        true
    }

    /// Asks the last pod that is too much to go.
    fn condemn(&mut self, operator: &Operator) -> bool {
        let last = self.pods.keys().next_back().copied();
        let condemned = last.filter(|last| *last >= operator.wanted);
        if let Some(ordinal) = condemned {
            self.delete_pod(ordinal);
        }
        condemned.is_some()
    }

    /// How many pods of other revisions there are, without those that are too much.
    fn held_back(&self, operator: &Operator) -> usize {
        let stay = self.pods.range(..operator.wanted).map(|(_, pod)| pod);
        let old = stay.filter(|pod| !pod.terminating && pod.revision != operator.update);
        old.count()
    }

    fn update(&mut self, operator: &Operator) {
        if operator.view.other_strategy.is_some() || operator.view.paused {
            return;
        }
        match operator.view.order {
            UpdateOrder::Ordinal(_) => self.update_by_ordinal(operator),
            UpdateOrder::Any => self.update_any(operator),
        }
    }

    /// Asks a pod on another revision to go while there are more than the partition keeps back: one that is not ready, or the lowest
    /// once all others are.
    fn update_any(&mut self, operator: &Operator) {
        let held_back = self.held_back(operator);
        if held_back <= operator.partition() as usize {
            return;
        }
        let whole = self.pods.values().all(|pod| pod.ready && !pod.terminating);
        let old = self.pods.iter().filter(|(_, pod)| !pod.terminating);
        let old = old.filter(|(_, pod)| pod.revision != operator.update && (whole || !pod.ready));
        if let Some(ordinal) = old.map(|(ordinal, _)| *ordinal).next() {
            self.delete_pod(ordinal);
            self.oracle_sees_an_update(operator, held_back - 1);
        }
    }

    /// Asks the next pod on another revision to go, highest ordinal first, once those above it are ready.
    fn update_by_ordinal(&mut self, operator: &Operator) {
        let done = |pod: &Pod| pod.revision == operator.update && pod.ready && !pod.terminating;
        let open = self.pods.range(operator.partition()..).rev();
        let next = open.map(|(at, pod)| (*at, pod)).find(|(_, pod)| !done(pod));
        if let Some((ordinal, pod)) = next
            && pod.revision != operator.update
            && !pod.terminating
        {
            self.delete_pod(ordinal);
        }
    }

    fn status_by(&mut self, operator: &Operator) -> Value {
        let Operator {
            view,
            update,
            current,
            ..
        } = operator;
        let count = |picked: &dyn Fn(&Pod) -> bool| self.pods.values().filter(|pod| picked(pod)).count();
        let live = |pod: &Pod| !pod.terminating && pod.owner == view.uid;
        let updated = count(&|pod| live(pod) && pod.revision == *update);
        let ready = count(&|pod| live(pod) && pod.ready);
        let exist = count(&|pod| pod.owner == view.uid);
        let all = [updated, ready, exist]
            .iter()
            .all(|n| *n == operator.wanted as usize);
        let current = if view.other_strategy.is_none() && all {
            update
        } else {
            current
        };
        let paths = self.adapter.paths();
        let mut object = nested(paths.status.replicas.path(), json!(exist));
        let mut report = |path: &[&str], value: Value| json_patch::merge(&mut object, &nested(path, value));
        report(paths.status.ready.path(), json!(ready));
        if let Replicas::Reported(field) = &paths.replicas {
            report(field.path(), json!(operator.wanted));
        }
        if self.habits.revisions {
            report(paths.status.updated.path(), json!(updated));
            if let Some(field) = &paths.status.current_revision {
                let told = if self.habits.current_at_once {
                    update
                } else {
                    current
                };
                report(field.path(), json!(told));
            }
            report(paths.status.update_revision[0].path(), json!(update));
        }
        self.oracle.current = Some(current.clone());
        object["status"].take()
    }

    /// Pods that were asked to go are gone, the others become ready unless they are broken.
    pub(super) fn kubelet(&mut self) {
        let ordinals: Vec<u32> = self.pods.keys().copied().collect();
        for ordinal in ordinals {
            if !(self.lingering && self.pods[&ordinal].terminating) {
                self.kubelet_of(ordinal);
            }
        }
        self.oracle_looks();
    }

    /// The same for one pod.
    pub(super) fn kubelet_of(&mut self, ordinal: u32) {
        let Some(pod) = self.pods.get_mut(&ordinal) else {
            return;
        };
        if pod.terminating {
            self.pods.remove(&ordinal);
        } else {
            let ready = !pod.failed && !self.broken.iter().any(|image| is_of(&pod.revision, image));
            if pod.ready != ready {
                (pod.ready, pod.since) = (ready, self.now);
            }
        }
        self.oracle_looks();
    }

    /// The number of a pod: its ordinal or, where there are none, one of those that there are.
    pub(super) fn pod_at(&self, place: u32) -> u32 {
        if self.adapter.paths().revisions.is_none() {
            return place;
        }
        let place = place as usize % self.pods.len().max(1);
        self.pods.keys().nth(place).copied().unwrap_or_default()
    }

    /// A pod stops being ready, or ends.
    pub(super) fn fail_pod(&mut self, ordinal: u32, for_good: bool) {
        self.oracle_sees_a_misfortune(ordinal);
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            if pod.ready {
                (pod.ready, pod.since) = (false, self.now);
            }
            pod.failed |= for_good;
        }
    }
}

/// What the operator acts on.
pub(super) struct Operator {
    pub(super) view: View,
    /// How many pods there should be.
    pub(super) wanted: u32,
    /// Pods that it makes are held back too.
    pub(super) holds_new_pods: bool,
    /// How many pods may run the template of this view; `None`: any number.
    pub(super) limit: Option<u32>,
    /// Ordinals that the scale subresource added.
    pub(super) exempt: BTreeSet<u32>,
    pub(super) update: String,
    pub(super) current: String,
    /// OrderedReady: nothing else is done while a pod is missing or not ready.
    in_order: bool,
}

impl Operator {
    fn partition(&self) -> u32 {
        u32::try_from(self.view.partition_in_force()).unwrap()
    }

    /// The revision of a new pod, where so many pods are of others than the update revision.
    fn revision_of(&self, ordinal: u32, others: usize) -> &str {
        let at = match self.view.order {
            UpdateOrder::Ordinal(_) => ordinal as usize,
            UpdateOrder::Any => others,
        };
        let held_back =
            self.holds_new_pods && self.view.other_strategy.is_none() && at < self.partition() as usize;
        if held_back { &self.current } else { &self.update }
    }
}
