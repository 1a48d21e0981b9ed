//! `decide` in a simulated world: scripted releases, and properties of any interleaving of users, operator, kubelet, controller
//! and approvers.

mod api;
mod cluster;
mod control;
mod found;
mod lifecycle;
mod memory;
mod oracle;
mod properties;
mod replicas;
mod rollback;
mod scale;
mod schedule;
mod unfit;
mod users;
mod walk;
mod world;
