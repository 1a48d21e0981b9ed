//! Which partition a step needs, given the pods that are there.

use std::collections::{BTreeMap, BTreeSet};

use super::back::complete_when_last_seen;
use super::decide::Present;
use super::observed::Children;
use crate::names;
use crate::plan::Plan;
use crate::workload::pod::names_revision;
use crate::workload::{Hold, Ordinals, PodView, UpdateOrder};

/// What is known before the operator has seen the template.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Revision that the pods had before the release, empty if not known.
    pub(super) stable_revision: String,
    /// The release begins now, from a workload at rest.
    pub(super) from_rest: bool,
}

/// The partition that a step needs: the plan's, unless pods below it run the update template already. A scale-up or a rollback
/// that was taken back leaves such pods behind; they count, so fewer others may follow. Where pods are updated in any order the operator
/// counts them by itself.
///
/// While it cannot be told which pods do, nothing more than now is granted. Nor is it while the operator may still act on an
/// earlier grant: a scale-up moves the pods that a step exposes, and those of both grants would come to run the template.
pub(super) fn partition(p: &Present<'_>, plan: &Plan, step: usize, hold: &Hold, memory: &Memory) -> i64 {
    let planned = plan.partition(step);
    let UpdateOrder::Ordinal(ordinals) = &p.view.order else {
        return planned;
    };
    if plan.is_last(step) {
        return planned;
    }
    let as_now = planned.max(hold.granted);
    let reported = &p.view.reported;
    let counted = reported.updated_replicas.is_some() && complete_when_last_seen(p.view);
    let first = memory.from_rest && hold.granted == names::HOLD_PARTITION;
    let Children::Pods(pods) = p.children else {
        return if first && counted { planned } else { as_now };
    };
    let Some(places) = places(ordinals, pods) else {
        return planned;
    };
    let new = |is_new: &dyn Fn(&PodView) -> bool| -> BTreeSet<i64> {
        let replicas = i64::from(p.view.replicas);
        let new = places.iter().filter(|(at, pod)| **at < replicas && is_new(pod));
        new.map(|(at, _)| *at).collect()
    };
    match (p.view.observed(), &reported.update_revision) {
        (Some(true), Some(revision)) => lowest(
            p.view.replicas,
            plan.step(step).exposure,
            &new(&|pod| pod.runs(revision)),
        ),
        (Some(false), _) => {
            let stable = |label: &str| names_revision(label, &memory.stable_revision);
            let unsure = new(&|pod| !pod.revision.as_deref().is_some_and(stable));
            let unknown = memory.stable_revision.is_empty();
            if first && (unsure.is_empty() || (unknown && counted)) {
                planned
            } else {
                as_now
            }
        }
        _ => planned,
    }
}

/// The lowest partition with which no more than `exposure` pods come to run the update template, when those at the places `new`
/// do so already.
fn lowest(replicas: u32, exposure: u32, new: &BTreeSet<i64>) -> i64 {
    let mut at = i64::from(replicas);
    let mut left = i64::from(exposure) - i64::try_from(new.len()).unwrap_or(i64::MAX);
    if left < 0 {
        return at;
    }
    for place in new.iter().rev() {
        let others = at - place - 1;
        if others > left {
            break;
        }
        left -= others;
        at = *place;
    }
    (at - left).max(0)
}

/// The pods that nobody has asked to leave, by their places. `None` where the numbers at the end of their names are no ordinals: a
/// name has none, or two pods have the same. A pod whose ordinal is left out has no place, and the operator removes it.
fn places<'p>(ordinals: &Ordinals, pods: &'p [PodView]) -> Option<BTreeMap<i64, &'p PodView>> {
    let mut places = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.terminating) {
        if let Some(place) = ordinals.place(pod.ordinal()?)
            && places.insert(place, pod).is_some()
        {
            return None;
        }
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_many_as_the_step_allows_and_no_more(
            replicas in 0..30_u32, exposure in 0..30_u32, new in proptest::collection::btree_set(0..30_i64, 0..30)
        ) {
            let exposure = exposure.min(replicas);
            let new: BTreeSet<i64> = new.into_iter().filter(|place| *place < i64::from(replicas)).collect();
            let partition = lowest(replicas, exposure, &new);
            let exposed = |partition: i64| new.iter().filter(|place| **place < partition).count() as i64 + i64::from(replicas) - partition;
            if new.len() as u32 > exposure {
                prop_assert_eq!(partition, i64::from(replicas));
            } else {
                prop_assert_eq!(exposed(partition), i64::from(exposure));
                prop_assert!(partition == 0 || exposed(partition - 1) > i64::from(exposure));
            }
        }
    }

    #[test]
    fn without_such_pods_it_is_the_plans() {
        assert_eq!(lowest(5, 1, &BTreeSet::new()), 4);
        assert_eq!(lowest(5, 3, &BTreeSet::from([4])), 2);
        assert_eq!(lowest(8, 1, &BTreeSet::from([4])), 8);
        assert_eq!(lowest(8, 4, &BTreeSet::from([4])), 4);
    }
}
