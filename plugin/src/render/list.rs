use jiff::Timestamp;
use kruise_rollout::report::{RolloutReport, State};

use super::{NONE, age, count, plain};

/// Which columns a list has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// The namespace comes first.
    pub(crate) namespace: bool,
    /// More behind.
    pub(crate) wide: bool,
}

const NARROW: [&str; 7] = ["NAME", "WORKLOAD", "STATE", "STEP", "UPDATED", "READY", "AGE"];
const WIDE: [&str; 5] = ["STRATEGY", "REVISION", "PARTITION", "PAUSED-FOR", "MESSAGE"];

impl Columns {
    /// The headers.
    pub(crate) fn header(self) -> Vec<&'static str> {
        let namespace = self.namespace.then_some("NAMESPACE");
        let wide: &[&str] = if self.wide { &WIDE } else { &[] };
        namespace
            .into_iter()
            .chain(NARROW)
            .chain(wide.iter().copied())
            .collect()
    }

    /// One Rollout.
    pub(crate) fn row(self, report: &RolloutReport, now: Timestamp) -> Vec<String> {
        let workload = &report.workload;
        let or_none = |text: String| if text.is_empty() { NONE.to_owned() } else { text };
        let number = |number: Option<u32>| number.map_or_else(|| NONE.to_owned(), |n| n.to_string());
        let mut row = Vec::new();
        if self.namespace {
            row.push(report.namespace.clone());
        }
        row.extend([
            report.name.clone(),
            format!("{}/{}", plain(&workload.kind), plain(&workload.name)),
            plain(report.state.word()),
            if report.state.is_releasing() && report.step > 0 {
                format!("{}/{}", report.step, report.total())
            } else {
                NONE.to_owned()
            },
            match workload.updated {
                Some(updated) => format!("{updated}/{}", count(workload.replicas)),
                None => NONE.to_owned(),
            },
            number(workload.ready),
            age(report.created, now),
        ]);
        if self.wide {
            let paused = matches!(
                report.state,
                State::AwaitingApproval | State::TimedPause | State::Paused
            );
            row.extend([
                or_none(report.strategy.to_owned()),
                or_none(plain(report.revisions.update.as_deref().unwrap_or_default())),
                workload
                    .partition
                    .map_or_else(|| NONE.to_owned(), |partition| partition.to_string()),
                age(report.since.filter(|_| paused), now),
                or_none(plain(&report.message)),
            ]);
        }
        row
    }

    /// A Rollout that is gone.
    pub(crate) fn gone(self, namespace: &str, name: &str) -> Vec<String> {
        let namespace = self.namespace.then_some(namespace);
        let words = namespace.into_iter().chain([name, NONE, "Deleted"]);
        let words = words.chain(std::iter::repeat(NONE));
        words.take(self.header().len()).map(str::to_owned).collect()
    }
}
