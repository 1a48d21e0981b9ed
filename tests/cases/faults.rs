//! Faults: those that people have reported of products of this kind (a case begins with the number of its report), processes that
//! die, networks that lie, and people who take away what is needed.

mod alone;
mod batches;
mod callers;
mod certificates;
mod crashes;
mod fixtures;
mod ground;
mod injection;
mod leases;
mod many;
mod native;
mod network;
mod outage;
mod outages;
mod plans;
mod pods;
mod reports;
mod revisions;
mod stuck;
mod unasked;
mod webhook;
mod writers;
