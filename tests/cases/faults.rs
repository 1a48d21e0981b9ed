//! Faults that people have reported of products of this kind; a case begins with the number of its report.

mod batches;
mod fixtures;
mod reports;
mod revisions;
mod steps;
