//! Pods as they are shown: each with its revision, its batch and why it is as it is.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{RolloutReport, Seen, Sources, steps};
use crate::plan::Plan;
use crate::workload::pod::names_revision;
use crate::workload::{PodView, View};

/// A pod, with what only people want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// What decisions need.
    pub view: PodView,
    /// When the pod was made.
    pub created: Option<Timestamp>,
    /// The node that it is on, if any.
    pub node: Option<String>,
    /// `status.phase`.
    pub phase: String,
    /// Containers that it has.
    pub containers: usize,
    /// Those of them that are ready.
    pub ready_containers: usize,
    /// Restarts of all its containers.
    pub restarts: u64,
}

impl PodFacts {
    /// Reads a pod.
    #[must_use]
    pub fn read(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let containers = pod["status"]["containerStatuses"].as_array();
        let containers = containers.map(Vec::as_slice).unwrap_or_default();
        let restarts = containers.iter().filter_map(|c| c["restartCount"].as_u64());
        Self {
            view: PodView::read(pod),
            created: pod["metadata"]["creationTimestamp"]
                .as_str()
                .and_then(|time| time.parse().ok()),
            node: text(&pod["spec"]["nodeName"]),
            phase: text(&pod["status"]["phase"]).unwrap_or_default(),
            containers: containers.len(),
            ready_containers: containers.iter().filter(|c| c["ready"] == true).count(),
            restarts: restarts.sum(),
        }
    }
}

/// What a pod is to the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PodRole {
    /// It runs the stable template.
    Stable,
    /// It runs the template that is being released, or was released last.
    Update,
    /// It runs another one, or nobody can tell.
    Other,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// Name of the pod.
    pub name: String,
    /// Revision that it runs, as its label says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What it is to the release.
    pub role: PodRole,
    /// Number of the step that it was updated in, from 1; absent where it runs no update template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Whether it is ready.
    pub ready: bool,
    /// One word: its phase when it is ready, else why it is not.
    pub state: String,
    /// Why it is not ready, in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Containers that it has.
    pub containers: usize,
    /// Those of them that are ready.
    pub ready_containers: usize,
    /// Restarts of all its containers.
    pub restarts: u64,
    /// The node that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
}

impl PodReport {
    /// Whether the pod runs this revision.
    #[must_use]
    pub fn runs(&self, revision: Option<&str>) -> bool {
        let named = self.revision.as_deref().zip(revision);
        named.is_some_and(|(own, revision)| names_revision(own, revision))
    }
}

/// The pods, by name.
#[must_use]
pub fn pod_reports(sources: &Sources<'_>, report: &RolloutReport, pods: &[PodFacts]) -> Vec<PodReport> {
    let view = match sources.workload {
        Seen::Present(view) => Some(view),
        Seen::Missing | Seen::Unknown => None,
    };
    let plan = view.and_then(|view| steps::plan(sources.rollout, view.replicas));
    let mut rows: Vec<_> = pods
        .iter()
        .map(|pod| {
            let role = role(&pod.view, report);
            PodReport {
                name: pod.view.name.clone(),
                revision: pod.view.revision.clone(),
                role,
                batch: batch(&pod.view, report, view, plan.as_ref()),
                ready: pod.view.ready && !pod.view.terminating,
                state: state(pod),
                detail: pod.view.trouble.as_ref().map(|trouble| trouble.why.clone()),
                containers: pod.containers,
                ready_containers: pod.ready_containers,
                restarts: pod.restarts,
                node: pod.node.clone(),
                created: pod.created,
            }
        })
        .collect();
    // Ordinals in order: web-10 comes after web-9.
    rows.sort_by_cached_key(|row| {
        let (stem, ordinal) = row.name.rsplit_once('-').unwrap_or((&row.name, ""));
        (
            stem.to_owned(),
            ordinal.parse::<u64>().unwrap_or(u64::MAX),
            row.name.clone(),
        )
    });
    rows
}

fn role(pod: &PodView, report: &RolloutReport) -> PodRole {
    let own = pod.revision.as_deref().unwrap_or_default();
    let named = |revision: &Option<String>| revision.as_deref().is_some_and(|r| names_revision(own, r));
    if named(&report.revisions.stable) {
        PodRole::Stable
    } else if named(&report.revisions.update) {
        PodRole::Update
    } else {
        PodRole::Other
    }
}

fn state(pod: &PodFacts) -> String {
    let word = if pod.view.terminating {
        "Terminating"
    } else if pod.view.ready {
        &pod.phase
    } else {
        match (&pod.view.reason, pod.phase.as_str()) {
            (Some(reason), _) => reason,
            (None, "" | "Running") => "NotReady",
            (None, phase) => phase,
        }
    };
    word.to_owned()
}

/// The step that an updated pod came with: as its label says, or else, where pods are updated in order, the step whose partition
/// reaches it.
fn batch(pod: &PodView, report: &RolloutReport, view: Option<&View>, plan: Option<&Plan>) -> Option<usize> {
    let own = pod.revision.as_deref()?;
    let update = report.revisions.update.as_deref()?;
    if !names_revision(own, update) || report.rolled_back {
        return None;
    }
    let release = view.and_then(View::release_id);
    let labelled = pod
        .batch_id
        .as_deref()
        .filter(|_| release.is_none() || pod.rollout_id.as_deref() == release);
    if let Some(number) = labelled.and_then(|text| text.parse().ok()) {
        return Some(number);
    }
    // At rest everything runs one template, whichever step brought it.
    if !report.state.is_releasing() {
        return None;
    }
    let (view, plan) = (view?, plan?);
    let place = view.order.place(pod.ordinal()?)?;
    (1..=plan.len()).find(|number| plan.partition(*number) <= place)
}
