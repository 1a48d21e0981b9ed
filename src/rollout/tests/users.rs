//! What people and their tools do in the simulated world.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::api::own_hold;
use super::oracle::Oracle;
use super::world::{APP, World, nested, template};
use crate::api::v1beta1::{Rollout, step_state};
use crate::names;
use crate::workload::RevisionKind;

/// Whether a Rollout is to govern the workload.
pub(super) fn wants(rollout: Option<&Rollout>) -> bool {
    rollout.is_some_and(|rollout| {
        let here = rollout.spec.workload_ref.name == APP;
        here && !rollout.spec.disabled && rollout.metadata.deletion_timestamp.is_none()
    })
}

impl World {
    /// Creates the workload. What was known of one of the same name is void.
    pub(super) fn create(&mut self, mut object: Value) {
        let uid = format!("w{}", self.tick());
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        object.as_object_mut().unwrap().remove("status");
        object["metadata"]["uid"] = json!(uid);
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] = json!(self.now.to_string());
        object["metadata"]["resourceVersion"] = json!(self.tick());
        // The Rollout's status stays as it is.
        let damaged = self.oracle.damaged;
        self.oracle = Oracle::default();
        self.oracle.damaged = damaged;
        (self.frozen, self.late) = (None, None);
        self.set_defaults(&mut object);
        self.revisions.clear();
        self.put_in_place(object);
        let view = self.view();
        self.sees_what_is_asked(&view, &view, &view);
    }

    /// Deletes the workload; its pods are asked to leave.
    pub(super) fn delete_workload(&mut self) {
        self.remove_from_place();
        self.revisions.clear();
        self.pods.values_mut().for_each(|pod| pod.terminating = true);
    }

    /// A merge patch by a user.
    pub(super) fn patch(&mut self, patch: &Value) {
        let Some(mut new) = self.workload.clone() else {
            return;
        };
        json_patch::merge(&mut new, patch);
        self.write(new);
    }

    /// A PUT of a manifest by a user: everything that it lacks goes, marks too.
    pub(super) fn put(&mut self, manifest: Value) {
        self.write(manifest);
    }

    /// A server-side apply by an owner of image and partition. It conflicts with us while the partition is ours.
    pub(super) fn apply(&mut self, image: &str, partition: Option<i64>, force: bool) {
        let Some(mut new) = self.workload.clone() else {
            return;
        };
        let ours = self.view().partition_is_ours;
        match partition {
            Some(_) => json_patch::merge(&mut new, &self.wish(partition)),
            None if self.applied && !ours => json_patch::merge(&mut new, &self.no_strategy()),
            None => {}
        }
        self.set_defaults(&mut new);
        if ours && !force && partition.is_some() && self.moves_the_hold(&new) {
            return;
        }
        new["spec"]["template"]["spec"] = template(image)["spec"].clone();
        if self.write(new) {
            self.applied = partition.is_some();
        }
    }

    pub(super) fn set_image(&mut self, image: &str) {
        self.patch(&json!({"spec": {"template": template(image)}}));
    }

    pub(super) fn set_partition(&mut self, partition: Option<i64>) {
        self.patch(&self.wish(partition));
    }

    /// A percentage as the partition.
    pub(super) fn set_share(&mut self, percent: u32) {
        self.patch(&self.wish_for_a_share(percent));
    }

    pub(super) fn set_replicas(&mut self, replicas: u32) {
        match self.adapter.replicas_path() {
            Some(path) => self.patch(&nested(path, json!(replicas))),
            None => self.scale(replicas),
        }
    }

    /// Somebody sets annotations and labels; null removes them.
    pub(super) fn strip(&mut self, annotations: &Value, labels: &Value) {
        self.patch(&json!({"metadata": {"annotations": annotations, "labels": labels}}));
    }

    /// The scale subresource, or nodes that come and go: admission is not asked.
    pub(super) fn scale(&mut self, replicas: u32) {
        if self.workload.is_none() {
            return;
        }
        self.oracle_scales(replicas);
        self.nodes = replicas;
        if let Some(path) = self.adapter.replicas_path() {
            let mut new = self.object().clone();
            json_patch::merge(&mut new, &nested(path, json!(replicas)));
            self.store(new);
        }
    }

    /// False when the write is refused.
    fn write(&mut self, mut new: Value) -> bool {
        let Some(old) = self.workload.clone() else {
            return false;
        };
        let of_another = |uid: &Value| !uid.is_null() && *uid != old["metadata"]["uid"];
        if of_another(&new["metadata"]["uid"]) {
            return false;
        }
        for field in [
            "name",
            "namespace",
            "uid",
            "generation",
            "creationTimestamp",
            "resourceVersion",
        ] {
            new["metadata"][field] = old["metadata"][field].clone();
        }
        let management = &old["spec"]["podManagementPolicy"];
        if !management.is_null() {
            // It cannot be changed.
            new["spec"]["podManagementPolicy"] = management.clone();
        }
        match old["metadata"].get("managedFields") {
            Some(entries) => new["metadata"]["managedFields"] = entries.clone(),
            None => drop(new["metadata"].as_object_mut().unwrap().remove("managedFields")),
        }
        match old.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => drop(new.as_object_mut().unwrap().remove("status")),
        }
        self.set_defaults(&mut new);
        if new == old {
            return true;
        }
        let asked = new.clone();
        let Some(mut stored) = self.admit(new, false) else {
            return false;
        };
        if self.moves_the_hold(&stored) {
            own_hold(&mut stored, self.adapter, false);
        }
        self.oracle_sees_a_write(&old, Some(&asked), &stored);
        self.store(stored);
        true
    }

    /// Somebody deletes a pod.
    pub(super) fn lose_pod(&mut self, ordinal: u32) {
        self.oracle_sees_a_misfortune(ordinal);
        self.delete_pod(ordinal);
    }

    pub(super) fn delete_pod(&mut self, ordinal: u32) {
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.terminating = true;
        }
    }

    /// A person approves, as the existing plugin does, but whatever the state is.
    pub(super) fn approve(&mut self) {
        let paused = self.canary().current_step_state == step_state::STEP_PAUSED;
        let status = self.rollout.as_mut().and_then(|rollout| rollout.status.as_mut());
        let Some(canary) = status.and_then(|status| status.canary_status.as_mut()) else {
            return;
        };
        step_state::STEP_READY.clone_into(&mut canary.current_step_state);
        if paused {
            let (template, step) = (canary.template_id.clone(), canary.current_step_index);
            self.oracle_approves(&template, step);
        }
        self.touch_rollout(false);
    }

    pub(super) fn edit_rollout(&mut self, edit: impl FnOnce(&mut Rollout)) {
        if let Some(rollout) = &mut self.rollout {
            edit(rollout);
            self.oracle.free |= !self.is_wanted();
            self.touch_rollout(true);
            self.oracle_looks();
        }
    }

    /// Whether the Rollout governs this workload as far as people have said.
    pub(super) fn is_wanted(&self) -> bool {
        wants(self.rollout.as_ref())
    }

    pub(super) fn touch_rollout(&mut self, spec: bool) {
        let version = self.tick();
        if let Some(rollout) = &mut self.rollout {
            rollout.metadata.resource_version = Some(version);
            rollout.metadata.generation = rollout.metadata.generation.map(|g| g + i64::from(spec));
        }
    }

    pub(super) fn lose_status(&mut self) {
        if let Some(rollout) = &mut self.rollout {
            rollout.status = None;
            self.oracle_forgets_what_was_told();
            self.touch_rollout(false);
        }
    }

    pub(super) fn delete_rollout(&mut self) {
        self.oracle.free = true;
        match &mut self.rollout {
            Some(rollout)
                if rollout
                    .metadata
                    .finalizers
                    .as_ref()
                    .is_some_and(|f| !f.is_empty()) =>
            {
                rollout.metadata.deletion_timestamp = Some(Time(self.now));
                self.touch_rollout(true);
            }
            _ => self.rollout = None,
        }
    }

    /// Creates a Rollout under the old name; an object of its own.
    pub(super) fn create_rollout(&mut self, mut rollout: Rollout) {
        if self.rollout.is_none() {
            rollout.metadata.uid = Some(format!("r{}", self.tick()));
            rollout.status = None;
            self.rollout = Some(rollout);
            self.oracle_forgets_what_was_told();
            self.touch_rollout(false);
        }
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.oracle_looks();
    }

    /// The clock is set back, and everything that was stamped by it lies later by so much.
    pub(super) fn set_clock_back(&mut self, seconds: i64) {
        let by = SignedDuration::from_secs(seconds);
        self.now -= by;
        self.oracle_sets_the_clock_back(by);
    }

    /// Sees to it that our label is as it has to be, the update type the rolling one, and nothing paused.
    pub(super) fn mend(&mut self) {
        let usual = ["spec", "updateStrategy", "type"].as_slice();
        let path = match self.adapter.paths().revisions {
            Some(RevisionKind::ReplicaSet) => &["spec", "paused"],
            _ => usual,
        };
        let mut patch = nested(path, json!(null));
        patch["metadata"] = json!({"labels": {names::WORKLOAD_TYPE: self.adapter.type_label()}});
        self.patch(&patch);
    }
}
