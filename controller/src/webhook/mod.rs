//! The admission webhook: the server that the API server calls.
//!
//! [`serve`] speaks TLS and HTTP and knows nothing of admission; what is answered is the router that it is given.

pub(crate) mod serve;
