//! `decide` in a simulated world: scripted releases, and properties of any interleaving of users, operator, kubelet, controller
//! and approvers.

mod batches;
mod cluster;
mod control;
mod course;
mod deadline;
mod labels;
mod lifecycle;
mod memory;
mod oracle;
mod paused;
mod properties;
mod replan;
mod rollback;
mod scale;
mod states;
mod stuck;
mod unfit;
mod walk;
mod world;
