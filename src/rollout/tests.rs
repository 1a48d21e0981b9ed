//! `decide` in a simulated world: scripted releases, and properties of any interleaving of users, operator, kubelet, controller
//! and approvers.

mod api;
mod apply;
mod away;
mod batches;
mod clock;
mod cluster;
mod control;
mod course;
mod deadline;
mod documented;
mod driven;
mod found;
mod inherited;
mod kinds;
mod known;
mod labels;
mod lifecycle;
mod memory;
mod oracle;
mod paused;
mod properties;
mod replan;
mod replicas;
mod rollback;
mod scale;
mod schedule;
mod stage;
mod states;
mod stuck;
mod together;
mod unfit;
mod users;
mod walk;
mod world;
