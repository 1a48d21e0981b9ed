//! One workload with its operator, its pods, its Rollout and the controller around [`decide`], in memory.
//!
//! Every party acts only when a test says so: users write through admission, the operator syncs as a native StatefulSet
//! controller does, the kubelet makes pods ready, the controller observes, decides and applies, and time passes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::oracle::Oracle;
use crate::admission::workload::{Write, review};
use crate::api::v1beta1::{CanaryStatus, Condition, Rollout, RolloutStatus, condition, step_state};
use crate::names;
use crate::rollout::{Proof, Workload};
use crate::workload::{Adapter, GroupKind, View, adapter_for};

pub(super) const NAMESPACE: &str = "default";
pub(super) const APP: &str = "my-app";
pub(super) const ROLLOUT: &str = "my-app-rollout";

/// A pod; its place in [`Pods`] is its ordinal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pod {
    pub(super) created: Timestamp,
    /// When it became ready, or has stopped being so.
    pub(super) since: Timestamp,
    pub(super) revision: String,
    pub(super) ready: bool,
    pub(super) terminating: bool,
    pub(super) uid: String,
    /// Labels of release and batch.
    pub(super) rollout_id: Option<String>,
    pub(super) batch_id: Option<String>,
}

pub(super) type Pods = BTreeMap<u32, Pod>;

/// What an operator reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) observed_generation: bool,
    pub(super) revisions: bool,
    pub(super) pod_labels: bool,
    /// `currentRevision` follows the template, not the pods.
    pub(super) current_at_once: bool,
}

/// What the controller's stores hold at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) rollout: Option<Rollout>,
    pub(super) workload: Option<Value>,
    pub(super) pods: Pods,
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) workload: Option<Value>,
    /// The workload as it is read; kept since reading hashes the template.
    read: Option<View>,
    pub(super) rollout: Option<Rollout>,
    pub(super) pods: Pods,
    pub(super) habits: Habits,
    /// Admission answers.
    pub(super) webhook: bool,
    /// Images whose pods never become ready.
    pub(super) broken: BTreeSet<String>,
    /// Pods in the way are replaced.
    pub(super) replaces: bool,
    /// An older Rollout for the same workload.
    pub(super) rival: Option<&'static str>,
    /// The controller's memory: the proof, and whether its pod watch is filled.
    pub(super) proof: Proof,
    pub(super) watching: bool,
    /// Until when nothing is granted, since every write changes the template.
    pub(super) rewritten: Option<Timestamp>,
    /// Counts writes.
    pub(super) clock: u64,
    /// Every partition that was written, `None` for none.
    pub(super) partitions: Vec<Option<i64>>,
    /// Every state that a status write brought: phase, step and state of the step.
    pub(super) states: Vec<String>,
    /// Reasons of the events.
    pub(super) events: Vec<&'static str>,
    pub(super) status_writes: usize,
    /// Writes of pods' labels.
    pub(super) label_writes: usize,
    pub(super) pods_made: usize,
    pub(super) oracle: Oracle,
}

pub(super) fn adapter() -> &'static dyn Adapter {
    adapter_for(&app().kind).unwrap()
}

pub(super) fn app() -> Workload {
    let kind = GroupKind {
        group: "example.io".to_owned(),
        kind: "MyStatefulApp".to_owned(),
    };
    Workload {
        kind,
        name: APP.to_owned(),
    }
}

pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": APP}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// The user's manifest.
pub(super) fn manifest(replicas: u32, partition: Option<i64>, image: &str) -> Value {
    let mut manifest = json!({
        "metadata": {"name": APP, "namespace": NAMESPACE, "labels": {names::WORKLOAD_TYPE: names::TYPE_STATEFULSET}},
        "spec": {"replicas": replicas, "template": template(image)}
    });
    if let Some(partition) = partition {
        manifest["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": partition}});
    }
    manifest
}

pub(super) fn rollout(steps: &Value) -> Rollout {
    serde_json::from_value(json!({
        "metadata": {"name": ROLLOUT, "namespace": NAMESPACE, "uid": "r", "generation": 1, "resourceVersion": "1"},
        "spec": {"workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": APP},
            "strategy": {"canary": {"steps": steps}}}
    }))
    .unwrap()
}

/// The steps of the walk.
pub(super) fn steps() -> Value {
    json!([
        {"replicas": 1, "pause": {}},
        {"replicas": "50%", "pause": {"duration": 300}},
        {"replicas": "100%"}
    ])
}

/// The operator's name for a template: what it counts is the image alone.
pub(super) fn revision(template: &Value) -> String {
    let image = template["spec"]["containers"][0]["image"].as_str().unwrap();
    format!("{APP}-{image}")
}

impl World {
    /// A workload at rest on `v1`, without a Rollout.
    pub(super) fn new(replicas: u32, partition: Option<i64>) -> Self {
        let mut world = Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            workload: None,
            read: None,
            rollout: None,
            pods: Pods::new(),
            habits: Habits {
                observed_generation: true,
                revisions: true,
                pod_labels: true,
                current_at_once: false,
            },
            webhook: true,
            broken: BTreeSet::new(),
            replaces: true,
            rival: None,
            proof: Proof::Unknown,
            watching: false,
            rewritten: None,
            clock: 0,
            partitions: Vec::new(),
            states: Vec::new(),
            events: Vec::new(),
            status_writes: 0,
            label_writes: 0,
            pods_made: 0,
            oracle: Oracle::default(),
        };
        world.create(manifest(replicas, partition, "v1"));
        world.settle();
        world
    }

    /// A guarded workload whose pods are managed in order.
    pub(super) fn in_order(replicas: u32, partition: Option<i64>, steps: &Value) -> Self {
        let mut world = Self::guarded(replicas, partition, steps);
        let mut object = world.object().clone();
        object["spec"]["podManagementPolicy"] = json!("OrderedReady");
        world.put_in_place(object);
        world.settle();
        world.forget_logs();
        world
    }

    /// The same with a Rollout that guards it.
    pub(super) fn guarded(replicas: u32, partition: Option<i64>, steps: &Value) -> Self {
        let mut world = Self::new(replicas, partition);
        world.rollout = Some(rollout(steps));
        world.settle();
        world.forget_logs();
        world
    }

    pub(super) fn forget_logs(&mut self) {
        (self.partitions, self.states, self.events) = (Vec::new(), Vec::new(), Vec::new());
        (self.status_writes, self.label_writes) = (0, 0);
    }

    fn put_in_place(&mut self, object: Value) {
        self.read = Some(adapter().view(&object).unwrap());
        self.workload = Some(object);
    }

    pub(super) fn tick(&mut self) -> String {
        self.clock += 1;
        self.clock.to_string()
    }

    // ---- what tests read ----

    pub(super) fn object(&self) -> &Value {
        self.workload.as_ref().expect("a workload")
    }

    pub(super) fn view(&self) -> View {
        self.read.clone().expect("a workload")
    }

    pub(super) fn partition(&self) -> Option<i64> {
        self.view().partition
    }

    pub(super) fn status(&self) -> RolloutStatus {
        self.rollout
            .as_ref()
            .and_then(|rollout| rollout.status.clone())
            .unwrap_or_default()
    }

    pub(super) fn canary(&self) -> CanaryStatus {
        self.status().canary_status.unwrap_or_default()
    }

    /// Phase, step and state, in short.
    pub(super) fn at(&self) -> String {
        brief(&self.status())
    }

    pub(super) fn condition(&self, type_: &str) -> Option<Condition> {
        condition::get(&self.status().conditions, type_).cloned()
    }

    /// Status and reason of a condition.
    pub(super) fn says(&self, type_: &str) -> (String, String) {
        self.condition(type_)
            .map(|c| (c.status, c.reason))
            .unwrap_or_default()
    }

    /// Ordinals of the pods that run an image.
    pub(super) fn on(&self, image: &str) -> Vec<u32> {
        let revision = format!("{APP}-{image}");
        let runs = |pod: &Pod| pod.revision == revision && !pod.terminating;
        self.pods
            .iter()
            .filter(|(_, pod)| runs(pod))
            .map(|(ordinal, _)| *ordinal)
            .collect()
    }

    pub(super) fn marks(&self) -> Vec<String> {
        let annotations = self.object()["metadata"]["annotations"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        annotations
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| name.contains("kruise"))
            .collect()
    }

    // ---- users ----

    pub(super) fn create(&mut self, mut object: Value) {
        let uid = format!("w{}", self.tick());
        object["metadata"]["uid"] = json!(uid);
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] = json!(self.now.to_string());
        object["metadata"]["resourceVersion"] = json!(self.tick());
        self.oracle = Oracle::default();
        self.put_in_place(object);
        self.oracle.asked = Some(self.partition());
    }

    /// A merge patch by a user.
    pub(super) fn patch(&mut self, patch: &Value) {
        let mut new = self.object().clone();
        json_patch::merge(&mut new, patch);
        self.write(new);
    }

    /// A PUT of a manifest by a user: everything that it lacks goes, marks too.
    pub(super) fn put(&mut self, manifest: Value) {
        self.write(manifest);
    }

    pub(super) fn set_image(&mut self, image: &str) {
        self.patch(&json!({"spec": {"template": template(image)}}));
    }

    pub(super) fn set_partition(&mut self, partition: Option<i64>) {
        self.patch(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}}));
    }

    pub(super) fn set_replicas(&mut self, replicas: u32) {
        self.patch(&json!({"spec": {"replicas": replicas}}));
    }

    /// The scale subresource: admission is not asked.
    pub(super) fn scale(&mut self, replicas: u32) {
        self.oracle_scales(replicas);
        let mut new = self.object().clone();
        new["spec"]["replicas"] = json!(replicas);
        self.store(new);
    }

    fn write(&mut self, mut new: Value) {
        let old = self.object().clone();
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
        if let Some(status) = old.get("status") {
            new["status"] = status.clone();
        }
        let asked = new.clone();
        let labelled = |object: &Value| object["metadata"]["labels"].get(names::WORKLOAD_TYPE).is_some();
        if self.webhook && (labelled(&old) || labelled(&new)) {
            let claimed_by = self.rollout.as_ref().and_then(|rollout| {
                let claims = !rollout.spec.disabled && rollout.metadata.deletion_timestamp.is_none();
                claims.then_some(ROLLOUT)
            });
            let write = Write {
                old: &old,
                new: &new,
                by_controller: false,
                claimed_by,
            };
            let verdict = review(adapter(), write);
            json_patch::patch(&mut new, &verdict.patch).unwrap();
        }
        self.oracle_sees_a_write(&old, &asked, &new);
        self.store(new);
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
            self.oracle.free |= rollout.spec.disabled;
            self.touch_rollout(true);
        }
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
                rollout.metadata.deletion_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now));
                self.touch_rollout(true);
            }
            _ => self.rollout = None,
        }
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        self.oracle_looks();
    }

    pub(super) fn store(&mut self, mut new: Value) {
        let old = self.object();
        if new == *old {
            return;
        }
        if new["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap();
            new["metadata"]["generation"] = json!(generation + 1);
        }
        new["metadata"]["resourceVersion"] = json!(self.tick());
        let was = self.partition();
        self.put_in_place(new);
        if self.partition() != was {
            self.partitions.push(self.partition());
        }
        self.oracle_looks();
    }
}

pub(super) fn brief(status: &RolloutStatus) -> String {
    let phase = &status.phase;
    format!(
        "{phase} {}/{}",
        status.current_step_index, status.current_step_state
    )
}

/// What a failed property shows: the plan and the workload.
impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let steps = self
            .rollout
            .as_ref()
            .and_then(|rollout| rollout.spec.strategy.canary.as_ref());
        let steps = steps.map(|canary| json!(canary.steps).to_string());
        let spec = self.workload.as_ref().map(|object| object["spec"].to_string());
        write!(f, "{} {steps:?} {spec:?} {:?}", self.at(), self.pods)
    }
}
