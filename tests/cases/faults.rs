//! Faults that people have reported of products of this kind; a case begins with the number of its report.

mod alone;
mod batches;
mod callers;
mod certificates;
mod fixtures;
mod native;
mod outage;
mod pods;
mod reports;
mod revisions;
mod steps;
mod stuck;
mod unasked;
mod webhook;
mod writers;
