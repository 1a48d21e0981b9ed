//! One watch that does not end: it lists, watches from there on, and lists again where the server has forgotten the place.
//! Broken connections are opened anew, after a longer wait each time.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::core::ResourceExt;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::views::next_page;

/// Seconds after which a watch is opened anew, so that a dead connection is noticed.
const WATCH: u32 = 60;
/// Servers end a watch by themselves after that time; one that is silent for so much longer is dead.
const SILENCE: Duration = Duration::from_secs(WATCH as u64 + 5);
/// A watch that ends sooner is not opened again at once.
const SHORT: Duration = Duration::from_secs(1);
/// Refusals within [`DOUBTED`] that are not believed once a list has been answered: a server that starts does not know its roles
/// at once.
const DOUBTS: u32 = 5;
const DOUBTED: Duration = Duration::from_secs(60);

/// What a watch says.
#[derive(Debug)]
pub(crate) enum Event<K> {
    /// A list begins.
    Init,
    /// An object of the list.
    Listed(K),
    /// The list is whole: what is not in it is gone.
    InitDone,
    /// An object is new or different.
    Apply(K),
    /// An object is gone.
    Delete(K),
}

/// What is watched: label and field selectors of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Selected {
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
}

impl Selected {
    /// The object of this name.
    pub(super) fn name(name: &str) -> Self {
        Self {
            fields: Some(format!("metadata.name={name}")),
            labels: None,
        }
    }
}

/// Objects that can be watched.
pub(super) trait Watched:
    kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static
{
}

impl<K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static> Watched for K {}

/// The watch of one list.
pub(super) struct Feed<K> {
    source: Source<K>,
    stream: BoxStream<'static, kube::Result<Event<K>>>,
    /// Attempts in a row that have come to nothing.
    pub(super) failures: u32,
    /// A list has been whole once.
    worked: bool,
    /// Refusals, the first of them at this time.
    refusals: Option<(u32, Instant)>,
}

impl<K: Watched> Feed<K> {
    pub(super) fn new(api: Api<K>, selected: Selected) -> Self {
        let source = Source { api, selected };
        Self {
            stream: source.stream(Duration::ZERO),
            source,
            failures: 0,
            worked: false,
            refusals: None,
        }
    }

    /// The next event. After an error there is none until [`Self::again`].
    pub(super) async fn next(&mut self) -> kube::Result<Event<K>> {
        match self.stream.next().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Opens it anew, in a while. It lists again, so that whoever listens hears when it works.
    pub(super) fn again(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.stream = self.source.stream(delay(self.failures));
    }

    /// A list is whole.
    pub(super) fn works(&mut self) {
        (self.failures, self.worked) = (0, true);
    }

    /// The server says that this is not allowed. Returns whether to believe it.
    pub(super) fn refused(&mut self) -> bool {
        let now = Instant::now();
        let (count, since) = self
            .refusals
            .filter(|(_, since)| *since + DOUBTED > now)
            .unwrap_or((0, now));
        self.refusals = Some((count + 1, since));
        !self.worked || count + 1 >= DOUBTS
    }
}

/// The next event; never, where nothing is watched.
pub(super) async fn next<K: Watched>(feed: &mut Option<Feed<K>>) -> kube::Result<Event<K>> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

/// How long to wait after so many failures in a row.
fn delay(failures: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(250);
    const MOST: Duration = Duration::from_secs(10);
    FIRST
        .saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)))
        .min(MOST)
}

struct Source<K> {
    api: Api<K>,
    selected: Selected,
}

impl<K: Watched> Source<K> {
    /// Events up to the first error.
    fn stream(&self, wait: Duration) -> BoxStream<'static, kube::Result<Event<K>>> {
        let state = Some(State {
            api: self.api.clone(),
            selected: self.selected.clone(),
            ready: VecDeque::new(),
            version: None,
            watch: None,
        });
        let events = stream::unfold(state, async |state| {
            let mut state = state?;
            let event = state.next().await;
            let state = event.is_ok().then_some(state);
            Some((event, state))
        });
        tokio::time::sleep(wait).map(|()| events).flatten_stream().boxed()
    }
}

/// Where a stream is.
struct State<K> {
    api: Api<K>,
    selected: Selected,
    /// Events of a list that nobody has taken yet.
    ready: VecDeque<Event<K>>,
    /// The place in the history up to which everything is known.
    version: Option<String>,
    /// The open watch, and when it was opened.
    watch: Option<(Instant, BoxStream<'static, kube::Result<WatchEvent<K>>>)>,
}

impl<K: Watched> State<K> {
    async fn next(&mut self) -> kube::Result<Event<K>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let Some(version) = &self.version else {
                self.list().await?;
                continue;
            };
            let Some((opened, watch)) = &mut self.watch else {
                let mut params = WatchParams::default().timeout(WATCH);
                params.label_selector.clone_from(&self.selected.labels);
                params.field_selector.clone_from(&self.selected.fields);
                let watch = self.api.watch(&params, version).await?.boxed();
                self.watch = Some((Instant::now(), watch));
                continue;
            };
            let opened = *opened;
            match tokio::time::timeout(SILENCE, watch.next()).await {
                Ok(Some(event)) => {
                    if let Some(event) = self.watched(event?)? {
                        return Ok(event);
                    }
                }
                // It ended in order, or is dead.
                Ok(None) | Err(_) => {
                    self.watch = None;
                    tokio::time::sleep_until(opened + SHORT).await;
                }
            }
        }
    }

    async fn list(&mut self) -> kube::Result<()> {
        self.watch = None;
        let mut params = ListParams::default().limit(super::PAGE);
        params.label_selector.clone_from(&self.selected.labels);
        params.field_selector.clone_from(&self.selected.fields);
        let mut events = VecDeque::from([Event::Init]);
        loop {
            let page = self.api.list(&params).await?;
            events.extend(page.items.into_iter().map(Event::Listed));
            match next_page(&page.metadata) {
                Some(token) => params = params.continue_token(&token),
                None => {
                    self.version = Some(page.metadata.resource_version.unwrap_or_default());
                    events.push_back(Event::InitDone);
                    self.ready = events;
                    return Ok(());
                }
            }
        }
    }

    /// Takes note of the place in the history.
    fn watched(&mut self, event: WatchEvent<K>) -> kube::Result<Option<Event<K>>> {
        let mut at = |object: &K| self.version = object.resource_version();
        Ok(Some(match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                at(&object);
                Event::Apply(object)
            }
            WatchEvent::Deleted(object) => {
                at(&object);
                Event::Delete(object)
            }
            WatchEvent::Bookmark(bookmark) => {
                self.version = Some(bookmark.metadata.resource_version);
                return Ok(None);
            }
            WatchEvent::Error(status) if status.code == 410 => {
                self.version = None;
                return Ok(None);
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status.boxed())),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_somewhere() {
        let millis: Vec<_> = [1, 2, 3, 6, 7, u32::MAX].map(|n| delay(n).as_millis()).to_vec();
        assert_eq!(millis, [250, 500, 1_000, 8_000, 10_000, 10_000]);
    }
}
