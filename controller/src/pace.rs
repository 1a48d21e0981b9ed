//! How often something is put right that others write too: webhook configurations, labels of pods.
//!
//! A reset is repaired at once. Whoever resets again and again gets an answer that is slower each time, up to [`LONGEST`], so that two
//! writers who disagree cost the API server little. A new content never waits.

use std::time::Duration;

use tokio::time::Instant;

/// Wait after the first repair.
const SHORTEST: Duration = Duration::from_millis(250);
/// Longest wait.
const LONGEST: Duration = Duration::from_secs(4);
/// A repair that has lasted so long was the end of the matter.
const QUIET: Duration = Duration::from_secs(60);

/// What was written last, and when.
#[derive(Debug)]
pub(crate) struct Pace<T> {
    last: Option<(T, Instant)>,
    wait: Duration,
}

impl<T> Default for Pace<T> {
    fn default() -> Self {
        Self {
            last: None,
            wait: Duration::ZERO,
        }
    }
}

impl<T: PartialEq> Pace<T> {
    /// Until when a write of this content has to wait.
    pub(crate) fn must_wait(&self, content: &T, now: Instant) -> Option<Instant> {
        let (last, at) = self.last.as_ref()?;
        let until = *at + self.wait;
        (last == content && now < until).then_some(until)
    }

    /// It was written; whether this repaired what was written not long before.
    pub(crate) fn wrote(&mut self, content: T, now: Instant) -> bool {
        let repaired = self
            .last
            .as_ref()
            .is_some_and(|(last, at)| *last == content && now < *at + QUIET);
        self.wait = if repaired {
            (self.wait * 2).clamp(SHORTEST, LONGEST)
        } else {
            Duration::ZERO
        };
        self.last = Some((content, now));
        repaired
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_repair_is_at_once_and_further_ones_are_slower() {
        let (content, other) = (json!({"a": 1}), json!({"a": 2}));
        let mut pace = Pace::default();
        let mut now = Instant::now();
        assert_eq!(pace.must_wait(&content, now), None);
        assert!(!pace.wrote(content.clone(), now));
        assert_eq!(pace.must_wait(&content, now), None, "reset right after the write");
        let mut waits = Vec::new();
        for _ in 0..7 {
            assert!(pace.wrote(content.clone(), now));
            let until = pace.must_wait(&content, now).unwrap();
            assert_eq!(pace.must_wait(&other, now), None, "new content does not wait");
            assert_eq!(pace.must_wait(&content, until), None);
            waits.push(until.duration_since(now).as_millis());
            now = until;
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 4000, 4000]);
        now += QUIET;
        assert!(!pace.wrote(content.clone(), now));
        assert_eq!(pace.must_wait(&content, now), None);
    }
}
