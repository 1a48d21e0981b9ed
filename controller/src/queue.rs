//! The work queue: which Rollout is looked at next.
//!
//! A key is in work at most once at a time; what happens meanwhile marks it to be looked at again. Each key has at most one alarm,
//! the earliest asked for. Failures are retried with a delay that doubles, until the key succeeds.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// First delay after a failure.
const RETRY: Duration = Duration::from_millis(50);
/// Longest delay after failures. It is added to every outage, so it is no longer than an operator would wait.
const RETRY_LIMIT: Duration = Duration::from_secs(10);

/// How a key's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Done until something changes.
    Done,
    /// Done until so much time has passed, or something changes.
    After(Duration),
    /// Failed: again after a delay that grows.
    Failed,
}

/// A queue of keys.
pub(crate) struct Queue<K> {
    inner: Mutex<Inner<K>>,
    wake: Notify,
}

struct Inner<K> {
    ready: VecDeque<K>,
    queued: HashSet<K>,
    running: HashSet<K>,
    again: HashSet<K>,
    alarms: BTreeSet<(Instant, K)>,
    alarm_of: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        let inner = Inner {
            ready: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            alarms: BTreeSet::new(),
            alarm_of: HashMap::new(),
            failures: HashMap::new(),
        };
        Self {
            inner: Mutex::new(inner),
            wake: Notify::new(),
        }
    }

    /// Something happened to the key: look at it as soon as possible.
    pub(crate) fn push(&self, key: K) {
        self.lock().push(key);
        self.wake.notify_one();
    }

    /// The next key, once there is one. It belongs to the caller until [`Queue::end`].
    pub(crate) async fn next(&self) -> K {
        loop {
            let alarm = {
                let mut inner = self.lock();
                inner.ring(Instant::now());
                if let Some(key) = inner.take() {
                    if !inner.ready.is_empty() {
                        self.wake.notify_one();
                    }
                    return key;
                }
                inner.alarms.first().map(|(at, _)| *at)
            };
            match alarm {
                None => self.wake.notified().await,
                Some(at) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = sleep_until(at) => {}
                },
            }
        }
    }

    /// The caller is done with the key.
    pub(crate) fn end(&self, key: &K, turn: Turn) {
        let mut inner = self.lock();
        inner.running.remove(key);
        let delay = match turn {
            Turn::Failed => {
                let failures = inner.failures.entry(key.clone()).or_default();
                let delay = RETRY.saturating_mul(1 << (*failures).min(16)).min(RETRY_LIMIT);
                *failures += 1;
                Some(delay)
            }
            Turn::Done | Turn::After(_) => {
                inner.failures.remove(key);
                if let Turn::After(delay) = turn {
                    Some(delay)
                } else {
                    None
                }
            }
        };
        inner.set_alarm(key, delay.map(|delay| Instant::now() + delay));
        if inner.again.remove(key) {
            inner.push(key.clone());
        }
        drop(inner);
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Ord> Inner<K> {
    fn push(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.running.insert(key.clone());
        self.set_alarm(&key, None);
        Some(key)
    }

    fn set_alarm(&mut self, key: &K, at: Option<Instant>) {
        if let Some(old) = self.alarm_of.remove(key) {
            self.alarms.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.alarm_of.insert(key.clone(), at);
            self.alarms.insert((at, key.clone()));
        }
    }

    /// Queues the keys whose alarm has come.
    fn ring(&mut self, now: Instant) {
        while let Some((at, key)) = self.alarms.first().cloned() {
            if at > now {
                return;
            }
            self.set_alarm(&key, None);
            self.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn soon<K: Clone + Eq + Hash + Ord>(queue: &Queue<K>) -> Option<K> {
        tokio::time::timeout(Duration::from_millis(1), queue.next())
            .await
            .ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_runs_once_at_a_time_and_again_if_something_happened() {
        let queue = Queue::new();
        queue.push("a");
        queue.push("a");
        assert_eq!(soon(&queue).await, Some("a"));
        assert_eq!(soon(&queue).await, None);
        queue.push("a");
        assert_eq!(soon(&queue).await, None);
        queue.end(&"a", Turn::Done);
        assert_eq!(soon(&queue).await, Some("a"));
        queue.end(&"a", Turn::Done);
        assert_eq!(soon(&queue).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn alarms_ring_once_and_a_change_comes_first() {
        let queue = Queue::new();
        queue.push("a");
        assert_eq!(queue.next().await, "a");
        queue.end(&"a", Turn::After(Duration::from_secs(300)));
        let before = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert!(before.elapsed() >= Duration::from_secs(300));
        queue.end(&"a", Turn::After(Duration::from_secs(300)));
        queue.push("a");
        assert_eq!(soon(&queue).await, Some("a"));
        queue.end(&"a", Turn::Done);
        tokio::time::advance(Duration::from_secs(1000)).await;
        assert_eq!(soon(&queue).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_until_success() {
        let queue = Queue::new();
        let wait = async |turn| {
            queue.end(&"a", turn);
            let before = Instant::now();
            queue.next().await;
            before.elapsed().as_millis()
        };
        queue.push("a");
        queue.next().await;
        for delay in [50, 100, 200] {
            assert_eq!(wait(Turn::Failed).await / 10, delay / 10);
        }
        assert_eq!(wait(Turn::After(Duration::from_millis(5))).await / 10, 0);
        assert_eq!(wait(Turn::Failed).await / 10, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn two_workers_share_what_is_ready() {
        let queue = Queue::new();
        queue.push(1);
        queue.push(2);
        let (a, b) = tokio::join!(queue.next(), queue.next());
        assert_eq!(a + b, 3);
    }
}
