//! Typed paths into unstructured JSON, and the patches that go back.
//!
//! Workloads of any kind are read as JSON, because a typed struct would drop what it does not know. A [`Field`] is a path with a
//! type: reading tells *absent*, *malformed* and *zero* apart, and a [`PatchBuilder`] writes with tests of what was read.

mod at_rest;
mod field;
mod patch;

pub use at_rest::AtRest;
pub use field::{Field, FieldError, Scalar};
pub use patch::{PatchBuilder, pointer};
