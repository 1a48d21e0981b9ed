//! The core of kruise-rollout: types and decisions, without I/O.
//!
//! - [`names`]: labels, annotations, reasons.
//! - [`api`]: the `Rollout` kind as it stands on the wire.
//! - [`admission`]: verdicts on what people and programs write.

pub mod admission;
pub mod api;
pub mod names;
