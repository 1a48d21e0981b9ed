//! The admission webhook: the server that the API server calls.
//!
//! [`serve`] speaks TLS and HTTP and knows nothing of admission; [`handlers`] translates between reviews and the verdicts of the
//! core. Nothing here calls the API server or lists anything: what is needed is in the review and in the stores.

pub mod alone;
mod handlers;
pub(crate) mod serve;

pub(crate) use handlers::{CONFIRM, MUTATE, VALIDATE, router};
