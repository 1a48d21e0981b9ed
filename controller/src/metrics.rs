//! What this process counts, in the Prometheus text format under the prefix `kruise_rollout_`.
//!
//! Labels are words from small closed sets (outcome, kind of action, result), never names of objects: the number of series does
//! not grow with the cluster. All parts of the controller share one [`Metrics`] and call a method of it; only this module knows
//! families and buckets.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kruise_rollout::api::v1beta1::RolloutStatus;
use kruise_rollout::rollout::{Ending, Part, ending, part};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text::{self, encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::world::{Census, PHASES};

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

/// Upper bounds of parts of steps in seconds: from pods that are there at once to an approval that takes a day.
const STEP_BUCKETS: [f64; 12] = [
    1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0,
];

/// The words for how a reconcile ends. All are there from the start, at zero: the first failure of a series that appears with it would
/// be no increase to Prometheus.
const OUTCOMES: [&str; 5] = ["silent", "acted", "waits", "raced", "failed"];

/// How a reconcile of one Rollout, or a release, ended.
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

/// Phase of a Rollout.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Phase {
    phase: &'static str,
}

/// Part of a step.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StepPart {
    part: &'static str,
}

impl StepPart {
    fn of(part: Part) -> Self {
        Self { part: part.name() }
    }
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
    beside: Gauge,
    rollouts: Family<Phase, Gauge>,
    stalled: Family<Phase, Gauge>,
    in_breach: Gauge,
    releases: Family<Outcome, Counter>,
    step_seconds: Family<StepPart, Histogram, fn() -> Histogram>,
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
            beside: Gauge::default(),
            rollouts: Family::default(),
            stalled: Family::default(),
            in_breach: Gauge::default(),
            releases: Family::default(),
            step_seconds: Family::new_with_constructor(|| Histogram::new(STEP_BUCKETS)),
        };
        metrics.register();
        metrics.register_releases();
        for outcome in OUTCOMES {
            let _ = metrics.reconciles.get_or_create(&Outcome { outcome });
        }
        for ending in Ending::ALL {
            let outcome = ending.name();
            let _ = metrics.releases.get_or_create(&Outcome { outcome });
        }
        for part in Part::ALL {
            let _ = metrics.step_seconds.get_or_create(&StepPart::of(part));
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
        registry.register(
            "other_controller",
            "1 while the controller of OpenKruise Rollouts is registered too, or one that governs a namespace of this one's",
            self.beside.clone(),
        );
    }

    /// Names the families about Rollouts and their releases.
    fn register_releases(&mut self) {
        let registry = &mut self.registry;
        registry.register("rollouts", "Rollouts by phase", self.rollouts.clone());
        registry.register(
            "rollouts_stalled",
            "Rollouts that say in the condition Stalled that they do not go on by themselves, by phase",
            self.stalled.clone(),
        );
        registry.register(
            "rollouts_in_breach",
            "Rollouts of whose workload more pods run the new template than the step allows",
            self.in_breach.clone(),
        );
        registry.register(
            "releases",
            "Releases that have ended, by outcome",
            self.releases.clone(),
        );
        registry.register_with_unit(
            "step",
            "Time of a step of a release until its pods are updated and ready, and of the pause after it",
            Unit::Seconds,
            self.step_seconds.clone(),
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

    /// Whether another controller is registered that writes what this one writes.
    pub(crate) fn has_beside(&self, another: bool) {
        self.beside.set(i64::from(another));
    }

    /// A status was written over that of before.
    pub(crate) fn goes_on(&self, before: &RolloutStatus, after: &RolloutStatus) {
        if let Some((part, took)) = part(before, after) {
            let seconds = self.step_seconds.get_or_create(&StepPart::of(part));
            seconds.observe(took.as_secs_f64());
        }
        if let Some(ending) = ending(before, after) {
            let outcome = ending.name();
            self.releases.get_or_create(&Outcome { outcome }).inc();
        }
    }

    /// Everything as text, of type [`CONTENT_TYPE`].
    pub(crate) fn render(&self, census: &Census) -> Result<String, fmt::Error> {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (place, phase) in PHASES.into_iter().enumerate() {
            let phase = Phase { phase };
            self.rollouts
                .get_or_create(&phase)
                .set(gauge(census.rollouts[place]));
            self.stalled
                .get_or_create(&phase)
                .set(gauge(census.stalled[place]));
        }
        self.in_breach.set(gauge(census.in_breach));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// Metrics in which every family has a sample.
    fn sampled() -> String {
        let metrics = Metrics::new();
        metrics.reconciled("acted", Duration::from_millis(2));
        metrics.reconciled("acted", Duration::from_millis(2));
        metrics.acted("grant");
        metrics.failed("label-pod");
        metrics.admitted("held", Duration::from_micros(300));
        metrics.leads(true);
        metrics.certificate_expires(Timestamp::from_second(1_800_000_000).unwrap());
        metrics.certificate_source_is_good(true);
        metrics.watches(3);
        let status = |phase: &str, state: &str, second: i64| -> RolloutStatus {
            let entered = Timestamp::from_second(second).unwrap();
            serde_json::from_value(
                json!({"phase": phase, "canaryStatus": {"currentStepIndex": 1, "nextStepIndex": -1,
                "currentStepState": state, "lastUpdateTime": entered}}),
            )
            .unwrap()
        };
        metrics.goes_on(
            &status("Progressing", "StepUpgrade", 10),
            &status("Healthy", "Completed", 17),
        );
        let census = Census {
            rollouts: [0, 3, 2, 0, 0, 0, 0],
            stalled: [0, 0, 1, 0, 0, 0, 0],
            in_breach: 1,
        };
        metrics.render(&census).unwrap()
    }

    #[test]
    fn every_family_counts() {
        let text = sampled();
        for line in [
            "kruise_rollout_reconciles_total{outcome=\"acted\"} 2",
            "kruise_rollout_reconciles_total{outcome=\"failed\"} 0",
            "kruise_rollout_reconcile_seconds_count 2",
            "kruise_rollout_actions_total{kind=\"grant\"} 1",
            "kruise_rollout_failures_total{kind=\"label-pod\"} 1",
            "kruise_rollout_admission_verdicts_total{result=\"held\"} 1",
            "kruise_rollout_admission_seconds_bucket{le=\"0.0005\"} 1",
            "kruise_rollout_leader 1",
            "kruise_rollout_certificate_expiry_timestamp_seconds 1800000000",
            "kruise_rollout_certificate_source_good 1",
            "kruise_rollout_watched_kinds 3",
            "kruise_rollout_kinds_held_by_policies 0",
            "kruise_rollout_build_info{version=",
            "kruise_rollout_rollouts{phase=\"Healthy\"} 3",
            "kruise_rollout_rollouts{phase=\"Disabled\"} 0",
            "kruise_rollout_rollouts_stalled{phase=\"Progressing\"} 1",
            "kruise_rollout_rollouts_in_breach 1",
            "kruise_rollout_releases_total{outcome=\"completed\"} 1",
            "kruise_rollout_releases_total{outcome=\"rolled_back\"} 0",
            "kruise_rollout_step_seconds_sum{part=\"update\"} 7.0",
            "kruise_rollout_step_seconds_bucket{part=\"update\",le=\"15\"} 1",
            "kruise_rollout_step_seconds_count{part=\"pause\"} 0",
        ] {
            assert!(
                text.lines().any(|found| found.starts_with(line)),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn samples_have_the_prefix() {
        let text = Metrics::new().render(&Census::default()).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.starts_with("kruise_rollout_"), "{line}");
        }
    }

    /// A name with its type, and the words that stand beside each label.
    type Table = BTreeMap<String, (String, Vec<String>)>;

    /// The table of the documentation.
    fn documented() -> Table {
        let rows = include_str!("../../docs/monitoring.md").lines();
        rows.filter(|row| row.starts_with("| `kruise_rollout_"))
            .map(|row| {
                let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
                let words = cells[2].split('`').skip(1).step_by(2).map(str::to_owned);
                let name = cells[0].trim_matches('`').to_owned();
                (name, (cells[1].to_owned(), words.collect()))
            })
            .collect()
    }

    #[test]
    fn the_documentation_has_every_name_type_label_and_word() {
        let (text, documented) = (sampled(), documented());
        let mut printed = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, sort) = line.split_once(' ').unwrap();
            printed.insert(name.to_owned(), sort.to_owned());
        }
        let types: BTreeMap<_, _> = documented
            .iter()
            .map(|(name, (sort, _))| (name.clone(), sort.clone()))
            .collect();
        assert_eq!(types, printed);
        for sample in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, labels)) = sample.split_once('{') else {
                continue;
            };
            let (_, (_, words)) = documented
                .iter()
                .rfind(|(family, _)| name.starts_with(family.as_str()))
                .unwrap();
            let labels = labels.split_once('}').unwrap().0;
            for (label, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
                let value = value.trim_matches('"');
                let open = ["le", "version"].contains(&label);
                assert!(
                    (label == "le" || words.contains(&label.to_owned()))
                        && (open || name.contains("stalled") || words.contains(&value.to_owned())),
                    "{sample}: {words:?}"
                );
            }
        }
    }
}
