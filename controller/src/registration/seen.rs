//! What the cluster has of our registrations.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kruise_rollout::area::Area;
use kruise_rollout::names;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::time::sleep;

use super::policies::Sort;
use crate::connect::follow_objects;
use crate::telemetry::chain;

/// How long after it was found to have no policies a server is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// What a watch says of one sort.
pub(super) enum Seen {
    /// All objects of ours that there are, by name.
    All(BTreeMap<String, Value>),
    /// The server has no such sort, or not for us.
    NotServed,
}

/// The states of our objects of one sort. A server that has no such sort is asked again from time to time: it may be upgraded.
pub(super) fn changes(client: &Client, area: &Area, sort: Sort) -> BoxStream<'static, (Sort, Seen)> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &sort.resource());
    let mut config = watcher::Config::default();
    if Sort::WEBHOOKS.contains(&sort) {
        let name = area.name(names::WEBHOOK_CONFIGURATION);
        config = config.fields(&format!("metadata.name={name}"));
    }
    let mut ours = Ours::new(sort, area);
    let mut missing = false;
    let states = follow_objects(api, config).then(move |event| {
        let seen = ours.take(event);
        let again = matches!(seen, Some(Seen::NotServed)) && std::mem::replace(&mut missing, true);
        missing &= matches!(seen, Some(Seen::NotServed));
        async move {
            // The watch is not begun anew before this is over.
            if again {
                sleep(ASK_AGAIN).await;
            }
            seen.map(|seen| (sort, seen))
        }
    });
    states.filter_map(futures::future::ready).boxed()
}

/// Our objects of one sort, from the events of a watch.
struct Ours {
    sort: Sort,
    names: Vec<String>,
    found: BTreeMap<String, Value>,
    listing: bool,
}

impl Ours {
    fn new(sort: Sort, area: &Area) -> Self {
        Self {
            sort,
            names: sort.names(area),
            found: BTreeMap::new(),
            listing: false,
        }
    }

    /// What the event makes of them, unless it tells nothing of ours.
    fn take(&mut self, event: watcher::Result<watcher::Event<DynamicObject>>) -> Option<Seen> {
        match event {
            Ok(watcher::Event::Init) => {
                self.listing = true;
                self.found.clear();
            }
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                let name = object.name_any();
                if !self.names.contains(&name) {
                    return None;
                }
                let object = serde_json::to_value(object).unwrap_or_default();
                self.found.insert(name, object);
            }
            Ok(watcher::Event::InitDone) => self.listing = false,
            Ok(watcher::Event::Delete(object)) => drop(self.found.remove(&object.name_any())?),
            Err(
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
            ) if matches!(status.code, 403 | 404) => {
                if status.code == 403 {
                    tracing::warn!(error = status.message, "The registrations cannot be watched.");
                }
                self.listing = true;
                return Some(Seen::NotServed);
            }
            Err(error) => {
                let kind = self.sort.resource().kind;
                tracing::warn!(error = %chain(&error), kind, "The registrations cannot be watched.");
            }
        }
        (!self.listing).then(|| Seen::All(self.found.clone()))
    }
}
