//! Events of a Rollout, its workload and its pods.

use std::collections::HashSet;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use kruise_rollout::report::EventReport;
use kube::api::{Api, ApiResource, ListParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use serde_json::Value;

use super::pod::{Owners, Pod};
use super::views::WATCH;
use super::{Cluster, Details, PAGE};
use crate::error::Error;

/// Whose events are shown.
struct Scope {
    /// UIDs of Rollout and workload.
    uids: HashSet<String>,
    /// Name of the Rollout, which the existing controller's helper object has, too.
    rollout: String,
    /// Names of the workload's pods: one that takes the place of another one has its name, where pods have an order.
    pods: HashSet<String>,
    /// UIDs of pods that belong to others.
    foreign: HashSet<String>,
    owners: Option<Owners>,
}

impl Scope {
    fn new(details: &Details) -> Self {
        let metadata = &details.world.rollout().metadata;
        let workload = details.world.view().map(|view| view.uid.clone());
        let pods = details.pods.iter().flatten().map(|pod| pod.view.name.clone());
        Self {
            uids: metadata.uid.iter().cloned().chain(workload.clone()).collect(),
            rollout: metadata.name.clone().unwrap_or_default(),
            pods: pods.collect(),
            foreign: HashSet::new(),
            owners: workload.filter(|_| details.pods.is_some()).map(Owners::new),
        }
    }

    fn has(&self, event: &Value) -> bool {
        let about = &event["involvedObject"];
        let text = |field: &str| about[field].as_str().unwrap_or_default();
        match text("kind") {
            "Pod" => self.pods.contains(text("name")),
            "BatchRelease" => text("name") == self.rollout,
            _ => self.uids.contains(text("uid")),
        }
    }

    /// Whether a pod that has not been seen is one of the workload's; asked once for each.
    async fn learns(&mut self, cluster: &Cluster, event: &Value) -> bool {
        let about = &event["involvedObject"];
        let text = |field: &str| about[field].as_str().unwrap_or_default();
        let Some(owners) = self.owners.as_mut().filter(|_| text("kind") == "Pod") else {
            return false;
        };
        if !self.foreign.insert(text("uid").to_owned()) {
            return false;
        }
        let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let pod = cluster.call("get pods", api.get_opt(text("name"))).await;
        let Ok(Some(pod)) = pod else { return false };
        let mine = owners.take(cluster, pod.kept()).await.is_some();
        if mine {
            self.pods.insert(text("name").to_owned());
        }
        mine
    }
}

fn api(cluster: &Cluster) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("", "v1", "Event");
    cluster.objects(&ApiResource::from_gvk_with_plural(&kind, "events"))
}

/// The right to read events.
const RIGHT: &str = "list events";

impl Cluster {
    /// The events of a Rollout, its workload and its pods, one by one and in no order.
    pub(crate) async fn events(&self, details: &Details) -> Result<Vec<EventReport>, Error> {
        let scope = Scope::new(details);
        let mut events = Vec::new();
        self.each(&api(self), ListParams::default(), RIGHT, |event| {
            let event = serde_json::to_value(&event).unwrap_or_default();
            if scope.has(&event) {
                events.push(EventReport::read(&event));
            }
        })
        .await?;
        Ok(events)
    }
}

/// Events as they come.
pub(crate) struct Timeline {
    cluster: Cluster,
    scope: Scope,
    feed: BoxStream<'static, watcher::Result<watcher::Event<DynamicObject>>>,
    broken: bool,
}

/// What comes of a timeline.
pub(crate) enum Told {
    /// An event, new or told again. Those that are there already come first.
    Event(EventReport),
    /// Those that were there already have all come: at the beginning, or again after a break.
    Listed {
        /// After a break.
        again: bool,
    },
    /// The connection broke; it is tried again.
    Broken(String),
}

impl Timeline {
    pub(crate) fn new(cluster: &Cluster, details: &Details) -> Self {
        let config = watcher::Config::default().timeout(WATCH).page_size(PAGE);
        Self {
            scope: Scope::new(details),
            feed: watcher(api(cluster), config).default_backoff().boxed(),
            cluster: cluster.clone(),
            broken: false,
        }
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// Events may not be watched.
    pub(crate) async fn next(&mut self) -> Result<Told, Error> {
        loop {
            let event = match self.feed.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => return std::future::pending().await,
                Err(error) => match self.note(error)? {
                    Some(note) => return Ok(Told::Broken(note)),
                    None => continue,
                },
            };
            match event {
                watcher::Event::InitApply(event) => {
                    let event = serde_json::to_value(&event).unwrap_or_default();
                    if self.scope.has(&event) {
                        return Ok(Told::Event(EventReport::read(&event)));
                    }
                }
                watcher::Event::Apply(event) => {
                    let event = serde_json::to_value(&event).unwrap_or_default();
                    if self.scope.has(&event) || self.scope.learns(&self.cluster, &event).await {
                        return Ok(Told::Event(EventReport::read(&event)));
                    }
                }
                watcher::Event::InitDone => {
                    let again = std::mem::take(&mut self.broken);
                    return Ok(Told::Listed { again });
                }
                watcher::Event::Init | watcher::Event::Delete(_) => {}
            }
        }
    }

    /// What is worth saying about an error that the watch recovers from; each break once.
    fn note(&mut self, error: watcher::Error) -> Result<Option<String>, Error> {
        let cause = match self.cluster.watch_failure(error, "watch events") {
            Some(cause) => cause,
            None => return Ok(None),
        };
        match cause {
            Error::Forbidden { .. } | Error::Unauthorized(_) => Err(cause),
            Error::Unreachable { .. } if !std::mem::replace(&mut self.broken, true) => {
                Ok(Some(format!("{cause}; trying again")))
            }
            _ => Ok(None),
        }
    }
}
