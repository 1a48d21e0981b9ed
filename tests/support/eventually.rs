//! Waiting for a condition.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long to wait between two looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// Calls `condition` until it answers `Ok`, and gives that.
///
/// # Panics
/// The deadline has passed; the text has `what` and the last reason that `condition` gave.
#[expect(clippy::panic, reason = "failing a test is what this is for")]
pub async fn eventually<T, E: Display>(
    deadline: Duration,
    what: &str,
    condition: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    match poll(deadline, condition).await {
        Ok(value) => value,
        Err(reason) => panic!("not within {deadline:?}: {what}; last: {reason}"),
    }
}

/// [`eventually`] for code that reports instead of panicking: the last reason when the deadline has passed.
pub(crate) async fn poll<T, E: Display>(
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, String> {
    let started = Instant::now();
    let mut last = "no answer yet".to_owned();
    loop {
        let left = deadline.saturating_sub(started.elapsed());
        match tokio::time::timeout(left, condition()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(reason)) => last = reason.to_string(),
            Err(_) => return Err(last),
        }
        if started.elapsed() + INTERVAL > deadline {
            return Err(last);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
