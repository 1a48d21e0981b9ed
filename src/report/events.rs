//! Events of a release: one timeline, in which the same words stand once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// What was told, once or several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventReport {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// One word.
    pub reason: String,
    /// What it is about: kind in lower case and name, as kubectl has it.
    pub object: String,
    /// The words.
    pub message: String,
    /// How often it was told.
    pub count: u64,
    /// When it was told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    /// When it was told last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Names of the Event objects, oldest first.
    pub names: Vec<String>,
}

impl EventReport {
    /// Reads a core `v1` Event, of whichever API it was written through.
    #[must_use]
    pub fn read(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let time = |value: &Value| value.as_str().and_then(|time| time.parse::<Timestamp>().ok());
        let about = &event["involvedObject"];
        let written = || time(&event["eventTime"]).or_else(|| time(&event["metadata"]["creationTimestamp"]));
        Self {
            kind: text(&event["type"]),
            reason: text(&event["reason"]),
            object: format!("{}/{}", text(&about["kind"]).to_lowercase(), text(&about["name"])),
            message: text(&event["message"]),
            count: event["series"]["count"]
                .as_u64()
                .or_else(|| event["count"].as_u64())
                .map_or(1, |count| count.max(1)),
            first: time(&event["firstTimestamp"]).or_else(written),
            last: time(&event["series"]["lastObservedTime"])
                .or_else(|| time(&event["lastTimestamp"]))
                .or_else(written),
            names: vec![text(&event["metadata"]["name"])],
        }
    }
}

/// The timeline, oldest first. Those that say the same become one, which stands where it was told last.
#[must_use]
pub fn fold(mut events: Vec<EventReport>) -> Vec<EventReport> {
    events.sort_by_key(|event| event.last);
    let mut places = HashMap::new();
    let mut folded: Vec<EventReport> = Vec::new();
    for event in events {
        let words = (
            event.kind.clone(),
            event.reason.clone(),
            event.object.clone(),
            event.message.clone(),
        );
        match places.entry(words) {
            Entry::Vacant(place) => {
                place.insert(folded.len());
                folded.push(event);
            }
            Entry::Occupied(place) => {
                let known = &mut folded[*place.get()];
                known.count += event.count;
                known.first = [known.first, event.first].into_iter().flatten().min();
                known.last = event.last.or(known.last);
                known.names.extend(event.names);
            }
        }
    }
    folded.sort_by_key(|event| event.last);
    folded
}
