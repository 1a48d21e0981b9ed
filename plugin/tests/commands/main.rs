//! The program as it is called, against a server that answers what the test tells it to.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod look;
mod reference;
mod server;
mod terminal;
mod usage;
mod watch;
mod world;
mod write;
