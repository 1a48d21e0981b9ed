//! Many Rollouts as they change.

use std::collections::{HashMap, HashSet};

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, select_all};
use kruise_rollout::api::v1beta1::{Rollout, WorkloadRef};
use kruise_rollout::names;
use kruise_rollout::report::Hidden;
use kube::ResourceExt;
use kube::api::{Api, ApiResource};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use super::kind::guessed;
use super::views::WATCH;
use super::{Cluster, PAGE, Workload, World, qualified};
use crate::error::Error;

/// Kinds of workloads that have been met.
#[derive(Default)]
pub(crate) struct Kinds {
    known: HashMap<(String, String), Option<ApiResource>>,
    /// What could not be read, each once.
    pub(crate) hidden: Vec<Hidden>,
}

impl Kinds {
    /// The resource of a kind; `None` where the server has no such kind.
    pub(super) async fn resource(
        &mut self,
        cluster: &Cluster,
        reference: &WorkloadRef,
    ) -> Result<Option<ApiResource>, Error> {
        let kind = (reference.api_version.clone(), reference.kind.clone());
        if let Some(known) = self.known.get(&kind) {
            return Ok(known.clone());
        }
        let resource = match reference.group_version() {
            // What is part of Kubernetes is always there, and its plurals are the usual ones.
            Some(("apps", _)) => guessed(reference),
            _ => match cluster.discovered(reference).await {
                Err(Error::Server(_) | Error::Forbidden { .. }) => guessed(reference),
                found => found?,
            },
        };
        self.known.insert(kind, resource.clone());
        Ok(resource)
    }

    pub(super) fn hide(&mut self, right: String) {
        let hidden = Hidden {
            part: "workloads",
            right,
        };
        if !self.hidden.contains(&hidden) {
            self.hidden.push(hidden);
        }
    }
}

impl Cluster {
    /// The same server, all namespaces.
    pub(crate) fn everywhere(&self) -> Self {
        self.within("")
    }

    pub(super) fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    fn objects_within<K>(&self, resource: &K::DynamicType) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::DynamicResourceScope>,
    {
        if self.namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, resource)
        }
    }

    pub(super) fn rollouts_within(&self) -> Api<Rollout> {
        if self.namespace.is_empty() {
            Api::all(self.client.clone())
        } else {
            self.rollouts()
        }
    }
}

/// Namespace and name.
pub(crate) type Key = (String, String);

/// Rollouts as they change, with their workloads.
pub(crate) struct Roll {
    cluster: Cluster,
    kinds: Kinds,
    rollouts: BoxStream<'static, watcher::Result<Event<Rollout>>>,
    workloads: SelectAll<BoxStream<'static, (ApiResource, watcher::Result<Event<DynamicObject>>)>>,
    /// Resources whose objects are watched, by plural and group, or were to be.
    followed: HashSet<String>,
    /// Those of them that may not be watched.
    blind: HashSet<String>,
    worlds: HashMap<Key, World>,
    /// Rollouts that a new list has had so far.
    listed: HashSet<Key>,
    broken: bool,
}

/// A change in the roll.
pub(crate) enum RollChange {
    /// These Rollouts may look different now, or are gone.
    Changed(Vec<Key>),
    /// Something worth saying.
    Note(String),
}

impl Roll {
    /// Follows the Rollouts that the selector picks, of which these are known.
    pub(crate) fn new(cluster: &Cluster, selector: Option<&str>, kinds: Kinds, worlds: Vec<World>) -> Self {
        let mut config = watcher::Config::default().timeout(WATCH).page_size(PAGE);
        config.label_selector = selector.map(str::to_owned);
        Self {
            rollouts: watcher(cluster.rollouts_within(), config)
                .default_backoff()
                .boxed(),
            workloads: select_all([]),
            cluster: cluster.clone(),
            kinds,
            followed: HashSet::new(),
            blind: HashSet::new(),
            worlds: worlds
                .into_iter()
                .map(|world| (key(&world.rollout), world))
                .collect(),
            listed: HashSet::new(),
            broken: false,
        }
    }

    /// What is known of a Rollout; `None` when it is gone.
    pub(crate) fn world(&self, key: &Key) -> Option<&World> {
        self.worlds.get(key)
    }

    /// Waits for a change.
    ///
    /// # Errors
    /// Rollouts may not be watched.
    pub(crate) async fn next(&mut self) -> Result<RollChange, Error> {
        loop {
            let change = tokio::select! {
                Some(event) = self.rollouts.next() => self.take_rollout(event).await?,
                Some((resource, event)) = self.workloads.next() => self.take_workload(&resource, event)?,
            };
            if let Some(change) = change {
                return Ok(change);
            }
        }
    }

    async fn take_rollout(
        &mut self,
        event: watcher::Result<Event<Rollout>>,
    ) -> Result<Option<RollChange>, Error> {
        let event = match event {
            Ok(event) => event,
            Err(error) => return self.broke(error, &format!("watch rollouts.{}", names::GROUP)),
        };
        Ok(match event {
            Event::Init => {
                self.listed.clear();
                None
            }
            Event::InitApply(rollout) => {
                self.listed.insert(key(&rollout));
                Some(self.apply(rollout).await?)
            }
            Event::Apply(rollout) => Some(self.apply(rollout).await?),
            Event::Delete(rollout) => {
                self.worlds.remove(&key(&rollout));
                Some(RollChange::Changed(vec![key(&rollout)]))
            }
            Event::InitDone if std::mem::take(&mut self.broken) => {
                Some(RollChange::Note("connected again".to_owned()))
            }
            Event::InitDone => {
                let gone = |key: &&Key| !self.listed.contains(*key);
                let gone: Vec<_> = self.worlds.keys().filter(gone).cloned().collect();
                self.worlds.retain(|key, _| self.listed.contains(key));
                (!gone.is_empty()).then_some(RollChange::Changed(gone))
            }
        })
    }

    async fn apply(&mut self, rollout: Rollout) -> Result<RollChange, Error> {
        let key = key(&rollout);
        let resource = self
            .kinds
            .resource(&self.cluster, &rollout.spec.workload_ref)
            .await?;
        let followed = resource.as_ref().is_some_and(|resource| {
            let resource = qualified(resource);
            self.followed.contains(&resource) && !self.blind.contains(&resource)
        });
        match self.worlds.get_mut(&key) {
            Some(world) if world.rollout.resource_version() == rollout.resource_version() => {}
            // The workload's own watch says what it does.
            Some(world) if followed && world.rollout.spec.workload_ref == rollout.spec.workload_ref => {
                world.rollout = rollout;
            }
            _ => {
                let world = self.cluster.alone(rollout, &mut self.kinds).await?;
                self.worlds.insert(key.clone(), world);
            }
        }
        if let Some(resource) = resource.filter(|_| !followed) {
            self.follow(resource);
        }
        Ok(RollChange::Changed(vec![key]))
    }

    fn follow(&mut self, resource: ApiResource) {
        if !self.followed.insert(qualified(&resource)) {
            return;
        }
        let config = watcher::Config::default().timeout(WATCH).page_size(PAGE);
        let feed = watcher(self.cluster.objects_within(&resource), config).default_backoff();
        // Not to be asked again and again by who may not.
        let feed = feed.scan(false, |over, event| {
            let next = (!*over).then_some(event);
            *over = matches!(&next, Some(Err(error)) if is_refusal(error));
            std::future::ready(next)
        });
        self.workloads
            .push(feed.map(move |event| (resource.clone(), event)).boxed());
    }

    /// The Rollouts that name this workload.
    fn governors(&self, resource: &ApiResource, object: &DynamicObject) -> Vec<Key> {
        let named = |(key, world): (&Key, &World)| {
            let reference = &world.rollout.spec.workload_ref;
            let group = reference.group_version().map(|(group, _)| group);
            let same = group == Some(&resource.group)
                && reference.kind == resource.kind
                && Some(&reference.name) == object.metadata.name.as_ref()
                && Some(&key.0) == object.metadata.namespace.as_ref();
            same.then(|| key.clone())
        };
        self.worlds.iter().filter_map(named).collect()
    }

    fn take_workload(
        &mut self,
        resource: &ApiResource,
        event: watcher::Result<Event<DynamicObject>>,
    ) -> Result<Option<RollChange>, Error> {
        let right = format!("watch {}", qualified(resource));
        let (object, there) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, true),
            Ok(Event::Delete(object)) => (object, false),
            Ok(Event::Init | Event::InitDone) => return Ok(None),
            Err(error) => {
                return match self.broke(error, &right) {
                    // Each change of the Rollout reads the workload instead.
                    Err(Error::Forbidden { right, .. }) => {
                        self.blind.insert(qualified(resource));
                        Ok(Some(RollChange::Note(format!(
                            "workloads are not followed: you may not {right}"
                        ))))
                    }
                    other => other,
                };
            }
        };
        let keys = self.governors(resource, &object);
        let workload = there.then(|| Workload {
            resource: resource.clone(),
            name: object.metadata.name.clone().unwrap_or_default(),
            object: serde_json::to_value(&object).unwrap_or_default(),
        });
        for key in &keys {
            if let Some(world) = self.worlds.get_mut(key) {
                world.take_workload(workload.as_ref());
            }
        }
        Ok((!keys.is_empty()).then_some(RollChange::Changed(keys)))
    }

    /// An error that the watch recovers from is said once; one of rights ends it.
    fn broke(&mut self, error: watcher::Error, right: &str) -> Result<Option<RollChange>, Error> {
        match self.cluster.watch_failure(error, right) {
            Some(cause @ (Error::Forbidden { .. } | Error::Unauthorized(_))) => Err(cause),
            Some(cause @ Error::Unreachable { .. }) if !std::mem::replace(&mut self.broken, true) => {
                Ok(Some(RollChange::Note(format!("{cause}; trying again"))))
            }
            _ => Ok(None),
        }
    }
}

fn is_refusal(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error)
    | watcher::Error::WatchStartFailed(error)
    | watcher::Error::WatchFailed(error)) = error
    else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

fn key(rollout: &Rollout) -> Key {
    (rollout.namespace().unwrap_or_default(), rollout.name_any())
}
