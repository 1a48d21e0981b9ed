//! Verdicts on writes: pure functions of what stood in the cluster and what is asked for.
//!
//! - [`policy`]: the same verdict on a workload, as policies that the API server keeps by itself.
//! - [`rollout`]: is this `Rollout` one that the controller can carry out.
//! - [`approval`]: what people may write to the status of a `Rollout`, as a policy that the API server carries out itself.

pub mod approval;
pub mod policy;
pub mod rollout;
pub mod workload;
