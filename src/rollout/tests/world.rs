//! One workload with its operator, its pods, its Rollout and the controller around [`decide`], in memory.
//!
//! Every party acts only when a test says so: users write through admission, the operator syncs as the kind's own controller does,
//! the kubelet makes pods ready, the controller observes, decides and applies, and time passes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::api::{Fault, INJECTED, Injection};
use super::cluster::Sync;
use super::oracle::Oracle;
use crate::api::v1beta1::{CanaryStatus, Condition, Rollout, RolloutStatus, condition};
use crate::names;
use crate::rollout::{Proof, Workload};
use crate::workload::{Adapter, GroupKind, View, adapter_for};

pub(super) const NAMESPACE: &str = "default";
pub(super) const APP: &str = "my-app";
pub(super) const ROLLOUT: &str = "my-app-rollout";

/// A pod; its place in [`Pods`] is its ordinal, or a number where there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pod {
    pub(super) uid: String,
    pub(super) created: Timestamp,
    /// When it became ready, or has stopped being so.
    pub(super) since: Timestamp,
    /// UID of the workload that made it, be it through a ReplicaSet.
    pub(super) owner: String,
    /// UID of the ReplicaSet.
    pub(super) set: Option<String>,
    /// Node that it has to itself.
    pub(super) node: Option<u32>,
    /// UID of the pod whose place it takes.
    pub(super) instead_of: Option<String>,
    pub(super) revision: String,
    /// The label of the revision, where it is another word.
    pub(super) label: Option<String>,
    pub(super) ready: bool,
    pub(super) terminating: bool,
    /// It has ended and will not run again.
    pub(super) failed: bool,
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
    /// Revisions that no pod runs are forgotten, where objects stand for them.
    pub(super) forgets_revisions: bool,
}

/// What the controller's stores hold at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) rollout: Option<Rollout>,
    pub(super) workload: Option<Value>,
    pub(super) revisions: Vec<Value>,
    pub(super) pods: Pods,
}

#[derive(Clone)]
pub(super) struct World {
    /// How the workload is updated.
    pub(super) adapter: &'static dyn Adapter,
    /// How many nodes there are; a kind that people give no replicas has a pod for each.
    pub(super) nodes: u32,
    pub(super) now: Timestamp,
    pub(super) workload: Option<Value>,
    /// The workload as it is read; kept since reading hashes the template.
    read: Option<View>,
    pub(super) rollout: Option<Rollout>,
    /// The objects that stand for revisions of the workload, where its kind has any.
    pub(super) revisions: Vec<Value>,
    pub(super) pods: Pods,
    pub(super) habits: Habits,
    /// The operator acts on this, not on what is.
    pub(super) frozen: Option<Sync>,
    /// What the operator will report: UID of the workload and its status.
    pub(super) late: Option<(Value, Value)>,
    /// Pods that were asked to go stay for the time being.
    pub(super) lingering: bool,
    /// Our webhook is registered.
    pub(super) webhook: bool,
    /// It does not answer, so that writes which it should see are refused.
    pub(super) unreachable: bool,
    /// Another webhook.
    pub(super) injection: Injection,
    /// What befalls the next writes of the controller.
    pub(super) faults: VecDeque<Fault>,
    /// The field manager of an applier owns the partition.
    pub(super) applied: bool,
    /// Images whose pods never become ready.
    pub(super) broken: BTreeSet<String>,
    /// Pods in the way are replaced.
    pub(super) replaces: bool,
    /// A workload that loses its Rollout in mid-release stays held.
    pub(super) keeps_held: bool,
    /// The existing controller is registered.
    pub(super) beside_another: bool,
    /// An older Rollout for the same workload.
    pub(super) rival: Option<&'static str>,
    /// The controller's memory: the proof, whether its pod watch is filled, and whether it has had its first look.
    pub(super) proof: Proof,
    pub(super) watching: bool,
    pub(super) looked: bool,
    /// Until when nothing is granted, since every write changes the template.
    pub(super) rewritten: Option<Timestamp>,
    /// Counts writes.
    pub(super) clock: u64,
    /// Every partition that was written, in pods, `None` for none.
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

fn kind(group: &str, kind: &str) -> &'static dyn Adapter {
    let (group, kind) = (group.to_owned(), kind.to_owned());
    adapter_for(&GroupKind { group, kind }).unwrap()
}

pub(super) fn clone_set() -> &'static dyn Adapter {
    kind("apps.kruise.io", "CloneSet")
}

pub(super) fn daemon_set() -> &'static dyn Adapter {
    kind("apps.kruise.io", "DaemonSet")
}

pub(super) fn native_daemon_set() -> &'static dyn Adapter {
    kind("apps", "DaemonSet")
}

pub(super) fn deployment() -> &'static dyn Adapter {
    kind("apps", "Deployment")
}

/// A member at a path, as a merge patch sets it.
pub(super) fn nested(path: &[&str], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |inner, name| json!({ *name: inner }))
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

/// The user's manifest of a StatefulSet-like workload.
pub(super) fn manifest(replicas: u32, partition: Option<i64>, image: &str) -> Value {
    let adapter = adapter_for(&app().kind).unwrap();
    let mut manifest = manifest_of(adapter, replicas, image);
    if let Some(partition) = partition {
        json_patch::merge(
            &mut manifest,
            &nested(adapter.partition_path().unwrap(), json!(partition)),
        );
    }
    manifest
}

fn manifest_of(adapter: &dyn Adapter, replicas: u32, image: &str) -> Value {
    let mut manifest = json!({
        "metadata": {"name": APP, "namespace": NAMESPACE, "labels": {names::WORKLOAD_TYPE: adapter.type_label()}},
        "spec": {"template": template(image)}
    });
    if let Some(path) = adapter.replicas_path() {
        json_patch::merge(&mut manifest, &nested(path, json!(replicas)));
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

/// The operator's name for a template: what it counts is the image, what the other webhook makes of it, and an empty member that
/// the API server keeps.
pub(super) fn revision(template: &Value) -> String {
    let image = template["spec"]["containers"][0]["image"].as_str().unwrap();
    if template["spec"].get("securityContext").is_some() {
        let mut bare = template.clone();
        bare["spec"].as_object_mut().unwrap().remove("securityContext");
        return format!("{}.dressed", revision(&bare));
    }
    match template["metadata"]["annotations"]
        .get(INJECTED)
        .and_then(Value::as_str)
    {
        Some(injected) => format!("{APP}-{image}.{injected}"),
        None => format!("{APP}-{image}"),
    }
}

/// Whether a revision is of this image, whatever else it has.
pub(super) fn is_of(revision: &str, image: &str) -> bool {
    revision.split('.').next() == Some(&format!("{APP}-{image}"))
}

impl World {
    /// A workload at rest on `v1`, without a Rollout.
    pub(super) fn new(replicas: u32, partition: Option<i64>) -> Self {
        Self::of(adapter_for(&app().kind).unwrap(), replicas, partition)
    }

    /// The same of another kind.
    pub(super) fn of(adapter: &'static dyn Adapter, replicas: u32, partition: Option<i64>) -> Self {
        let mut world = Self {
            adapter,
            nodes: replicas,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            workload: None,
            read: None,
            rollout: None,
            revisions: Vec::new(),
            pods: Pods::new(),
            habits: Habits {
                observed_generation: true,
                revisions: true,
                pod_labels: true,
                current_at_once: false,
                forgets_revisions: false,
            },
            frozen: None,
            late: None,
            lingering: false,
            webhook: true,
            unreachable: false,
            injection: Injection::None,
            faults: VecDeque::new(),
            applied: false,
            broken: BTreeSet::new(),
            replaces: true,
            keeps_held: false,
            beside_another: false,
            rival: None,
            proof: Proof::Unknown,
            watching: false,
            looked: false,
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
        world.create(world.manifest(replicas, partition, "v1"));
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
        Self::new(replicas, partition).under(steps)
    }

    /// The same under a Rollout with these steps.
    pub(super) fn under(self, steps: &Value) -> Self {
        let mut world = self;
        world.rollout = Some(rollout(steps));
        world.settle();
        world.forget_logs();
        world
    }

    pub(super) fn forget_logs(&mut self) {
        (self.partitions, self.states, self.events) = (Vec::new(), Vec::new(), Vec::new());
        (self.status_writes, self.label_writes) = (0, 0);
    }

    /// The user's manifest.
    pub(super) fn manifest(&self, replicas: u32, partition: Option<i64>, image: &str) -> Value {
        let mut manifest = manifest_of(self.adapter, replicas, image);
        if partition.is_some() {
            json_patch::merge(&mut manifest, &self.wish(partition));
        }
        manifest
    }

    pub(super) fn put_in_place(&mut self, object: Value) {
        self.read = Some(self.adapter.view(&object).unwrap());
        self.workload = Some(object);
    }

    pub(super) fn remove_from_place(&mut self) {
        (self.read, self.workload) = (None, None);
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

    /// The partition; nobody may have written a percentage.
    pub(super) fn partition(&self) -> Option<i64> {
        let partition = self.view().partition;
        partition.map(|partition| partition.count().expect("a count"))
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
        let runs = |pod: &Pod| is_of(&pod.revision, image) && !pod.terminating;
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
