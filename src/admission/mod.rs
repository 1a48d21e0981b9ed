//! Verdicts on writes: pure functions of what stood in the cluster and what is asked for.
//!
//! - [`rollout`]: is this `Rollout` one that the controller can carry out.

pub mod rollout;
pub mod workload;
