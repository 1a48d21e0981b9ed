//! Whether the API server is heard.

use std::collections::BTreeSet;

use tokio::time::Instant;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Rollout,
    Workload,
    Pods,
    EventsOfRollout,
    EventsOfWorkload,
}

/// The connection, as the watches see it.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The watches that do not work at the moment.
    down: BTreeSet<Part>,
    since: Option<Instant>,
    cause: String,
    /// It has been said.
    said: bool,
}

impl Link {
    /// A watch broke, for so many times in a row. The first time is nothing to talk about: servers and proxies end connections
    /// all the time. Returns what is worth saying.
    pub(super) fn breaks(&mut self, part: Part, cause: &str, times: u32) -> Option<String> {
        self.down.insert(part);
        self.since.get_or_insert_with(Instant::now);
        cause.clone_into(&mut self.cause);
        if times < 2 || self.said {
            return None;
        }
        self.said = true;
        Some(format!("{cause}; trying again"))
    }

    /// A watch works, or is not wanted any more.
    pub(super) fn mends(&mut self, part: Part) -> Option<String> {
        if !self.down.remove(&part) || !self.down.is_empty() {
            return None;
        }
        self.since = None;
        std::mem::take(&mut self.said).then(|| "connected again".to_owned())
    }

    /// Since when something is not heard, and why.
    pub(super) fn broken(&self) -> Option<(Instant, &str)> {
        self.since.map(|since| (since, self.cause.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_said_once_and_its_end_when_all_is_well() {
        let mut link = Link::default();
        assert_eq!(link.breaks(Part::Rollout, "cut", 1), None);
        assert!(link.broken().is_some());
        assert_eq!(link.mends(Part::Rollout), None, "nobody has noticed");
        link.breaks(Part::Rollout, "cut", 1);
        assert_eq!(
            link.breaks(Part::Pods, "refused", 2).as_deref(),
            Some("refused; trying again")
        );
        assert_eq!(link.breaks(Part::Rollout, "refused", 2), None);
        assert_eq!(link.mends(Part::Rollout), None);
        assert_eq!(link.mends(Part::Workload), None);
        assert_eq!(link.mends(Part::Pods).as_deref(), Some("connected again"));
        assert!(link.broken().is_none());
    }
}
