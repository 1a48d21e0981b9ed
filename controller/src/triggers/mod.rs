//! The watches: what moves in the cluster comes in here and becomes keys in the queue.
//!
//! Rollouts, CustomResourceDefinitions and the registration of the existing controller are always watched. Kinds of workloads are watched while a Rollout refers to them or a
//! marked object is left; pods, and objects that stand for revisions, only in namespaces with a release in progress that needs them. Every watch ends after half a minute and is taken up
//! again, so that a dead connection is noticed.

mod beside;
mod definitions;
mod kinds;
mod pods;
mod revisions;
mod rollouts;

pub(crate) use beside::follow as follow_another;
pub(crate) use definitions::follow as follow_definitions;
pub(crate) use kinds::{follow as follow_kinds, put_answer};
pub(crate) use pods::follow as follow_pods;
pub(crate) use revisions::put_revision;
pub(crate) use rollouts::follow as follow_rollouts;

use crate::context::Context;

/// Looks at the Rollouts of the workloads with these UIDs.
pub(crate) fn concern(context: &Context, owners: impl IntoIterator<Item = String>) {
    for owner in owners {
        context.look_at(context.world.concerned_by_owner(&owner));
    }
}
