//! What must stay as it is during a release and during deletion.

use std::fmt;

use kube::ResourceExt;

use super::{BLUE_GREEN, CANARY, Review, named};
use crate::api::v1beta1::{Rollout, Strategy, TrafficRouting, phase};

impl Review {
    /// Reviews an update against the phase that the stored Rollout is in.
    pub(super) fn change(&mut self, old: &Rollout, new: &Rollout) {
        let Some(frozen) = Frozen::of(old) else { return };
        let (before, after) = (&old.spec, &new.spec);
        if before.workload_ref != after.workload_ref {
            frozen.refuse(
                self,
                "spec.workloadRef",
                named(&after.workload_ref),
                "the workload",
            );
        }
        let (style, new_style) = (Style::of(&before.strategy), Style::of(&after.strategy));
        // What is not carried out may always go: a release that another controller has begun stands still until it has.
        let batches_now = style.name == EXTRA && new_style.name == BATCHES;
        if style.name != new_style.name && !batches_now {
            frozen.refuse(
                self,
                "spec.strategy",
                new_style.name,
                format!("{}, the style of the release,", style.name),
            );
            return;
        }
        if style.routings != new_style.routings && !new_style.routings.is_empty() {
            let field = format!("{}.trafficRoutings", style.field);
            frozen.refuse(self, &field, "changed", "the traffic routing");
        }
        if style.steps != new_style.steps {
            let field = format!("{}.steps", style.field);
            let value = format!("{} steps long", new_style.steps);
            frozen.refuse(
                self,
                &field,
                value,
                format!("the number of steps, {},", style.steps),
            );
        }
    }
}

/// Why parts of the spec cannot change now.
struct Frozen {
    why: &'static str,
    remedy: String,
}

impl Frozen {
    fn of(old: &Rollout) -> Option<Self> {
        match old.status.as_ref()?.phase.as_str() {
            phase::PROGRESSING => {
                let (name, namespace) = (old.name_any(), old.namespace().unwrap_or_default());
                let undo = format!("kubectl kruise rollout undo rollout/{name} -n {namespace}");
                let remedy =
                    format!("Let the release end, undo it with `{undo}`, or set spec.disabled to true first");
                Some(Self {
                    why: "a release is in progress",
                    remedy,
                })
            }
            phase::TERMINATING => {
                let remedy = "Wait until the Rollout has gone and create a new one".to_owned();
                Some(Self {
                    why: "the Rollout is being deleted",
                    remedy,
                })
            }
            _ => None,
        }
    }

    fn refuse(&self, review: &mut Review, field: &str, value: impl Into<String>, what: impl fmt::Display) {
        review.refuse(
            field,
            value,
            format!("{what} cannot change while {}", self.why),
            &*self.remedy,
        );
    }
}

/// How a [`Style`] is called whose pods are replaced in batches, and how one that adds a workload for the new pods.
const BATCHES: &str = "batches";
const EXTRA: &str = "an extra workload";

/// The parts of a strategy that a release depends on as a whole.
struct Style<'a> {
    name: &'static str,
    field: &'static str,
    steps: usize,
    routings: &'a [TrafficRouting],
}

impl<'a> Style<'a> {
    fn of(strategy: &'a Strategy) -> Self {
        if let Some(blue_green) = &strategy.blue_green {
            let (steps, routings) = (blue_green.steps.len(), blue_green.traffic_routings.as_slice());
            return Self {
                name: "blue-green",
                field: BLUE_GREEN,
                steps,
                routings,
            };
        }
        let canary = strategy.canary.as_ref();
        let extra = canary.is_some_and(|canary| canary.enable_extra_workload_for_canary);
        Self {
            name: if extra { EXTRA } else { BATCHES },
            field: CANARY,
            steps: canary.map_or(0, |canary| canary.steps.len()),
            routings: canary.map_or(&[], |canary| canary.traffic_routings.as_slice()),
        }
    }
}
