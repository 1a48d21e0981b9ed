//! `decide` in a simulated world: scripted releases, and properties of any interleaving of users, operator, kubelet, controller
//! and approvers.

mod oracle;
mod walk;
mod world;
