//! The documents that programs get, beside the report: each names its version and its kind.

use serde::Serialize;
use serde_json::Value;

use super::{EventReport, PodReport, REPORT_VERSION, RevisionReport, RolloutReport};
use crate::api::v1beta1::Condition;

/// A document: its version and kind, and what is in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<T> {
    /// [`REPORT_VERSION`].
    pub api_version: &'static str,
    /// Which document this is.
    pub kind: &'static str,
    /// Its other fields.
    #[serde(flatten)]
    pub content: T,
}

impl<T> Document<T> {
    /// A document of this kind.
    #[must_use]
    pub const fn new(kind: &'static str, content: T) -> Self {
        Self {
            api_version: REPORT_VERSION,
            kind,
            content,
        }
    }
}

/// Everything about one Rollout: `RolloutDetail`. Parts that could not be read are absent; the report's overlays name them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    /// The report.
    pub report: RolloutReport,
    /// Conditions of the Rollout.
    pub conditions: Vec<Condition>,
    /// Revisions of the workload, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revisions: Option<Vec<RevisionReport>>,
    /// Pods of the workload, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Vec<PodReport>>,
    /// The latest events, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<EventReport>>,
}

/// Pods of a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPods {
    /// Name of the Rollout.
    pub name: String,
    /// Namespace of the Rollout.
    pub namespace: String,
    /// The pods, by name.
    pub items: Vec<PodReport>,
}

/// Events of a Rollout, its workload and its pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutEvents {
    /// Name of the Rollout.
    pub name: String,
    /// Namespace of the Rollout.
    pub namespace: String,
    /// The events, oldest first.
    pub items: Vec<EventReport>,
}

/// Revisions of a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutHistory {
    /// Name of the Rollout.
    pub name: String,
    /// Namespace of the Rollout.
    pub namespace: String,
    /// The revisions, newest first.
    pub items: Vec<RevisionReport>,
}

/// One revision with its template.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RevisionDetail {
    /// The revision.
    #[serde(flatten)]
    pub revision: RevisionReport,
    /// The pod template.
    pub template: Value,
}

/// What differs between two templates.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateDiff {
    /// Number of the one revision.
    pub from: i64,
    /// Number of the other.
    pub to: i64,
    /// A JSON patch that makes the other template of the one.
    pub changes: json_patch::Patch,
}
