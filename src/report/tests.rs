mod documents;
mod history;
mod overlays;
mod rows;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::workload::{GroupKind, Guard, adapter_for};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn template(version: u32) -> Value {
    json!({"spec": {"containers": [{"name": "app", "image": format!("app:v{version}")}]}})
}

/// A Rollout of three steps in this state; what is `null` in `change` is left out.
fn rollout(phase: &str, step: i32, state: &str, change: &[(&str, Value)]) -> Rollout {
    let mut object = json!({
        "metadata": {"name": "my-app-rollout", "namespace": "shop", "uid": "r"},
        "spec": {"workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "my-app"},
            "strategy": {"canary": {"steps": [
                {"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {"duration": 300}}, {"replicas": "100%"}]}}},
        "status": {"phase": phase, "message": "said by the controller", "conditions": [],
            "canaryStatus": {"currentStepIndex": step, "currentStepState": state, "canaryRevision": "my-app-2",
                "stableRevision": "my-app-1", "templateId": TemplateId::of(&template(2)).to_string(),
                "lastUpdateTime": "1970-01-01T00:01:40Z"}}
    });
    for (path, value) in change {
        let (parent, name) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// The workload in a release from v1 to this version, with this grant; at rest without one.
fn view(version: u32, grant: Option<i64>) -> View {
    let stable = if grant.is_some() { 1 } else { version };
    let guard = Guard::text("w", "my-app-rollout", &TemplateId::of(&template(stable)));
    let mut annotations = json!({(names::GUARDED_BY): guard});
    if let Some(grant) = grant {
        annotations[names::IN_PROGRESSING] = json!("{}");
        annotations[names::GRANTED_PARTITION] = json!(grant.to_string());
    }
    let object = json!({
        "metadata": {"uid": "w", "generation": 3, "annotations": annotations,
            "labels": {(names::WORKLOAD_TYPE): names::TYPE_STATEFULSET}},
        "spec": {"replicas": 5, "template": template(version),
            "updateStrategy": {"rollingUpdate": {"partition": grant.unwrap_or(0)}}},
        "status": {"observedGeneration": 3, "replicas": 5, "readyReplicas": 5, "updatedReplicas": 5,
            "currentRevision": "my-app-1", "updateRevision": format!("my-app-{version}")}
    });
    let kind = GroupKind {
        group: "example.io".to_owned(),
        kind: "MyStatefulApp".to_owned(),
    };
    adapter_for(&kind).unwrap().view(&object).unwrap()
}

/// Five pods, the last `updated` ones on this version.
fn pods(version: u32, updated: usize) -> Vec<PodView> {
    (0..5)
        .map(|ordinal| {
            let version = if ordinal + updated >= 5 { version } else { 1 };
            PodView::read(&json!({
                "metadata": {"name": format!("my-app-{ordinal}"), "labels": {"controller-revision-hash": format!("my-app-{version}")}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}
            }))
        })
        .collect()
}

fn broken(mut pods: Vec<PodView>, reason: &str) -> Vec<PodView> {
    let last = pods.last_mut().unwrap();
    last.ready = false;
    last.reason = Some(reason.to_owned());
    pods
}

fn report(rollout: &Rollout, view: &View, pods: &[PodView]) -> RolloutReport {
    let sources = Sources {
        rollout,
        workload: Seen::Present(view),
        pods: Some(pods),
        followed: None,
        hidden: &[],
        workload_changed: None,
        now: at(200),
    };
    RolloutReport::new(&sources)
}

fn condition(type_: &str, status: &str, reason: &str) -> (&'static str, Value) {
    (
        "/status/conditions",
        json!([{"type": type_, "status": status, "reason": reason, "message": ""}]),
    )
}

#[rstest]
#[case::initial("Initial", "", &[], view(1, None), State::Idle, Verdict::Complete)]
#[case::held_before_the_controller("Healthy", "Completed", &[], view(2, Some(32767)), State::Pending, Verdict::InProgress)]
#[case::starting("Progressing", "BeforeStepUpgrade", &[], view(2, Some(32767)), State::Starting, Verdict::InProgress)]
#[case::upgrading("Progressing", "StepUpgrade", &[], view(2, Some(4)), State::Upgrading, Verdict::InProgress)]
#[case::approval("Progressing", "StepPaused", &[], view(2, Some(4)), State::AwaitingApproval, Verdict::AwaitingApproval)]
#[case::approved("Progressing", "StepReady", &[], view(2, Some(4)), State::Approved, Verdict::InProgress)]
#[case::timed("Progressing", "StepPaused", &[("/status/canaryStatus/currentStepIndex", json!(2))], view(2, Some(2)),
    State::TimedPause, Verdict::InProgress)]
#[case::spec_paused("Progressing", "StepPaused", &[("/spec/strategy/paused", json!(true))], view(2, Some(4)),
    State::Paused, Verdict::AwaitingApproval)]
#[case::finalising("Progressing", "StepUpgrade", &[condition("Progressing", "True", "Finalising")], view(2, Some(0)),
    State::Finalising, Verdict::InProgress)]
#[case::reverted_before_the_controller("Progressing", "StepPaused", &[], view(1, Some(4)), State::RollingBack, Verdict::InProgress)]
#[case::rolling_back("Progressing", "StepUpgrade", &[("/status/canaryStatus/rolledBack", json!(true))], view(1, Some(0)),
    State::RollingBack, Verdict::InProgress)]
#[case::forward_again("Progressing", "StepUpgrade", &[("/status/canaryStatus/rolledBack", json!(true))], view(3, Some(4)),
    State::Upgrading, Verdict::InProgress)]
#[case::cancelling("Progressing", "StepUpgrade", &[condition("Progressing", "True", "Cancelling")], view(1, None),
    State::RollingBack, Verdict::InProgress)]
#[case::rolled_back("Healthy", "Completed", &[condition("Succeeded", "False", "RolledBack")], view(1, None),
    State::RolledBack, Verdict::RolledBack)]
#[case::complete("Healthy", "Completed", &[condition("Succeeded", "True", "Success")], view(2, None),
    State::Complete, Verdict::Complete)]
#[case::disabled("Disabled", "", &[("/spec/disabled", json!(true))], view(1, None), State::Disabled, Verdict::Disabled)]
#[case::not_governable("Disabled", "", &[condition("Stalled", "True", "LabelMissing")], view(1, None),
    State::Disabled, Verdict::Failing)]
#[case::disabling("Disabling", "", &[], view(2, Some(0)), State::Disabling, Verdict::InProgress)]
#[case::deleting("Terminating", "", &[], view(2, Some(0)), State::Deleting, Verdict::InProgress)]
#[case::stalled("Progressing", "StepUpgrade", &[condition("Stalled", "True", "OperatorSilent")], view(2, Some(4)),
    State::Upgrading, Verdict::Failing)]
#[case::a_phase_of_tomorrow("Sleeping", "", &[], view(1, None), State::Unknown("Sleeping".to_owned()), Verdict::InProgress)]
#[case::a_state_of_tomorrow("Progressing", "StepDancing", &[], view(2, Some(4)), State::Unknown("StepDancing".to_owned()),
    Verdict::InProgress)]
fn states(
    #[case] phase: &str,
    #[case] step_state: &str,
    #[case] change: &[(&str, Value)],
    #[case] view: View,
    #[case] state: State,
    #[case] verdict: Verdict,
) {
    let report = report(&rollout(phase, 1, step_state, change), &view, &pods(2, 1));
    assert_eq!((report.state, report.verdict), (state, verdict));
    assert_eq!(report.exit_code, verdict.exit_code());
}

#[test]
fn steps_are_counts() {
    let report = report(
        &rollout("Progressing", 2, "StepUpgrade", &[]),
        &view(2, Some(2)),
        &pods(2, 2),
    );
    let steps: Vec<_> = report
        .steps
        .iter()
        .map(|s| (s.replicas.as_str(), s.target, s.updated, s.ready, s.progress))
        .collect();
    assert_eq!(
        steps,
        [
            ("1", Some(1), Some(1), Some(1), StepProgress::Done),
            ("50%", Some(3), Some(2), Some(2), StepProgress::Current),
            ("100%", Some(5), Some(2), Some(2), StepProgress::Ahead),
        ]
    );
    let pauses: Vec<_> = report.steps.iter().map(|s| s.pause.as_str()).collect();
    assert_eq!(pauses, ["approval", "300s", "none"]);
    assert_eq!(
        (report.workload.updated, report.workload.ready),
        (Some(2), Some(5))
    );
    assert_eq!(report.breach, None);
}

#[test]
fn a_pause_counts_down() {
    let rollout = rollout("Progressing", 2, "StepPaused", &[]);
    let (view, pods) = (view(2, Some(2)), pods(2, 3));
    for (now, left) in [(at(100), 300), (at(399), 1), (at(400), 0), (at(1000), 0)] {
        let sources = Sources {
            rollout: &rollout,
            workload: Seen::Present(&view),
            pods: Some(&pods),
            followed: None,
            hidden: &[],
            workload_changed: None,
            now,
        };
        let pause = RolloutReport::new(&sources).pause;
        assert_eq!(
            pause,
            Some(PauseReport::Time {
                seconds: 300,
                remaining_seconds: left
            })
        );
    }
}

#[test]
fn more_pods_than_granted_are_a_breach() {
    let rollout = rollout("Progressing", 1, "StepPaused", &[]);
    let breach = report(&rollout, &view(2, Some(4)), &pods(2, 3)).breach;
    assert_eq!(
        breach,
        Some(Breach {
            allowed: 1,
            beyond: 2
        })
    );
    // On the way back every pod is welcome.
    assert_eq!(report(&rollout, &view(1, Some(4)), &pods(1, 5)).breach, None);
}

#[test]
fn a_pod_that_does_not_come_up_fails_the_release_and_one_that_starts_does_not() {
    let rollout = rollout("Progressing", 1, "StepUpgrade", &[]);
    let starting = report(
        &rollout,
        &view(2, Some(4)),
        &broken(pods(2, 1), "ContainerCreating"),
    );
    assert_eq!(starting.verdict, Verdict::InProgress);
    let crashing = report(
        &rollout,
        &view(2, Some(4)),
        &broken(pods(2, 1), "CrashLoopBackOff"),
    );
    assert_eq!(crashing.verdict, Verdict::Failing);
    assert_eq!(crashing.exit_code, 3);
    assert_eq!(crashing.problems[0].pod, "my-app-4");
    // Pods of the old template are not this release's failure.
    let old = report(
        &rollout,
        &view(2, Some(4)),
        &broken(pods(2, 0), "CrashLoopBackOff"),
    );
    assert_eq!(old.verdict, Verdict::InProgress);
}

#[test]
fn another_template_than_the_followed_one_supersedes_it_unless_it_is_the_way_back() {
    let rollout = rollout("Progressing", 1, "StepUpgrade", &[]);
    let followed = TemplateId::of(&template(2));
    let state = |version: u32| {
        let view = view(version, Some(4));
        let sources = Sources {
            rollout: &rollout,
            workload: Seen::Present(&view),
            pods: None,
            followed: Some(&followed),
            hidden: &[],
            workload_changed: None,
            now: at(200),
        };
        RolloutReport::new(&sources).state
    };
    assert_eq!(state(2), State::Upgrading);
    assert_eq!(state(3), State::Superseded);
    assert_eq!(state(1), State::RollingBack);
}

#[test]
fn the_operator_is_not_believed_before_it_has_seen_the_template() {
    let rollout = rollout(
        "Healthy",
        3,
        "Completed",
        &[(
            "/status/canaryStatus/templateId",
            json!(TemplateId::of(&template(1)).to_string()),
        )],
    );
    let mut view = view(2, Some(32767));
    view.reported.observed_generation = Some(2);
    view.reported.update_revision = Some("my-app-1".to_owned());
    let report = report(&rollout, &view, &pods(2, 0));
    assert_eq!((report.revisions.update, report.workload.updated), (None, None));
}

#[test]
fn without_the_workload_the_status_speaks_alone() {
    let rollout = rollout("Progressing", 1, "StepPaused", &[]);
    let mut sources = Sources {
        rollout: &rollout,
        workload: Seen::Unknown,
        pods: None,
        followed: None,
        hidden: &[],
        workload_changed: None,
        now: at(0),
    };
    let report = RolloutReport::new(&sources);
    assert_eq!(report.state, State::AwaitingApproval);
    assert_eq!(report.total(), 3);
    assert_eq!(report.steps[1].target, None);
    assert_eq!(
        report
            .steps
            .iter()
            .map(|step| step.pause.as_str())
            .collect::<Vec<_>>(),
        ["approval", "300s", "none"]
    );
    assert_eq!(report.workload.found, None);
    assert_eq!(
        report.next.as_deref(),
        Some("kubectl kruise rollout approve rollout/my-app-rollout -n shop")
    );
    sources.workload = Seen::Missing;
    assert_eq!(RolloutReport::new(&sources).state, State::WorkloadMissing);
}

#[test]
fn a_rollout_without_a_status_is_idle() {
    let rollout = rollout("", 0, "", &[("/status", Value::Null)]);
    let report = report(&rollout, &view(1, None), &pods(1, 5));
    assert_eq!((report.state, report.verdict), (State::Idle, Verdict::Complete));
}

#[test]
fn a_blue_green_release_of_the_existing_controller_is_read_too() {
    let green = json!({"currentStepIndex": 1, "currentStepState": "StepPaused", "updatedRevision": "r2"});
    let rollout = rollout(
        "Progressing",
        1,
        "",
        &[
            (
                "/spec/strategy",
                json!({"blueGreen": {"steps": [{"replicas": "100%"}, {"replicas": "100%"}]}}),
            ),
            ("/status/canaryStatus", Value::Null),
            ("/status/blueGreenStatus", green),
        ],
    );
    let sources = Sources {
        rollout: &rollout,
        workload: Seen::Unknown,
        pods: None,
        followed: None,
        hidden: &[],
        workload_changed: None,
        now: at(0),
    };
    let report = RolloutReport::new(&sources);
    assert_eq!(
        (report.state.clone(), report.step, report.total()),
        (State::AwaitingApproval, 1, 2)
    );
}

#[test]
fn the_json_form() {
    let report = report(
        &rollout("Progressing", 1, "StepPaused", &[]),
        &view(2, Some(4)),
        &pods(2, 1),
    );
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["apiVersion"], "kruise.cli/v1");
    assert_eq!(value["state"], "AwaitingApproval");
    assert_eq!(value["pause"], json!({"for": "approval"}));
    assert_eq!(
        value["steps"][0],
        json!({"number": 1, "replicas": "1", "target": 1, "partition": 4, "updated": 1,
        "ready": 1, "progress": "Current", "pause": "approval"})
    );
    assert_eq!(
        value["workload"],
        json!({"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "my-app",
        "found": true, "replicas": 5, "ready": 5, "updated": 1, "updatedReady": 1, "partition": 4})
    );
    assert_eq!(value["exitCode"], 0);
}

#[test]
fn a_broken_pod_of_a_template_that_nobody_wants_is_to_be_deleted() {
    let upgrading = rollout("Progressing", 1, "StepUpgrade", &[]);
    let mut third = broken(pods(3, 1), "CrashLoopBackOff");
    let report_of = |rollout: &Rollout, view: &View, pods: &[PodView]| report(rollout, view, pods).next;
    let delete = Some("kubectl delete pod my-app-4 -n shop".to_owned());
    assert_eq!(report_of(&upgrading, &view(2, Some(4)), &third), delete);
    // On the way back, too; but not while it only starts.
    let rolling = rollout(
        "Progressing",
        1,
        "StepUpgrade",
        &[("/status/canaryStatus/rolledBack", json!(true))],
    );
    assert_eq!(report_of(&rolling, &view(1, Some(0)), &third), delete);
    third[4].reason = Some("ContainerCreating".to_owned());
    assert_eq!(report_of(&rolling, &view(1, Some(0)), &third), None);
    // A broken pod of the stable template is no obstacle that this release has made.
    assert_eq!(
        report_of(
            &upgrading,
            &view(2, Some(4)),
            &broken(pods(2, 0), "CrashLoopBackOff")
        ),
        None
    );
}

#[test]
fn nobody_is_asked_to_approve_what_another_controller_has_begun() {
    let stalled = json!([{"type": "Stalled", "status": "True", "reason": "ReleaseOfAnotherController", "message": "theirs"}]);
    let of = |conditions: Value| {
        let rollout = rollout(
            "Progressing",
            1,
            "StepPaused",
            &[("/status/conditions", conditions)],
        );
        report(&rollout, &view(2, Some(4)), &pods(2, 1)).next
    };
    let ours = |words: &str| {
        Some(format!(
            "kubectl kruise rollout {words} rollout/my-app-rollout -n shop"
        ))
    };
    assert_eq!(of(json!([])), ours("approve"));
    assert_eq!(of(stalled), ours("disable"));
}

#[test]
fn a_step_that_is_filled_by_pods_below_the_partition_is_no_breach() {
    let rollout = rollout("Progressing", 1, "StepPaused", &[]);
    // my-app-2 runs the new template: nothing else is granted.
    assert_eq!(report(&rollout, &view(2, Some(5)), &pods(2, 1)).breach, None);
    let held = view(2, Some(names::HOLD_PARTITION));
    assert!(report(&rollout, &held, &pods(2, 1)).breach.is_some());
}
