//! What one change of a status tells of a release, for those who count: how long a part of a step took, and how a release ended.
//!
//! Read from the statuses alone, before and after: they say when a state was entered, so that a restart or a failover of the
//! controller in between makes no difference.

use jiff::SignedDuration;

use crate::api::v1beta1::{CanaryStatus, RolloutStatus, phase, step_state};

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// From its begin until its pods are updated and ready.
    Update,
    /// From then until the release goes on: its seconds, or the wait for an approval.
    Pause,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Update, Self::Pause];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Pause => "pause",
        }
    }
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Every pod runs the new template.
    Completed,
    /// Every pod is back on the stable template.
    RolledBack,
    /// Another new template came before the end.
    Superseded,
    /// The Rollout was disabled before the end, or its workload has gone.
    Abandoned,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Completed,
        Self::RolledBack,
        Self::Superseded,
        Self::Abandoned,
    ];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::RolledBack => "rolled_back",
            Self::Superseded => "superseded",
            Self::Abandoned => "abandoned",
        }
    }
}

/// How the release of `before` has ended by the time of `after`; `None` while it goes on, and where there was none.
#[must_use]
pub fn ending(before: &RolloutStatus, after: &RolloutStatus) -> Option<Ending> {
    let was = underway(before)?;
    let is = after.canary_status.as_ref();
    match after.phase.as_str() {
        phase::PROGRESSING => {
            let is = is?;
            let another = is.template_id != was.template_id;
            let goes_back = is.rolled_back && !was.rolled_back;
            (another && !goes_back).then_some(Ending::Superseded)
        }
        phase::HEALTHY if is.is_some_and(|is| is.rolled_back) => Some(Ending::RolledBack),
        phase::HEALTHY => Some(Ending::Completed),
        _ => Some(Ending::Abandoned),
    }
}

/// The part of a step that has come to its end between `before` and `after`, and how long it took. Steps of a rollback do not count, nor
/// does one that people jump away from.
#[must_use]
pub fn part(before: &RolloutStatus, after: &RolloutStatus) -> Option<(Part, SignedDuration)> {
    let was = underway(before).filter(|was| !was.rolled_back)?;
    let is = after.canary_status.as_ref()?;
    if is.template_id != was.template_id || is.rolled_back {
        return None;
    }
    let follows = [-1, was.current_step_index + 1].contains(&was.next_step_index);
    let passed = follows
        && match after.phase.as_str() {
            phase::HEALTHY => true,
            phase::PROGRESSING => is.current_step_index > was.current_step_index,
            _ => false,
        };
    let part = match was.current_step_state.as_str() {
        step_state::STEP_UPGRADE if passed || is.current_step_state == step_state::STEP_PAUSED => {
            Part::Update
        }
        step_state::STEP_PAUSED | step_state::STEP_READY if passed => Part::Pause,
        _ => return None,
    };
    let (from, to) = (was.last_update_time.as_ref()?, is.last_update_time.as_ref()?);
    let took = to.0.duration_since(from.0);
    // Clocks of two controllers may differ.
    Some((part, took.max(SignedDuration::ZERO)))
}

/// The release that a status tells of. In Progressing with a step that is Completed none has begun.
fn underway(status: &RolloutStatus) -> Option<&CanaryStatus> {
    let canary = status.canary_status.as_ref()?;
    let begun = status.phase == phase::PROGRESSING && canary.current_step_state != step_state::COMPLETED;
    begun.then_some(canary)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    /// A status that was entered at this second, in a release of this template.
    fn at(second: i64, phase: &str, step: i32, state: &str, template: &str) -> RolloutStatus {
        RolloutStatus {
            phase: phase.to_owned(),
            canary_status: Some(CanaryStatus {
                current_step_index: step,
                next_step_index: step + 1,
                current_step_state: state.to_owned(),
                template_id: template.to_owned(),
                last_update_time: Some(MicroTime(jiff::Timestamp::from_second(second).unwrap())),
                ..CanaryStatus::default()
            }),
            ..RolloutStatus::default()
        }
    }

    fn back(mut status: RolloutStatus) -> RolloutStatus {
        status.canary_status.as_mut().unwrap().rolled_back = true;
        status
    }

    fn jumps(mut status: RolloutStatus, to: i32) -> RolloutStatus {
        status.canary_status.as_mut().unwrap().next_step_index = to;
        status
    }

    const GOES: &str = phase::PROGRESSING;
    const RESTS: &str = phase::HEALTHY;
    const UPGRADE: &str = step_state::STEP_UPGRADE;
    const PAUSED: &str = step_state::STEP_PAUSED;
    const READY: &str = step_state::STEP_READY;
    const DONE: &str = step_state::COMPLETED;

    #[test]
    fn parts_of_steps_take_from_one_state_to_the_next() {
        let begun = at(10, GOES, 1, UPGRADE, "v2");
        let paused = at(40, GOES, 1, PAUSED, "v2");
        let next = at(100, GOES, 2, UPGRADE, "v2");
        let seconds = SignedDuration::from_secs;
        assert_eq!(part(&begun, &paused), Some((Part::Update, seconds(30))));
        assert_eq!(part(&paused, &next), Some((Part::Pause, seconds(60))));
        // A person wrote StepReady, which moves no time.
        let approved = at(40, GOES, 1, READY, "v2");
        assert_eq!(part(&approved, &next), Some((Part::Pause, seconds(60))));
        // Without a pause, and at the end.
        assert_eq!(part(&begun, &next), Some((Part::Update, seconds(90))));
        let end = at(130, RESTS, 3, DONE, "v2");
        assert_eq!(part(&next, &end), Some((Part::Update, seconds(30))));
        // Clocks of two controllers.
        let early = at(5, GOES, 1, PAUSED, "v2");
        assert_eq!(part(&begun, &early), Some((Part::Update, seconds(0))));
    }

    #[test]
    fn what_is_no_end_of_a_step_is_not_counted() {
        let rests = at(1, RESTS, 3, DONE, "v1");
        let begun = at(10, GOES, 2, UPGRADE, "v2");
        let paused = at(40, GOES, 2, PAUSED, "v2");
        for (before, after) in [
            (&rests, &begun),
            (&begun, &begun),
            (&paused, &paused),
            // Taken again, since it has become larger.
            (&paused, &begun),
            // A jump, to and fro.
            (&jumps(paused.clone(), 4), &at(50, GOES, 4, UPGRADE, "v2")),
            (&jumps(paused.clone(), 1), &at(50, GOES, 1, UPGRADE, "v2")),
            // A newer template; a rollback, its steps and its end; the end of governing.
            (&begun, &at(50, GOES, 1, UPGRADE, "v3")),
            (&begun, &back(at(50, GOES, 2, UPGRADE, "v1"))),
            (
                &back(at(50, GOES, 1, UPGRADE, "v1")),
                &back(at(60, GOES, 2, UPGRADE, "v1")),
            ),
            (
                &back(at(50, GOES, 1, UPGRADE, "v1")),
                &back(at(60, RESTS, 3, DONE, "v1")),
            ),
            (&begun, &at(50, phase::DISABLING, 2, UPGRADE, "v2")),
        ] {
            assert_eq!(part(before, after), None, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_release_ends_once() {
        let rests = at(1, RESTS, 3, DONE, "v1");
        let begun = at(10, GOES, 1, UPGRADE, "v2");
        let going_back = back(at(20, GOES, 1, UPGRADE, "v1"));
        let waits = at(1, GOES, 3, DONE, "v1");
        let gone = RolloutStatus {
            phase: phase::INITIAL.to_owned(),
            ..RolloutStatus::default()
        };
        let cases = [
            (&rests, begun.clone(), None),
            (&rests, waits.clone(), None),
            // The operator saw nothing new: no release has begun.
            (&waits, rests.clone(), None),
            (&begun, at(20, GOES, 2, PAUSED, "v2"), None),
            (&begun, at(20, RESTS, 3, DONE, "v2"), Some(Ending::Completed)),
            (&begun, going_back.clone(), None),
            (
                &going_back,
                back(at(30, RESTS, 3, DONE, "v1")),
                Some(Ending::RolledBack),
            ),
            (&begun, at(20, GOES, 1, UPGRADE, "v3"), Some(Ending::Superseded)),
            (
                &going_back,
                at(30, GOES, 1, UPGRADE, "v3"),
                Some(Ending::Superseded),
            ),
            (
                &begun,
                at(20, phase::DISABLING, 1, UPGRADE, "v2"),
                Some(Ending::Abandoned),
            ),
            (&begun, gone, Some(Ending::Abandoned)),
        ];
        for (before, after, expected) in cases {
            assert_eq!(ending(before, &after), expected, "{before:?} {after:?}");
        }
    }
}
