//! Review of a `Rollout` before it is stored.
//!
//! A refusal names the field, what stands there, what is wrong with it and what to write instead. Two kinds of write are
//! never refused, so that no stored object becomes a trap: one that leaves the spec as it is (labels, annotations,
//! finalizers), and one that only sets `disabled: true` or moves `strategy.paused`. Writes of the status
//! subresource are not reviewed at all.

mod change;
mod steps;

use std::fmt;

use kube::ResourceExt;

use crate::api::v1beta1::{Amount, CanaryStrategy, IntOrPercent, Rollout, RolloutSpec, WorkloadRef};
use crate::names::EXCLUDED_NAMESPACES;

/// Most steps that a Rollout may have; the schema says the same.
pub const MAX_STEPS: usize = 50;

const CANARY: &str = "spec.strategy.canary";
const BLUE_GREEN: &str = "spec.strategy.blueGreen";

/// Which workload a stored Rollout governs. The version is left out: it is the same workload in any version.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct WorkloadClaim {
    /// Name of the Rollout.
    pub rollout: String,
    /// Namespace of both.
    pub namespace: String,
    /// API group of the workload, empty for the core group.
    pub group: String,
    /// Kind of the workload.
    pub kind: String,
    /// Name of the workload.
    pub workload: String,
}

impl WorkloadClaim {
    /// The claim of this Rollout; `None` if its `workloadRef.apiVersion` cannot be read.
    pub fn of(rollout: &Rollout) -> Option<Self> {
        let workload = &rollout.spec.workload_ref;
        let (group, _) = workload.group_version()?;
        Some(Self {
            rollout: rollout.name_any(),
            namespace: rollout.namespace().unwrap_or_default(),
            group: group.to_owned(),
            kind: workload.kind.clone(),
            workload: workload.name.clone(),
        })
    }

    /// Whether another Rollout claims the same workload.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.rollout != other.rollout
            && (&self.namespace, &self.group, &self.kind, &self.workload)
                == (&other.namespace, &other.group, &other.kind, &other.workload)
    }
}

/// One reason not to store a Rollout. Displayed as one sentence on the problem and one on the remedy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// Path of the field, for example `spec.strategy.canary.steps[1].replicas`.
    pub field: String,
    /// What stands there, texts in quotes; `missing` if nothing does.
    pub value: String,
    /// What is wrong, a clause without a period.
    pub problem: String,
    /// What to do, a clause without a period.
    pub remedy: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            problem,
            remedy,
        } = self;
        write!(f, "{field} is {value}: {problem}. {remedy}.")
    }
}

/// What there is to say about a Rollout. Displays its refusals, one a line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Review {
    /// Reasons not to store it. None: it may be stored.
    pub refusals: Vec<Refusal>,
    /// Sentences for the writer of a Rollout that may be stored.
    pub warnings: Vec<String>,
}

impl fmt::Display for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, refusal) in self.refusals.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            refusal.fmt(f)?;
        }
        Ok(())
    }
}

/// Reviews a Rollout that is to be created (`old` is `None`) or updated. `others` are the claims of the Rollouts of its
/// namespace; its own may be among them. `own_namespace` is where the controller runs.
pub fn review(new: &Rollout, old: Option<&Rollout>, others: &[WorkloadClaim], own_namespace: &str) -> Review {
    let mut review = Review::default();
    if old.is_some_and(|old| only_switches(&old.spec, &new.spec)) {
        return review;
    }
    review.namespace(&new.namespace().unwrap_or_default(), own_namespace);
    review.workload(&new.spec.workload_ref);
    review.conflict(new, others);
    review.strategy(&new.spec);
    if let Some(old) = old {
        review.change(old, new);
    }
    review
}

/// Whether nothing changes but the switches that stop a Rollout (and the one that lets it go on).
fn only_switches(old: &RolloutSpec, new: &RolloutSpec) -> bool {
    let mut switched = old.clone();
    switched.strategy.paused = new.strategy.paused;
    switched.disabled |= new.disabled;
    switched == *new
}

/// An amount as it stands in the manifest.
fn written(amount: &IntOrPercent) -> String {
    match amount {
        IntOrPercent::Int(count) => count.to_string(),
        IntOrPercent::String(text) => format!("{text:?}"),
    }
}

/// A required text as it stands in the manifest.
fn quoted(text: &str) -> String {
    if text.is_empty() {
        "missing".to_owned()
    } else {
        format!("{text:?}")
    }
}

impl Review {
    fn refuse(
        &mut self,
        field: impl Into<String>,
        value: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.refusals.push(Refusal {
            field: field.into(),
            value: value.into(),
            problem: problem.into(),
            remedy: remedy.into(),
        });
    }

    fn namespace(&mut self, namespace: &str, own_namespace: &str) {
        if namespace == own_namespace || EXCLUDED_NAMESPACES.contains(&namespace) {
            let problem = "updates in this namespace are never held, so no step could be kept";
            self.refuse(
                "metadata.namespace",
                quoted(namespace),
                problem,
                "Move the workload and its Rollout to another namespace",
            );
        }
    }

    fn workload(&mut self, workload: &WorkloadRef) {
        if workload.group_version().is_none() {
            self.refuse(
                "spec.workloadRef.apiVersion",
                quoted(&workload.api_version),
                "this is no group and version",
                "Copy apiVersion from the workload's manifest, for example apps/v1",
            );
        }
        for (name, value) in [("kind", &workload.kind), ("name", &workload.name)] {
            if value.is_empty() {
                let problem = "a Rollout governs one workload of its namespace";
                let remedy = format!("Write the {name} of that workload");
                self.refuse(format!("spec.workloadRef.{name}"), quoted(value), problem, remedy);
            }
        }
    }

    fn conflict(&mut self, new: &Rollout, others: &[WorkloadClaim]) {
        let Some(claim) = WorkloadClaim::of(new) else {
            return;
        };
        if let Some(other) = others.iter().find(|other| claim.conflicts_with(other)) {
            self.refuse(
                "spec.workloadRef",
                named(&new.spec.workload_ref),
                format!("Rollout {:?} governs this workload already", other.rollout),
                format!(
                    "Change or delete Rollout {:?}, or name another workload",
                    other.rollout
                ),
            );
        }
    }

    fn strategy(&mut self, spec: &RolloutSpec) {
        let custom = spec.workload_ref.is_custom();
        match (&spec.strategy.canary, &spec.strategy.blue_green) {
            (None, None) => self.refuse(
                CANARY,
                "missing",
                "a Rollout needs the steps of a release",
                "Write spec.strategy.canary.steps",
            ),
            (Some(_), Some(_)) => self.refuse(
                BLUE_GREEN,
                "set",
                "a release is in batches or blue-green, not both",
                "Remove spec.strategy.blueGreen and keep spec.strategy.canary",
            ),
            (None, Some(_)) => self.refuse(
                BLUE_GREEN,
                "set",
                unsupported(custom, "a blue-green release"),
                "Write the steps as spec.strategy.canary.steps, for a release in batches",
            ),
            (Some(_), None) => {}
        }
        if let Some(canary) = &spec.strategy.canary {
            self.canary(canary, custom);
        }
    }

    fn canary(&mut self, canary: &CanaryStrategy, custom: bool) {
        self.steps(&canary.steps, custom);
        if !canary.traffic_routings.is_empty() {
            self.refuse(
                format!("{CANARY}.trafficRoutings"),
                "set",
                unsupported(custom, "moving traffic"),
                "Remove it; a pod then gets requests as soon as it is ready",
            );
        }
        if canary.enable_extra_workload_for_canary {
            self.refuse(
                format!("{CANARY}.enableExtraWorkloadForCanary"),
                "true",
                unsupported(custom, "an extra workload for the new version"),
                "Remove it; the workload's own pods are then updated in batches",
            );
        }
        if let Some(threshold) = &canary.failure_threshold {
            self.failure_threshold(threshold);
        }
        if let Some(seconds @ ..0) = canary.progress_deadline_seconds {
            self.refuse(
                format!("{CANARY}.progressDeadlineSeconds"),
                seconds.to_string(),
                "a deadline cannot be negative",
                "Write the seconds after which a lack of progress is told, 0 for never, or leave it out for 600",
            );
        }
        for (name, set) in [
            ("trafficRoutingRef", !canary.traffic_routing_ref.is_empty()),
            (
                "patchPodTemplateMetadata",
                canary.patch_pod_template_metadata.is_some(),
            ),
        ] {
            if set {
                self.warnings
                    .push(format!("{CANARY}.{name} has no effect on a release in batches."));
            }
        }
    }

    fn failure_threshold(&mut self, threshold: &IntOrPercent) {
        let problem = match threshold.amount() {
            Err(_) => "this is neither a whole number nor a percentage",
            Ok(Amount::Count(..0)) => "this many unready pods cannot be",
            Ok(Amount::Percent(101..)) => "this is more than all pods",
            Ok(Amount::Count(_) | Amount::Percent(_)) => return,
        };
        let remedy = "Write a number from 0 on, or a percentage from \"0%\" to \"100%\"";
        self.refuse(
            format!("{CANARY}.failureThreshold"),
            written(threshold),
            problem,
            remedy,
        );
    }
}

/// A workload as people name it.
fn named(
    WorkloadRef {
        api_version,
        kind,
        name,
    }: &WorkloadRef,
) -> String {
    format!("{api_version} {kind} {name}")
}

fn unsupported(custom: bool, what: &str) -> String {
    if custom {
        format!("{what} is not possible with a custom workload, which is released in batches")
    } else {
        format!("{what} is not supported yet, releases are in batches")
    }
}

#[cfg(test)]
mod tests;
