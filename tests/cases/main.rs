//! End-to-end cases against the local control plane.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "a case that cannot go on has failed; lints know test functions only"
)]

mod approval;
mod changes;
mod commands;
mod completion;
mod connections;
mod control_plane;
mod counts;
mod courses;
mod daemonset;
mod deployment;
mod diagnosis;
mod documents;
mod enabling;
mod faults;
mod gate;
mod ground;
mod guard;
mod hold;
mod idle;
mod kept;
mod kinds;
mod kruise;
mod live;
mod migration;
mod native;
mod odd;
mod old_servers;
mod order;
mod outage;
mod owners;
mod packaging;
mod parts;
mod plugin;
mod privileges;
mod replicas;
mod restart;
mod rights;
mod rollback;
mod scene;
mod steering;
mod storm;
mod transcripts;
mod uninstall;
mod views;
mod walk;
mod widgets;
mod writes;
