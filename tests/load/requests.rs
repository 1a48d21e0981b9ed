//! What a controller has asked of the API server, from the audit log.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use support::{Audit, Entry, Mark};

use crate::usage::rounded;

/// The requests of one user from a mark on.
pub(crate) struct Requests(Vec<Entry>);

impl Requests {
    /// Everything that this user has asked since the mark. Reads are logged of the product's controller and the viewer only.
    pub(crate) fn since(audit: &Audit, mark: Mark, user: &str) -> Self {
        let entries = audit.since(mark);
        Self(entries.into_iter().filter(|entry| entry.user == user).collect())
    }

    /// All of them.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Stored and refused writes by verb and resource, each divided by the number of releases; leases apart, which are written
    /// whether there is a release or not.
    pub(crate) fn writes_per_release(&self, releases: u32) -> Value {
        let writes = self.0.iter().filter(|entry| entry.is_write());
        let counts = counted(writes.filter(|entry| entry.resource != "leases"));
        let share = |count: usize| rounded(count as f64 / f64::from(releases));
        let by: BTreeMap<String, f64> = counts
            .iter()
            .map(|(what, &count)| (what.clone(), share(count)))
            .collect();
        let apart = |what: &str| what.ends_with(" events") || what.ends_with(" pods");
        let essential = counts.iter().filter(|(what, _)| !apart(what));
        json!({
            "total": share(counts.values().sum()),
            "without_events_and_pods": share(essential.map(|(_, count)| count).sum()),
            "by": by,
        })
    }

    /// Writes that the server refused, by code.
    pub(crate) fn refused(&self) -> Value {
        let mut refused = BTreeMap::new();
        for entry in self
            .0
            .iter()
            .filter(|entry| entry.is_write() && !entry.succeeded())
        {
            *refused.entry(entry.code.to_string()).or_insert(0) += 1;
        }
        json!(refused)
    }

    /// All requests by verb and resource, as a rate.
    pub(crate) fn per_minute(&self, seconds: f64) -> Value {
        let counts = counted(self.0.iter());
        let rates = counts.into_iter();
        let rates = rates.map(|(what, count)| (what, rounded(count as f64 * 60.0 / seconds)));
        json!(rates.collect::<BTreeMap<_, _>>())
    }
}

fn counted<'a>(entries: impl Iterator<Item = &'a Entry>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        let part = match entry.subresource.as_str() {
            "" => String::new(),
            part => format!("/{part}"),
        };
        let dry = if entry.dry_run { " (dry-run)" } else { "" };
        let what = format!("{} {}{part}{dry}", entry.verb, entry.resource);
        *counts.entry(what).or_insert(0) += 1;
    }
    counts
}
