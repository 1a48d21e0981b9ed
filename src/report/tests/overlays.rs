use super::*;

fn kinds(report: &RolloutReport) -> Vec<OverlayKind> {
    report.overlays.iter().map(|overlay| overlay.kind).collect()
}

fn waiting(reason: &str, detail: &str) -> Vec<PodView> {
    let mut pods = broken(pods(2, 1), reason);
    pods[4].since = Some(at(100));
    pods[4].trouble = Some(Box::new(crate::workload::Trouble {
        node: None,
        why: detail.to_owned(),
    }));
    pods
}

#[rstest]
#[case::crash("CrashLoopBackOff", 101, true)]
#[case::image("ImagePullBackOff", 101, true)]
#[case::config("CreateContainerConfigError", 101, true)]
#[case::starts("ContainerCreating", 9999, false)]
#[case::no_node_yet("Unschedulable", 159, false)]
#[case::no_node("Unschedulable", 160, true)]
fn degraded(#[case] reason: &str, #[case] now: i64, #[case] expected: bool) {
    let rollout = rollout("Progressing", 1, "StepPaused", &[]);
    let (view, pods) = (view(2, Some(4)), waiting(reason, "container app ends with 1"));
    let sources = Sources {
        rollout: &rollout,
        workload: Seen::Present(&view),
        pods: Some(&pods),
        followed: None,
        hidden: &[],
        workload_changed: None,
        now: at(now),
    };
    let report = RolloutReport::new(&sources);
    // Also while it waits for approval.
    assert_eq!(report.state, State::AwaitingApproval);
    assert_eq!(report.has(OverlayKind::Degraded), expected);
    let verdict = if expected {
        Verdict::Failing
    } else {
        Verdict::AwaitingApproval
    };
    assert_eq!(report.verdict, verdict);
    if expected {
        assert_eq!(report.overlays[0].message, "my-app-4: container app ends with 1");
    }
}

/// A Rollout that was changed at second 100.
fn changed(observed: i64) -> Rollout {
    let fields = json!([
        {"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": "1970-01-01T00:01:40Z"},
        {"manager": "c", "operation": "Update", "apiVersion": "v1", "subresource": "status", "time": "1970-01-01T00:10:00Z"}
    ]);
    rollout(
        "Progressing",
        1,
        "StepUpgrade",
        &[
            ("/metadata/generation", json!(3)),
            ("/metadata/managedFields", fields),
            ("/status/observedGeneration", json!(observed)),
        ],
    )
}

#[rstest]
#[case::seen(3, 9999, false)]
#[case::just_changed(2, 130, false)]
#[case::for_long(2, 131, true)]
#[case::a_status_that_does_not_say(0, 9999, false)]
fn stale_rollout(#[case] observed: i64, #[case] now: i64, #[case] expected: bool) {
    let (rollout, view, pods) = (changed(observed), view(2, Some(4)), pods(2, 1));
    let sources = Sources {
        rollout: &rollout,
        workload: Seen::Present(&view),
        pods: Some(&pods),
        followed: None,
        hidden: &[],
        workload_changed: None,
        now: at(now),
    };
    let report = RolloutReport::new(&sources);
    assert_eq!(report.has(OverlayKind::Stale), expected);
    // It is a doubt, not a failure.
    assert_eq!(report.verdict, Verdict::InProgress);
}

#[rstest]
#[case::seen(3, Some(100), 9999, false)]
#[case::just_changed(2, Some(100), 130, false)]
#[case::for_long(2, Some(100), 131, true)]
#[case::nobody_knows_since_when(2, None, 9999, false)]
fn stale_workload(
    #[case] observed: i64,
    #[case] changed: Option<i64>,
    #[case] now: i64,
    #[case] expected: bool,
) {
    let rollout = rollout("Progressing", 1, "StepUpgrade", &[]);
    let (mut view, pods) = (view(2, Some(4)), pods(2, 1));
    view.reported.observed_generation = Some(observed);
    let sources = Sources {
        rollout: &rollout,
        workload: Seen::Present(&view),
        pods: Some(&pods),
        followed: None,
        hidden: &[],
        workload_changed: changed.map(at),
        now: at(now),
    };
    assert_eq!(RolloutReport::new(&sources).has(OverlayKind::Stale), expected);
}

#[test]
fn overdue() {
    let rollout = rollout("Progressing", 2, "StepPaused", &[]);
    let view = view(2, Some(2));
    let at_time = |now: i64| {
        let sources = Sources {
            rollout: &rollout,
            workload: Seen::Present(&view),
            pods: None,
            followed: None,
            hidden: &[],
            workload_changed: None,
            now: at(now),
        };
        kinds(&RolloutReport::new(&sources))
    };
    // The pause began at 100 and takes 300 s.
    assert_eq!(at_time(460), []);
    assert_eq!(at_time(461), [OverlayKind::Overdue]);
}

#[test]
fn what_could_not_be_read_is_named() {
    let rollout = rollout("Progressing", 1, "StepPaused", &[]);
    let hidden = [Hidden {
        part: "pods",
        right: "list pods in namespace shop".to_owned(),
    }];
    let sources = Sources {
        rollout: &rollout,
        workload: Seen::Unknown,
        pods: None,
        followed: None,
        hidden: &hidden,
        workload_changed: None,
        now: at(0),
    };
    let report = RolloutReport::new(&sources);
    assert_eq!(kinds(&report), [OverlayKind::PartialView]);
    assert_eq!(
        report.overlays[0].message,
        "pods are not shown: you may not list pods in namespace shop"
    );
}

/// A workload of the existing controller: no marks of ours.
fn unmarked(current: u32, update: u32, updated: u32, held: bool) -> View {
    let annotations = if held {
        json!({(names::IN_PROGRESSING): "{}"})
    } else {
        json!({})
    };
    let object = json!({
        "metadata": {"uid": "w", "generation": 3, "annotations": annotations},
        "spec": {"replicas": 5, "template": template(update), "updateStrategy": {"rollingUpdate": {"partition": 0}}},
        "status": {"observedGeneration": 3, "replicas": 5, "readyReplicas": 5, "updatedReplicas": updated,
            "currentRevision": format!("my-app-{current}"), "updateRevision": format!("my-app-{update}")}
    });
    let kind = GroupKind {
        group: "apps.kruise.io".to_owned(),
        kind: "StatefulSet".to_owned(),
    };
    adapter_for(&kind).unwrap().view(&object).unwrap()
}

#[rstest]
#[case::goes_back("Progressing", unmarked(1, 1, 4, true), &[], State::RollingBack)]
#[case::begins("Progressing", unmarked(1, 2, 0, true), &[], State::Upgrading)]
#[case::has_gone_back("Healthy", unmarked(1, 1, 5, false), &[condition("Succeeded", "False", "Completed")], State::RolledBack)]
#[case::escapes("Healthy", unmarked(2, 3, 1, false), &[], State::NotIntercepted)]
#[case::escaped("Healthy", unmarked(3, 3, 5, false), &[], State::NotIntercepted)]
#[case::complete("Healthy", unmarked(2, 2, 5, false), &[], State::Complete)]
#[case::changed_since("Healthy", unmarked(2, 2, 5, false), &[("/status/canaryStatus/observedWorkloadGeneration", json!(2))],
    State::Pending)]
#[case::observed("Healthy", unmarked(2, 2, 5, false), &[("/status/canaryStatus/observedWorkloadGeneration", json!(3))],
    State::Complete)]
#[case::by_id("Progressing", unmarked(1, 2, 1, true), &[("/status/canaryStatus/observedRolloutID", json!("rollback-x"))],
    State::RollingBack)]
fn states_of_the_existing_controller(
    #[case] phase: &str,
    #[case] view: View,
    #[case] change: &[(&str, Value)],
    #[case] state: State,
) {
    let step_state = if phase == "Healthy" {
        "Completed"
    } else {
        "StepUpgrade"
    };
    // It names the revision by its hash alone.
    let mut changes = vec![("/status/canaryStatus/canaryRevision", json!("2"))];
    changes.extend(change.iter().cloned());
    let report = report(&rollout(phase, 1, step_state, &changes), &view, &[]);
    assert_eq!(report.state, state);
}

#[test]
fn a_blue_green_release_is_blocked_by_another_template() {
    let green = json!({"currentStepIndex": 1, "currentStepState": "StepPaused", "updatedRevision": "2",
        "message": "cannot go on: another template came"});
    let strategy = json!({"blueGreen": {"steps": [{"replicas": "100%"}, {"replicas": "100%"}]}});
    let rollout = rollout(
        "Progressing",
        1,
        "",
        &[
            ("/spec/strategy", strategy),
            ("/status/canaryStatus", Value::Null),
            ("/status/blueGreenStatus", green),
        ],
    );
    let blocked = report(&rollout, &unmarked(1, 3, 0, true), &[]);
    assert_eq!(
        (blocked.state, blocked.verdict),
        (State::Blocked, Verdict::Failing)
    );
    assert_eq!(blocked.strategy, "blueGreen");
    assert_eq!(
        report(&rollout, &unmarked(1, 2, 5, true), &[]).state,
        State::AwaitingApproval
    );
}

#[test]
fn a_deployment_of_the_existing_controller_is_read_by_the_hash_of_its_pods() {
    let mut changes = vec![("/status/canaryStatus/podTemplateHash", json!("6d4cf56db6"))];
    changes.push(("/status/canaryStatus/templateId", json!("")));
    let rollout = rollout("Progressing", 1, "StepPaused", &changes);
    let mut view = unmarked(1, 2, 1, true);
    view.reported.update_revision = None;
    let report = report(&rollout, &view, &[]);
    assert_eq!(report.revisions.update.as_deref(), Some("6d4cf56db6"));
}
