use serde_json::Value;

use super::revision::RevisionKind;
use super::{Means, TemplateId};
use crate::lens::Field;

/// Where a kind has what we read and write. What all kinds have in the same place is not in here.
#[derive(Debug)]
pub struct Paths {
    /// The version of the API that these are the paths of. `None`: they are the same in all.
    pub version: Option<&'static str>,
    /// Value that the workload-type label must have; it names the kind's policies too.
    pub type_label: &'static str,
    /// What holds it.
    pub means: Means,
    /// The update type of which people may ask for `RollingUpdate`, or none, since no other one updates pods by itself. `None`: all
    /// types do.
    pub strategy_type: Option<Field<String>>,
    /// The operator updates nothing while people set this. `None`: the kind has no such field.
    pub paused: Option<Field<bool>>,
    /// How many pods there should be.
    pub replicas: Replicas,
    /// `OrderedReady` or `Parallel`. `None`: no pod waits for another one.
    pub pod_management: Option<Field<String>>,
    /// How long a pod has to be ready before it counts, in seconds; the first that is there.
    pub min_ready_seconds: &'static [Field<u32>],
    /// What the operator reports.
    pub status: StatusPaths,
    /// The objects that stand for the revisions of a workload, where its status names none.
    pub revisions: Option<RevisionKind>,
}

impl Paths {
    /// The identity of a template of this kind: without what its operator puts into the templates of revisions.
    #[must_use]
    pub fn template_id(&self, template: &Value) -> TemplateId {
        match self.revisions {
            Some(kind) => kind.template_id(template),
            None => TemplateId::of(template),
        }
    }
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
    /// Pods on nodes that want none, where the kind's pods belong to nodes and we have to know.
    pub misplaced: Option<Field<u32>>,
    /// Revision that held-back pods have, where the kind knows one.
    pub current_revision: Option<Field<String>>,
    /// Revision that pods are updated to; the first that is there. Empty: the status does not say, and the revision objects do.
    pub update_revision: &'static [Field<String>],
}

impl StatusPaths {
    /// Those of StatefulSet, which others follow.
    pub(super) const USUAL: Self = Self {
        replicas: Field::at(&["status", "replicas"]),
        ready: Field::at(&["status", "readyReplicas"]),
        updated: Field::at(&["status", "updatedReplicas"]),
        misplaced: None,
        current_revision: Some(Field::at(&["status", "currentRevision"])),
        update_revision: &[Field::at(&["status", "updateRevision"])],
    };
}
