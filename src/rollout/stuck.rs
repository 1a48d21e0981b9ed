//! Pods in the way: of a template that is neither the stable nor the wanted one, not ready, in a workload whose pods are managed in
//! order. Its operator waits for them, and they will never be ready; only their deletion helps. They come back on the stable or
//! on the wanted template, as the partition says.
//!
//! A pod that is ready, on its way out, of the stable or of the wanted revision is never touched, nor is any while it is not known
//! which revisions these are.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::deadline::{described, limit, tell};
use super::observed::Children;
use super::release::{Release, is_stable, stable_revision};
use super::status::{Draft, Stall};
use super::why;
use super::{Action, Announcement};
use crate::api::v1beta1::step_state;
use crate::workload::pod::names_revision;
use crate::workload::{PodView, View};

/// How long a pod may be in the way where the Rollout names no deadline.
const DEFAULT: SignedDuration = SignedDuration::from_secs(30);

/// Replaces the pods that have been in the way for long enough, or tells who has to.
pub(super) fn in_the_way(draft: &mut Draft<'_>, release: &Release<'_>) -> Option<Stall> {
    let p = release.present;
    let limit = limit(release.rollout, DEFAULT)?;
    let (Children::Pods(pods), true) = (p.children, draft.held_up) else {
        return None;
    };
    let stuck = abandoned(stable(draft, p.view), p.view, pods);
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
        let canary = draft.status.canary_status.as_mut();
        if let Some(canary) = canary.filter(|canary| canary.current_step_state == step_state::STEP_UPGRADE) {
            // It goes on now; what comes instead has the whole deadline. A pause that has passed does not begin anew.
            canary.last_update_time = Some(MicroTime(now));
        }
        due.iter().for_each(|pod| draft.act(replacement(pod)));
        due.iter().for_each(|pod| draft.act(announcement(pod)));
    }
    None
}

/// The stable revision, if it is known.
fn stable<'a>(draft: &'a Draft<'_>, view: &'a View) -> Option<&'a str> {
    let reported = &view.reported;
    match stable_revision(draft, view) {
        "" if is_stable(view) => reported.update_revision.as_deref(),
        // An operator may call the update revision current at once, and then nothing is known of the stable one.
        "" if reported.current_revision == reported.update_revision => None,
        "" => reported.current_revision.as_deref(),
        known => Some(known),
    }
}

/// The pods in the way.
fn abandoned<'a>(stable: Option<&str>, view: &View, pods: &'a [PodView]) -> Vec<&'a PodView> {
    let wanted = view.reported.update_revision.as_deref();
    let (Some(stable), Some(wanted), true, Some(true)) = (stable, wanted, view.in_order, view.observed())
    else {
        return Vec::new();
    };
    let named = |label: &str| names_revision(label, stable) || names_revision(label, wanted);
    if !told_apart(pods, named, wanted) {
        return Vec::new();
    }
    // A pod whose place is below the partition returns on the current revision.
    let current = view.reported.current_revision.as_deref();
    let returns_as_it_may = |pod: &PodView| {
        current.is_some_and(|current| names_revision(current, stable))
            || pod
                .ordinal()
                .and_then(|ordinal| view.order.place(ordinal))
                .is_some_and(|place| place >= view.partition_in_force())
    };
    let mut stuck: Vec<_> = pods
        .iter()
        .filter(|pod| !pod.ready && !pod.terminating && !pod.finished)
        .filter(|pod| pod.revision.as_deref().is_some_and(|label| !named(label)) && returns_as_it_may(pod))
        .collect();
    stuck.sort_by(|one, other| one.name.cmp(&other.name));
    stuck
}

/// Whether the labels of pods and the revisions of the operator speak of the same: a pod carries one that it names, or the only pod
/// one of the same series. Otherwise all pods would look abandoned.
fn told_apart(pods: &[PodView], named: impl Fn(&str) -> bool, wanted: &str) -> bool {
    let series = |revision: &str| revision.rsplit_once('-').map(|(series, _)| series.to_owned());
    let label = |pod: &PodView| pod.revision.clone().unwrap_or_default();
    match pods {
        [only] => named(&label(only)) || series(&label(only)).is_some_and(|own| Some(own) == series(wanted)),
        _ => pods.iter().any(|pod| named(&label(pod))),
    }
}

fn replacement(pod: &PodView) -> Action {
    Action::Replace {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: pod.resource_version.clone(),
    }
}

fn announcement(pod: &PodView) -> Action {
    Action::Announce(Announcement {
        warning: true,
        reason: why::event::STUCK_POD_REPLACED,
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::workload::{GroupKind, adapter_for};

    /// A workload on its way from revision `a-1` to `a-3`, with four pods kept back.
    fn view(change: &serde_json::Value) -> View {
        let kind = GroupKind {
            group: "apps".to_owned(),
            kind: "StatefulSet".to_owned(),
        };
        let mut object = json!({
            "metadata": {"uid": "u", "generation": 2},
            "spec": {"replicas": 5, "updateStrategy": {"rollingUpdate": {"partition": 4}}},
            "status": {"observedGeneration": 2, "currentRevision": "a-1", "updateRevision": "a-3"}
        });
        json_patch::merge(&mut object, change);
        adapter_for(&kind).unwrap().view(&object).unwrap()
    }

    fn pod(ordinal: usize, revision: &str, ready: &str) -> PodView {
        PodView::read(&json!({
            "metadata": {"name": format!("a-{ordinal}"), "labels": {"controller-revision-hash": revision}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
    }

    /// Pods of these revisions in order; those of `a-2` and `other-2` are not ready.
    fn pods(revisions: &[&str]) -> Vec<PodView> {
        let ready = |revision: &str| if revision.ends_with("-2") { "False" } else { "True" };
        let numbered = revisions.iter().enumerate();
        numbered
            .map(|(ordinal, revision)| pod(ordinal, revision, ready(revision)))
            .collect()
    }

    fn stuck(stable: Option<&str>, view: &View, pods: &[PodView]) -> Vec<String> {
        let stuck = abandoned(stable, view, pods);
        stuck.into_iter().map(|pod| pod.name.clone()).collect()
    }

    #[rstest]
    #[case::at_any_place(json!({}), Some("a-1"), &["a-1", "a-2", "a-1", "a-1", "a-2"], &["a-1", "a-4"])]
    #[case::nothing_known(json!({}), None, &["a-1", "a-1", "a-1", "a-1", "a-2"], &[])]
    #[case::in_parallel(json!({"spec": {"podManagementPolicy": "Parallel"}}), Some("a-1"), &["a-1", "a-1", "a-1", "a-1", "a-2"], &[])]
    #[case::not_seen(json!({"metadata": {"generation": 3}}), Some("a-1"), &["a-1", "a-1", "a-1", "a-1", "a-2"], &[])]
    #[case::would_come_back_updated(json!({"status": {"currentRevision": "a-3"}}), Some("a-1"),
        &["a-1", "a-2", "a-1", "a-1", "a-2"], &["a-4"])]
    #[case::would_be_below_the_partition(json!({"status": {"currentRevision": "a-3"}}), Some("a-1"), &["a-1", "a-2"], &[])]
    #[case::labels_of_another_kind(json!({}), Some("a-1"), &["other-1", "other-2"], &[])]
    #[case::the_only_pod(json!({}), Some("a-1"), &["a-2"], &["a-0"])]
    #[case::the_only_pod_of_another_kind(json!({}), Some("a-1"), &["other-2"], &[])]
    fn which_pods_are_in_the_way(
        #[case] change: serde_json::Value,
        #[case] stable: Option<&str>,
        #[case] revisions: &[&str],
        #[case] expected: &[&str],
    ) {
        assert_eq!(stuck(stable, &view(&change), &pods(revisions)), expected);
    }

    #[test]
    fn ready_leaving_and_finished_pods_are_not() {
        let mut pods = pods(&["a-1", "a-2", "a-2", "a-2"]);
        pods[1].ready = true;
        pods[2].terminating = true;
        pods[3].finished = true;
        assert_eq!(stuck(Some("a-1"), &view(&json!({})), &pods), [""; 0]);
        assert_eq!(stuck(Some("a-2"), &view(&json!({})), &pods), [""; 0]);
    }
}
