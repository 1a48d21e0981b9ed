//! The program as it is called, against a server that answers what the test tells it to.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod follow;
mod long;
mod look;
mod manifests;
mod odd;
mod reach;
mod reference;
mod selected;
mod server;
mod steer;
mod targets;
mod terminal;
mod undo;
mod usage;
mod views;
mod watch;
mod world;
mod write;
