//! From the controller of OpenKruise Rollouts to ours: it stops in any state, with nothing tidied up, and ours starts.

mod ends;
mod left;
mod states;
pub mod switch;
mod versions;
