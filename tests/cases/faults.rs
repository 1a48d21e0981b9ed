//! Faults: those that people have reported of products of this kind (a case begins with the number of its report), processes that
//! die, networks that lie, and people who take away what is needed.

mod batches;
mod crashes;
mod fixtures;
mod ground;
mod leases;
mod many;
mod network;
mod outages;
mod reports;
mod revisions;
