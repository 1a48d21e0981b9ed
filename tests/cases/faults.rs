//! Faults that people have reported of products of this kind; a case begins with the number of its report.

mod alone;
mod batches;
mod callers;
mod certificates;
mod commands;
mod fixtures;
mod injection;
mod injector;
mod lifecycle;
mod native;
mod outage;
mod ownership;
mod plans;
mod pods;
mod reports;
mod revisions;
mod scaling;
mod stuck;
mod unasked;
mod webhook;
mod writers;
