use super::*;

fn of_rollout(number: i64, version: u32) -> Recorded {
    let object = json!({"metadata": {"name": format!("my-app-rollout-{version}"), "creationTimestamp": "1970-01-01T00:00:05Z",
        "ownerReferences": [{"uid": "r"}]}, "revision": number, "data": {"template": template(version)}});
    assert_eq!(Recorded::of_rollout(&object, "other"), None);
    Recorded::of_rollout(&object, "r").unwrap()
}

fn of_workload(number: i64, version: u32) -> Recorded {
    let mut template = template(version);
    template["$patch"] = json!("replace");
    let object = json!({"metadata": {"name": format!("my-app-{version}"), "annotations": {"kubernetes.io/change-cause": "told the workload"},
        "ownerReferences": [{"uid": "w", "controller": true}]}, "revision": number, "data": {"spec": {"template": template}}});
    assert_eq!(Recorded::of_workload(&object, "other"), None);
    Recorded::of_workload(&object, "w").unwrap()
}

fn replica_set(number: &str, version: u32, cause: Option<&str>) -> Recorded {
    let mut template = template(version);
    template["metadata"] = json!({"labels": {"app": "a", "pod-template-hash": format!("h{version}")}});
    if let Some(cause) = cause {
        template["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": cause});
    }
    let object = json!({"metadata": {"name": format!("web-h{version}"), "labels": {"pod-template-hash": format!("h{version}")},
        "annotations": {"deployment.kubernetes.io/revision": number},
        "ownerReferences": [{"uid": "w", "controller": true}]}, "spec": {"template": template}});
    Recorded::of_workload(&object, "w").unwrap()
}

fn told(history: &History) -> Vec<(i64, Option<&str>, Option<RevisionState>)> {
    let reports = history.revisions.iter().map(|(report, _)| report);
    reports
        .map(|report| (report.revision, report.hash.as_deref(), report.state))
        .collect()
}

const STABLE: Option<RevisionState> = Some(RevisionState::Stable);
const UPDATE: Option<RevisionState> = Some(RevisionState::Update);

#[test]
fn the_workloads_own_numbers_go_first() {
    let view = view(2, Some(4));
    let named = Revisions {
        stable: Some("my-app-1".to_owned()),
        update: Some("my-app-2".to_owned()),
    };
    let recorded = vec![
        of_rollout(2, 1),
        of_workload(9, 2),
        of_rollout(3, 2),
        of_rollout(1, 5),
        of_workload(8, 1),
    ];
    let history = History::new(recorded, Some(&view), &named);
    assert_eq!(
        told(&history),
        [(9, Some("my-app-2"), UPDATE), (8, Some("my-app-1"), STABLE)]
    );
    let (stable, template_of_it) = history.find("stable").unwrap();
    assert_eq!(stable.change_cause.as_deref(), Some("told the workload"));
    assert_eq!(stable.source, Source::ControllerRevision);
    assert_eq!(stable.images, ["app:v1"]);
    assert_eq!(template_of_it, &template(1));
    let number = |word: &str| history.find(word).map(|(report, _)| report.revision);
    assert_eq!(
        (number("8"), number("update"), number("my-app-2")),
        (Some(8), Some(9), Some(9))
    );
    // Two begin so; too few letters; the last part; no such one.
    assert_eq!(
        ["my-a", "my", "2", "", "none"].map(number),
        [None, None, Some(9), None, None]
    );
    assert_eq!(history.numbers(), "8, 9");
    let alone = History::new(vec![of_workload(8, 1)], Some(&view), &named);
    let found = |word: &str| alone.find(word).is_some();
    assert_eq!((found("my-"), found("my-a")), (false, true));
}

#[test]
fn what_the_rollout_recorded_takes_the_operators_names() {
    let view = view(2, Some(4));
    let named = Revisions {
        stable: Some("my-app-1".to_owned()),
        update: Some("my-app-2".to_owned()),
    };
    let recorded = vec![of_rollout(2, 1), of_rollout(3, 2), of_rollout(1, 5)];
    let history = History::new(recorded, Some(&view), &named);
    assert_eq!(
        told(&history),
        [
            (3, Some("my-app-2"), UPDATE),
            (2, Some("my-app-1"), STABLE),
            (1, None, None)
        ]
    );
    assert_eq!(history.revisions[0].0.created, Some(at(5)));
}

#[test]
fn at_rest_the_present_template_is_the_stable_one() {
    let view = view(2, None);
    let revisions = Revisions {
        stable: Some("my-app-1".to_owned()),
        update: Some("my-app-2".to_owned()),
    };
    let history = History::new(vec![of_rollout(1, 1), of_rollout(2, 2)], Some(&view), &revisions);
    assert_eq!(told(&history), [(2, Some("my-app-2"), STABLE), (1, None, None)]);
}

#[test]
fn without_records_the_workloads_own_revisions_are_shown() {
    let view = view(2, Some(4));
    let history = History::new(
        vec![of_workload(1, 1), of_workload(2, 2)],
        Some(&view),
        &Revisions::default(),
    );
    assert_eq!(
        told(&history),
        [(2, Some("my-app-2"), UPDATE), (1, Some("my-app-1"), STABLE)]
    );
    // How an operator says that the template is whole is no part of it.
    assert_eq!(history.revisions[1].1, template(1));
}

#[test]
fn replica_sets_of_a_deployment() {
    let named = Revisions {
        stable: Some("h1".to_owned()),
        update: Some("h2".to_owned()),
    };
    let history = History::new(
        vec![replica_set("1", 1, None), replica_set("2", 2, Some("new image"))],
        None,
        &named,
    );
    let (newest, template) = &history.revisions[0];
    assert_eq!(
        (newest.source, newest.change_cause.as_deref()),
        (Source::ReplicaSet, Some("new image"))
    );
    assert_eq!(template["metadata"]["labels"], json!({"app": "a"}));
    assert_eq!(told(&history)[0].1, Some("h2"));
}

#[test]
fn nothing_recorded() {
    let history = History::new(Vec::new(), None, &Revisions::default());
    assert!(history.revisions.is_empty() && history.numbers().is_empty());
}
