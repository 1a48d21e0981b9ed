use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::workload::{PodView, View};

/// Reasons that do not go away by waiting alone.
const BROKEN: [&str; 9] = [
    "CrashLoopBackOff",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "OOMKilled",
];
/// What a scheduler says that finds no node. A node may come, so it has to last.
const UNSCHEDULABLE: &str = "Unschedulable";
/// How long it has to last.
const SCHEDULING: SignedDuration = SignedDuration::from_secs(60);

/// A pod that is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Name of the pod.
    pub pod: String,
    /// Whether it runs the template that is being released.
    pub updated: bool,
    /// Revision that it runs, as its label says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Why it is not ready, one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in a few words: the container, its exit code, its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether this is more than a pod that is still starting: it does not come up by waiting alone.
    pub broken: bool,
}

impl Problem {
    fn of(pod: &PodView, revision: Option<&str>, now: Timestamp) -> Self {
        let reason = if pod.terminating {
            Some("Terminating")
        } else {
            pod.reason.as_deref()
        };
        Self {
            pod: pod.name.clone(),
            updated: revision.is_some_and(|revision| pod.runs(revision)),
            revision: pod.revision.clone(),
            reason: reason.map(str::to_owned),
            detail: pod.trouble.as_ref().map(|trouble| trouble.why.clone()),
            broken: reason.is_some_and(|reason| {
                BROKEN.contains(&reason) || (reason == UNSCHEDULABLE && lasts(pod, now))
            }),
        }
    }

    /// Whether it is broken by the template that is being released.
    #[must_use]
    pub fn is_grave(&self) -> bool {
        self.updated && self.broken
    }
}

/// Counts of a workload's pods; `None` where nobody can tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) updated: Option<u32>,
    pub(super) updated_ready: Option<u32>,
    pub(super) ready: Option<u32>,
    /// The updated pods were counted one by one.
    pub(super) by_labels: bool,
}

impl Counts {
    /// Counts pods where they are known and carry revisions, and believes the operator's counters where not.
    pub(super) fn of(view: &View, pods: Option<&[PodView]>, revision: Option<&str>) -> Self {
        let reported = &view.reported;
        let ready = match pods {
            Some(pods) => Some(count(pods, |pod| pod.ready && !pod.terminating)),
            None => reported.ready_replicas,
        };
        match (pods, revision) {
            (Some(pods), Some(revision))
                if pods.is_empty() || pods.iter().any(|pod| pod.revision.is_some()) =>
            {
                Self {
                    updated: Some(count(pods, |pod| pod.runs(revision))),
                    updated_ready: Some(count(pods, |pod| pod.runs(revision) && pod.ready)),
                    ready,
                    by_labels: true,
                }
            }
            _ => {
                let updated = reported
                    .updated_replicas
                    .filter(|_| view.observed() != Some(false));
                let all_ready = ready.is_some_and(|ready| ready >= view.replicas);
                Self {
                    updated,
                    updated_ready: updated.filter(|_| all_ready),
                    ready,
                    by_labels: false,
                }
            }
        }
    }
}

fn count(pods: &[PodView], picked: impl Fn(&PodView) -> bool) -> u32 {
    u32::try_from(pods.iter().filter(|pod| picked(pod)).count()).unwrap_or(u32::MAX)
}

fn lasts(pod: &PodView, now: Timestamp) -> bool {
    pod.steadily_since()
        .is_some_and(|since| now.duration_since(since) >= SCHEDULING)
}

/// The pods that are not ready, those of the revision first, by name.
pub(super) fn problems(pods: Option<&[PodView]>, revision: Option<&str>, now: Timestamp) -> Vec<Problem> {
    let unready = pods
        .into_iter()
        .flatten()
        .filter(|pod| !pod.ready || pod.terminating);
    let mut problems: Vec<_> = unready.map(|pod| Problem::of(pod, revision, now)).collect();
    problems.sort_by(|one, other| (!one.updated, &one.pod).cmp(&(!other.updated, &other.pod)));
    problems
}
