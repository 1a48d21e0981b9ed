use super::Partition;
use crate::lens::Field;

/// Where a kind that updates by partition has what we read and write. What all kinds have in the same place is not in here.
#[derive(Debug)]
pub struct Paths {
    /// The version of the API that these are the paths of. `None`: they are the same in all.
    pub version: Option<&'static str>,
    /// Value that the workload-type label must have; it names the kind's policies too.
    pub type_label: &'static str,
    /// The partition, somewhere below `spec.updateStrategy`. The kind has to take a count of [`crate::names::HOLD_PARTITION`] there.
    pub partition: Field<Partition>,
    /// The update type of which `RollingUpdate`, or none, is the one that heeds the partition. `None`: all types do.
    pub strategy_type: Option<Field<String>>,
    /// The operator updates nothing while this is set.
    pub paused: Field<bool>,
    /// How many pods there should be.
    pub replicas: Replicas,
    /// `OrderedReady` or `Parallel`. `None`: no pod waits for another one.
    pub pod_management: Option<Field<String>>,
    /// How long a pod has to be ready before it counts, in seconds; the first that is there.
    pub min_ready_seconds: &'static [Field<u32>],
    /// What the operator reports.
    pub status: StatusPaths,
}

/// Where it says how many pods there should be.
#[derive(Debug)]
pub enum Replicas {
    /// People write it; an absent one is 1, as for every built-in kind.
    Written(Field<u32>),
    /// The operator reports it: a pod for each node that wants one.
    Reported(Field<u32>),
}

/// Where the operator reports what, beside `status.observedGeneration`.
#[derive(Debug)]
pub struct StatusPaths {
    /// Pods that exist.
    pub replicas: Field<u32>,
    /// Pods that are ready, of any revision.
    pub ready: Field<u32>,
    /// Pods on the update revision.
    pub updated: Field<u32>,
    /// Revision that held-back pods have, where the kind knows one.
    pub current_revision: Option<Field<String>>,
    /// Revision that pods are updated to; the first that is there.
    pub update_revision: &'static [Field<String>],
}

impl StatusPaths {
    /// Those of StatefulSet, which others follow.
    pub(super) const USUAL: Self = Self {
        replicas: Field::at(&["status", "replicas"]),
        ready: Field::at(&["status", "readyReplicas"]),
        updated: Field::at(&["status", "updatedReplicas"]),
        current_revision: Some(Field::at(&["status", "currentRevision"])),
        update_revision: &[Field::at(&["status", "updateRevision"])],
    };
}
