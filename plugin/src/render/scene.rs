//! What a drawing is made from.

use jiff::Timestamp;
use kruise_rollout::report::{RolloutReport, State};
use kruise_rollout::workload::PodView;

use super::short;
use crate::cli::Pods;
use crate::cluster::Happening;

/// One moment of a release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) report: &'a RolloutReport,
    /// Sorted by name; `None` when they could not be read.
    pub(crate) pods: Option<&'a [PodView]>,
    /// The newest at the end.
    pub(crate) events: &'a [Happening],
    /// When the step got into its state.
    pub(crate) since: Option<Timestamp>,
    /// For how many seconds the API server has not been heard.
    pub(crate) reconnecting: Option<u64>,
    pub(crate) now: Timestamp,
}

impl Scene<'_> {
    /// For how long the step has waited for somebody.
    pub(super) fn waiting(&self) -> Option<String> {
        let waits = self.report.state == State::AwaitingApproval;
        age(self.since.filter(|_| waits)?, self.now)
    }
}

/// How long ago this was, as kubectl has it; nothing of what has not been yet.
pub(super) fn age(since: Timestamp, now: Timestamp) -> Option<String> {
    let seconds = u32::try_from(now.duration_since(since).as_secs()).ok()?;
    Some(match seconds {
        0..600 => short(seconds),
        600..36_000 => format!("{}m", seconds / 60),
        36_000..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    })
}

/// What of a scene is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) pods: Pods,
    pub(crate) events: usize,
}

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}
