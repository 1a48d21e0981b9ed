//! Following Rollout, workload and pods.

mod polling;

use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Event as KubeEvent;
use kruise_rollout::api::v1beta1::Rollout;
use kube::api::Api;
use kube::core::DynamicObject;
use tokio::time::{Instant, Interval};

use super::feed::{Event, Feed, Selected, Watched, next};
use super::link::{Link, Part};
use super::pod::{Kept, Owners, Pod};
use super::world::Known;
use super::{Cluster, Workload, World};
use crate::error::Error;

/// The watches of one Rollout. They list and watch, come back after a broken connection, and list again when the server has
/// forgotten where they were. What may be read but not watched is read now and then.
pub(crate) struct Feeds {
    cluster: Cluster,
    name: String,
    uid: Option<String>,
    rollout: Option<Feed<Rollout>>,
    workload: Option<Feed<DynamicObject>>,
    pods: Option<Feed<Pod>>,
    /// Events of the Rollout, and of its workload.
    events: [Option<Feed<KubeEvent>>; 2],
    wants_events: bool,
    /// What is read now and then, and when.
    polled: Vec<Part>,
    interval: Duration,
    poll: Option<Interval>,
    /// Looks at the Rollout in a row that were refused.
    refusals: u32,
    /// The workload that is watched, without its object's state.
    target: Option<Workload>,
    /// Whose pods are watched.
    owners: Option<Owners>,
    /// What arrived since a list began.
    listed: Listed,
    link: Link,
}

#[derive(Default)]
struct Listed {
    rollout: bool,
    workload: bool,
    pods: Vec<Kept>,
    /// Events that were listed once are history from then on.
    events: [bool; 2],
}

/// A change that has not been taken in.
pub(crate) enum Arrival {
    Rollout(Box<kube::Result<Event<Rollout>>>),
    Workload(kube::Result<Event<DynamicObject>>),
    Pods(kube::Result<Event<Pod>>),
    Events(usize, Box<kube::Result<Event<KubeEvent>>>),
    /// It is time to read what may not be watched.
    Look,
}

/// What came of a watch.
enum Heard<K> {
    Event(Event<K>),
    /// It is broken, and comes back by itself.
    Nothing,
    /// It is not allowed.
    Refused(Error),
}

impl Feeds {
    /// Starts to follow what `world` has been read from. What may not be watched is read every `interval`.
    pub(crate) fn new(
        cluster: &Cluster,
        name: &str,
        world: &World,
        workload: Option<Workload>,
        interval: Duration,
        wants_events: bool,
    ) -> Self {
        let api: Api<Rollout> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let mut feeds = Self {
            cluster: cluster.clone(),
            name: name.to_owned(),
            uid: world.rollout.metadata.uid.clone(),
            rollout: Some(Feed::new(api, Selected::name(name))),
            workload: None,
            pods: None,
            events: [None, None],
            wants_events,
            polled: Vec::new(),
            interval,
            poll: None,
            refusals: 0,
            target: None,
            owners: None,
            listed: Listed::default(),
            link: Link::default(),
        };
        feeds.follow_events(0, feeds.uid.clone().as_deref());
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

    /// Since when the API server is not heard, and why.
    pub(crate) fn broken(&self) -> Option<(Instant, &str)> {
        self.link.broken()
    }

    fn follow_workload(&mut self, workload: Workload) {
        let api = self.cluster.objects(&workload.resource);
        self.workload = Some(Feed::new(api, Selected::name(&workload.name)));
        self.follow_events(1, workload.object["metadata"]["uid"].as_str());
        self.target = Some(workload);
    }

    fn follow_events(&mut self, of: usize, uid: Option<&str>) {
        let Some(uid) = uid.filter(|_| self.wants_events) else {
            return;
        };
        let api: Api<KubeEvent> = Api::namespaced(self.cluster.client.clone(), &self.cluster.namespace);
        let fields = Some(format!("involvedObject.uid={uid}"));
        self.events[of] = Some(Feed::new(api, Selected { fields, labels: None }));
        self.listed.events[of] = false;
    }

    fn follow_pods(&mut self, owner: String) {
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.cluster.namespace);
        let labels = self.target.as_ref().and_then(Workload::selector);
        self.pods = Some(Feed::new(api, Selected { labels, fields: None }));
        self.owners = Some(Owners::new(owner));
        self.listed.pods.clear();
    }

    /// Takes in a change, with everything that has arrived along with it. Returns what is worth saying. Not to be dropped
    /// half way, unlike [`Self::arrival`].
    ///
    /// # Errors
    /// The Rollout is gone, or may not be read.
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
        let [of_rollout, of_workload] = &mut self.events;
        tokio::select! {
            event = next(&mut self.rollout) => Arrival::Rollout(Box::new(event)),
            event = next(&mut self.workload) => Arrival::Workload(event),
            event = next(&mut self.pods) => Arrival::Pods(event),
            event = next(of_rollout) => Arrival::Events(0, Box::new(event)),
            event = next(of_workload) => Arrival::Events(1, Box::new(event)),
            () = tick(&mut self.poll) => Arrival::Look,
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
                match heard(
                    &self.cluster,
                    &mut self.rollout,
                    Part::Rollout,
                    *event,
                    &mut self.link,
                    notes,
                ) {
                    Heard::Event(event) => return self.take_rollout(event, world).await,
                    Heard::Nothing => {}
                    Heard::Refused(error @ (Error::Unauthorized(_) | Error::Credentials(_))) => {
                        return Err(error);
                    }
                    Heard::Refused(_) => {
                        self.rollout = None;
                        self.poll(Part::Rollout, "the Rollout", notes);
                    }
                }
            }
            Arrival::Workload(event) => {
                match heard(
                    &self.cluster,
                    &mut self.workload,
                    Part::Workload,
                    event,
                    &mut self.link,
                    notes,
                ) {
                    Heard::Event(event) => self.take_workload(event, world),
                    Heard::Nothing => {}
                    Heard::Refused(_) => {
                        self.workload = None;
                        self.poll(Part::Workload, "the workload", notes);
                    }
                }
            }
            Arrival::Pods(event) => {
                match heard(
                    &self.cluster,
                    &mut self.pods,
                    Part::Pods,
                    event,
                    &mut self.link,
                    notes,
                ) {
                    Heard::Event(event) => self.take_pod(event, world).await,
                    Heard::Nothing => {}
                    Heard::Refused(_) => {
                        self.pods = None;
                        self.poll(Part::Pods, "pods", notes);
                    }
                }
            }
            Arrival::Events(of, event) => {
                let part = [Part::EventsOfRollout, Part::EventsOfWorkload][of];
                let feed = &mut self.events[of];
                match heard(&self.cluster, feed, part, *event, &mut self.link, notes) {
                    Heard::Event(event) => self.take_event(of, event, world),
                    Heard::Nothing => {}
                    Heard::Refused(_) => {
                        if std::mem::take(&mut self.wants_events) {
                            notes.push("events are not shown: you may not watch them".to_owned());
                        }
                        self.events[of] = None;
                    }
                }
            }
            Arrival::Look => self.look(world, notes).await?,
        }
        Ok(())
    }

    async fn take_rollout(&mut self, event: Event<Rollout>, world: &mut World) -> Result<(), Error> {
        match event {
            Event::Init => self.listed.rollout = false,
            Event::InitDone if !self.listed.rollout => return Err(self.deleted()),
            Event::InitDone => {}
            Event::Delete(_) => return Err(self.deleted()),
            Event::Apply(rollout) | Event::Listed(rollout) => {
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
        if self.polled.contains(&Part::Workload) {
            return Ok(());
        }
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
            Event::InitDone if !self.listed.workload => self.note_workload(None, world),
            Event::InitDone => {}
            Event::Delete(_) => self.note_workload(None, world),
            Event::Apply(object) | Event::Listed(object) => {
                self.listed.workload = true;
                if let Ok(object) = serde_json::to_value(&object) {
                    self.note_workload(Some(object), world);
                }
            }
        }
    }

    fn note_workload(&mut self, object: Option<serde_json::Value>, world: &mut World) {
        let Some(target) = &mut self.target else { return };
        let Some(object) = object else {
            world.take_workload(None);
            return;
        };
        target.object = object;
        let owner = world.take_workload(Some(target));
        if let Some(owner) = owner.filter(|owner| self.owners.as_ref().is_none_or(|o| o.uid != *owner)) {
            world.pods = None;
            self.follow_events(1, Some(&owner));
            self.follow_pods(owner);
        }
    }

    async fn take_pod(&mut self, event: Event<Pod>, world: &mut World) {
        let Some(owners) = &mut self.owners else { return };
        match event {
            Event::Init => self.listed.pods.clear(),
            Event::Listed(pod) => {
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

    fn take_event(&mut self, of: usize, event: Event<KubeEvent>, world: &mut World) {
        match event {
            Event::Init | Event::Delete(_) => {}
            Event::InitDone => self.listed.events[of] = true,
            Event::Listed(event) => world.happenings.take(event, self.listed.events[of]),
            Event::Apply(event) => world.happenings.take(event, true),
        }
    }
}

/// The event, or nothing while a watch is broken. Broken and mended are said once each.
fn heard<K: Watched>(
    cluster: &Cluster,
    feed: &mut Option<Feed<K>>,
    part: Part,
    event: kube::Result<Event<K>>,
    link: &mut Link,
    notes: &mut Vec<String>,
) -> Heard<K> {
    let Some(feed) = feed else { return Heard::Nothing };
    let error = match event {
        Ok(event) => {
            if matches!(event, Event::InitDone) {
                feed.works();
                notes.extend(link.mends(part));
            }
            return Heard::Event(event);
        }
        Err(error) => cluster.shaped(error, "watch it"),
    };
    if matches!(error, Error::Forbidden { .. } | Error::Unauthorized(_)) && feed.refused() {
        // Nobody waits for it any more.
        notes.extend(link.mends(part));
        return Heard::Refused(error);
    }
    feed.again();
    notes.extend(link.breaks(part, &error.to_string(), feed.failures));
    Heard::Nothing
}

async fn tick(poll: &mut Option<Interval>) {
    match poll {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}
