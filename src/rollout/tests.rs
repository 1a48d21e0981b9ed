//! `decide` in a simulated world: scripted releases, and properties of any interleaving of users, operator, kubelet, controller
//! and approvers.

mod cluster;
mod control;
mod deadline;
mod lifecycle;
mod memory;
mod oracle;
mod properties;
mod rollback;
mod scale;
mod stuck;
mod unfit;
mod walk;
mod world;
