//! The watches: what moves in the cluster comes in here and becomes keys in the queue.
//!
//! Rollouts and CustomResourceDefinitions are always watched. Kinds of workloads are watched while a Rollout refers to them or a
//! marked object is left; pods only in namespaces with a release in progress. Every watch ends after half a minute and is taken up
//! again, so that a dead connection is noticed.

mod definitions;
mod kinds;
mod pods;
mod rollouts;

pub(crate) use definitions::follow as follow_definitions;
pub(crate) use kinds::{follow as follow_kinds, put_answer};
pub(crate) use pods::follow as follow_pods;
pub(crate) use rollouts::follow as follow_rollouts;
