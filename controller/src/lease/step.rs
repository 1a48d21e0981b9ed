//! What a replica does about the lease: a pure function.

use std::time::Duration;

/// How long a lease holds after its last change.
pub(super) const LEASE: Duration = Duration::from_secs(4);
/// How often the holder renews it; at most 60 writes a minute.
pub(super) const RENEW_EVERY: Duration = Duration::from_millis(1250);
/// How long the holder acts after its last renewal that succeeded: two thirds of the lease, so that it has stopped before
/// anybody else may begin.
pub(super) const ACTS_FOR: Duration = Duration::from_millis(2667);

/// The lease as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Who holds it; empty when it was given back.
    pub(super) holder: String,
    /// For the next write: it fails if somebody else was faster.
    pub(super) resource_version: String,
    /// How often it changed hands.
    pub(super) transitions: i32,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is no lease: create it.
    Create,
    /// Nobody holds it, or the holder has been silent for the whole lease: take it.
    Take,
    /// We hold it: renew it.
    Renew,
    /// Somebody else holds it: look again after so long, if nothing changes before.
    Wait(Duration),
}

/// Decides. `unchanged_for` is measured on this machine's monotonic clock since the lease was seen to change, so clocks that
/// differ between machines do no harm.
pub(super) fn next(seen: Option<&Seen>, me: &str, unchanged_for: Duration) -> Step {
    match seen {
        None => Step::Create,
        Some(seen) if seen.holder == me => Step::Renew,
        Some(seen) if seen.holder.is_empty() || unchanged_for >= LEASE => Step::Take,
        Some(_) => Step::Wait(LEASE - unchanged_for),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> Seen {
        Seen {
            holder: holder.to_owned(),
            resource_version: "1".to_owned(),
            transitions: 0,
        }
    }

    #[test]
    fn a_lease_is_taken_when_it_is_free_or_silent_for_its_whole_time() {
        let second = Duration::from_secs(1);
        assert_eq!(next(None, "a", Duration::ZERO), Step::Create);
        assert_eq!(next(Some(&held_by("")), "a", Duration::ZERO), Step::Take);
        assert_eq!(next(Some(&held_by("a")), "a", second), Step::Renew);
        assert_eq!(next(Some(&held_by("b")), "a", second), Step::Wait(LEASE - second));
        assert_eq!(next(Some(&held_by("b")), "a", LEASE), Step::Take);
    }

    #[test]
    fn the_holder_stops_before_anybody_else_may_begin() {
        assert!(RENEW_EVERY * 2 < ACTS_FOR && ACTS_FOR < LEASE);
        assert!(Duration::from_secs(60).as_millis() / RENEW_EVERY.as_millis() <= 60);
    }
}
