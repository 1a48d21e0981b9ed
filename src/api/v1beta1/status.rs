//! What the controller says, and the two fields that people write to approve or to jump.

use std::ops::Not;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{self, Condition, reason};

/// Values of `status.phase`.
pub mod phase {
    /// The workload has not been found (yet).
    pub const INITIAL: &str = "Initial";
    /// Nothing to do; the workload runs one template.
    pub const HEALTHY: &str = "Healthy";
    /// A release is in progress.
    pub const PROGRESSING: &str = "Progressing";
    /// The Rollout is being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// The Rollout does not govern its workload.
    pub const DISABLED: &str = "Disabled";
    /// The Rollout lets go of its workload.
    pub const DISABLING: &str = "Disabling";
}

/// Values of `currentStepState`.
pub mod step_state {
    /// A step is about to begin.
    pub const BEFORE_STEP_UPGRADE: &str = "BeforeStepUpgrade";
    /// The step's pods are being replaced and become ready.
    pub const STEP_UPGRADE: &str = "StepUpgrade";
    /// Requests are being moved.
    pub const STEP_TRAFFIC_ROUTING: &str = "StepTrafficRouting";
    /// Metrics are being looked at.
    pub const STEP_METRICS_ANALYSIS: &str = "StepMetricsAnalysis";
    /// The step is done and waits: for its duration, or for approval.
    pub const STEP_PAUSED: &str = "StepPaused";
    /// The step has been approved. People write this value.
    pub const STEP_READY: &str = "StepReady";
    /// All steps are done, or the release was undone.
    pub const COMPLETED: &str = "Completed";
}

/// Values of `finalisingStep`.
pub mod finalising_step {
    /// All requests go to the new pods.
    pub const ROUTE_TRAFFIC_TO_NEW: &str = "FinalisingStepRouteTrafficToNew";
    /// All requests go to the old pods.
    pub const ROUTE_TRAFFIC_TO_STABLE: &str = "FinalisingStepRouteTrafficToStable";
    /// The stable Service gets its selector back.
    pub const RESTORE_STABLE_SERVICE: &str = "RestoreStableService";
    /// The canary Service is removed.
    pub const REMOVE_CANARY_SERVICE: &str = "RemoveCanaryService";
    /// The workload rolls on by itself.
    pub const RESUME_WORKLOAD: &str = "ResumeWorkload";
    /// The release marks are removed from the workload.
    pub const RELEASE_WORKLOAD_CONTROL: &str = "ReleaseWorkloadControl";
    /// Nothing is left to do.
    pub const END: &str = "END";
}

/// State of a Rollout.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["currentStepIndex", "currentStepState"]))]
pub struct RolloutStatus {
    /// Generation of the Rollout that this status speaks of.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// One word for the whole: Initial, Healthy, Progressing, Terminating, Disabled or Disabling.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// What the Rollout does or waits for, and the way on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Conditions of the Rollout, at most one of each type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// State of the release in batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_status: Option<CanaryStatus>,
    /// State of a release beside the present pods, as another controller has left it; such releases are not carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blue_green_status: Option<BlueGreenStatus>,
    /// Number of the current step, from 1; as in the state of the release.
    pub current_step_index: i32,
    /// State of the current step; as in the state of the release.
    pub current_step_state: String,
}

impl RolloutStatus {
    /// Whether a release is in progress that goes back to the stable template by the steps of the plan, so that it pauses and asks
    /// for approvals as any other.
    #[must_use]
    pub fn goes_back_in_batches(&self) -> bool {
        let by_steps = [reason::IN_ROLLING, reason::PAUSED, reason::FINALISING];
        let progressing = condition::get(&self.conditions, condition::PROGRESSING);
        self.phase == phase::PROGRESSING
            && self
                .canary_status
                .as_ref()
                .is_some_and(|canary| canary.rolled_back)
            && progressing.is_some_and(|progressing| by_steps.contains(&progressing.reason.as_str()))
    }
}

/// State of a release in batches.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["podTemplateHash", "nextStepIndex", "finalisingStep", "currentStepState", "canaryRevision", "canaryReplicas", "canaryReadyReplicas"]))]
pub struct CanaryStatus {
    /// UID of the workload that this status speaks of.
    #[serde(rename = "observedWorkloadUID", skip_serializing_if = "String::is_empty")]
    pub observed_workload_uid: String,
    /// In a release, the number of replicas that it goes by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_workload_replicas: Option<i32>,
    /// Generation of the workload that this status speaks of.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_workload_generation: i64,
    /// Identity of the release.
    #[serde(rename = "observedRolloutID", skip_serializing_if = "String::is_empty")]
    pub observed_rollout_id: String,
    /// Fingerprint of the plan that is being carried out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rollout_hash: String,
    /// Revision that the workload had before the release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stable_revision: String,
    /// Label value that selects the new pods.
    pub pod_template_hash: String,
    /// Number of the current step, from 1.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub current_step_index: i32,
    /// Number of the step to go to next, -1 after the last one. People write another one to jump.
    pub next_step_index: i32,
    /// What is being done to end the release.
    pub finalising_step: String,
    /// State of the current step. People write StepReady to approve.
    pub current_step_state: String,
    /// What the step does or waits for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the state of the step last changed; pauses are measured from here, so it has fractions of a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<MicroTime>,
    /// Revision that is being released.
    pub canary_revision: String,
    /// Number of pods of the revision that is being released.
    pub canary_replicas: i32,
    /// Number of those that are ready.
    pub canary_ready_replicas: i32,
    /// Identity of the template that is being released.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_id: String,
    /// Identity of the template that `stableRevision` was the operator's name of.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stable_template_id: String,
    /// This release goes back to the stable template.
    #[serde(skip_serializing_if = "Not::not")]
    pub rolled_back: bool,
}

/// State of a release beside the present pods.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["podTemplateHash", "nextStepIndex", "finalisingStep", "currentStepState", "updatedRevision", "updatedReplicas", "updatedReadyReplicas"]))]
pub struct BlueGreenStatus {
    /// Generation of the workload that this status speaks of.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_workload_generation: i64,
    /// Identity of the release.
    #[serde(rename = "observedRolloutID", skip_serializing_if = "String::is_empty")]
    pub observed_rollout_id: String,
    /// Fingerprint of the plan that is being carried out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rollout_hash: String,
    /// Revision that the workload had before the release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stable_revision: String,
    /// Label value that selects the new pods.
    pub pod_template_hash: String,
    /// Number of the current step, from 1.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub current_step_index: i32,
    /// Number of the step to go to next, -1 after the last one.
    pub next_step_index: i32,
    /// What is being done to end the release.
    pub finalising_step: String,
    /// State of the current step.
    pub current_step_state: String,
    /// What the step does or waits for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the state of the step last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Revision that is being released.
    pub updated_revision: String,
    /// Number of pods of the revision that is being released.
    pub updated_replicas: i32,
    /// Number of those that are ready.
    pub updated_ready_replicas: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_i64(number: &i64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_i32(number: &i32) -> bool {
    *number == 0
}
