//! D09: whether the workload's own operator is at work.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::facts::{Facts, Subject};
use super::{Check, Finding, Severity};
use crate::workload::View;

/// An operator that has not seen a change for so long is slow.
const SLOW: SignedDuration = SignedDuration::from_secs(10);
/// And after so long it is not there.
const GONE: SignedDuration = SignedDuration::from_secs(60);

pub(super) fn findings(facts: &Facts, subject: &Subject) -> Vec<Finding> {
    let (Some(object), Some(Ok(view))) = (subject.object(), subject.view()) else {
        return vec![Finding::skip(Check::Operator, "the workload is not seen")];
    };
    let mut found: Vec<Finding> = lagging(facts, subject, object, &view).into_iter().collect();
    if found.is_empty() {
        let text = if view.reported.observed_generation.is_some() {
            "its operator has seen the last change"
        } else {
            "see what it reports"
        };
        found.push(Finding::pass(Check::Operator, text));
    }
    found
}

/// The time of the last write of the spec: what `metadata.managedFields` tells of, or else the creation.
fn changed(object: &Value) -> Option<Timestamp> {
    let writes = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let times = writes
        .filter(|write| write["subresource"] != "status")
        .filter(|write| write["fieldsV1"].get("f:spec").is_some())
        .filter_map(|write| write["time"].as_str());
    times
        .filter_map(|time| time.parse().ok())
        .max()
        .or_else(|| object["metadata"]["creationTimestamp"].as_str()?.parse().ok())
}

/// Who has written the status last, and when.
fn reporter(object: &Value) -> Option<String> {
    let writes = object["metadata"]["managedFields"].as_array()?.iter();
    let last = writes
        .filter(|write| write["fieldsV1"].get("f:status").is_some())
        .max_by_key(|write| write["time"].as_str().unwrap_or_default())?;
    let text = |member: &str| last[member].as_str().unwrap_or_default();
    Some(format!(
        "its status was last written by {} at {}",
        text("manager"),
        text("time")
    ))
}

fn lagging(facts: &Facts, subject: &Subject, object: &Value, view: &View) -> Option<Finding> {
    let silent = object["status"].as_object().is_none_or(serde_json::Map::is_empty);
    if view.observed() != Some(false) && !silent {
        return None;
    }
    let since = changed(object)?;
    let passed = facts.now.duration_since(since);
    if passed < SLOW {
        return None;
    }
    let severity = if passed < GONE {
        Severity::Warning
    } else {
        Severity::Failure
    };
    let kind = subject.group_kind();
    let text = if silent {
        format!(
            "the operator of {kind} is not running: it has reported no status of {}",
            subject.target()
        )
    } else {
        format!(
            "the operator of {kind} is not running: it has not seen the change of {} at {since:.0}",
            subject.target()
        )
    };
    let seen = view
        .reported
        .observed_generation
        .map_or_else(|| "absent".to_owned(), |seen| seen.to_string());
    let mut finding = Finding::new(Check::Operator, severity, 40, text).because(format!(
        "metadata.generation {}, status.observedGeneration {seen}",
        view.generation
    ));
    finding.evidence.extend(reporter(object));
    Some(finding.advice(format!("start the operator of {kind}; see its log")))
}
