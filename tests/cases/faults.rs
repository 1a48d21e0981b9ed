//! Faults that people have reported of products of this kind; a case begins with the number of its report.

mod fixtures;
mod plans;
mod scaling;
