//! Moving the pods of kinds whose operator is kept from doing it.

use jiff::Timestamp;
use json_patch::Patch;

use super::{PodView, Revision, TemplateId, View};

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
        /// UID of the workload.
        uid: String,
        /// The template; nothing is made of another one.
        template: TemplateId,
        /// Pods that the revision is to have.
        replicas: u32,
    },
    /// Patch a revision. The patch tests UID and resource version.
    Resize {
        /// Name of the revision.
        revision: String,
        /// The patch.
        patch: Patch,
    },
    /// Delete a pod, if it is still the very pod in the very state that was seen.
    Delete {
        /// Name of the pod.
        pod: String,
        /// Its UID.
        uid: String,
        /// Its resource version.
        resource_version: String,
    },
}
