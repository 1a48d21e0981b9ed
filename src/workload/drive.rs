//! Moving the pods of kinds whose operator is kept from doing it.

use jiff::Timestamp;
use json_patch::Patch;
use serde_json::Value;

use super::{PodView, Revision, View};
use crate::names;

/// A held workload whose grant is in force, and what is there of it.
#[derive(Clone, Copy, Debug)]
pub struct Driven<'a> {
    /// The workload, with the revisions of its templates filled in.
    pub view: &'a View,
    /// All its revisions.
    pub revisions: &'a [Revision],
    /// All its pods.
    pub pods: &'a [PodView],
    /// The time.
    pub now: Timestamp,
}

/// What is to be moved now, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drive {
    /// The writes. Each has preconditions, so that a late one loses. The first that fails ends the list.
    pub moves: Vec<Move>,
    /// When there is more to move although nothing will have changed.
    pub wake: Option<Timestamp>,
}

/// One write that moves pods.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Make the revision of the workload's present template.
    Create {
        /// What the workload has to be like.
        premise: Premise,
        /// Pods that the revision is to have.
        replicas: u32,
    },
    /// Patch a revision. The patch tests UID and resource version.
    Resize {
        /// What the workload has to be like.
        premise: Premise,
        /// Name of the revision.
        revision: String,
        /// The patch.
        patch: Patch,
    },
    /// Delete a pod, if it is still the very pod in the very state that was seen. The workload's operator makes another one, of the
    /// newest template.
    Delete {
        /// What the workload has to be like.
        premise: Premise,
        /// Name of the pod.
        pod: String,
        /// Its UID.
        uid: String,
        /// Its resource version.
        resource_version: String,
    },
    /// Make a pod of an earlier revision where another one leaves.
    PutBack(Box<PutBack>),
}

/// A pod that leaves its node, and the revision of the one that comes instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// What the workload has to be like.
    pub premise: Premise,
    /// Name of the revision.
    pub revision: String,
    /// Name of the node.
    pub node: String,
    /// Name of the pod that leaves.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// It is deleted, if it is still in the state of this resource version; `None`: it has been asked to leave already.
    pub resource_version: Option<String>,
}

/// What was seen of a workload, for writes to other objects, which cannot test it. Another template or grant voids them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Premise {
    /// UID of the workload.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Its grant, as the mark has it.
    pub granted: Option<String>,
}

impl Premise {
    /// What this view shows.
    #[must_use]
    pub fn of(view: &View) -> Self {
        Self {
            uid: view.uid.clone(),
            generation: view.generation,
            granted: view.hold().and_then(|hold| hold.granted_text.clone()),
        }
    }

    /// Whether the workload is still as it was seen. Its metadata will do.
    #[must_use]
    pub fn holds(&self, workload: &Value) -> bool {
        let metadata = &workload["metadata"];
        metadata["uid"] == *self.uid
            && metadata["generation"] == self.generation
            && metadata["annotations"][names::GRANTED_PARTITION].as_str() == self.granted.as_deref()
    }
}
