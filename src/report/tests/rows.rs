use super::*;

fn fact(name: &str, version: u32, labels: &Value) -> PodFacts {
    let mut all = json!({"controller-revision-hash": format!("my-app-{version}")});
    for (name, value) in labels.as_object().unwrap() {
        all[name] = value.clone();
    }
    PodFacts::read(&json!({
        "metadata": {"name": name, "labels": all, "creationTimestamp": "1970-01-01T00:00:10Z"},
        "spec": {"nodeName": "node-0"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"ready": true, "restartCount": 2}, {"ready": true, "restartCount": 1}]}
    }))
}

fn rows(rollout: &Rollout, view: &View, facts: &[PodFacts]) -> Vec<PodReport> {
    let views: Vec<_> = facts.iter().map(|fact| fact.view.clone()).collect();
    let sources = Sources {
        rollout,
        workload: Seen::Present(view),
        pods: Some(&views),
        followed: None,
        hidden: &[],
        workload_changed: None,
        now: at(200),
    };
    pod_reports(&sources, &RolloutReport::new(&sources), facts)
}

fn batches(rows: &[PodReport]) -> Vec<(&str, Option<usize>)> {
    rows.iter().map(|row| (row.name.as_str(), row.batch)).collect()
}

#[test]
fn a_pod_as_it_is_shown() {
    let rollout = rollout("Progressing", 1, "StepPaused", &[]);
    let row = rows(&rollout, &view(2, Some(4)), &[fact("my-app-4", 2, &json!({}))]).remove(0);
    assert_eq!(
        row,
        PodReport {
            name: "my-app-4".to_owned(),
            revision: Some("my-app-2".to_owned()),
            role: PodRole::Update,
            batch: Some(1),
            ready: true,
            state: "Running".to_owned(),
            detail: None,
            containers: 2,
            ready_containers: 2,
            restarts: 3,
            node: Some("node-0".to_owned()),
            created: Some(at(10)),
        }
    );
    assert!(row.runs(Some("my-app-2")) && !row.runs(Some("my-app-1")) && !row.runs(None));
}

#[test]
fn ordinals_stand_in_order_and_tell_the_batch() {
    let rollout = rollout("Progressing", 2, "StepUpgrade", &[]);
    let view = view(2, Some(2));
    let facts: Vec<_> = (0..5)
        .rev()
        .map(|ordinal| {
            fact(
                &format!("my-app-{ordinal}"),
                if ordinal > 2 { 2 } else { 1 },
                &json!({}),
            )
        })
        .collect();
    assert_eq!(
        batches(&rows(&rollout, &view, &facts)),
        [
            ("my-app-0", None),
            ("my-app-1", None),
            ("my-app-2", None),
            ("my-app-3", Some(2)),
            ("my-app-4", Some(1))
        ]
    );
    let tenth = [fact("my-app-10", 1, &json!({})), fact("my-app-9", 1, &json!({}))];
    let names: Vec<_> = rows(&rollout, &view, &tenth)
        .into_iter()
        .map(|row| row.name)
        .collect();
    assert_eq!(names, ["my-app-9", "my-app-10"]);
}

#[test]
fn the_label_of_the_release_goes_before_the_order() {
    let rollout = rollout("Progressing", 2, "StepUpgrade", &[]);
    let mut view = view(2, Some(2));
    view.release_id = Some("r2".to_owned());
    let labelled = |id: &str, batch: &str| {
        let labels = json!({(names::ROLLOUT_ID): id, (names::ROLLOUT_BATCH_ID): batch});
        rows(&rollout, &view, &[fact("my-app-4", 2, &labels)])[0].batch
    };
    assert_eq!(labelled("r2", "2"), Some(2));
    // Of an earlier release, or junk.
    assert_eq!(labelled("r1", "2"), Some(1));
    assert_eq!(labelled("r2", "two"), Some(1));
}

#[test]
fn at_rest_and_on_the_way_back_there_are_no_batches_without_labels() {
    let complete = rollout("Healthy", 3, "Completed", &[]);
    let at_rest = rows(&complete, &view(2, None), &[fact("my-app-4", 2, &json!({}))]);
    assert_eq!((at_rest[0].batch, at_rest[0].role), (None, PodRole::Update));
    let back = rollout("Progressing", 1, "StepPaused", &[]);
    let rolling = rows(
        &back,
        &view(1, Some(4)),
        &[fact("my-app-4", 3, &json!({})), fact("my-app-0", 1, &json!({}))],
    );
    assert_eq!(
        rolling
            .iter()
            .map(|row| (row.batch, row.role))
            .collect::<Vec<_>>(),
        [(None, PodRole::Stable), (None, PodRole::Other)]
    );
}

#[test]
fn why_a_pod_is_not_ready() {
    let state = |status: Value| {
        let pod = PodFacts::read(&json!({"metadata": {"name": "a"}, "status": status}));
        let rollout = rollout("Progressing", 1, "StepUpgrade", &[]);
        rows(&rollout, &view(2, Some(4)), &[pod]).remove(0).state
    };
    assert_eq!(state(json!({"phase": "Pending"})), "Pending");
    assert_eq!(state(json!({"phase": "Running"})), "NotReady");
    assert_eq!(state(json!({})), "NotReady");
    let waiting = json!({"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
    assert_eq!(state(waiting), "CrashLoopBackOff");
}

#[test]
fn events_that_say_the_same_are_one() {
    let event = |name: &str, reason: &str, count: Value, last: i64| {
        EventReport::read(
            &json!({"metadata": {"name": name}, "type": "Normal", "reason": reason, "message": "words", "count": count,
            "involvedObject": {"kind": "Pod", "name": "a"}, "lastTimestamp": at(last).to_string(), "firstTimestamp": at(last - 1).to_string()}),
        )
    };
    let folded = fold(vec![
        event("e3", "Pulled", json!(2), 30),
        event("e1", "Pulled", json!(null), 10),
        event("e2", "Killing", json!(1), 20),
    ]);
    let told: Vec<_> = folded.iter().map(|e| (e.reason.as_str(), e.count)).collect();
    assert_eq!(told, [("Killing", 1), ("Pulled", 3)]);
    assert_eq!((folded[1].first, folded[1].last), (Some(at(9)), Some(at(30))));
    assert_eq!(folded[1].names, ["e1", "e3"]);
    assert_eq!(folded[1].object, "pod/a");
    // As the newer API writes them.
    let series = EventReport::read(&json!({"eventTime": at(5).to_string(),
        "series": {"count": 4, "lastObservedTime": at(9).to_string()}}));
    assert_eq!(
        (series.count, series.first, series.last),
        (4, Some(at(5)), Some(at(9)))
    );
}
