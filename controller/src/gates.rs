//! What must be true before this process calls itself ready.
//!
//! Each part of the controller that needs time to start takes a named [`Gate`], which is shut at first; `/readyz` answers 200
//! only while every gate is open and nothing drains, and names what is missing otherwise. A process without gates is not ready
//! either: readiness is earned, never assumed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The gates of this process. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Gates {
    open: Arc<Mutex<BTreeMap<&'static str, bool>>>,
    draining: CancellationToken,
}

impl Gates {
    /// No gates yet; not ready once `draining` is cancelled.
    pub(crate) fn new(draining: CancellationToken) -> Self {
        Self {
            open: Arc::default(),
            draining,
        }
    }

    /// Adds a shut gate. A name given twice is one gate.
    pub(crate) fn gate(&self, name: &'static str) -> Gate {
        self.lock().entry(name).or_insert(false);
        Gate {
            gates: self.clone(),
            name,
        }
    }

    /// What keeps this process from being ready, by name; nothing if it is.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        if self.draining.is_cancelled() {
            return vec!["draining"];
        }
        let open = self.lock();
        if open.is_empty() {
            return vec!["starting"];
        }
        open.iter()
            .filter(|(_, open)| !**open)
            .map(|(name, _)| *name)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, bool>> {
        // A bool per name cannot be half written, so a panic elsewhere leaves nothing to distrust.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One condition of readiness.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    gates: Gates,
    name: &'static str,
}

impl Gate {
    /// The condition holds.
    pub(crate) fn open(&self) {
        if self.gates.lock().insert(self.name, true) != Some(true) {
            tracing::debug!(gate = self.name, "Gate opened.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_every_gate_is_open_and_nothing_drains() {
        let draining = CancellationToken::new();
        let gates = Gates::new(draining.clone());
        assert_eq!(gates.missing(), ["starting"]);
        let (one, two) = (gates.gate("one"), gates.gate("two"));
        assert_eq!(gates.missing(), ["one", "two"]);
        one.open();
        assert_eq!(gates.missing(), ["two"]);
        two.open();
        assert!(gates.missing().is_empty());
        draining.cancel();
        assert_eq!(gates.missing(), ["draining"]);
    }

    #[test]
    fn a_name_given_twice_stays_open() {
        let gates = Gates::new(CancellationToken::new());
        gates.gate("one").open();
        gates.gate("one");
        assert!(gates.missing().is_empty());
    }
}
