//! Counting pods, and the ways out of a release that are the same for every ending.

use jiff::Timestamp;

use super::decide::Present;
use super::observed::{Children, Workload};
use super::{Announcement, EditKind, why};
use crate::lens::PatchBuilder;
use crate::workload::{Adapter, Freedom, PodView, View};

/// Pods on the update revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Updated {
    /// They exist and nobody has asked them to leave.
    pub(super) pods: u32,
    /// They are ready too.
    pub(super) ready: u32,
    /// No pod is left of another revision, be it one too many; those that were asked to leave do not count.
    pub(super) alone: bool,
    /// No pod of the workload is on its way out.
    pub(super) settled: bool,
}

/// Counts pods on the update revision; `None` while that cannot be known, because the operator has not seen the present
/// generation or the pods are not watched yet.
///
/// Pods that carry the revision are counted one by one. Where none does, or none is found, or the operator names no revision, its
/// own counters are believed: `updatedReplicas`, and readiness only when every pod is ready.
pub(super) fn updated(view: &View, children: Children<'_>) -> Option<Updated> {
    let Children::Pods(pods) = children else {
        return None;
    };
    if view.observed() == Some(false) {
        return None;
    }
    let reported = &view.reported;
    let count = |picked: &dyn Fn(&PodView) -> bool| {
        u32::try_from(pods.iter().filter(|pod| picked(pod)).count()).unwrap_or(u32::MAX)
    };
    let settled = !pods.iter().any(|pod| pod.terminating);
    let other = |pod: &PodView| pod.revision.is_some() && !pod.terminating && !pod.finished;
    match &reported.update_revision {
        Some(revision) if believes(view, pods).is_none() => Some(Updated {
            pods: count(&|pod| pod.runs(revision)),
            ready: count(&|pod| pod.runs(revision) && pod.ready),
            alone: pods.iter().all(|pod| pod.runs(revision) || !other(pod)),
            settled,
        }),
        _ => {
            let pods = reported.updated_replicas.unwrap_or(0);
            let all_ready = reported
                .ready_replicas
                .is_some_and(|ready| ready >= view.replicas);
            Some(Updated {
                pods,
                ready: if all_ready { pods } else { 0 },
                alone: true,
                settled,
            })
        }
    }
}

/// When the updated pods that are ready, but have not been for `minReadySeconds` yet, will have been.
pub(super) fn fresh<'a>(
    view: &'a View,
    children: Children<'a>,
    now: Timestamp,
) -> impl Iterator<Item = Timestamp> + use<'a> {
    let pods = match children {
        Children::Pods(pods) => pods,
        Children::Unknown => &[],
    };
    let seconds = view.min_ready_seconds;
    let updated = updated_pods(view, pods).filter(|pod| pod.ready);
    updated.filter_map(move |pod| pod.fresh_until(seconds, now))
}

/// The pods that run the update revision; all of them where they cannot be told apart, and none while the operator has not seen
/// the present generation.
pub(super) fn updated_pods<'a>(view: &'a View, pods: &'a [PodView]) -> impl Iterator<Item = &'a PodView> {
    let all = believes(view, pods).is_some();
    let known = view.observed() != Some(false);
    let revision = view.reported.update_revision.as_deref();
    pods.iter()
        .filter(move |pod| known && (all || revision.is_some_and(|revision| pod.runs(revision))))
}

/// Why the operator's counters are believed instead of pods; `None` when pods are counted one by one.
pub(crate) fn believes(view: &View, pods: &[PodView]) -> Option<&'static str> {
    if view.replicas == 0 {
        None
    } else if pods.is_empty() && view.reported.replicas.is_some_and(|replicas| replicas > 0) {
        Some("no pod is owned by the workload, directly or through one StatefulSet or ReplicaSet")
    } else if !pods.is_empty() && pods.iter().all(|pod| pod.revision.is_none()) {
        Some("the operator sets no revision label on pods")
    } else if view.reported.update_revision.is_none() {
        Some("the operator names no update revision")
    } else {
        None
    }
}

/// What is said of an operator that people have told to update nothing.
pub(super) fn told_to_wait(p: &Present<'_>) -> Option<String> {
    let path = p.adapter.paths().paused.as_ref()?.path().join(".");
    let message = || format!("{path} of {} is true: its operator updates nothing", p.workload);
    p.view.paused.then(message)
}

/// A message with a remark.
pub(super) fn with_remark(message: String, remark: Option<&str>) -> String {
    match remark {
        Some(remark) => format!("{message}; {remark}"),
        None => message,
    }
}

/// Whether every pod is on the wanted revision, so that a partition above 0 may come back without holding anything back. The
/// operator must agree: a held-back pod that is deleted returns on its current revision.
pub(super) fn complete(view: &View, children: Children<'_>) -> bool {
    let counted = match children {
        Children::Pods(_) => {
            updated(view, children).is_some_and(|updated| updated.alone && updated.pods >= view.replicas)
        }
        Children::Unknown => true,
    };
    view.observed() != Some(false) && counted && complete_when_last_seen(view)
}

/// Whether the operator has called the update complete, be it of an earlier template.
pub(super) fn complete_when_last_seen(view: &View) -> bool {
    let reported = &view.reported;
    let revisions_agree = match (&reported.current_revision, &reported.update_revision) {
        (Some(current), Some(update)) => current == update,
        _ => true,
    };
    revisions_agree
        && reported
            .updated_replicas
            .is_none_or(|updated| updated >= view.replicas)
}

/// Whether nothing of ours is left on the workload.
pub(super) fn is_free(view: &View) -> bool {
    view.guard().is_none()
}

/// The next write that ends governing: open first where a partition above 0 is to come back, else all in one. `None`: wait for
/// the pods, or nothing is left to do. Where every write changes the template there is no end to wait for.
pub(super) fn free(
    adapter: &dyn Adapter,
    view: &View,
    children: Children<'_>,
) -> Option<(EditKind, PatchBuilder)> {
    if is_free(view) {
        return None;
    }
    match view.hold() {
        Some(hold)
            if hold.original.keeps_back()
                && view.rewritten.is_none()
                && !complete_when_open(view, children) =>
        {
            let open = adapter.expose(view, 0);
            (!open.is_empty()).then_some((EditKind::Open, open))
        }
        _ => Some((EditKind::Release, adapter.release(view, Freedom::Free))),
    }
}

/// What is told where a release ends with another strategy than people have asked for.
pub(super) fn default_strategy(
    workload: &Workload,
    adapter: &dyn Adapter,
    view: &View,
) -> Option<Announcement> {
    let told = adapter.default_strategy(view)?;
    Some(Announcement {
        warning: true,
        reason: why::event::DEFAULT_STRATEGY,
        message: format!("{workload}: {told}"),
    })
}

/// Open, and every pod is on the wanted revision.
pub(super) fn complete_when_open(view: &View, children: Children<'_>) -> bool {
    let open = view.partition_in_force() == 0 && view.hold().is_some_and(|hold| hold.granted == 0);
    open && complete(view, children)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::{GroupKind, adapter_for};

    fn view(status: Value) -> View {
        let kind = GroupKind {
            group: "example.io".to_owned(),
            kind: "MyStatefulApp".to_owned(),
        };
        let object =
            json!({"metadata": {"uid": "u", "generation": 2}, "spec": {"replicas": 2}, "status": status});
        adapter_for(&kind).unwrap().view(&object).unwrap()
    }

    fn pod(revision: Value) -> PodView {
        PodView::read(&json!({
            "metadata": {"name": "a-1", "labels": {"controller-revision-hash": revision}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
    }

    #[test]
    fn counters_are_believed_where_pods_say_nothing() {
        let reported = json!({"observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 1,
            "updateRevision": "a-v2"});
        let mut silent = reported.clone();
        silent["updateRevision"] = Value::Null;
        let labelled = [pod(json!("a-v2")), pod(json!("a-v2"))];
        for (status, pods, count, because) in [
            (&reported, &labelled[..], 2, None),
            (&reported, &[pod(Value::Null)][..], 1, Some("label")),
            (&reported, &[][..], 1, Some("owned")),
            (&silent, &labelled[..], 1, Some("update revision")),
        ] {
            let view = view(status.clone());
            let why = believes(&view, pods);
            assert_eq!(why.is_some(), because.is_some(), "{because:?}");
            assert!(
                why.unwrap_or_default().contains(because.unwrap_or_default()),
                "{why:?}"
            );
            let counted = updated(&view, Children::Pods(pods)).unwrap();
            assert_eq!((counted.pods, counted.ready), (count, count), "{because:?}");
        }
    }

    #[test]
    fn a_workload_without_pods_is_no_riddle() {
        let view = view(
            json!({"observedGeneration": 2, "replicas": 0, "updatedReplicas": 0, "updateRevision": "a-v2"}),
        );
        assert_eq!(believes(&view, &[]), None);
        assert_eq!(updated(&view, Children::Unknown), None);
    }
}
