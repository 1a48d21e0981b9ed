//! Hands the present key to each new connection; connections that live keep the one they began with.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The key that is served. Until one is set, handshakes fail.
#[derive(Debug, Default)]
pub(crate) struct ServedKey(ArcSwapOption<CertifiedKey>);

impl ServedKey {
    /// Serves this key from the next handshake on.
    pub(crate) fn set(&self, key: Arc<CertifiedKey>) {
        self.0.store(Some(key));
    }

    /// The key that is served now.
    #[cfg(test)]
    pub(super) fn present(&self) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

impl ResolvesServerCert for ServedKey {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}
