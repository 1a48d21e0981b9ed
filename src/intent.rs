//! What a person may ask for, and what is written for it: approve a step, pause, jump, undo to an earlier template, and so on.
//!
//! Everything here is pure: from objects as they were read to a patch, or to a [`Refusal`] that says why not and what to do
//! instead. Every patch tests what it was built from, so that an answer to an old question changes nothing.

mod approve;
mod enable;
mod governance;
mod jump;
mod keeper;
mod label;
mod pause;
mod records;
mod refusal;
mod restart;
mod step;
mod undo;

use json_patch::Patch;

pub use approve::{Approval, Approve, Wanted, approve};
pub use enable::{Enabling, disable_kind, enable_kind, enabling_role};
pub use governance::{Switch, disable, enable};
pub use jump::{Jump, jump};
pub use keeper::keeper;
pub use label::{Labelling, label, unlabel};
pub use pause::{pause, resume};
pub(crate) use records::abbreviates;
pub use records::{Record, Search, Source};
pub use refusal::Refusal;
pub use restart::restart;
pub use step::Release;
pub use undo::{To, Undo, undo};

/// What is to be written, where an object may be as wanted already.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is so already.
    Unchanged,
    /// This makes it so.
    Write(Patch),
}
