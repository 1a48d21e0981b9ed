//! Many Rollouts: page by page, and as they change.

use std::collections::{HashMap, HashSet};

use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{StreamExt, stream};
use kruise_rollout::api::v1beta1::{Rollout, WorkloadRef};
use kruise_rollout::names;
use kruise_rollout::report::Hidden;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, ListParams};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use super::kind::guessed;
use super::views::WATCH;
use super::{Cluster, PAGE, Workload, World, qualified};
use crate::error::Error;

/// Workloads that are asked for at once.
const AT_ONCE: usize = 16;

/// One page of Rollouts with their workloads, and the token of the next one.
pub(crate) struct Page {
    /// What is known of each; pods are not read.
    pub(crate) worlds: Vec<World>,
    /// Where to go on.
    pub(crate) next: Option<String>,
}

/// Kinds of workloads that have been met.
#[derive(Default)]
pub(crate) struct Kinds {
    known: HashMap<(String, String), Option<ApiResource>>,
    /// What could not be read, each once.
    pub(crate) hidden: Vec<Hidden>,
}

impl Kinds {
    /// The resource of a kind; `None` where the server has no such kind.
    async fn resource(
        &mut self,
        cluster: &Cluster,
        reference: &WorkloadRef,
    ) -> Result<Option<ApiResource>, Error> {
        let kind = (reference.api_version.clone(), reference.kind.clone());
        if let Some(known) = self.known.get(&kind) {
            return Ok(known.clone());
        }
        let resource = match cluster.discovered(reference).await {
            Err(Error::Server(_) | Error::Forbidden { .. }) => guessed(reference),
            found => found?,
        };
        self.known.insert(kind, resource.clone());
        Ok(resource)
    }

    fn hide(&mut self, right: String) {
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

    fn within(&self, namespace: &str) -> Self {
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

    fn rollouts_within(&self) -> Api<Rollout> {
        if self.namespace.is_empty() {
            Api::all(self.client.clone())
        } else {
            self.rollouts()
        }
    }

    /// One page of the Rollouts that the selector picks, from where the last one ended.
    pub(crate) async fn page(
        &self,
        selector: Option<&str>,
        from: Option<&str>,
        kinds: &mut Kinds,
    ) -> Result<Page, Error> {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = selector.map(str::to_owned);
        params.continue_token = from.map(str::to_owned);
        let right = format!("list rollouts.{}", names::GROUP);
        let page = match self.call(&right, self.rollouts_within().list(&params)).await {
            Err(Error::Server(status)) if status.code == 404 => return Err(Error::NotInstalled),
            page => page?,
        };
        Ok(Page {
            next: page.metadata.continue_.filter(|token| !token.is_empty()),
            worlds: self.with_workloads(page.items, kinds).await?,
        })
    }

    /// Reads the workloads of these Rollouts, several at once. What may not be read is left out and noted.
    async fn with_workloads(&self, rollouts: Vec<Rollout>, kinds: &mut Kinds) -> Result<Vec<World>, Error> {
        let mut asked = Vec::with_capacity(rollouts.len());
        for rollout in rollouts {
            let resource = kinds.resource(self, &rollout.spec.workload_ref).await?;
            asked.push((World::new(rollout), resource));
        }
        let answers = stream::iter(asked).map(async |(mut world, resource)| {
            let Some(resource) = resource else {
                world.take_workload(None);
                return (world, Ok(()));
            };
            let namespace = world.rollout.namespace().unwrap_or_default();
            let name = world.rollout.spec.workload_ref.name.clone();
            match self.within(&namespace).workload(&resource, &name).await {
                Ok(workload) => {
                    world.take_workload(workload.as_ref());
                    (world, Ok(()))
                }
                Err(error) => (world, Err((resource, error))),
            }
        });
        let answers: Vec<_> = answers.buffered(AT_ONCE).collect().await;
        let mut worlds = Vec::with_capacity(answers.len());
        for (mut world, answer) in answers {
            match answer {
                Ok(()) => {}
                Err((resource, Error::Forbidden { right, .. })) => {
                    let part = "the workload and its pods";
                    world.hidden.push(Hidden { part, right });
                    // Not with the namespace: in a list of all it would be said for each.
                    kinds.hide(format!("get {}", qualified(&resource)));
                }
                Err((_, error)) => return Err(error),
            }
            worlds.push(world);
        }
        Ok(worlds)
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
                let worlds = self
                    .cluster
                    .with_workloads(vec![rollout], &mut self.kinds)
                    .await?;
                self.worlds
                    .extend(worlds.into_iter().map(|world| (key.clone(), world)));
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
