//! The controller of DaemonSets in the simulated world.

use serde_json::{Value, json};

use super::cluster::Sync;
use super::world::{APP, Pod, World, revision};
use crate::names;
use crate::workload::native::{OnNode, daemons};
use crate::workload::{Revision, RevisionKind, TemplateId};

impl World {
    /// One sync, whose report is still on its way: fills nodes, takes away what is too much, and updates one pod where it may.
    pub(super) fn sync_daemons(&mut self, sync: &Sync) {
        let template = sync.object["spec"]["template"].clone();
        self.record_template(&template);
        let own: Vec<u32> = self.pods_of(&sync.view.uid);
        let on_node = |number: &u32| {
            let pod = &self.pods[number];
            OnNode {
                node: pod.node.unwrap(),
                leaves: pod.terminating,
                ended: pod.failed,
            }
        };
        let places: Vec<_> = own.iter().map(on_node).collect();
        let (vacant, surplus) = daemons(self.nodes, &places);
        let complete = vacant.is_empty() && surplus.is_empty();
        surplus.into_iter().for_each(|at| self.delete_pod(own[at]));
        for node in vacant {
            let pod = Pod {
                node: Some(node),
                ..self.new_pod(&template)
            };
            self.add_pod(pod);
        }
        if complete && sync.object["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
            self.roll_a_daemon(sync, &revision(&template));
        }
        if self.habits.forgets_revisions {
            self.drop_records(&template);
        }
        self.report_later(sync, self.status_of_daemons(sync, &revision(&template)));
    }

    /// The numbers of the living and leaving pods of a workload, those first that came first.
    fn pods_of(&self, uid: &str) -> Vec<u32> {
        let own = self.pods.iter().filter(|(_, pod)| pod.owner == uid);
        own.map(|(number, _)| *number).collect()
    }

    fn status_of_daemons(&self, sync: &Sync, update: &str) -> Value {
        let on = |picked: &dyn Fn(&Pod) -> bool| {
            let own = self
                .pods
                .values()
                .filter(|pod| pod.owner == sync.view.uid && !pod.terminating && picked(pod));
            let mut nodes: Vec<_> = own.filter_map(|pod| pod.node).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes.len()
        };
        json!({"desiredNumberScheduled": self.nodes, "currentNumberScheduled": on(&|_| true), "numberMisscheduled": 0,
            "numberReady": on(&|pod| pod.ready), "updatedNumberScheduled": on(&|pod| pod.revision == update)})
    }

    /// Makes the record of a template unless there is one.
    fn record_template(&mut self, template: &Value) {
        if self.record_of(&TemplateId::of(template)).is_some() {
            return;
        }
        let hash = revision(template);
        let mut patch = template.clone();
        patch["$patch"] = json!("replace");
        let uid = format!("c{}", self.tick());
        self.revisions.push(json!({
            "metadata": {"name": format!("{APP}-{hash}"), "uid": uid, "resourceVersion": uid,
                "creationTimestamp": self.now.to_string(), "labels": {names::CONTROLLER_REVISION_HASH: hash}},
            "data": {"spec": {"template": patch}},
        }));
    }

    /// The record of a template.
    pub(super) fn record_of(&self, template: &TemplateId) -> Option<&Value> {
        let is_of =
            |record: &&Value| Revision::read(RevisionKind::ControllerRevision, record).template == *template;
        self.revisions.iter().find(is_of)
    }

    /// A history of no length: what no pod runs is forgotten.
    fn drop_records(&mut self, template: &Value) {
        let runs = |hash: &Value| self.pods.values().any(|pod| *hash == pod.revision);
        let update = json!(revision(template));
        let stays = |record: &Value| {
            let hash = &record["metadata"]["labels"][names::CONTROLLER_REVISION_HASH];
            *hash == update || runs(hash)
        };
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut self.revisions).into_iter().partition(stays);
        self.revisions = stay;
        if !go.is_empty() {
            self.tick();
        }
    }

    /// Deletes a pod on another revision: one that is not ready, or any once all others are.
    fn roll_a_daemon(&mut self, sync: &Sync, update: &str) {
        let own = self.pods_of(&sync.view.uid);
        let whole = own
            .iter()
            .all(|number| self.pods[number].ready && !self.pods[number].terminating);
        let old = |number: &&u32| {
            let pod = &self.pods[*number];
            !pod.terminating && pod.revision != update && (whole || !pod.ready)
        };
        if let Some(number) = own.iter().find(old).copied() {
            self.pods.get_mut(&number).unwrap().terminating = true;
            self.oracle_sees_a_native_update(sync, number);
        }
    }
}
