//! How long a watch that failed waits before it is taken up again.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause. A controller does nothing while it sees nothing, so it must not go on waiting long after the API server is
/// back: the usual 30 seconds would be added to every restart of it.
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that double from 1 to 2 seconds; an event makes the next one short again.
#[derive(Debug)]
pub(crate) struct WatchBackoff {
    next: Duration,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        Some(pause)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_outage_makes_no_long_pauses() {
        let mut backoff = WatchBackoff::default();
        let pauses: Vec<_> = backoff.by_ref().take(4).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [1000, 2000, 2000, 2000]);
        backoff.reset();
        assert_eq!(backoff.next(), Some(FIRST));
    }
}
