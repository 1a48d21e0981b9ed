//! The task that keeps Secret, served key and published state in step.
//!
//! It looks at the Secret when the watch says that it may have changed, and at the clock every five minutes: a long timer would
//! sleep through a suspended machine and a corrected clock. What is served and published was always read back from the Secret
//! first, so replicas that write at the same time end up with the same key. A Secret that somebody deletes or damages is written
//! again from memory, so that no new authority has to spread.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::bundle::Bundle;
use super::plan::{CertPlan, plan};
use super::store::{Store, Written};
use super::{CertState, Name, ServedKey, issue, store};
use crate::gates::Gate;
use crate::metrics::Metrics;
use crate::telemetry::chain;

/// How often the clock is looked at.
const TICK: Duration = Duration::from_secs(5 * 60);
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
    served: Arc<ServedKey>,
    state: watch::Sender<Option<CertState>>,
    metrics: Arc<Metrics>,
    ready: Gate,
    /// What was published last.
    memory: Option<Bundle>,
}

impl Keeper {
    /// A keeper for the Secret in `namespace`, of a certificate for the names in `want`. It opens `ready` once there is a key to
    /// serve. The receiver is told of each change of what the API server has to trust.
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        want: Vec<Name>,
        served: Arc<ServedKey>,
        metrics: Arc<Metrics>,
        ready: Gate,
    ) -> (Self, watch::Receiver<Option<CertState>>) {
        let (state, receiver) = watch::channel(None);
        let store = Store::new(client, namespace);
        (
            Self {
                store,
                want,
                served,
                state,
                metrics,
                ready,
                memory: None,
            },
            receiver,
        )
    }

    /// Runs until `stop`.
    pub(crate) async fn keep(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.run_until_cancelled(self.turn()).await;
        Ok(())
    }

    async fn turn(&mut self) -> Infallible {
        let mut changes = pin!(self.store.changes());
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = Timestamp::MIN;
        let mut wait = RETRY_MIN;
        let mut retry: Option<Instant> = None;
        loop {
            tokio::select! {
                Some(()) = changes.next() => {}
                _ = tick.tick() => if Timestamp::now() < due { continue },
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {}
            }
            match self.settle().await {
                Ok(recheck_after) => {
                    due = Timestamp::now()
                        .saturating_add(recheck_after)
                        .unwrap_or(Timestamp::MAX);
                    (retry, wait) = (None, RETRY_MIN);
                }
                Err(error) => {
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
            let decided = plan(have.as_ref(), &self.want, now);
            let next = match (
                issue::carry_out(&decided, have.as_ref(), &self.want, now)?,
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

    /// Serves the leaf and tells what is to be trusted.
    fn publish(&mut self, bundle: Bundle) {
        let Some(leaf) = &bundle.leaf else { return };
        if self.memory.as_ref().is_some_and(|memory| memory.is_same(&bundle)) {
            return;
        }
        self.served.set(leaf.key.clone());
        self.metrics.certificate_expires(leaf.facts.not_after);
        let state = CertState {
            ca_bundle_pem: bundle.authority.bundle_pem.clone(),
            expires: leaf.facts.not_after,
        };
        tracing::info!(expires = %state.expires, "Serving a new certificate.");
        self.state.send_replace(Some(state));
        self.ready.open();
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
