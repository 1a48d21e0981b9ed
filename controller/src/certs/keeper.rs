//! The task that keeps Secret, served key and published state in step.
//!
//! It looks at the Secret when the watch says that it may have changed, and at the clock on the wall every few minutes: a long timer
//! would sleep through a suspended machine and a corrected clock. What is served and published was always read back from the Secret
//! first, so replicas that write at the same time end up with the same key. A Secret that somebody deletes or damages is written
//! again from memory, so that no new authority has to spread.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::Client;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::bundle::Bundle;
use super::plan::{CertPlan, Lifetimes, plan};
use super::serving::{Offer, Serving};
use super::store::{Store, Written};
use super::{Name, issue, store};
use crate::telemetry::chain;

/// Wait after the first failure; doubled with each further one.
const RETRY_MIN: Duration = Duration::from_millis(500);
/// Longest wait after a failure.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often other writers may be faster before it counts as a failure.
const ATTEMPTS: usize = 8;

/// Why the certificates could not be brought in order.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Issue(#[from] issue::Error),
    #[error("other writers were faster {ATTEMPTS} times in a row")]
    Raced,
}

/// Keeps the certificates; see the module's documentation.
pub(crate) struct Keeper {
    store: Store,
    want: Vec<Name>,
    lives: Lifetimes,
    serving: Serving,
    /// What was offered last.
    memory: Option<Bundle>,
}

impl Keeper {
    /// A keeper for the Secret in `namespace`, of a certificate for the names in `want`.
    pub(super) fn new(
        client: Client,
        namespace: &str,
        want: Vec<Name>,
        lives: Lifetimes,
        serving: Serving,
    ) -> Self {
        Self {
            store: Store::new(client, namespace),
            want,
            lives,
            serving,
            memory: None,
        }
    }

    /// Runs until `stop`.
    pub(crate) async fn keep(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.run_until_cancelled(self.turn()).await;
        Ok(())
    }

    async fn turn(&mut self) -> Infallible {
        let mut changes = pin!(self.store.changes());
        let mut tick = interval(self.lives.tick());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = Timestamp::MIN;
        let mut wait = RETRY_MIN;
        let mut retry: Option<Instant> = None;
        loop {
            tokio::select! {
                Some(()) = changes.next() => {}
                _ = tick.tick() => {
                    self.serving.advance(Timestamp::now());
                    if Timestamp::now() < due {
                        continue;
                    }
                }
                () = self.serving.moved() => {
                    self.serving.advance(Timestamp::now());
                    continue;
                }
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {}
            }
            match self.settle().await {
                Ok(recheck_after) => {
                    due = Timestamp::now()
                        .saturating_add(recheck_after)
                        .unwrap_or(Timestamp::MAX);
                    (retry, wait) = (None, RETRY_MIN);
                    self.serving.source_is_good(true);
                }
                Err(error) => {
                    self.serving.source_is_good(false);
                    tracing::warn!(
                        error = %chain(&error),
                        "Cannot keep the certificate; trying again."
                    );
                    retry = Some(Instant::now() + wait);
                    wait = (wait * 2).min(RETRY_MAX);
                }
            }
        }
    }

    /// Reads, decides and writes until the Secret holds what is to be served; tells after which time something is due again.
    async fn settle(&mut self) -> Result<Duration, Error> {
        for _ in 0..ATTEMPTS {
            let held = self.store.read().await?;
            let found = held.as_ref().and_then(|held| {
                let read = Bundle::read(&held.data);
                read.inspect_err(|error| {
                    tracing::warn!(error = %chain(error), "The Secret's authority is unusable.");
                })
                .ok()
            });
            let is_stored = found.is_some();
            let have = found.or_else(|| self.memory.clone());
            let now = Timestamp::now();
            let decided = plan(have.as_ref(), &self.want, now, self.lives);
            let next = match (
                issue::carry_out(&decided, have.as_ref(), &self.want, now, self.lives)?,
                have,
                &decided,
            ) {
                (None, Some(have), CertPlan::Keep { recheck_after }) if is_stored => {
                    self.publish(have);
                    return Ok(*recheck_after);
                }
                (Some(issued), _, _) => issued,
                (None, Some(have), _) => have,
                // A plan without a bundle is always to issue one.
                (None, None, _) => continue,
            };
            // What is served is what the next turn of this loop reads.
            if self.store.write(held.as_ref(), next.write()).await? == Written::Done {
                tracing::info!(plan = decided.word(), "Wrote the certificate's Secret.");
            }
        }
        Err(Error::Raced)
    }

    /// Offers the leaf, and tells what is to be trusted.
    fn publish(&mut self, bundle: Bundle) {
        let Some(leaf) = &bundle.leaf else { return };
        if self.memory.as_ref().is_some_and(|memory| memory.is_same(&bundle)) {
            return;
        }
        let offer = Offer {
            key: leaf.key.clone(),
            facts: leaf.facts.clone(),
            ca_bundle_pem: Some(bundle.authority.bundle_pem.clone()),
        };
        self.serving.offer(offer, Timestamp::now());
        self.memory = Some(bundle);
    }
}

impl CertPlan {
    /// The plan in one word, for the log.
    fn word(&self) -> &'static str {
        match self {
            Self::Keep { .. } => "restore",
            Self::NewLeaf { .. } => "new-leaf",
            Self::NewCa { .. } => "new-ca",
        }
    }
}

#[cfg(test)]
mod tests;
