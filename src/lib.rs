//! The core of kruise-rollout: types and decisions, without I/O.
//!
//! - [`names`]: labels, annotations, reasons.
//! - [`admission`]: verdicts on writes.
//! - [`api`]: the `Rollout` resource.
//! - [`area`]: which part of a cluster a controller governs.
//! - [`diagnosis`]: what is wrong, and the command that mends it.
//! - [`intent`]: what a person may ask.
//! - [`lens`]: typed paths into unstructured JSON, and patches.
//! - [`plan`]: from steps to counts of pods.
//! - [`report`]: what a person is told.
//! - [`rollout`]: what a Rollout does next.
//! - [`workload`]: what is read of a workload, and how each kind is held, exposed and released.

pub mod admission;
pub mod api;
pub mod area;
pub mod diagnosis;
pub mod intent;
pub mod lens;
pub mod names;
pub mod plan;
pub mod report;
pub mod rollout;
mod shell;
pub mod workload;
