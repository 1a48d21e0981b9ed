mod views;

use jiff::Timestamp;
use kruise_rollout::report::{Breach, Revisions, StepProgress, StepReport, WorkloadReport};

use super::*;

const PLAIN: Theme = Theme {
    color: false,
    unicode: true,
};
const ASCII: Theme = Theme {
    color: false,
    unicode: false,
};

fn step(
    number: usize,
    replicas: &str,
    target: u32,
    updated: Option<u32>,
    progress: StepProgress,
    pause: &str,
) -> StepReport {
    StepReport {
        number,
        replicas: replicas.to_owned(),
        target: Some(target),
        partition: Some(i64::from(5 - target)),
        updated,
        ready: updated,
        progress,
        pause: pause.to_owned(),
    }
}

fn base(state: State, verdict: Verdict) -> RolloutReport {
    RolloutReport {
        api_version: kruise_rollout::report::REPORT_VERSION,
        kind: "RolloutReport",
        name: "my-app-rollout".to_owned(),
        namespace: "shop".to_owned(),
        workload: WorkloadReport {
            api_version: "example.io/v1".to_owned(),
            kind: "MyStatefulApp".to_owned(),
            name: "my-app".to_owned(),
            found: Some(true),
            replicas: Some(5),
            ready: Some(5),
            updated: Some(1),
            updated_ready: Some(1),
            partition: Some(4),
        },
        created: None,
        strategy: "canary",
        overlays: Vec::new(),
        since: None,
        state,
        phase: "Progressing".to_owned(),
        step_state: String::new(),
        step: 1,
        steps: vec![
            step(1, "1", 1, Some(1), StepProgress::Current, "approval"),
            step(2, "50%", 3, Some(1), StepProgress::Ahead, "300s"),
            step(3, "100%", 5, Some(1), StepProgress::Ahead, "none"),
        ],
        pause: None,
        revisions: Revisions {
            stable: Some("my-app-6f7d".to_owned()),
            update: Some("my-app-5c9b".to_owned()),
        },
        message: String::new(),
        rolled_back: false,
        breach: None,
        problems: Vec::new(),
        verdict,
        exit_code: verdict.exit_code(),
        next: None,
    }
}

fn awaiting() -> RolloutReport {
    RolloutReport {
        message: "step 1 of 3: 1 of 5 pods are updated and ready; waiting for approval".to_owned(),
        pause: Some(PauseReport::Approval),
        next: Some("kubectl kruise rollout approve rollout/my-app-rollout -n shop".to_owned()),
        ..base(State::AwaitingApproval, Verdict::AwaitingApproval)
    }
}

fn timed() -> RolloutReport {
    let mut report = base(State::TimedPause, Verdict::InProgress);
    report.step = 2;
    report.workload.updated = Some(3);
    report.steps = vec![
        step(1, "1", 1, Some(1), StepProgress::Done, "approval"),
        step(2, "50%", 3, Some(3), StepProgress::Current, "300s"),
        step(3, "100%", 5, Some(3), StepProgress::Ahead, "none"),
    ];
    report.pause = Some(PauseReport::Time {
        seconds: 300,
        remaining_seconds: 299,
    });
    report
}

fn back(state: State, verdict: Verdict) -> RolloutReport {
    let mut report = base(state, verdict);
    report.rolled_back = true;
    report.workload.updated = Some(2);
    report.revisions = Revisions {
        stable: Some("my-app-6f7d".to_owned()),
        update: Some("my-app-6f7d".to_owned()),
    };
    report
        .steps
        .iter_mut()
        .for_each(|step| (step.updated, step.ready, step.progress) = (None, None, StepProgress::Ahead));
    report
}

fn failing() -> RolloutReport {
    let mut report = base(State::Upgrading, Verdict::Failing);
    report.breach = Some(Breach {
        allowed: 1,
        beyond: 2,
    });
    let problem = |pod: &str, updated: bool, reason: Option<&str>| Problem {
        pod: pod.to_owned(),
        updated,
        revision: Some("my-app-6f7d".to_owned()),
        reason: reason.map(str::to_owned),
        detail: None,
        broken: reason.is_some(),
    };
    report.problems = vec![
        problem("my-app-4", true, Some("CrashLoopBackOff")),
        problem("my-app-0", false, None),
    ];
    report
}

fn text(lines: Vec<String>) -> String {
    lines.join("\n")
}

#[test]
fn one_look() {
    assert_eq!(
        text(report(&awaiting(), PLAIN)),
        "\
Name:       my-app-rollout
Namespace:  shop
Workload:   MyStatefulApp.example.io my-app
State:      ⏸ AwaitingApproval, step 1 of 3
Revision:   my-app-6f7d → my-app-5c9b
Pods:       1 of 5 updated, 5 ready
Message:    step 1 of 3: 1 of 5 pods are updated and ready; waiting for approval

STEP  REPLICAS  PODS  UPDATED  READY  PAUSE     STATE
1     1         1     1        1      approval  current
2     50%       3     1        1      300s
3     100%      5     1        1      none

Next: kubectl kruise rollout approve rollout/my-app-rollout -n shop"
    );
}

#[test]
fn one_look_at_what_is_wrong() {
    assert_eq!(
        text(report(&failing(), ASCII)),
        "\
Name:       my-app-rollout
Namespace:  shop
Workload:   MyStatefulApp.example.io my-app
State:      x Upgrading, step 1 of 3
Revision:   my-app-6f7d -> my-app-5c9b
Pods:       1 of 5 updated, 5 ready
Warning:    2 pods beyond the step run the new template: 1 allowed
Not ready:  my-app-4 CrashLoopBackOff
Not ready:  my-app-0 not ready (revision my-app-6f7d)

STEP  REPLICAS  PODS  UPDATED  READY  PAUSE     STATE
1     1         1     1        1      approval  current
2     50%       3     1        1      300s
3     100%      5     1        1      none"
    );
}

#[test]
fn one_look_without_the_workload() {
    let mut blind = base(State::WorkloadMissing, Verdict::InProgress);
    blind.workload = WorkloadReport {
        api_version: "apps/v1".to_owned(),
        kind: "StatefulSet".to_owned(),
        name: "web".to_owned(),
        found: Some(false),
        ..WorkloadReport::default()
    };
    blind.revisions = Revisions::default();
    blind.steps.clear();
    assert_eq!(
        text(report(&blind, PLAIN)),
        "\
Name:       my-app-rollout
Namespace:  shop
Workload:   StatefulSet.apps web
State:      ✖ WorkloadMissing"
    );
}

#[test]
fn changes_are_words() {
    assert_eq!(
        change(&awaiting()),
        "my-app-rollout step=1/3 state=AwaitingApproval updated=1/1 ready=5/5 revision=my-app-5c9b \
         hint=\"kubectl kruise rollout approve rollout/my-app-rollout -n shop\""
    );
    assert_eq!(
        change(&timed()),
        "my-app-rollout step=2/3 state=TimedPause updated=3/3 ready=5/5 revision=my-app-5c9b pause=300s"
    );
    assert_eq!(
        change(&failing()),
        "my-app-rollout step=1/3 state=Upgrading updated=1/1 ready=5/5 revision=my-app-5c9b beyond=2 \
         problem=\"my-app-4 CrashLoopBackOff\""
    );
    assert_eq!(
        change(&back(State::RollingBack, Verdict::InProgress)),
        "my-app-rollout state=RollingBack updated=2/5 ready=5/5 revision=my-app-6f7d"
    );
    let now = Timestamp::new(1_767_614_402, 999_000_000).unwrap();
    assert_eq!(stamped(now, "a"), "2026-01-05T12:00:02Z a");
    // A countdown alone is no change.
    let mut later = timed();
    later.pause = Some(PauseReport::Time {
        seconds: 300,
        remaining_seconds: 17,
    });
    assert_eq!(change(&later), change(&timed()));
}

#[test]
fn verdicts_are_sentences() {
    let said = |state: State, of: Verdict, message: &str| {
        let report = RolloutReport {
            message: message.to_owned(),
            ..base(state, of)
        };
        verdict(&report)
            .trim_start_matches("rollout.rollouts.kruise.io/my-app-rollout ")
            .to_owned()
    };
    assert_eq!(
        said(State::Complete, Verdict::Complete, ""),
        "complete: all 5 pods run revision my-app-5c9b"
    );
    assert_eq!(
        said(State::Idle, Verdict::Complete, ""),
        "is at rest: nothing has been released yet"
    );
    assert_eq!(
        said(State::RolledBack, Verdict::RolledBack, ""),
        "rolled back: every pod runs the stable template (revision my-app-5c9b)"
    );
    assert_eq!(
        said(State::Superseded, Verdict::Superseded, ""),
        "superseded: another template is being released"
    );
    assert_eq!(
        said(State::Disabled, Verdict::Disabled, ""),
        "not in force: updates are not held"
    );
    assert_eq!(
        said(State::Disabled, Verdict::Failing, "no label"),
        "failing: no label"
    );
    assert_eq!(
        said(State::Paused, Verdict::AwaitingApproval, ""),
        "paused by spec.strategy.paused"
    );
    assert_eq!(
        said(State::AwaitingApproval, Verdict::AwaitingApproval, ""),
        "waiting for approval of step 1 of 3"
    );
    assert_eq!(
        verdict(&failing()),
        "rollout.rollouts.kruise.io/my-app-rollout failing: my-app-4 CrashLoopBackOff"
    );
}

#[test]
fn colours_only_when_they_are_shown() {
    let colour = Theme {
        color: true,
        unicode: true,
    };
    for case in [
        awaiting(),
        timed(),
        failing(),
        back(State::RolledBack, Verdict::RolledBack),
    ] {
        let coloured = text(report(&case, colour));
        assert!(coloured.contains('\x1b'));
        assert_eq!(
            anstream::adapter::strip_str(&coloured).to_string(),
            text(report(&case, PLAIN))
        );
    }
}

#[test]
fn what_servers_say_cannot_move_the_cursor() {
    let mut evil = awaiting();
    evil.message = "fine\x1b[2J\x07\nName: other".to_owned();
    evil.revisions.update = Some("r\x1b]0;x".to_owned());
    evil.workload.name = "a\r".to_owned();
    for out in [text(report(&evil, PLAIN)), change(&evil), verdict(&evil)] {
        assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
    }
    assert_eq!(plain("fine\x1b[2J\nx"), "fine\\u{1b}[2J x");
    assert_eq!(
        plain("a\u{202e}b\u{200b}c\u{9b}d"),
        "a\\u{202e}b\\u{200b}c\\u{9b}d"
    );
    assert_eq!(plain("発布 ✔ é"), "発布 ✔ é");
}

mod golden;
