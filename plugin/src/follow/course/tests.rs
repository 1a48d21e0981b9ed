use kruise_rollout::report::{REPORT_VERSION, Revisions, WorkloadReport};

use super::*;
use crate::cli::status::Grace;

fn look(state: State, verdict: Verdict, step: usize) -> RolloutReport {
    RolloutReport {
        created: None,
        overlays: Vec::new(),
        since: None,
        strategy: "canary",
        api_version: REPORT_VERSION,
        kind: "RolloutReport",
        name: "web".to_owned(),
        namespace: "shop".to_owned(),
        workload: WorkloadReport::default(),
        state,
        phase: "Healthy".to_owned(),
        step_state: String::new(),
        step,
        steps: Vec::new(),
        pause: None,
        revisions: Revisions::default(),
        message: String::new(),
        rolled_back: false,
        breach: None,
        problems: Vec::new(),
        verdict,
        exit_code: verdict.exit_code(),
        next: None,
    }
}

fn upgrading(step: usize) -> RolloutReport {
    look(State::Upgrading, Verdict::InProgress, step)
}

fn awaiting(step: usize) -> RolloutReport {
    look(State::AwaitingApproval, Verdict::AwaitingApproval, step)
}

fn timed(step: usize) -> RolloutReport {
    look(State::TimedPause, Verdict::InProgress, step)
}

fn paused(step: usize) -> RolloutReport {
    look(State::Paused, Verdict::AwaitingApproval, step)
}

fn failing(step: usize) -> RolloutReport {
    look(State::Upgrading, Verdict::Failing, step)
}

fn complete() -> RolloutReport {
    look(State::Complete, Verdict::Complete, 3)
}

fn rolled_back() -> RolloutReport {
    look(State::RolledBack, Verdict::RolledBack, 3)
}

fn rolling_back() -> RolloutReport {
    look(State::RollingBack, Verdict::InProgress, 1)
}

fn superseded() -> RolloutReport {
    look(State::Superseded, Verdict::Superseded, 0)
}

fn disabled() -> RolloutReport {
    look(State::Disabled, Verdict::Disabled, 0)
}

/// What is waited for, what is seen, and where and how it ends.
type Row<'a> = (Until, &'a [RolloutReport], Option<(usize, u8)>);

/// The place in the sequence at which the watch ends, and its exit code. One second between two looks.
fn watch(until: Until, follow: &Follow, looks: &[RolloutReport]) -> Option<(usize, u8)> {
    let mut course = Course::new(until, follow);
    let begin = Instant::now();
    looks.iter().enumerate().find_map(|(index, report)| {
        let at = begin + Duration::from_secs(index.try_into().unwrap());
        course.over(report, at).map(|code| (index, code))
    })
}

#[test]
fn exit_codes_of_sequences() {
    let how = Follow {
        fail_fast: Grace(Some(Duration::from_secs(2))),
        ..Follow::default()
    };
    let release = [
        upgrading(1),
        awaiting(1),
        upgrading(2),
        timed(2),
        upgrading(3),
        complete(),
    ];
    let table: [Row<'_>; 30] = [
        (Until::Complete, &release, Some((5, 0))),
        (Until::Complete, &[complete()], Some((0, 0))),
        (
            Until::Complete,
            &[upgrading(1), rolling_back(), rolled_back()],
            Some((2, 6)),
        ),
        (Until::Complete, &[upgrading(1), superseded()], Some((1, 6))),
        (Until::Complete, &[disabled()], Some((0, 3))),
        (Until::Complete, &[awaiting(1), awaiting(1)], None),
        (
            Until::Complete,
            &[failing(1), failing(1), failing(1)],
            Some((2, 3)),
        ),
        // A failure that mends itself begins anew.
        (
            Until::Complete,
            &[failing(1), failing(1), upgrading(1), failing(1), failing(1)],
            None,
        ),
        (Until::Paused, &release, Some((1, 0))),
        (Until::Paused, &[timed(2)], Some((0, 0))),
        (Until::Paused, &[paused(2)], Some((0, 0))),
        (Until::Paused, &[upgrading(3), complete()], Some((1, 0))),
        (Until::Paused, &[upgrading(1), rolled_back()], Some((1, 6))),
        (Until::Paused, &[failing(1), failing(1), failing(1)], Some((2, 3))),
        (Until::Step(1), &release, Some((0, 0))),
        (Until::Step(2), &release, Some((2, 0))),
        (Until::Step(9), &release, Some((5, 0))),
        (Until::Step(2), &[upgrading(1), superseded()], Some((1, 6))),
        (Until::Approved, &release, Some((2, 0))),
        (
            Until::Approved,
            &[awaiting(1), look(State::Approved, Verdict::InProgress, 1)],
            Some((1, 0)),
        ),
        (Until::Approved, &[awaiting(1), awaiting(2)], Some((1, 0))),
        (Until::Approved, &[awaiting(1), paused(1)], None),
        (Until::Approved, &[complete()], Some((0, 0))),
        (
            Until::Approved,
            &[awaiting(1), rolling_back(), rolled_back()],
            Some((2, 6)),
        ),
        (Until::RolledBack, &[rolling_back(), rolled_back()], Some((1, 0))),
        (Until::RolledBack, &release, Some((5, 3))),
        (Until::RolledBack, &[rolling_back(), superseded()], Some((1, 6))),
        (Until::AnyChange, &release, Some((1, 0))),
        (
            Until::AnyChange,
            &[complete(), complete(), upgrading(1)],
            Some((2, 0)),
        ),
        (
            Until::AnyChange,
            &[failing(1), failing(1), failing(1), failing(1)],
            None,
        ),
    ];
    for (number, (until, looks, expected)) in table.into_iter().enumerate() {
        assert_eq!(watch(until, &how, looks), expected, "row {number}: {until:?}");
    }
}

#[test]
fn a_pause_ends_the_watch_where_that_is_asked_for() {
    let how = Follow {
        exit_on_pause: true,
        ..Follow::default()
    };
    assert_eq!(
        watch(Until::Complete, &how, &[upgrading(1), awaiting(1)]),
        Some((1, 5))
    );
    assert_eq!(watch(Until::Complete, &how, &[paused(1)]), Some((0, 5)));
    assert_eq!(
        watch(Until::Complete, &how, &[timed(1), complete()]),
        Some((1, 0))
    );
    assert_eq!(
        watch(Until::Paused, &how, &[awaiting(1)]),
        Some((0, 0)),
        "it was waited for"
    );
}

#[test]
fn a_failure_may_be_waited_out() {
    let how = Follow {
        fail_fast: Grace(None),
        ..Follow::default()
    };
    let looks: Vec<_> = (0..1_000).map(|_| failing(1)).chain([complete()]).collect();
    assert_eq!(watch(Until::Complete, &how, &looks), Some((1_000, 0)));
}

#[test]
fn a_rollout_that_nobody_has_looked_at_is_not_at_rest() {
    let mut young = look(State::Idle, Verdict::Complete, 0);
    young.phase = String::new();
    let idle = look(State::Idle, Verdict::Complete, 0);
    assert_eq!(
        watch(Until::Complete, &Follow::default(), &[young, idle]),
        Some((1, 0))
    );
}

#[test]
fn the_gravest_of_several() {
    for (codes, expected) in [
        (vec![], 0),
        (vec![0, 5], 5),
        (vec![5, 4], 4),
        (vec![4, 6, 5], 6),
        (vec![6, 3], 3),
        (vec![3, 1, 0], 1),
    ] {
        assert_eq!(gravest(codes.clone()), expected, "{codes:?}");
    }
}
