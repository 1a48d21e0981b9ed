//! What is done with a request instead of handing it on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::{Request, lock};

/// How long is waited for a request, or for the end of one.
const DEADLINE: Duration = Duration::from_secs(60);

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not handed on, and answered with this HTTP status; 429 and 503 with `Retry-After: 1`.
    Answer(u16),
    /// The connection breaks.
    Break(Side),
    /// Nothing goes on until [`Rule::release`].
    Hold(Side),
}

/// On which side of the API server's work a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The API server has not got the request.
    Before,
    /// It has answered it, and the controller does not know.
    After,
}

pub(super) type Choice = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

/// A rule, until dropped: then what it holds goes on.
pub struct Rule {
    rules: Rules,
    progress: Arc<Progress>,
}

#[derive(Default)]
pub(super) struct Progress {
    reached: watch::Sender<usize>,
    abandoned: watch::Sender<usize>,
    released: watch::Sender<bool>,
}

impl Rule {
    /// Waits until so many requests have met the fault.
    ///
    /// # Panics
    /// They have not within a minute.
    pub async fn reached(&self, count: usize) {
        wait(&self.progress.reached, count, "requests meet the fault").await;
    }

    /// How many have met it.
    #[must_use]
    pub fn count(&self) -> usize {
        *self.progress.reached.borrow()
    }

    /// Waits until the client has given up so many of the requests that are held, or has died.
    ///
    /// # Panics
    /// It has not within a minute.
    pub async fn abandoned(&self, count: usize) {
        wait(&self.progress.abandoned, count, "requests are given up").await;
    }

    /// Lets go on what is held; later requests are not held any more.
    pub fn release(&self) {
        self.rules.remove(&self.progress);
        self.progress.released.send_replace(true);
    }
}

#[expect(clippy::panic, reason = "failing a test is what this is for")]
async fn wait(counter: &watch::Sender<usize>, count: usize, what: &str) {
    let mut counter = counter.subscribe();
    let reached = counter.wait_for(|now| *now >= count);
    if timeout(DEADLINE, reached).await.is_err() {
        panic!("not within {DEADLINE:?}: {count} {what}");
    }
}

impl Drop for Rule {
    fn drop(&mut self) {
        self.release();
    }
}

/// The rules in force.
#[derive(Clone, Default)]
pub(super) struct Rules(Arc<Mutex<Vec<Entry>>>);

type Entry = (Choice, Arc<Progress>);

impl Rules {
    pub(super) fn add(&self, choose: Choice) -> Rule {
        let progress = Arc::new(Progress::default());
        lock(&self.0).push((choose, progress.clone()));
        Rule {
            rules: self.clone(),
            progress,
        }
    }

    fn remove(&self, progress: &Arc<Progress>) {
        lock(&self.0).retain(|(_, of)| !Arc::ptr_eq(of, progress));
    }

    /// The fault of a request.
    pub(super) fn choose(&self, request: &Request) -> Option<(Fault, Arc<Progress>)> {
        let mut rules = lock(&self.0);
        rules
            .iter_mut()
            .find_map(|(choose, progress)| Some((choose(request)?, progress.clone())))
    }
}

impl Progress {
    /// A request has met the fault.
    pub(super) fn reach(&self) {
        self.reached.send_modify(|count| *count += 1);
    }

    /// Waits for the release. Dropped before, the client has gone.
    pub(super) async fn hold(&self) {
        self.reach();
        let mut waits = Waits {
            progress: self,
            whole: false,
        };
        let _ = self.released.subscribe().wait_for(|released| *released).await;
        waits.whole = true;
    }
}

struct Waits<'a> {
    progress: &'a Progress,
    whole: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if !self.whole {
            self.progress.abandoned.send_modify(|count| *count += 1);
        }
    }
}
