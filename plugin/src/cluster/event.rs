//! Events of a Rollout and its workload.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

/// Events that are kept at most.
const KEPT: usize = 50;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happening {
    /// When it happened last.
    pub(crate) at: Option<Timestamp>,
    /// `Warning`, not `Normal`.
    pub(crate) warning: bool,
    /// One word.
    pub(crate) reason: String,
    /// What it is about: `StatefulSet/web`.
    pub(crate) object: String,
    /// The sentence.
    pub(crate) message: String,
    /// How often it happened.
    pub(crate) count: i32,
}

impl Happening {
    fn read(event: Event) -> Self {
        let about = event.involved_object;
        let series = event.series;
        let seen = series
            .as_ref()
            .and_then(|series| series.last_observed_time.as_ref());
        let at = seen
            .map(|time| time.0)
            .or(event.last_timestamp.map(|time| time.0))
            .or(event.event_time.map(|time| time.0))
            .or(event.metadata.creation_timestamp.map(|time| time.0));
        let counted = series.and_then(|series| series.count).or(event.count);
        Self {
            at,
            warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.unwrap_or_default(),
            object: format!(
                "{}/{}",
                about.kind.unwrap_or_default(),
                about.name.unwrap_or_default()
            ),
            message: event.message.unwrap_or_default(),
            count: counted.unwrap_or(1).max(1),
        }
    }
}

/// The events so far, each once.
#[derive(Debug, Default)]
pub(super) struct Happenings {
    /// By UID.
    known: BTreeMap<String, Happening>,
    /// Those that happened since somebody asked.
    fresh: Vec<Happening>,
}

impl Happenings {
    /// Takes in an event; one that was there before the watch began is not news.
    pub(super) fn take(&mut self, event: Event, news: bool) {
        let uid = event.metadata.uid.clone().unwrap_or_default();
        let happening = Happening::read(event);
        if self.known.get(&uid) == Some(&happening) {
            return;
        }
        if news {
            self.fresh.push(happening.clone());
        }
        self.known.insert(uid, happening);
        if self.known.len() > KEPT {
            let oldest = self.known.iter().min_by_key(|(_, happening)| happening.at);
            if let Some(uid) = oldest.map(|(uid, _)| uid.clone()) {
                self.known.remove(&uid);
            }
        }
    }

    /// The last ones, the newest at the end.
    pub(super) fn last(&self, count: usize) -> Vec<Happening> {
        let mut all: Vec<_> = self.known.values().cloned().collect();
        all.sort_by(|one, other| (one.at, &one.reason).cmp(&(other.at, &other.reason)));
        all.split_off(all.len().saturating_sub(count))
    }

    /// What happened since this was asked last.
    pub(super) fn fresh(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.fresh)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(uid: &str, second: u32, count: i32) -> Event {
        serde_json::from_value(json!({
            "metadata": {"uid": uid, "name": uid},
            "involvedObject": {"kind": "StatefulSet", "name": "web"},
            "type": "Warning", "reason": "FailedCreate", "message": "quota", "count": count,
            "lastTimestamp": format!("2026-01-05T12:00:{second:02}Z"),
        }))
        .unwrap()
    }

    #[test]
    fn an_event_is_news_once_for_each_time_it_happens() {
        let mut all = Happenings::default();
        all.take(event("a", 1, 1), false);
        assert!(all.fresh().is_empty());
        all.take(event("a", 1, 1), true);
        assert!(all.fresh().is_empty(), "listed again");
        all.take(event("a", 5, 2), true);
        all.take(event("b", 3, 1), true);
        let counts: Vec<_> = all.fresh().iter().map(|one| one.count).collect();
        assert_eq!(counts, [2, 1]);
        assert!(all.fresh().is_empty());
        let last = all.last(1);
        assert_eq!(
            (last.len(), last[0].count, last[0].object.as_str()),
            (1, 2, "StatefulSet/web")
        );
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut all = Happenings::default();
        for number in 0..200 {
            all.take(event(&number.to_string(), number % 60, 1), true);
        }
        assert_eq!(all.last(1_000).len(), KEPT);
    }
}
