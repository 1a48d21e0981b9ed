//! Shows that the policies hold without the webhook.
//!
//! A dry-run changes the template of a guarded workload in a way that the webhook is not asked about: it must come back held. One
//! workload speaks for its kind, since a policy's expressions are the same for all of them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kruise_rollout::workload::GroupKind;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::reconcile::is_held_by_policies;

/// Pause after the first look that found nothing held; it doubles up to [`LONGEST`]. A binding is in force after about half a second.
const SHORTEST: Duration = Duration::from_millis(200);
/// How long nothing has to have come back held before the policies count as not holding.
const DISPROVED_AFTER: Duration = Duration::from_secs(10);
/// Workloads of a kind that are asked about at a time.
const ASKED: usize = 3;
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(15);

/// Proves the kinds whose policies are in place.
pub(crate) struct Prover {
    context: Arc<Context>,
    unproven: watch::Receiver<Vec<GroupKind>>,
    proofs: mpsc::Sender<(GroupKind, bool)>,
}

impl Prover {
    pub(super) const fn new(
        context: Arc<Context>,
        unproven: watch::Receiver<Vec<GroupKind>>,
        proofs: mpsc::Sender<(GroupKind, bool)>,
    ) -> Self {
        Self {
            context,
            unproven,
            proofs,
        }
    }

    /// Runs until `stop`.
    pub(crate) async fn keep(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.run_until_cancelled(self.prove()).await;
        Ok(())
    }

    async fn prove(&mut self) {
        let mut pause = SHORTEST;
        let mut failing: BTreeMap<GroupKind, Instant> = BTreeMap::new();
        loop {
            let kinds = self.unproven.borrow_and_update().clone();
            failing.retain(|kind, _| kinds.contains(kind));
            for kind in &kinds {
                let held = match self.holds(kind).await {
                    Some(true) => true,
                    Some(false) => {
                        let since = *failing.entry(kind.clone()).or_insert_with(Instant::now);
                        if since.elapsed() < DISPROVED_AFTER {
                            continue;
                        }
                        false
                    }
                    None => continue,
                };
                if self.proofs.send((kind.clone(), held)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = self.unproven.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    pause = SHORTEST;
                }
                () = sleep(pause), if !kinds.is_empty() => pause = (pause * 2).min(LONGEST),
            }
        }
    }

    /// Whether one of a few guarded workloads of the kind is held: the first may be one that nobody can change. Nothing if none could
    /// be asked.
    async fn holds(&self, kind: &GroupKind) -> Option<bool> {
        let mut answer = None;
        for place in self.context.world.guarded_places(kind, ASKED) {
            match is_held_by_policies(&self.context, &place).await {
                Ok(true) => return Some(true),
                Ok(false) => answer = Some(false),
                Err(error) => {
                    tracing::warn!(%kind, %error, "Whether the admission policies hold cannot be asked.");
                }
            }
        }
        answer
    }
}
