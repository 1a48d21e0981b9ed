//! What this process counts, in the Prometheus text format under the prefix `kruise_rollout_`.
//!
//! Labels are words from small closed sets (outcome, kind of action, result), never names of objects: the number of series does
//! not grow with the cluster. All parts of the controller share one [`Metrics`] and call a method of it; only this module knows
//! families and buckets.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text::{self, encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Prefix of every name.
const PREFIX: &str = "kruise_rollout";
/// Content type of what [`Metrics::render`] writes.
pub(crate) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;
/// Upper bounds of reconcile times in seconds: from a no-op out of the stores to a few slow requests.
const RECONCILE_BUCKETS: [f64; 10] = [0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
/// Upper bounds of admission times in seconds: 1 ms is what a review may cost, 10 ms what a large one may.
const ADMISSION_BUCKETS: [f64; 10] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25,
];

/// The words for how a reconcile ends. All are there from the start, at zero: the first failure of a series that appears with it would
/// be no increase to Prometheus.
const OUTCOMES: [&str; 5] = ["silent", "acted", "waits", "raced", "failed"];

/// How a reconcile of one Rollout ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// What the controller did to the cluster.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// What admission answered.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Verdict {
    result: &'static str,
}

/// Everything that is counted.
pub(crate) struct Metrics {
    registry: Registry,
    reconciles: Family<Outcome, Counter>,
    reconcile_seconds: Histogram,
    actions: Family<Kind, Counter>,
    failures: Family<Kind, Counter>,
    verdicts: Family<Verdict, Counter>,
    admission_seconds: Histogram,
    leader: Gauge,
    certificate_expiry: Gauge,
    certificate_source: Gauge,
    watched_kinds: Gauge,
    dispensed_kinds: Gauge,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All counters at zero.
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            reconciles: Family::default(),
            reconcile_seconds: Histogram::new(RECONCILE_BUCKETS),
            actions: Family::default(),
            failures: Family::default(),
            verdicts: Family::default(),
            admission_seconds: Histogram::new(ADMISSION_BUCKETS),
            leader: Gauge::default(),
            certificate_expiry: Gauge::default(),
            certificate_source: Gauge::default(),
            watched_kinds: Gauge::default(),
            dispensed_kinds: Gauge::default(),
        };
        metrics.register();
        for outcome in OUTCOMES {
            let _ = metrics.reconciles.get_or_create(&Outcome { outcome });
        }
        metrics
    }

    /// Names the families. The suffix `_total` of counters and the units are added by the encoder.
    fn register(&mut self) {
        let registry = &mut self.registry;
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of this process", build);
        registry.register(
            "reconciles",
            "Reconciles of Rollouts by outcome",
            self.reconciles.clone(),
        );
        registry.register_with_unit(
            "reconcile",
            "Time of one reconcile, with its requests",
            Unit::Seconds,
            self.reconcile_seconds.clone(),
        );
        registry.register("actions", "Writes to the cluster by kind", self.actions.clone());
        registry.register(
            "failures",
            "Writes that failed and held nothing up, by kind",
            self.failures.clone(),
        );
        registry.register(
            "admission_verdicts",
            "Admission reviews by result",
            self.verdicts.clone(),
        );
        registry.register_with_unit(
            "admission",
            "Time of one admission review in this process",
            Unit::Seconds,
            self.admission_seconds.clone(),
        );
        registry.register(
            "leader",
            "1 while this process holds the lease",
            self.leader.clone(),
        );
        registry.register_with_unit(
            "certificate_expiry_timestamp",
            "When the served certificate expires, in Unix time",
            Unit::Seconds,
            self.certificate_expiry.clone(),
        );
        registry.register(
            "certificate_source_good",
            "1 while the certificate's Secret or directory holds one that can be used; otherwise the last one stays in use",
            self.certificate_source.clone(),
        );
        registry.register(
            "watched_kinds",
            "Kinds of workloads that are watched",
            self.watched_kinds.clone(),
        );
        registry.register(
            "kinds_held_by_policies",
            "Kinds of workloads that the API server holds by itself, as the leader has registered them",
            self.dispensed_kinds.clone(),
        );
    }

    /// A reconcile ended after `took`. `outcome` is one of [`OUTCOMES`].
    pub(crate) fn reconciled(&self, outcome: &'static str, took: Duration) {
        self.reconciles.get_or_create(&Outcome { outcome }).inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// The controller wrote to the cluster. `kind` is a word of a closed set, such as `expose`, `status`.
    pub(crate) fn acted(&self, kind: &'static str) {
        self.actions.get_or_create(&Kind { kind }).inc();
    }

    /// A write failed that nothing waits for. `kind` is a word of the same set.
    pub(crate) fn failed(&self, kind: &'static str) {
        self.failures.get_or_create(&Kind { kind }).inc();
    }

    /// Admission answered after `took`. `result` is a word of a closed set, such as `ignored`, `held`, `denied`.
    pub(crate) fn admitted(&self, result: &'static str, took: Duration) {
        self.verdicts.get_or_create(&Verdict { result }).inc();
        self.admission_seconds.observe(took.as_secs_f64());
    }

    /// This process took or lost the lease.
    pub(crate) fn leads(&self, yes: bool) {
        self.leader.set(i64::from(yes));
    }

    /// The certificate that is served from now on expires at `when`.
    pub(crate) fn certificate_expires(&self, when: Timestamp) {
        self.certificate_expiry.set(when.as_second());
    }

    /// The Secret or directory that certificates come from holds one that can be used, or not.
    pub(crate) fn certificate_source_is_good(&self, yes: bool) {
        self.certificate_source.set(i64::from(yes));
    }

    /// So many kinds are watched from now on.
    pub(crate) fn watches(&self, kinds: usize) {
        self.watched_kinds.set(i64::try_from(kinds).unwrap_or(i64::MAX));
    }

    /// So many kinds are held by the API server itself.
    pub(crate) fn dispenses(&self, kinds: usize) {
        self.dispensed_kinds.set(i64::try_from(kinds).unwrap_or(i64::MAX));
    }

    /// Everything as text, of type [`CONTENT_TYPE`].
    pub(crate) fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_written_under_its_documented_name() {
        let metrics = Metrics::new();
        metrics.reconciled("acted", Duration::from_millis(2));
        metrics.reconciled("acted", Duration::from_millis(2));
        metrics.acted("expose");
        metrics.failed("label-pod");
        metrics.admitted("held", Duration::from_micros(300));
        metrics.leads(true);
        metrics.certificate_expires(Timestamp::from_second(1_800_000_000).unwrap());
        metrics.certificate_source_is_good(true);
        metrics.watches(3);
        let text = metrics.render().unwrap();
        for line in [
            "kruise_rollout_reconciles_total{outcome=\"acted\"} 2",
            "kruise_rollout_reconciles_total{outcome=\"failed\"} 0",
            "kruise_rollout_reconcile_seconds_count 2",
            "kruise_rollout_actions_total{kind=\"expose\"} 1",
            "kruise_rollout_failures_total{kind=\"label-pod\"} 1",
            "kruise_rollout_admission_verdicts_total{result=\"held\"} 1",
            "kruise_rollout_admission_seconds_bucket{le=\"0.0005\"} 1",
            "kruise_rollout_leader 1",
            "kruise_rollout_certificate_expiry_timestamp_seconds 1800000000",
            "kruise_rollout_certificate_source_good 1",
            "kruise_rollout_watched_kinds 3",
            "kruise_rollout_kinds_held_by_policies 0",
            "kruise_rollout_build_info{version=",
        ] {
            assert!(
                text.lines().any(|found| found.starts_with(line)),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn samples_have_the_prefix() {
        let text = Metrics::new().render().unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.starts_with("kruise_rollout_"), "{line}");
        }
    }
}
