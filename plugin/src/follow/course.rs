//! When a watch is over, and with which exit code. Pure: the time is an input.

use std::time::Duration;

use kruise_rollout::api::v1beta1::phase;
use kruise_rollout::report::{RolloutReport, State, Verdict};
use tokio::time::Instant;

use crate::cli::{Follow, Until};
use crate::render;

/// The exit code of what waits for a person, where that ends the watch.
pub(crate) const PAUSED: u8 = 5;
/// The exit code of a release that has come to an end other than the one that was waited for.
const OTHERWISE: u8 = 3;

/// One watch on its way.
#[derive(Clone, Debug)]
pub(super) struct Course {
    until: Until,
    exit_on_pause: bool,
    /// How long a failure may last.
    grace: Option<Duration>,
    failing_since: Option<Instant>,
    /// The first look, as a line.
    first: Option<String>,
    /// A pause that waits for a person: its step.
    paused: Option<usize>,
}

impl Course {
    pub(super) fn new(until: Until, follow: &Follow) -> Self {
        Self {
            until,
            exit_on_pause: follow.exit_on_pause,
            grace: follow.fail_fast.0,
            failing_since: None,
            first: None,
            paused: None,
        }
    }

    /// The exit code, if there is nothing more to wait for.
    pub(super) fn over(&mut self, report: &RolloutReport, at: Instant) -> Option<u8> {
        if self.until == Until::AnyChange {
            let line = render::change(report);
            let first = self.first.get_or_insert_with(|| line.clone());
            return (*first != line).then_some(0);
        }
        if self.reached(report) {
            return Some(0);
        }
        if report.verdict == Verdict::Failing {
            // A failure must last; it may be one that mends itself.
            let since = *self.failing_since.get_or_insert(at);
            let lasts = self.grace.is_some_and(|grace| at.duration_since(since) >= grace);
            return lasts.then_some(report.exit_code);
        }
        self.failing_since = None;
        match report.verdict {
            Verdict::RolledBack | Verdict::Superseded | Verdict::Disabled => Some(report.exit_code),
            // What was waited for will not come any more.
            Verdict::Complete => at_rest(report).then_some(OTHERWISE),
            Verdict::AwaitingApproval => self.exit_on_pause.then_some(PAUSED),
            Verdict::InProgress | Verdict::Failing => None,
        }
    }

    /// When a failure has lasted too long.
    pub(super) fn patience(&self) -> Option<Instant> {
        self.failing_since?.checked_add(self.grace?)
    }

    fn reached(&mut self, report: &RolloutReport) -> bool {
        let complete = report.verdict == Verdict::Complete && at_rest(report);
        let releasing = report.state.is_releasing();
        match self.until {
            Until::Complete => complete,
            Until::Paused => {
                let paused = [State::AwaitingApproval, State::TimedPause, State::Paused];
                complete || (paused.contains(&report.state) && report.verdict != Verdict::Failing)
            }
            Until::Step(step) => complete || (releasing && report.step >= step),
            Until::Approved => {
                let waits = report.state == State::AwaitingApproval;
                let approved = self
                    .paused
                    .is_some_and(|step| releasing && (!waits || report.step > step));
                // A person who pauses the whole release has approved nothing.
                if waits {
                    self.paused.get_or_insert(report.step);
                }
                complete || (approved && report.state != State::Paused)
            }
            Until::RolledBack => report.verdict == Verdict::RolledBack,
            Until::AnyChange => false,
        }
    }
}

/// Whether a release is over, and not merely one that its controller has not looked at yet.
fn at_rest(report: &RolloutReport) -> bool {
    report.state != State::Idle || report.phase == phase::HEALTHY
}

/// The exit code of several watches.
pub(crate) fn gravest(codes: impl IntoIterator<Item = u8>) -> u8 {
    const ORDER: [u8; 6] = [1, 3, 6, 4, 5, 0];
    let place = |code: &u8| ORDER.iter().position(|known| known == code);
    codes.into_iter().min_by_key(place).unwrap_or(0)
}

#[cfg(test)]
mod tests;
