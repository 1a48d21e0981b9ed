//! Following Rollout, workload and pods.

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use kruise_rollout::api::v1beta1::Rollout;
use kube::api::Api;
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use super::pod::{Kept, Owners, Pod};
use super::world::Known;
use super::{Cluster, Workload, World};
use crate::error::Error;

/// Seconds after which a watch is opened anew, so that a dead connection is noticed.
const WATCH: u32 = 60;

type Feed<K> = Option<BoxStream<'static, watcher::Result<Event<K>>>>;

/// The watches of one Rollout. They list and watch, come back after a broken connection, and list again when the server has
/// forgotten where they were.
pub(crate) struct Feeds {
    cluster: Cluster,
    name: String,
    uid: Option<String>,
    rollout: Feed<Rollout>,
    workload: Feed<DynamicObject>,
    pods: Feed<Pod>,
    /// The workload that is watched, without its object's state.
    target: Option<Workload>,
    /// Whose pods are watched.
    owners: Option<Owners>,
    /// What arrived since a list began.
    listed: Listed,
    /// What broke, until it works again.
    broken: Option<String>,
}

#[derive(Default)]
struct Listed {
    rollout: bool,
    workload: bool,
    pods: Vec<Kept>,
}

/// A change that has not been taken in.
pub(crate) enum Arrival {
    Rollout(Box<watcher::Result<Event<Rollout>>>),
    Workload(watcher::Result<Event<DynamicObject>>),
    Pods(watcher::Result<Event<Pod>>),
}

impl Feeds {
    /// Starts to follow what `world` has been read from.
    pub(crate) fn new(cluster: &Cluster, name: &str, world: &World, workload: Option<Workload>) -> Self {
        let api: Api<Rollout> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let rollout = watcher(api, by_name(name)).default_backoff().boxed();
        let mut feeds = Self {
            cluster: cluster.clone(),
            name: name.to_owned(),
            uid: world.rollout.metadata.uid.clone(),
            rollout: Some(rollout),
            workload: None,
            pods: None,
            target: None,
            owners: None,
            listed: Listed::default(),
            broken: None,
        };
        if let Some(workload) = workload {
            feeds.follow_workload(workload);
        }
        if let Known::Present(view) = &world.known {
            feeds.follow_pods(view.uid.clone());
            // Pods that may not be listed may not be watched either.
            if world.pods.is_none() {
                feeds.pods = None;
            }
        }
        feeds
    }

    fn follow_workload(&mut self, workload: Workload) {
        let api = self.cluster.objects(&workload.resource);
        self.workload = Some(watcher(api, by_name(&workload.name)).default_backoff().boxed());
        self.target = Some(workload);
    }

    fn follow_pods(&mut self, owner: String) {
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.cluster.namespace);
        let mut config = watcher::Config::default().timeout(WATCH).page_size(super::PAGE);
        config.label_selector = self.target.as_ref().and_then(Workload::selector);
        self.pods = Some(watcher(api, config).default_backoff().boxed());
        self.owners = Some(Owners::new(owner));
        self.listed.pods.clear();
    }

    /// Takes in a change, with everything that has arrived along with it. Returns what is worth saying. Not to be dropped
    /// half way, unlike [`Self::arrival`].
    ///
    /// # Errors
    /// The Rollout is gone, or may not be watched.
    pub(crate) async fn take_in(&mut self, first: Arrival, world: &mut World) -> Result<Vec<String>, Error> {
        let mut notes = Vec::new();
        self.take(first, world, &mut notes).await?;
        while let Some(arrival) = self.arrival().now_or_never() {
            self.take(arrival, world, &mut notes).await?;
        }
        Ok(notes)
    }

    /// Waits for a change.
    pub(crate) async fn arrival(&mut self) -> Arrival {
        tokio::select! {
            event = next(&mut self.rollout) => Arrival::Rollout(Box::new(event)),
            event = next(&mut self.workload) => Arrival::Workload(event),
            event = next(&mut self.pods) => Arrival::Pods(event),
        }
    }

    async fn take(
        &mut self,
        arrival: Arrival,
        world: &mut World,
        notes: &mut Vec<String>,
    ) -> Result<(), Error> {
        match arrival {
            Arrival::Rollout(event) => {
                let Some(event) = self.readable(*event, "rollouts", notes)? else {
                    return Ok(());
                };
                self.take_rollout(event, world).await
            }
            Arrival::Workload(event) => {
                match self.readable(event, "the workload", notes) {
                    Ok(Some(event)) => self.take_workload(event, world),
                    Ok(None) => {}
                    Err(_) => {
                        self.workload = None;
                        notes.push("the workload is not followed: you may not watch it".to_owned());
                    }
                }
                Ok(())
            }
            Arrival::Pods(event) => {
                match self.readable(event, "pods", notes) {
                    Ok(Some(event)) => self.take_pod(event, world).await,
                    Ok(None) => {}
                    Err(_) => {
                        self.pods = None;
                        notes.push("pods are not followed: you may not watch them".to_owned());
                    }
                }
                Ok(())
            }
        }
    }

    /// The event, or nothing while a watch is broken; it comes back by itself. Broken and mended are said once each.
    fn readable<K>(
        &mut self,
        event: watcher::Result<Event<K>>,
        what: &str,
        notes: &mut Vec<String>,
    ) -> Result<Option<Event<K>>, Error> {
        let error = match event {
            Ok(event) => {
                if matches!(event, Event::InitDone) && self.broken.take_if(|broken| broken == what).is_some()
                {
                    notes.push("connected again".to_owned());
                }
                return Ok(Some(event));
            }
            Err(error) => error,
        };
        let cause = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => self.cluster.shaped(error, &format!("watch {what}")),
            // An expired version among others: the watcher lists again.
            watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => return Ok(None),
        };
        if matches!(cause, Error::Forbidden { .. } | Error::Unauthorized(_)) {
            return Err(cause);
        }
        if self.broken.is_none() && matches!(cause, Error::Unreachable { .. }) {
            self.broken = Some(what.to_owned());
            notes.push(format!("{cause}; trying again"));
        }
        Ok(None)
    }

    async fn take_rollout(&mut self, event: Event<Rollout>, world: &mut World) -> Result<(), Error> {
        match event {
            Event::Init => self.listed.rollout = false,
            Event::InitDone if !self.listed.rollout => return Err(self.deleted()),
            Event::InitDone => {}
            Event::Delete(_) => return Err(self.deleted()),
            Event::Apply(rollout) | Event::InitApply(rollout) => {
                self.listed.rollout = true;
                // One of the same name that was created anew is another one.
                if rollout.metadata.uid != self.uid {
                    return Err(self.deleted());
                }
                world.rollout = rollout;
                if self.workload.is_none() && matches!(world.known, Known::Missing) {
                    self.look_for_workload(world).await?;
                }
            }
        }
        Ok(())
    }

    fn deleted(&self) -> Error {
        Error::Deleted(format!(
            "rollout {} in namespace {}",
            self.name, self.cluster.namespace
        ))
    }

    /// The kind or the object was not there before; the Rollout changes when its controller finds it.
    async fn look_for_workload(&mut self, world: &mut World) -> Result<(), Error> {
        let reference = world.rollout.spec.workload_ref.clone();
        if let Some(workload) = self.cluster.workload_of(&reference).await? {
            let owner = world.take_workload(Some(&workload));
            self.follow_workload(workload);
            if let Some(owner) = owner {
                self.follow_pods(owner);
            }
        }
        Ok(())
    }

    fn take_workload(&mut self, event: Event<DynamicObject>, world: &mut World) {
        match event {
            Event::Init => self.listed.workload = false,
            Event::InitDone if !self.listed.workload => {
                world.take_workload(None);
            }
            Event::InitDone => {}
            Event::Delete(_) => {
                world.take_workload(None);
            }
            Event::Apply(object) | Event::InitApply(object) => {
                self.listed.workload = true;
                let (Some(target), Ok(object)) = (&mut self.target, serde_json::to_value(&object)) else {
                    return;
                };
                target.object = object;
                let owner = world.take_workload(Some(target));
                if let Some(owner) =
                    owner.filter(|owner| self.owners.as_ref().is_none_or(|o| o.uid != *owner))
                {
                    world.pods = None;
                    self.follow_pods(owner);
                }
            }
        }
    }

    async fn take_pod(&mut self, event: Event<Pod>, world: &mut World) {
        let Some(owners) = &mut self.owners else { return };
        match event {
            Event::Init => self.listed.pods.clear(),
            Event::InitApply(pod) => {
                self.listed
                    .pods
                    .extend(Some(pod.kept()).filter(|pod| owners.may_have(pod)));
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed.pods);
                world.pods = Some(owners.pick(&self.cluster, listed).await);
            }
            Event::Apply(pod) => {
                if let Some(pod) = owners.take(&self.cluster, pod.kept()).await {
                    world.take_pod(pod);
                }
            }
            Event::Delete(pod) => world.drop_pod(pod.name()),
        }
    }
}

fn by_name(name: &str) -> watcher::Config {
    watcher::Config::default()
        .timeout(WATCH)
        .page_size(super::PAGE)
        .fields(&format!("metadata.name={name}"))
}

/// The next event; never, where nothing is watched.
async fn next<K>(feed: &mut Feed<K>) -> watcher::Result<Event<K>> {
    match feed {
        Some(stream) => match stream.next().await {
            Some(event) => event,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}
