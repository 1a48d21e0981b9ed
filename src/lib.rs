//! The core of kruise-rollout: types and decisions, without I/O.
//!
//! - [`names`]: labels, annotations, reasons.

pub mod names;
