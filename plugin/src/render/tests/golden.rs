//! The drawn view of every state in every size, as files. `UPDATE_GOLDEN=1 cargo test` writes them anew.

use std::fmt::Write as _;
use std::path::Path;

use anstream::adapter::strip_str;
use dialoguer::console::measure_text_width;
use kruise_rollout::workload::PodView;
use serde_json::{Value, json};

use super::*;
use crate::cli::Pods;
use crate::cluster::Happening;

const SIZES: [Size; 5] = [
    Size {
        columns: 80,
        rows: 24,
    },
    Size {
        columns: 60,
        rows: 12,
    },
    Size {
        columns: 200,
        rows: 60,
    },
    Size { columns: 20, rows: 3 },
    Size { columns: 3, rows: 20 },
];
const SHOWN: Shown = Shown {
    pods: Pods::Batch,
    events: 5,
};

fn now() -> Timestamp {
    "2026-01-05T12:10:00Z".parse().unwrap()
}

fn pod(ordinal: u32, revision: &str, container: &Value) -> PodView {
    let ready = container.get("ready").is_some_and(|ready| *ready == true);
    PodView::read(&json!({
        "metadata": {"name": format!("my-app-{ordinal}"), "labels": {"controller-revision-hash": revision},
            "creationTimestamp": "2026-01-05T12:08:00Z"},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": "2026-01-05T12:09:21Z"}],
            "containerStatuses": [container]}
    }))
}

fn healthy(ordinal: u32, revision: &str) -> PodView {
    pod(ordinal, revision, &json!({"name": "app", "ready": true}))
}

fn crashing(ordinal: u32, revision: &str) -> PodView {
    let container = json!({"name": "app", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}});
    pod(ordinal, revision, &container)
}

fn event(second: u32, warning: bool, reason: &str, message: &str, count: i32) -> Happening {
    Happening {
        at: format!("2026-01-05T12:09:{second:02}Z").parse().ok(),
        warning,
        reason: reason.to_owned(),
        object: "MyStatefulApp/my-app".to_owned(),
        message: message.to_owned(),
        count,
    }
}

/// A state with what belongs to it.
struct Case {
    name: &'static str,
    report: RolloutReport,
    pods: Option<Vec<PodView>>,
    reconnecting: Option<u64>,
}

fn case(name: &'static str, report: RolloutReport) -> Case {
    let mut pods: Vec<_> = (0..4).map(|ordinal| healthy(ordinal, "my-app-6f7d")).collect();
    pods.push(healthy(4, "my-app-5c9b"));
    Case {
        name,
        report,
        pods: Some(pods),
        reconnecting: None,
    }
}

/// A state at which no step is the present one.
fn still(name: &'static str, state: State, verdict: Verdict, next: Option<&str>) -> Case {
    let mut report = base(state, verdict);
    for step in &mut report.steps {
        (step.updated, step.ready, step.progress) = (None, None, StepProgress::Ahead);
    }
    report.next = next.map(str::to_owned);
    case(name, report)
}

fn moving(name: &'static str, state: State) -> Case {
    case(name, base(state, Verdict::InProgress))
}

fn complete() -> Case {
    let mut report = base(State::Complete, Verdict::Complete);
    (report.workload.updated, report.workload.updated_ready) = (Some(5), Some(5));
    report.steps = vec![
        step(1, "1", 1, Some(1), StepProgress::Done, "approval"),
        step(2, "50%", 3, Some(3), StepProgress::Done, "300s"),
        step(3, "100%", 5, Some(5), StepProgress::Done, "none"),
    ];
    let mut case = case("complete", report);
    case.pods = Some((0..5).map(|ordinal| healthy(ordinal, "my-app-5c9b")).collect());
    case
}

fn broken() -> Case {
    let mut case = case("failing", failing());
    case.report.next = Some("kubectl kruise rollout undo rollout/my-app-rollout -n shop".to_owned());
    case.report.workload.ready = Some(3);
    case.pods = Some(vec![
        crashing(0, "my-app-6f7d"),
        healthy(1, "my-app-6f7d"),
        healthy(2, "my-app-6f7d"),
        healthy(3, "my-app-6f7d"),
        crashing(4, "my-app-5c9b"),
    ]);
    case
}

/// 300 pods in 40 steps, ten of them broken.
fn large() -> Case {
    let mut report = base(State::Upgrading, Verdict::Failing);
    report.step = 12;
    report.workload.replicas = Some(300);
    report.workload.ready = Some(290);
    report.workload.updated = Some(90);
    report.workload.updated_ready = Some(80);
    report.steps = (1..=40)
        .map(|number| {
            let target = u32::try_from(number * 300 / 40).unwrap();
            let progress = match number {
                0..12 => StepProgress::Done,
                12 => StepProgress::Current,
                _ => StepProgress::Ahead,
            };
            let mut step = step(
                number,
                &format!("{}%", number * 5 / 2),
                5,
                Some(90.min(target)),
                progress,
                "60s",
            );
            (step.target, step.ready) = (Some(target), Some(80.min(target)));
            step.partition = Some(300 - i64::from(target));
            step
        })
        .collect();
    let pods = (0..300).map(|ordinal| match ordinal {
        211..=220 => crashing(ordinal, "my-app-5c9b"),
        0..211 => healthy(ordinal, "my-app-6f7d"),
        _ => healthy(ordinal, "my-app-5c9b"),
    });
    let mut case = case("large", report);
    case.pods = Some(pods.collect());
    case
}

fn without_workload() -> Case {
    let mut case = still(
        "workload_missing",
        State::WorkloadMissing,
        Verdict::InProgress,
        None,
    );
    case.report.workload.found = Some(false);
    case.report.revisions = Revisions::default();
    case.report.message = "statefulset web is not there".to_owned();
    case.pods = None;
    case
}

fn refused() -> Case {
    let label = "kubectl kruise workload label rollout/my-app-rollout -n shop";
    let mut case = still("disabled", State::Disabled, Verdict::Failing, Some(label));
    case.report.message =
        "the label rollouts.kruise.io/workload-type is missing: updates of my-app are not held".to_owned();
    case
}

fn cases() -> Vec<Case> {
    let patch = "kubectl patch rollouts.rollouts.kruise.io my-app-rollout -n shop --type=merge -p \
                 '{\"spec\":{\"strategy\":{\"paused\":false}}}'";
    let mut paused = moving("paused", State::Paused);
    (paused.report.verdict, paused.report.next) = (Verdict::AwaitingApproval, Some(patch.to_owned()));
    let mut lost = moving("reconnecting", State::Upgrading);
    lost.reconnecting = Some(3);
    let mut blind = moving("without_pods", State::Upgrading);
    blind.pods = None;
    let mut wide = case("wide", awaiting());
    wide.report.workload.name = "発布".to_owned();
    wide.report.message = "発布\u{1b}[2J".to_owned();
    wide.report.revisions.update = Some("my-app-発布発布発布\u{202e}".to_owned());
    let container = json!({"name": "a\u{1b}[31m", "ready": false, "state": {"running": {}}});
    wide.pods = Some(vec![
        healthy(0, "my-app-6f7d"),
        pod(4, "my-app-発布発布発布\u{202e}", &container),
    ]);
    vec![
        case("awaiting_approval", awaiting()),
        case("timed_pause", timed()),
        paused,
        moving("approved", State::Approved),
        moving("starting", State::Starting),
        moving("upgrading", State::Upgrading),
        moving("routing_traffic", State::RoutingTraffic),
        moving("analyzing", State::Analyzing),
        moving("finalising", State::Finalising),
        case("rolling_back", back(State::RollingBack, Verdict::InProgress)),
        case("rolled_back", back(State::RolledBack, Verdict::RolledBack)),
        still("superseded", State::Superseded, Verdict::Superseded, None),
        still("deleting", State::Deleting, Verdict::InProgress, None),
        still("disabling", State::Disabling, Verdict::InProgress, None),
        refused(),
        without_workload(),
        still(
            "not_intercepted",
            State::NotIntercepted,
            Verdict::InProgress,
            None,
        ),
        still("pending", State::Pending, Verdict::InProgress, None),
        still("idle", State::Idle, Verdict::Complete, None),
        still(
            "unknown",
            State::Unknown("Levitating".to_owned()),
            Verdict::InProgress,
            None,
        ),
        complete(),
        broken(),
        large(),
        lost,
        blind,
        wide,
    ]
}

fn drawn(case: &Case, size: Size, theme: Theme) -> Vec<String> {
    let events = [
        event(2, false, "Progressing", "step 1 begins", 1),
        event(
            21,
            true,
            "FailedCreate",
            "pods \"my-app-4\" is forbidden: exceeded quota",
            7,
        ),
    ];
    let scene = Scene {
        report: &case.report,
        pods: case.pods.as_deref(),
        events: &events,
        since: "2026-01-05T12:09:19Z".parse().ok(),
        reconnecting: case.reconnecting,
        now: now(),
    };
    frame(&scene, SHOWN, size, theme)
}

fn theme(color: bool, unicode: bool) -> Theme {
    Theme { color, unicode }
}

#[test]
fn every_state_in_every_size() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render/tests/golden");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for case in cases() {
        let mut text = String::new();
        for size in SIZES {
            for (charset, unicode) in [("utf8", true), ("ascii", false)] {
                let lines = drawn(&case, size, theme(false, unicode));
                writeln!(text, "== {}x{} {charset}", size.columns, size.rows).unwrap();
                lines.iter().for_each(|line| writeln!(text, "{line}").unwrap());
            }
        }
        let coloured = drawn(&case, SIZES[0], theme(true, true));
        writeln!(text, "== 80x24 utf8, in colour").unwrap();
        coloured
            .iter()
            .for_each(|line| writeln!(text, "{}", line.escape_debug()).unwrap());
        let file = folder.join(format!("{}.txt", case.name));
        if update {
            std::fs::write(&file, text).unwrap();
        } else if std::fs::read_to_string(&file).unwrap_or_default() != text {
            wrong.push(format!("{}:\n{text}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_frame_is_never_wider_or_taller_than_the_terminal_and_says_the_state() {
    for case in cases() {
        for columns in [1, 3, 10, 20, 40, 59, 60, 80, 99, 160, 300] {
            for rows in [1, 2, 3, 4, 5, 8, 12, 24, 60] {
                let size = Size { columns, rows };
                for unicode in [true, false] {
                    let plain = drawn(&case, size, theme(false, unicode));
                    let at = format!("{} {columns}x{rows}: {plain:#?}", case.name);
                    assert!(plain.len() <= rows, "{at}");
                    assert!(
                        plain.iter().all(|line| measure_text_width(line) <= columns),
                        "{at}"
                    );
                    assert!(
                        !plain.iter().any(|line| line.chars().any(char::is_control)),
                        "{at}"
                    );
                    let state = case.report.state.word();
                    assert!(
                        columns < 20 || plain.iter().any(|line| line.contains(state)),
                        "{at}"
                    );
                    let foreign = |c: char| !unicode && !c.is_ascii() && case.name != "wide";
                    assert!(!plain.iter().any(|line| line.chars().any(foreign)), "{at}");
                    let coloured = drawn(&case, size, theme(true, unicode));
                    let reset = |line: &String| {
                        line.rfind('\x1b')
                            .is_none_or(|last| line[last..].starts_with("\x1b[0m"))
                    };
                    assert!(coloured.iter().all(reset), "{at}");
                    let stripped: Vec<_> = coloured.iter().map(|line| strip_str(line).to_string()).collect();
                    assert_eq!(stripped, plain, "{at}");
                }
            }
        }
    }
}

#[test]
fn the_present_step_and_the_next_command_have_room_first() {
    let small = drawn(&case("", awaiting()), Size { columns: 80, rows: 4 }, PLAIN);
    assert_eq!(
        small,
        [
            "⏸ AwaitingApproval, step 1 of 3, for 41s",
            " 1 ▸ 1     ████████████████████  1/1, 1 ready  then approval",
            "total      ████░░░░░░░░░░░░░░░░  1/5 updated, 5 ready",
            "kubectl kruise rollout approve rollout/my-app-rollout -n shop",
        ]
    );
}

#[test]
fn pods_are_named_as_asked() {
    let shown = |pods: Pods| {
        let case = broken();
        let scene = Scene {
            report: &case.report,
            pods: case.pods.as_deref(),
            events: &[],
            since: None,
            reconnecting: None,
            now: now(),
        };
        let lines = frame(&scene, Shown { pods, events: 5 }, SIZES[0], PLAIN);
        let from = lines
            .iter()
            .position(|line| line.starts_with("2 pods beyond"))
            .unwrap();
        lines[from + 1..lines.len() - 1].to_vec()
    };
    assert_eq!(shown(Pods::None), [""; 0]);
    let bad = [
        "batch 1   ✖ my-app-4  container app in CrashLoopBackOff: exit code 1  2m00s",
        "stable    ✖ my-app-0  container app in CrashLoopBackOff: exit code 1  2m00s",
    ];
    assert_eq!(shown(Pods::Bad), bad);
    assert_eq!(shown(Pods::Batch), [bad[0], bad[1], "stable    ✔ +3 healthy"]);
    assert_eq!(
        shown(Pods::All),
        [bad[0], bad[1], "stable    ✔ my-app-1 my-app-2 my-app-3"]
    );
}

#[test]
fn several_releases_have_a_row_each() {
    let cases = [case("", awaiting()), complete(), broken()];
    let scenes: Vec<_> = cases
        .iter()
        .map(|case| Scene {
            report: &case.report,
            pods: None,
            events: &[],
            since: None,
            reconnecting: None,
            now: now(),
        })
        .collect();
    assert_eq!(
        rows(&scenes, SIZES[0], PLAIN),
        [
            "my-app-rollout  ⏸ AwaitingApproval, step 1 of 3    ████░░░░░░░░░░░░░░░░ 1/5",
            "my-app-rollout  ✔ Complete                         ████████████████████ 5/5",
            "my-app-rollout  ✖ Upgrading, step 1 of 3, failing  ████░░░░░░░░░░░░░░░░ 1/5  2 …",
        ]
    );
    let low = rows(&scenes, Size { columns: 60, rows: 2 }, ASCII);
    assert_eq!(low.len(), 2);
    assert_eq!(low[1], "... 2 more");
}
