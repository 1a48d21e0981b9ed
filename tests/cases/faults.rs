//! Faults that people have reported of products of this kind; a case begins with the number of its report.

mod batches;
mod commands;
mod fixtures;
mod injection;
mod injector;
mod lifecycle;
mod ownership;
mod plans;
mod reports;
mod revisions;
mod scaling;
