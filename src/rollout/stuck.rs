//! Pods in the way: of a template that is neither the stable nor the wanted one, not ready, in a workload whose pods are managed in
//! order. Its operator waits for them, and they will never be ready; only their deletion helps. They come back on the stable or
//! on the wanted template, as the partition says.
//!
//! A pod that is ready, on its way out, of the stable or of the wanted revision is never touched, nor is any while it is not known
//! which revisions these are.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::deadline::{described, limit, tell, waiting};
use super::observed::Children;
use super::release::{Release, is_stable, stable_revision};
use super::status::{Draft, Stall, why};
use super::{Action, Announcement};
use crate::workload::marks::read_count;
use crate::workload::pod::names_revision;
use crate::workload::{PodView, View};

/// How long a pod may be in the way where the Rollout names no deadline.
const DEFAULT: SignedDuration = SignedDuration::from_secs(30);

/// Replaces the pods that have been in the way for long enough, or tells who has to.
pub(super) fn in_the_way(draft: &mut Draft<'_>, release: &Release<'_>) -> Option<Stall> {
    let p = release.present;
    let limit = limit(release.rollout, DEFAULT)?;
    waiting(draft, release.rollout)?;
    let Children::Pods(pods) = p.children else {
        return None;
    };
    let stuck = abandoned(draft, p.view, pods);
    let until = |pod: &PodView| {
        pod.steadily_since()
            .and_then(|since| since.checked_add(limit).ok())
            .unwrap_or(Timestamp::MAX)
    };
    let (due, early): (Vec<&PodView>, Vec<_>) = stuck.into_iter().partition(|pod| until(pod) <= draft.now);
    if let Some(at) = early.into_iter().map(until).min() {
        draft.wake_at(at);
    }
    if !release.replaces {
        return by_hand(draft, release, &due);
    }
    // What the operator does with the pods is known once it has seen the write.
    if !due.is_empty() && !draft.edits() {
        let now = draft.now;
        if let Some(canary) = &mut draft.status.canary_status {
            // It goes on now; what comes instead has the whole deadline.
            canary.last_update_time = Some(MicroTime(now));
        }
        due.iter().for_each(|pod| draft.act(replacement(pod)));
        due.iter().for_each(|pod| draft.act(announcement(pod)));
    }
    None
}

/// The pods in the way.
fn abandoned<'a>(draft: &Draft<'_>, view: &View, pods: &'a [PodView]) -> Vec<&'a PodView> {
    let Some(wanted) = view.reported.update_revision.as_deref() else {
        return Vec::new();
    };
    let current = view.reported.current_revision.as_deref();
    let stable = match stable_revision(draft, view) {
        "" if is_stable(view) => Some(wanted),
        // An operator may call the update revision current at once, and then nothing is known of the stable one.
        "" => current.filter(|current| *current != wanted),
        known => Some(known),
    };
    let (Some(stable), true, Some(true)) = (stable, view.in_order, view.observed()) else {
        return Vec::new();
    };
    let strange = |label: &str| !names_revision(label, stable) && !names_revision(label, wanted);
    // A pod that is kept back returns on the current revision.
    let returns_as_it_may = |pod: &PodView| {
        current.is_some_and(|current| names_revision(current, stable))
            || (place(pod, pods) >= view.partition_in_force())
    };
    let mut stuck: Vec<_> = pods
        .iter()
        .filter(|pod| !pod.ready && !pod.terminating && !pod.finished)
        .filter(|pod| pod.revision.as_deref().is_some_and(strange) && returns_as_it_may(pod))
        .collect();
    stuck.sort_by(|one, other| one.name.cmp(&other.name));
    stuck
}

/// At which place the pod is at least, counted from 0: ordinals may begin later, and the partition counts places.
fn place(pod: &PodView, pods: &[PodView]) -> i64 {
    let ordinal = |pod: &PodView| {
        pod.name
            .rsplit_once('-')
            .and_then(|(_, number)| read_count(number))
    };
    let Some(own) = ordinal(pod) else { return -1 };
    let lower = pods.iter().filter_map(ordinal).filter(|other| *other < own);
    i64::try_from(lower.count()).unwrap_or(-1)
}

fn replacement(pod: &PodView) -> Action {
    let version = pod
        .trouble
        .as_deref()
        .map(|trouble| trouble.resource_version.clone());
    Action::Replace {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: version.unwrap_or_default(),
    }
}

fn announcement(pod: &PodView) -> Action {
    Action::Announce(Announcement {
        warning: true,
        reason: "StuckPodReplaced",
        message: format!("{}: replaced", holds_up(pod)),
    })
}

/// Tells what a person has to do.
fn by_hand(draft: &mut Draft<'_>, release: &Release<'_>, due: &[&PodView]) -> Option<Stall> {
    let first = due.first()?;
    let namespace = release.rollout.metadata.namespace.as_deref().unwrap_or_default();
    let names: Vec<_> = due.iter().map(|pod| pod.name.as_str()).collect();
    let message = format!(
        "{}; delete it: kubectl delete pod {} -n {namespace}",
        holds_up(first),
        names.join(" ")
    );
    Some(tell(draft, why::IN_THE_WAY, message))
}

fn holds_up(pod: &PodView) -> String {
    format!(
        "{}; its revision {} is neither the stable nor the wanted one, and it holds up all others, since pods are managed in \
         order",
        described(pod),
        pod.revision.as_deref().unwrap_or_default()
    )
}
