use jiff::Timestamp;

use crate::api::v1beta1::{RolloutStatus, step_state};

/// The release's own part of the status, of either style.
pub(super) struct Progress<'a> {
    pub(super) step: usize,
    pub(super) state: &'a str,
    pub(super) since: Option<Timestamp>,
    pub(super) revision: &'a str,
    /// What the pods' label says; the existing controller names the revision of a Deployment by a hash of its own.
    pub(super) hash: &'a str,
    pub(super) stable: &'a str,
    pub(super) template: &'a str,
    pub(super) message: &'a str,
    pub(super) rolled_back: bool,
    pub(super) release: &'a str,
    /// Generation of the workload that it speaks of; 0 where it does not say.
    pub(super) generation: i64,
}

impl<'a> Progress<'a> {
    pub(super) fn of(status: &'a RolloutStatus) -> Self {
        let step = |index: i32| usize::try_from(index).unwrap_or_default();
        match (&status.canary_status, &status.blue_green_status) {
            (Some(canary), _) => Self {
                step: step(canary.current_step_index),
                state: &canary.current_step_state,
                since: canary.last_update_time.as_ref().map(|time| time.0),
                revision: &canary.canary_revision,
                hash: &canary.pod_template_hash,
                stable: &canary.stable_revision,
                template: &canary.template_id,
                message: &canary.message,
                rolled_back: canary.rolled_back,
                release: &canary.observed_rollout_id,
                generation: canary.observed_workload_generation,
            },
            (None, Some(green)) => Self {
                step: step(green.current_step_index),
                state: &green.current_step_state,
                since: green.last_update_time.as_ref().map(|time| time.0),
                revision: &green.updated_revision,
                hash: &green.pod_template_hash,
                stable: &green.stable_revision,
                template: "",
                message: &green.message,
                rolled_back: false,
                release: &green.observed_rollout_id,
                generation: green.observed_workload_generation,
            },
            (None, None) => Self {
                step: 0,
                state: "",
                since: None,
                revision: "",
                hash: "",
                stable: "",
                template: "",
                message: "",
                rolled_back: false,
                release: "",
                generation: 0,
            },
        }
    }

    pub(super) fn paused(&self) -> bool {
        self.state == step_state::STEP_PAUSED
    }
}
