//! What is due: a pure function of the bundle at hand, the names that are wanted, and the time.
//!
//! ```text
//! nothing at hand, authority expired                     → NewCa, nothing kept
//! leaf missing, expired, not for a wanted name           → NewLeaf at once (NewCa if the authority would not outlive it)
//! leaf past two thirds of its life                       → NewLeaf, once the authority is known everywhere
//! authority past two thirds of its life, or not yet valid → NewCa, old one kept in the bundle, leaf left alone
//! otherwise                                              → Keep, with the time until one of these becomes true
//! ```

use std::time::Duration;

use jiff::Timestamp;

use super::Name;
use super::bundle::Bundle;
use super::x509::Facts;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long things last. All of it follows from the life of a leaf, so that tests see years pass in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetimes {
    leaf: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self::of_leaf(Self::LEAF)
    }
}

impl Lifetimes {
    /// Life of a leaf unless told otherwise.
    pub(crate) const LEAF: Duration = DAY.saturating_mul(90);

    /// The times for leaves that live so long.
    pub(crate) const fn of_leaf(leaf: Duration) -> Self {
        Self { leaf }
    }

    /// Life of a leaf.
    pub(crate) const fn leaf(self) -> Duration {
        self.leaf
    }

    /// Life of an authority.
    pub(crate) const fn authority(self) -> Duration {
        self.leaf.saturating_mul(4)
    }

    /// How far clocks may differ: certificates are valid from that long ago.
    pub(crate) fn skew(self) -> Duration {
        (self.leaf / 1000).min(MINUTE * 5)
    }

    /// How long a new authority waits before it signs a leaf that is not urgent, so that every API server knows it by then.
    pub(crate) fn overlap(self) -> Duration {
        (self.leaf / 12).min(MINUTE * 60)
    }

    /// A leaf with less life than this is urgent.
    pub(crate) fn urgent(self) -> Duration {
        (self.leaf / 24).min(DAY)
    }

    /// How often the clock on the wall is looked at. A timer for the whole time would sleep through a suspended machine.
    pub(crate) fn tick(self) -> Duration {
        (self.leaf / 24).min(MINUTE * 5)
    }
}

/// What to do about the certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertPlan {
    /// Nothing, and look again after this time.
    Keep {
        /// Until something becomes due.
        recheck_after: Duration,
    },
    /// The present authority signs a new leaf.
    NewLeaf {
        /// For these names. A leaf that is renewed before its time keeps its old names, so that two replicas with different
        /// wishes do not take turns.
        names: Vec<Name>,
    },
    /// A new authority. It signs a leaf only if there is no good one.
    NewCa {
        /// Whether the old authority stays in the bundle.
        keep_old_ca: bool,
    },
}

/// Decides what is due.
pub(crate) fn plan(have: Option<&Bundle>, want: &[Name], now: Timestamp, lives: Lifetimes) -> CertPlan {
    let Some(Bundle { authority, leaf }) = have else {
        return CertPlan::NewCa { keep_old_ca: false };
    };
    let authority = &authority.facts;
    if authority.not_after <= now {
        return CertPlan::NewCa { keep_old_ca: false };
    }
    let outlives_leaf = between(now, authority.not_after) >= lives.leaf();
    let Some(leaf) = leaf.as_ref().filter(|leaf| leaf.facts.is_valid(now)) else {
        return leaf_by(outlives_leaf, want.to_vec());
    };
    if !leaf.is_for(want) {
        let kept = leaf.facts.names.iter().filter(|name| !want.contains(name));
        return leaf_by(outlives_leaf, want.iter().chain(kept).cloned().collect());
    }
    let leaf_due = renewal(&leaf.facts);
    if leaf_due <= now {
        let known_everywhere = between(authority.not_before, now) >= lives.overlap();
        if known_everywhere || between(now, leaf.facts.not_after) < lives.urgent() {
            return leaf_by(outlives_leaf, want.to_vec());
        }
        return CertPlan::Keep {
            recheck_after: lives.overlap(),
        };
    }
    let ca_due = renewal(authority);
    if ca_due <= now || !authority.is_valid(now) {
        return CertPlan::NewCa { keep_old_ca: true };
    }
    CertPlan::Keep {
        recheck_after: between(now, leaf_due.min(ca_due)),
    }
}

/// A leaf by the present authority, unless that would expire before the leaf.
fn leaf_by(outlives_leaf: bool, names: Vec<Name>) -> CertPlan {
    if outlives_leaf {
        CertPlan::NewLeaf { names }
    } else {
        CertPlan::NewCa { keep_old_ca: true }
    }
}

/// When two thirds of the life are over.
fn renewal(of: &Facts) -> Timestamp {
    let life = between(of.not_before, of.not_after);
    of.not_before.saturating_add(life / 3 * 2).unwrap_or(of.not_after)
}

/// Time from one point to a later one; zero if it is not later.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::bundle::is_signed_by;
    use super::super::issue::carry_out;
    use super::super::wanted_names;
    use super::*;

    const LIVES: Lifetimes = Lifetimes::of_leaf(Lifetimes::LEAF);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn later(now: Timestamp, by: Duration) -> Timestamp {
        now + by
    }

    fn start() -> Timestamp {
        at("2026-11-30T00:00:00Z")
    }

    fn fresh() -> (Bundle, Vec<Name>) {
        let want = wanted_names("ops", None);
        let plan = plan(None, &want, start(), LIVES);
        assert_eq!(plan, CertPlan::NewCa { keep_old_ca: false });
        (
            carry_out(&plan, None, &want, start(), LIVES).unwrap().unwrap(),
            want,
        )
    }

    #[test]
    fn a_fresh_bundle_is_kept_until_two_thirds_of_the_leaf() {
        let (bundle, want) = fresh();
        let CertPlan::Keep { recheck_after } = plan(Some(&bundle), &want, start(), LIVES) else {
            panic!()
        };
        assert!(
            recheck_after > DAY * 59 && recheck_after <= DAY * 60,
            "{recheck_after:?}"
        );
        let due = later(start(), recheck_after);
        assert_eq!(
            plan(Some(&bundle), &want, due, LIVES),
            CertPlan::NewLeaf { names: want.clone() }
        );
    }

    #[test]
    fn a_leaf_that_expired_or_lacks_a_name_is_replaced_at_once() {
        let (bundle, want) = fresh();
        let expired = later(start(), LIVES.leaf());
        assert_eq!(
            plan(Some(&bundle), &want, expired, LIVES),
            CertPlan::NewLeaf { names: want.clone() }
        );
        let more = wanted_names("ops", Some("example.com"));
        assert_eq!(
            plan(Some(&bundle), &more, start(), LIVES),
            CertPlan::NewLeaf { names: more }
        );
        let without = Bundle { leaf: None, ..bundle };
        assert_eq!(
            plan(Some(&without), &want, start(), LIVES),
            CertPlan::NewLeaf { names: want }
        );
    }

    #[test]
    fn two_replicas_with_different_names_settle() {
        let (bundle, _) = fresh();
        let (one, two) = (
            wanted_names("ops", Some("one.example")),
            wanted_names("ops", Some("two.example")),
        );
        let first = plan(Some(&bundle), &one, start(), LIVES);
        let bundle = carry_out(&first, Some(&bundle), &one, start(), LIVES)
            .unwrap()
            .unwrap();
        let second = plan(Some(&bundle), &two, start(), LIVES);
        let bundle = carry_out(&second, Some(&bundle), &two, start(), LIVES)
            .unwrap()
            .unwrap();
        for want in [one, two] {
            assert!(matches!(
                plan(Some(&bundle), &want, start(), LIVES),
                CertPlan::Keep { .. }
            ));
        }
    }

    #[test]
    fn an_expired_authority_is_not_kept() {
        let (bundle, want) = fresh();
        let now = later(start(), LIVES.authority());
        assert_eq!(
            plan(Some(&bundle), &want, now, LIVES),
            CertPlan::NewCa { keep_old_ca: false }
        );
    }

    #[test]
    fn an_authority_from_the_future_is_replaced_and_kept() {
        let (bundle, want) = fresh();
        let now = at("2026-11-29T00:00:00Z");
        assert_eq!(
            plan(Some(&bundle), &want, now, LIVES),
            CertPlan::NewLeaf { names: want.clone() }
        );
        let bundle = carry_out(
            &plan(Some(&bundle), &want, now, LIVES),
            Some(&bundle),
            &want,
            now,
            LIVES,
        )
        .unwrap()
        .unwrap();
        assert_eq!(
            plan(Some(&bundle), &want, now, LIVES),
            CertPlan::NewCa { keep_old_ca: true }
        );
    }

    #[test]
    fn a_young_authority_signs_only_what_is_urgent() {
        let (bundle, want) = fresh();
        let now = later(start(), LIVES.authority() - DAY * 5);
        // Off for almost a year: the leaf has expired, and the authority would expire before a new one.
        let first = plan(Some(&bundle), &want, now, LIVES);
        assert_eq!(first, CertPlan::NewCa { keep_old_ca: true });
        let bundle = carry_out(&first, Some(&bundle), &want, now, LIVES)
            .unwrap()
            .unwrap();
        assert!(matches!(
            plan(Some(&bundle), &want, now, LIVES),
            CertPlan::Keep { .. }
        ));
        assert_eq!(bundle.authority.certificates.len(), 2);
    }

    /// Two years, in which each replica may see the Secret a minute late: whatever one of them serves is valid, and trusted by the
    /// bundle that any of them may have registered.
    #[test]
    fn r55_nothing_that_is_served_is_ever_untrusted() {
        const LATE: Duration = Duration::from_secs(60);
        let (mut bundle, want) = fresh();
        let (mut authorities, mut leaves) = (0, 0);
        // What some replica may still have, with the time since when it is not the newest any more.
        let mut older: Vec<(Timestamp, Bundle)> = Vec::new();
        let mut now = start();
        while now < later(start(), DAY * 365 * 2) {
            let decided = plan(Some(&bundle), &want, now, LIVES);
            let Some(next) = carry_out(&decided, Some(&bundle), &want, now, LIVES).unwrap() else {
                now = later(now, LATE * 60 * 7);
                continue;
            };
            match decided {
                CertPlan::NewCa { keep_old_ca } => {
                    assert!(keep_old_ca);
                    authorities += 1;
                }
                _ => leaves += 1,
            }
            older.retain(|(until, _)| between(*until, now) <= LATE);
            older.push((now, bundle));
            let at_work = || older.iter().map(|(_, bundle)| bundle).chain([&next]);
            for (serves, registers) in at_work().flat_map(|one| at_work().map(move |two| (one, two))) {
                let leaf = serves.leaf.as_ref().unwrap();
                assert!(leaf.facts.is_valid(now));
                assert!(leaf.facts.not_after <= registers.authority.facts.not_after);
                let known = is_signed_by(&registers.authority.certificates, &leaf.key, &leaf.facts);
                assert!(known.is_ok(), "at {now} by {decided:?}");
            }
            bundle = next;
            // It looks again at once, until there is nothing to do.
        }
        assert!((2..=3).contains(&authorities), "{authorities}");
        assert!((11..=14).contains(&leaves), "{leaves}");
    }
}
