//! What is served and what is to be trusted, in this order: a new certificate is shown to callers only once the API server trusts it.
//!
//! The source of certificates (the Secret, or files) offers what it finds. What has to be trusted is told at once. The certificate
//! itself waits until it is valid and the webhook configurations, as the cluster has them, trust it, and have for [`SETTLES`]. Until
//! then the one before is served, unless that is no good any more: then waiting gains nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::bundle::is_signed_by;
use super::x509::Facts;
use super::{CertState, ServedKey};
use crate::gates::Gate;
use crate::metrics::Metrics;

/// How long API servers may take to act by a configuration that they have told us of.
const SETTLES: Duration = Duration::from_secs(1);

/// What the API server trusts when it calls us: the different `caBundle`s in PEM, an empty one where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trusted(pub(crate) BTreeSet<String>);

/// A certificate that could be served.
#[derive(Clone)]
pub(super) struct Offer {
    /// Certificate, chain and key.
    pub(super) key: Arc<CertifiedKey>,
    /// The certificate's own words.
    pub(super) facts: Facts,
    /// What the API server has to trust; nothing if that is the business of others.
    pub(super) ca_bundle_pem: Option<String>,
}

/// The one place that changes what is served.
pub(super) struct Serving {
    served: Arc<ServedKey>,
    state: watch::Sender<Option<CertState>>,
    trusted: watch::Receiver<Trusted>,
    metrics: Arc<Metrics>,
    ready: Gate,
    /// What is served now.
    shown: Option<Offer>,
    /// What waits to be trusted.
    waiting: Option<Offer>,
    /// When the trust last changed.
    changed: Option<Instant>,
    /// When to look again although nothing changed.
    wake: Option<Instant>,
}

impl Serving {
    /// Nothing is served yet; `ready` opens with the first certificate. The receiver is told what has to be trusted.
    pub(super) fn new(
        served: Arc<ServedKey>,
        trusted: watch::Receiver<Trusted>,
        metrics: Arc<Metrics>,
        ready: Gate,
    ) -> (Self, watch::Receiver<Option<CertState>>) {
        let (state, receiver) = watch::channel(None);
        let serving = Self {
            served,
            state,
            trusted,
            metrics,
            ready,
            shown: None,
            waiting: None,
            changed: None,
            wake: None,
        };
        (serving, receiver)
    }

    /// Takes what the source has found: its newest certificate, and no other any more.
    pub(super) fn offer(&mut self, offer: Offer, now: Timestamp) {
        let state = CertState {
            ca_bundle_pem: offer.ca_bundle_pem.clone(),
        };
        self.state.send_if_modified(|present| {
            let new = present.as_ref() != Some(&state);
            if new {
                *present = Some(state);
            }
            new
        });
        let is_shown = |shown: &Offer| shown.key.cert == offer.key.cert;
        self.waiting = if self.shown.as_ref().is_some_and(is_shown) {
            None
        } else {
            Some(offer)
        };
        self.advance(now);
    }

    /// The source holds nothing usable, or does again.
    pub(super) fn source_is_good(&self, good: bool) {
        self.metrics.certificate_source_is_good(good);
    }

    /// Waits until [`Self::advance`] may find something new.
    pub(super) async fn moved(&mut self) {
        let wake = self.wake;
        tokio::select! {
            Ok(()) = self.trusted.changed() => self.changed = Some(Instant::now()),
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            else => std::future::pending().await,
        }
    }

    /// Serves what waits, if its time has come. What is not valid yet, or not any more, takes no good one's place.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.wake = None;
        let Some(offer) = &self.waiting else { return };
        let replaces_a_good_one = self.shown.as_ref().is_some_and(|shown| shown.facts.is_valid(now));
        if replaces_a_good_one {
            if !offer.facts.is_valid(now) || !is_trusted(offer, &self.trusted.borrow()) {
                return;
            }
            let settled = self.changed.map(|at| at + SETTLES);
            if settled.is_some_and(|at| at > Instant::now()) {
                self.wake = settled;
                return;
            }
        }
        self.served.set(offer.key.clone());
        self.metrics.certificate_expires(offer.facts.not_after);
        self.ready.open();
        tracing::info!(expires = %offer.facts.not_after, "Serving a new certificate.");
        self.shown = self.waiting.take();
    }
}

/// Whether each configuration trusts the certificate. One without a bundle asks the API server's own roots, which nobody but the
/// administrator can judge.
fn is_trusted(offer: &Offer, trusted: &Trusted) -> bool {
    trusted.0.iter().all(|bundle| {
        if bundle.is_empty() {
            return offer.ca_bundle_pem.is_none();
        }
        let roots: Vec<_> = CertificateDer::pem_slice_iter(bundle.as_bytes())
            .filter_map(Result::ok)
            .collect();
        is_signed_by(&roots, &offer.key, &offer.facts).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};
    use tokio_util::sync::CancellationToken;

    use super::super::bundle::Bundle;
    use super::super::issue::carry_out;
    use super::super::plan::{CertPlan, Lifetimes};
    use super::super::wanted_names;
    use super::*;
    use crate::gates::Gates;

    fn now() -> Timestamp {
        "2026-11-30T00:00:00Z".parse().unwrap()
    }

    fn issued(plan: &CertPlan, have: Option<&Bundle>) -> Bundle {
        let want = wanted_names("ops", None);
        let bundle = carry_out(plan, have, &want, now(), Lifetimes::default());
        bundle.unwrap().unwrap()
    }

    fn offer(bundle: &Bundle) -> Offer {
        let leaf = bundle.leaf.as_ref().unwrap();
        Offer {
            key: leaf.key.clone(),
            facts: leaf.facts.clone(),
            ca_bundle_pem: Some(bundle.authority.bundle_pem.clone()),
        }
    }

    struct Stage {
        serving: Serving,
        served: Arc<ServedKey>,
        trust: watch::Sender<Trusted>,
        state: watch::Receiver<Option<CertState>>,
    }

    fn stage() -> Stage {
        let served = Arc::new(ServedKey::default());
        let (trust, trusted) = watch::channel(Trusted::default());
        let gate = Gates::new(CancellationToken::new()).gate("certificate");
        let (serving, state) = Serving::new(served.clone(), trusted, Arc::default(), gate);
        Stage {
            serving,
            served,
            trust,
            state,
        }
    }

    impl Stage {
        fn trust(&self, bundles: &[&Bundle]) {
            let pem = |bundle: &&Bundle| bundle.authority.bundle_pem.clone();
            self.trust
                .send_replace(Trusted(bundles.iter().map(pem).collect()));
        }

        async fn settle(&mut self) {
            while timeout(SETTLES * 2, self.serving.moved()).await.is_ok() {
                self.serving.advance(now());
            }
        }

        fn serves(&self, bundle: &Bundle) -> bool {
            let served = self.served.present().unwrap();
            Arc::ptr_eq(&served, &bundle.leaf.as_ref().unwrap().key)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_is_served_once_it_is_trusted_everywhere() {
        let mut stage = stage();
        let one = issued(&CertPlan::NewCa { keep_old_ca: false }, None);
        let both = issued(&CertPlan::NewCa { keep_old_ca: true }, Some(&one));
        let names = wanted_names("ops", None);
        let two = issued(&CertPlan::NewLeaf { names }, Some(&both));

        // The first one is served whatever the configurations say: there is nothing else.
        stage.serving.offer(offer(&one), now());
        assert!(stage.serves(&one));
        stage.trust(&[&one]);
        stage.settle().await;

        stage.serving.offer(offer(&two), now());
        assert_eq!(
            stage.state.borrow().as_ref().unwrap().ca_bundle_pem.as_deref(),
            Some(two.authority.bundle_pem.as_str()),
            "what is to be trusted is told at once"
        );
        stage.settle().await;
        assert!(stage.serves(&one), "nobody trusts the new one yet");
        stage.trust(&[&one, &two]);
        stage.settle().await;
        assert!(stage.serves(&one), "one configuration is still to come");
        stage.trust(&[&two]);
        timeout(SETTLES / 2, stage.serving.moved()).await.unwrap();
        stage.serving.advance(now());
        assert!(stage.serves(&one), "API servers need a moment");
        advance(SETTLES).await;
        stage.settle().await;
        assert!(stage.serves(&two));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_no_good_any_more_is_replaced_at_once() {
        let mut stage = stage();
        let one = issued(&CertPlan::NewCa { keep_old_ca: false }, None);
        let other = issued(&CertPlan::NewCa { keep_old_ca: false }, None);
        stage.serving.offer(offer(&one), now());
        stage.trust(&[&one]);
        stage.serving.offer(offer(&other), now());
        assert!(stage.serves(&one));
        let expired = one.leaf.as_ref().unwrap().facts.not_after;
        stage.serving.advance(expired);
        assert!(stage.serves(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_not_valid_replaces_none_that_is() {
        let mut stage = stage();
        let one = issued(&CertPlan::NewCa { keep_old_ca: false }, None);
        let names = wanted_names("ops", None);
        let two = issued(&CertPlan::NewLeaf { names }, Some(&one));
        stage.serving.offer(offer(&one), now());
        stage.trust(&[&one]);
        stage.settle().await;
        let mut expired = offer(&two);
        expired.facts.not_after = now();
        stage.serving.offer(expired, now());
        stage.settle().await;
        assert!(stage.serves(&one));
        stage.serving.offer(offer(&two), now());
        assert!(stage.serves(&two));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_bundle_the_roots_of_the_api_server_decide() {
        let mut stage = stage();
        let one = issued(&CertPlan::NewCa { keep_old_ca: false }, None);
        let other = issued(&CertPlan::NewCa { keep_old_ca: false }, None);
        stage.trust.send_replace(Trusted([String::new()].into()));
        for bundle in [&one, &other] {
            let ca_bundle_pem = None;
            let offer = Offer {
                ca_bundle_pem,
                ..offer(bundle)
            };
            stage.serving.offer(offer, now());
        }
        stage.settle().await;
        assert!(stage.serves(&other));
        // With a bundle of ours, one that somebody removed is about to come back.
        stage.serving.offer(offer(&one), now());
        stage.settle().await;
        assert!(stage.serves(&other));
    }
}
