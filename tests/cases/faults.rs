//! Faults: processes that die, networks that lie, and people who take away what is needed.
//!
//! Most of these cases break what all others need, so each has a control plane to itself while it runs.

mod crashes;
mod ground;
mod leases;
mod many;
mod network;
mod outages;
