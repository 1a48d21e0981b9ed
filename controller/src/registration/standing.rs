//! Whether the API server can be left alone with a kind.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Duration, Instant};

/// How long a policy has to have been in place before the API servers are left alone with it: ten times what one of them takes to
/// put a binding in force.
const SETTLES: Duration = Duration::from_secs(5);

/// Group and plural of a kind, as registrations name it.
pub(super) type Plural = (String, String);

/// What is known of the policies of each kind, in one term of leading.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Since when a kind has had all its policies, without a break.
    since: BTreeMap<Plural, Instant>,
    /// A dry-run that only the policies saw came back held.
    proven: BTreeSet<Plural>,
    /// Kinds whose entries might fail when this term began: whoever led before had proven them. Later, such an entry is no
    /// evidence, since anybody may have written it.
    inherited: Option<BTreeSet<Plural>>,
}

impl Standing {
    /// The kinds whose entries may fail, as they are found at the beginning of a term; later ones do not count.
    pub(super) fn inherit(&mut self, kinds: impl IntoIterator<Item = Plural>) {
        self.inherited.get_or_insert_with(|| kinds.into_iter().collect());
    }

    /// These kinds have their policies in place now, others have not.
    pub(super) fn see(&mut self, in_place: &BTreeSet<Plural>, now: Instant) {
        let stays = |kind: &Plural| in_place.contains(kind);
        self.since.retain(|kind, _| stays(kind));
        self.proven.retain(stays);
        if let Some(inherited) = &mut self.inherited {
            inherited.retain(stays);
        }
        for kind in in_place {
            let before = now.checked_sub(SETTLES).filter(|_| self.inherits(kind));
            self.since.entry(kind.clone()).or_insert(before.unwrap_or(now));
        }
    }

    fn inherits(&self, kind: &Plural) -> bool {
        self.inherited
            .as_ref()
            .is_some_and(|inherited| inherited.contains(kind))
    }

    /// A dry-run came back held, or did not for a while.
    pub(super) fn proved(&mut self, kind: Plural, held: bool) {
        if held {
            self.proven.insert(kind);
        } else {
            self.proven.remove(&kind);
            if let Some(inherited) = &mut self.inherited {
                inherited.remove(&kind);
            }
        }
    }

    /// Whether this process has yet to prove the kind's policies, which are in place.
    pub(super) fn is_unproven(&self, kind: &Plural) -> bool {
        self.since.contains_key(kind) && !self.proven.contains(kind)
    }

    /// The kinds that the API server can be left alone with.
    pub(super) fn dispensed(&self, now: Instant) -> BTreeSet<Plural> {
        let settled = self.since.iter().filter(|(_, since)| now >= **since + SETTLES);
        settled
            .map(|(kind, _)| kind)
            .filter(|kind| self.proven.contains(*kind) || self.inherits(kind))
            .cloned()
            .collect()
    }

    /// When the next of them settles.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let settled = self.since.values().map(|since| *since + SETTLES);
        settled.filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(plural: &str) -> Plural {
        ("example.io".to_owned(), plural.to_owned())
    }

    fn set(kinds: &[&str]) -> BTreeSet<Plural> {
        kinds.iter().map(|plural| kind(plural)).collect()
    }

    #[test]
    fn a_policy_settles_and_is_proven_and_does_so_anew_after_a_break() {
        let (mut standing, start) = (Standing::default(), Instant::now());
        standing.inherit([]);
        standing.see(&set(&["ones"]), start);
        standing.proved(kind("ones"), true);
        assert_eq!(standing.dispensed(start), set(&[]));
        assert_eq!(standing.next(start), Some(start + SETTLES));
        let later = start + SETTLES;
        assert_eq!(standing.dispensed(later), set(&["ones"]));
        assert_eq!(standing.next(later), None);
        standing.see(&set(&[]), later);
        standing.see(&set(&["ones"]), later);
        let last = later + SETTLES;
        assert_eq!(standing.dispensed(last), set(&[]), "neither settled nor proven");
        assert!(standing.is_unproven(&kind("ones")));
    }

    #[test]
    fn what_was_proven_before_is_believed_until_it_is_disproved() {
        let (mut standing, now) = (Standing::default(), Instant::now() + SETTLES);
        standing.inherit([kind("ones"), kind("twos")]);
        standing.see(&set(&["ones", "threes"]), now);
        assert_eq!(standing.dispensed(now), set(&["ones"]));
        assert!(standing.is_unproven(&kind("ones")));
        // An entry that somebody lets fail later proves nothing, nor do policies that come back.
        standing.inherit([kind("threes")]);
        standing.see(&set(&["ones", "twos", "threes"]), now);
        assert_eq!(standing.dispensed(now + SETTLES), set(&["ones"]));
        standing.proved(kind("ones"), false);
        assert_eq!(standing.dispensed(now + SETTLES), set(&[]));
    }
}
