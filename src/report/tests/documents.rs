//! docs/cli-json.md describes the documents, field by field, and nothing else.

use std::collections::BTreeSet;

use super::*;
use crate::api::v1beta1::Condition;

/// The reference.
const REFERENCE: &str = include_str!("../../../docs/cli-json.md");

/// The rows of a section's table: each field, and the section that describes what is in it.
fn described(section: &str) -> Vec<(&'static str, Option<&'static str>)> {
    let heading = format!("## {section}\n");
    let (_, text) = REFERENCE
        .split_once(&heading)
        .unwrap_or_else(|| panic!("docs/cli-json.md has no section {section}"));
    let text = text.split("\n## ").next().unwrap();
    let row = |line: &'static str| {
        let (field, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let kind = rest.split(" | ").next()?;
        let inner = kind.split_once('[').and_then(|(_, link)| link.split(']').next());
        Some((field, inner))
    };
    // The table of fields is the first one.
    let table = text.lines().skip_while(|line| !line.starts_with('|'));
    table
        .take_while(|line| line.starts_with('|'))
        .filter_map(row)
        .collect()
}

/// Sections and fields that were met.
type Met = BTreeSet<(String, String)>;

fn meet(value: &Value, section: &str, met: &mut Met) {
    let described = described(section);
    for (name, value) in value.as_object().unwrap() {
        let row = described.iter().find(|(field, _)| field == name);
        let (_, inner) = row.unwrap_or_else(|| panic!("docs/cli-json.md has no field {name} in {section}"));
        met.insert((section.to_owned(), name.clone()));
        match (inner, value) {
            (None, _) => {}
            (Some(inner), Value::Array(items)) => items.iter().for_each(|item| meet(item, inner, met)),
            (Some(inner), item) => meet(item, inner, met),
        }
    }
}

fn full_report() -> RolloutReport {
    let rollout = rollout(
        "Progressing",
        2,
        "StepPaused",
        &[("/metadata/creationTimestamp", json!("1970-01-01T00:00:00Z"))],
    );
    let view = view(2, Some(3));
    let mut pods = broken(pods(2, 4), "CrashLoopBackOff");
    pods[4].trouble = Some(Box::default());
    let mut report = report(&rollout, &view, &pods);
    report.next = Some("next".to_owned());
    report
}

fn revision() -> RevisionReport {
    RevisionReport {
        revision: 1,
        name: "my-app-1".to_owned(),
        source: Source::Rollout,
        hash: Some("1".to_owned()),
        created: Some(at(0)),
        state: Some(RevisionState::Stable),
        change_cause: Some("because".to_owned()),
        images: vec!["app:v1".to_owned()],
    }
}

fn event() -> EventReport {
    EventReport::read(&json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}}))
}

fn pod() -> PodReport {
    PodReport {
        name: "my-app-4".to_owned(),
        revision: Some("my-app-2".to_owned()),
        role: PodRole::Update,
        batch: Some(1),
        ready: false,
        state: "CrashLoopBackOff".to_owned(),
        detail: Some("container app".to_owned()),
        containers: 1,
        ready_containers: 0,
        restarts: 3,
        node: Some("node-0".to_owned()),
        created: Some(at(0)),
    }
}

/// Every document, with every field that it can have.
fn documents() -> Vec<Value> {
    fn document(kind: &'static str, content: impl Serialize) -> Value {
        serde_json::to_value(Document::new(kind, content)).unwrap()
    }
    let (name, namespace) = ("my-app-rollout".to_owned(), "shop".to_owned());
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0));
    let condition = Condition {
        last_update_time: Some(now.clone()),
        last_transition_time: Some(now),
        ..Condition::default()
    };
    let detail = Detail {
        report: full_report(),
        conditions: vec![condition],
        revisions: Some(vec![revision()]),
        pods: Some(vec![pod()]),
        events: Some(vec![event()]),
    };
    let (pods, events) = (
        RolloutPods {
            name: name.clone(),
            namespace: namespace.clone(),
            items: vec![pod()],
        },
        RolloutEvents {
            name: name.clone(),
            namespace: namespace.clone(),
            items: vec![event()],
        },
    );
    let diff = TemplateDiff {
        from: 1,
        to: 2,
        changes: json_patch::diff(&template(1), &template(2)),
    };
    vec![
        serde_json::to_value(full_report()).unwrap(),
        document("RolloutReportList", json!({"items": [full_report()]})),
        document("RolloutDeleted", json!({"name": name, "namespace": namespace})),
        document("RolloutDetail", detail),
        document("RolloutPods", pods),
        document("RolloutEvents", events),
        document("RolloutEvent", event()),
        document(
            "RolloutHistory",
            RolloutHistory {
                name,
                namespace,
                items: vec![revision()],
            },
        ),
        document(
            "RolloutRevision",
            RevisionDetail {
                revision: revision(),
                template: template(1),
            },
        ),
        document("RolloutDiff", diff),
        document(
            "WorkloadStatus",
            PlainStatus::new("my-app".to_owned(), "default".to_owned(), &view(2, Some(3))),
        ),
    ]
}

#[test]
fn every_field_is_described_and_nothing_else() {
    let mut met = Met::new();
    for document in documents() {
        meet(&document, document["kind"].as_str().unwrap(), &mut met);
    }
    // Those of the diagnosis and of the plugin itself are not made here; the cases that ask for them hold them to their sections.
    let made = |section: &&str| met.iter().any(|(met, _)| met == section);
    let sections = REFERENCE.lines().filter_map(|line| line.strip_prefix("## "));
    let sections = sections.filter(made);
    let all: Met = sections
        .flat_map(|section| {
            let fields = described(section).into_iter();
            fields.map(move |(field, _)| (section.to_owned(), field.to_owned()))
        })
        .collect();
    let missing: Vec<_> = all.difference(&met).collect();
    assert!(missing.is_empty(), "described, but in no document: {missing:?}");
}

#[test]
fn every_state_is_described() {
    for word in State::WORDS.iter().filter(|word| **word != "Unknown") {
        assert!(REFERENCE.contains(&format!("`{word}`")), "{word}");
    }
}
