use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::pods::Counts;
use super::{Progress, State};
use crate::api::v1beta1::{Amount, CanaryStep, CanaryStrategy, Rollout};
use crate::plan::{Pause, Plan};

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum StepProgress {
    /// Passed.
    Done,
    /// The present one.
    Current,
    /// Still to come.
    Ahead,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    /// Number, from 1.
    pub number: usize,
    /// The amount as it is written: a number or a percentage.
    pub replicas: String,
    /// Pods on the new template at its end, all steps before it included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<u32>,
    /// The partition that belongs to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i64>,
    /// Pods on the new template that count for it: at most the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<u32>,
    /// Those of them that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Where it stands.
    pub progress: StepProgress,
    /// What follows it: `none`, `approval`, or a number of seconds such as `300s`.
    pub pause: String,
}

/// What the present pause waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "for")]
pub enum PauseReport {
    /// A person.
    Approval,
    /// The clock.
    #[serde(rename_all = "camelCase")]
    Time {
        /// Length of the pause, in seconds.
        seconds: u32,
        /// Seconds that are left; 0 when the time is up.
        remaining_seconds: u32,
    },
}

fn written(rollout: &Rollout) -> &[CanaryStep] {
    let strategy = &rollout.spec.strategy;
    match (&strategy.canary, &strategy.blue_green) {
        (Some(canary), _) => &canary.steps,
        (None, Some(green)) => &green.steps,
        (None, None) => &[],
    }
}

/// The seconds that a step pauses for, if it does not wait for a person. Which step is the last one does not matter here: it
/// never pauses.
pub(super) fn seconds(rollout: &Rollout, step: usize) -> Option<u32> {
    let index = step.clamp(1, written(rollout).len().max(1)) - 1;
    let duration = written(rollout).get(index)?.pause.duration?;
    Some(u32::try_from(duration).unwrap_or(0))
}

/// The plan for so many replicas; `None` where the strategy is none.
pub(super) fn plan(rollout: &Rollout, replicas: u32) -> Option<Plan> {
    let strategy = &rollout.spec.strategy;
    match (&strategy.canary, &strategy.blue_green) {
        (Some(canary), _) => Plan::new(canary, replicas),
        (None, Some(green)) => Plan::new(
            &CanaryStrategy {
                steps: green.steps.clone(),
                ..CanaryStrategy::default()
            },
            replicas,
        ),
        (None, None) => return None,
    }
    .ok()
}

pub(super) fn steps(
    rollout: &Rollout,
    plan: Option<&Plan>,
    progress: &Progress<'_>,
    state: &State,
    counts: Counts,
) -> Vec<StepReport> {
    let written = written(rollout);
    let total = plan.map_or(written.len(), Plan::len);
    (1..=total)
        .map(|number| {
            let amount = written.get(number - 1).and_then(|step| step.replicas.as_ref());
            let target = plan.map(|plan| plan.step(number).exposure);
            let reached = |count: Option<u32>| {
                let live = state.is_releasing() || matches!(state, State::Complete);
                count
                    .filter(|_| live)
                    .zip(target)
                    .map(|(count, target)| count.min(target))
            };
            StepReport {
                number,
                replicas: amount.map_or_else(|| "100%".to_owned(), ToString::to_string),
                target,
                partition: plan.map(|plan| plan.partition(number)),
                updated: reached(counts.updated),
                ready: reached(counts.updated_ready),
                progress: place(number, progress.step, state),
                pause: pause_text(written, plan, number),
            }
        })
        .collect()
}

fn place(number: usize, current: usize, state: &State) -> StepProgress {
    match state {
        State::Complete | State::Finalising => StepProgress::Done,
        state if state.is_releasing() => match number.cmp(&current) {
            std::cmp::Ordering::Less => StepProgress::Done,
            std::cmp::Ordering::Equal => StepProgress::Current,
            std::cmp::Ordering::Greater => StepProgress::Ahead,
        },
        _ => StepProgress::Ahead,
    }
}

fn pause_text(written: &[CanaryStep], plan: Option<&Plan>, number: usize) -> String {
    let pause = match plan {
        Some(plan) => plan.step(number).pause,
        None => written_pause(written, number),
    };
    match pause {
        Pause::None => "none".to_owned(),
        Pause::Manual => "approval".to_owned(),
        Pause::Seconds(seconds) => format!("{seconds}s"),
    }
}

/// The pause of a step whose number of pods is not known: the last one pauses unless it says that it reaches all.
fn written_pause(written: &[CanaryStep], number: usize) -> Pause {
    let step = &written[number - 1];
    let all = step
        .replicas
        .as_ref()
        .and_then(|amount| amount.amount().ok())
        .is_some_and(|amount| matches!(amount, Amount::Percent(percent) if percent >= 100));
    match step.pause.duration {
        _ if all && number == written.len() => Pause::None,
        None => Pause::Manual,
        Some(seconds) => u32::try_from(seconds)
            .ok()
            .filter(|s| *s > 0)
            .map_or(Pause::None, Pause::Seconds),
    }
}

pub(super) fn pause(rollout: &Rollout, progress: &Progress<'_>, now: Timestamp) -> Option<PauseReport> {
    if !progress.paused() {
        return None;
    }
    let Some(seconds) = seconds(rollout, progress.step) else {
        return Some(PauseReport::Approval);
    };
    let until = progress.since.unwrap_or(now) + SignedDuration::from_secs(seconds.into());
    // Rounded up, so that a countdown reaches 0 when the time is up and not a second before.
    let left = (until.duration_since(now).as_millis().max(0) + 999) / 1000;
    Some(PauseReport::Time {
        seconds,
        remaining_seconds: u32::try_from(left).unwrap_or(u32::MAX),
    })
}
