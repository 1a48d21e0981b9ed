//! The lease: of several replicas one writes, all of them watch and answer admission.
//!
//! Every write of the lease is against the resourceVersion that was read, so two replicas never take it at once. A holder that
//! could not renew for two thirds of the lease stops starting actions and abandons those in flight; its watches and its webhook go
//! on. At the stop the lease is given back, so that the next replica need not wait.

mod step;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, Patch, PostParams};
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::step::{ACTS_FOR, LEASE, RENEW_EVERY, Seen, Step};
use crate::connect::follow_objects;
use crate::context::patch_params;
use crate::metrics::Metrics;
use crate::telemetry::chain;

/// How long one call may take. A call that hangs must not outlive the right to act.
const CALL: Duration = Duration::from_secs(1);

/// Whether this replica writes.
#[derive(Clone, Debug)]
pub(crate) struct Leadership(watch::Receiver<Option<Term>>);

/// One time of writing, from when the lease is taken until it is lost: a number that this process has not used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term(pub(crate) u64);

impl Leadership {
    /// Always: of a controller that runs alone.
    pub(crate) fn alone() -> Self {
        let (sender, receiver) = watch::channel(Some(Term(1)));
        // The last value stays readable after the sender has gone.
        drop(sender);
        Self(receiver)
    }

    /// Whether this replica writes now.
    pub(crate) fn holds(&self) -> bool {
        self.term().is_some()
    }

    /// Since when this replica writes, if it does.
    pub(crate) fn term(&self) -> Option<Term> {
        *self.0.borrow()
    }

    /// Waits until this replica begins to write or ceases to.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this replica writes.
    pub(crate) async fn gained(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() && !self.holds() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it does not.
    pub(crate) async fn lost(&mut self) {
        if self.0.wait_for(Option::is_none).await.is_err() && self.holds() {
            std::future::pending::<()>().await;
        }
    }
}

/// Keeps the lease, or waits for it.
pub(crate) struct Keeper {
    api: Api<Lease>,
    me: String,
    leads: watch::Sender<Option<Term>>,
    terms: u64,
    metrics: Arc<Metrics>,
    seen: Option<Seen>,
    changed: Instant,
    renewed: Instant,
}

/// What came of a call.
enum Call {
    Done,
    /// Somebody else was faster, or the lease is not as it was seen.
    Raced,
    Failed,
}

impl Keeper {
    /// A keeper in the namespace, known to others as `me`.
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        me: String,
        metrics: Arc<Metrics>,
    ) -> (Self, Leadership) {
        let (leads, leadership) = watch::channel(None);
        let now = Instant::now();
        let api = Api::namespaced(client, namespace);
        (
            Self {
                api,
                me,
                leads,
                terms: 0,
                metrics,
                seen: None,
                changed: now,
                renewed: now,
            },
            Leadership(leadership),
        )
    }

    /// Runs until `stop`, then gives the lease back.
    pub(crate) async fn keep(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.run_until_cancelled(self.turn()).await;
        if self.set(false) {
            let lease = json!({"holderIdentity": ""});
            self.write(&lease).await;
        }
        Ok(())
    }

    async fn turn(&mut self) -> Infallible {
        let field = format!("metadata.name={}", names::CONTROLLER);
        let config = watcher::Config::default().fields(&field);
        let mut events = pin!(follow_objects(self.api.clone(), config));
        // Nothing is known before the first list; an unknown lease is not a missing one.
        let mut known = false;
        let mut next_call = Instant::now();
        loop {
            let acts_until = self.renewed + ACTS_FOR;
            let leads = self.leads();
            tokio::select! {
                Some(event) = events.next() => {
                    known |= self.see(event);
                    if self.leads() || !known {
                        continue;
                    }
                }
                () = sleep_until(next_call), if known => {}
                () = sleep_until(acts_until), if leads => {
                    self.give_up();
                    continue;
                }
            }
            // A call that hangs is not waited for when the right to act ends.
            next_call = tokio::select! {
                pause = self.act() => Instant::now() + pause,
                () = sleep_until(acts_until), if leads => {
                    self.give_up();
                    Instant::now()
                }
            };
        }
    }

    fn give_up(&mut self) {
        tracing::warn!("The lease could not be renewed: nothing more is written.");
        self.set(false);
    }

    /// Takes in an event of the watch; whether the state of the lease is known now.
    fn see(&mut self, event: watcher::Result<watcher::Event<Lease>>) -> bool {
        let lease = match event {
            Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) => Some(lease),
            Ok(watcher::Event::Delete(_)) => None,
            Ok(watcher::Event::Init) => return false,
            Ok(watcher::Event::InitDone) => return true,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "The lease cannot be watched.");
                return false;
            }
        };
        self.put(lease.as_ref());
        true
    }

    fn put(&mut self, lease: Option<&Lease>) {
        let seen = lease.map(|lease| {
            let spec = lease.spec.as_ref();
            Seen {
                holder: spec
                    .and_then(|spec| spec.holder_identity.clone())
                    .unwrap_or_default(),
                resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
                transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or_default(),
            }
        });
        if seen != self.seen {
            self.seen = seen;
            self.changed = Instant::now();
        }
        if self.seen.as_ref().is_none_or(|seen| seen.holder != self.me) && self.set(false) {
            tracing::warn!("Somebody else holds the lease.");
        }
    }

    /// One step; how long until the next.
    async fn act(&mut self) -> Duration {
        let now = json!(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string());
        let began = Instant::now();
        let call = match step::next(self.seen.as_ref(), &self.me, self.changed.elapsed()) {
            Step::Wait(time) => return time,
            Step::Create => self.create(&now).await,
            Step::Renew => self.write(&json!({"renewTime": now})).await,
            Step::Take => {
                let transitions = self.seen.as_ref().map_or(0, |seen| seen.transitions) + 1;
                self.write(&json!({
                    "holderIdentity": self.me, "acquireTime": now, "renewTime": now,
                    "leaseDurationSeconds": LEASE.as_secs(), "leaseTransitions": transitions,
                }))
                .await
            }
        };
        match call {
            Call::Done => {
                // Counted from before the call: the server may have written at once and answered late.
                self.renewed = began;
                if !self.leads() && began.elapsed() < ACTS_FOR {
                    tracing::info!(me = self.me, "Took the lease.");
                    self.set(true);
                }
                RENEW_EVERY
            }
            Call::Raced => {
                self.read().await;
                Duration::ZERO
            }
            Call::Failed => RENEW_EVERY / 4,
        }
    }

    async fn create(&mut self, now: &Value) -> Call {
        let lease = serde_json::from_value(json!({
            "metadata": {"name": names::CONTROLLER},
            "spec": {"holderIdentity": self.me, "acquireTime": now, "renewTime": now,
                "leaseDurationSeconds": LEASE.as_secs(), "leaseTransitions": 0},
        }));
        let Ok(lease) = lease else { return Call::Failed };
        let params = PostParams {
            field_manager: Some(names::FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let answer = timeout(CALL, self.api.create(&params, &lease)).await;
        self.answered(answer)
    }

    async fn write(&mut self, spec: &Value) -> Call {
        let version = self.seen.as_ref().map(|seen| seen.resource_version.clone());
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
        let answer = timeout(
            CALL,
            self.api
                .patch(names::CONTROLLER, &patch_params(), &Patch::Merge(patch)),
        )
        .await;
        self.answered(answer)
    }

    async fn read(&mut self) {
        match timeout(CALL, self.api.get_opt(names::CONTROLLER)).await {
            Ok(Ok(lease)) => self.put(lease.as_ref()),
            Ok(Err(error)) => tracing::warn!(error = %chain(&error), "The lease cannot be read."),
            Err(_) => sleep(RENEW_EVERY / 4).await,
        }
    }

    fn answered(&mut self, answer: Result<kube::Result<Lease>, tokio::time::error::Elapsed>) -> Call {
        match answer {
            Ok(Ok(lease)) => {
                self.put(Some(&lease));
                Call::Done
            }
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Call::Raced,
            Ok(Err(error)) => {
                tracing::warn!(error = %chain(&error), "The lease cannot be written.");
                Call::Failed
            }
            Err(_) => Call::Failed,
        }
    }

    fn leads(&self) -> bool {
        self.leads.borrow().is_some()
    }

    /// Says whether this replica writes; whether that is news.
    fn set(&mut self, leads: bool) -> bool {
        self.metrics.leads(leads);
        if leads == self.leads() {
            return false;
        }
        self.terms += u64::from(leads);
        self.leads.send_replace(leads.then_some(Term(self.terms)));
        true
    }
}
