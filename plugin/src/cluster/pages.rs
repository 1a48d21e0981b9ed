//! Many Rollouts with their workloads, page by page.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt, stream};
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kruise_rollout::report::Hidden;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, ListParams, ObjectList};

use super::list::Kinds;
use super::shelf::Shelf;
use super::views::next_page;
use super::world::Sighting;
use super::{Cluster, PAGE, World, qualified};
use crate::error::Error;

/// Workloads that are asked for at once.
const AT_ONCE: usize = 16;
/// Workloads of one kind that are asked for one by one, for a page of Rollouts; more are listed.
const FEW: usize = 16;

/// Rollouts that may follow where nobody knows.
const MANY: i64 = 1_000_000;

/// A list of Rollouts that is being read.
pub(crate) struct Pages<'a> {
    cluster: &'a Cluster,
    selector: Option<&'a str>,
    /// Token of the next page; none before the first one.
    next: Option<String>,
    ended: bool,
    kinds: Kinds,
    /// Kinds with many workloads on a page, by plural and group; `None` for those that are not listed after all.
    shelves: HashMap<String, Option<Shelf>>,
}

impl<'a> Pages<'a> {
    /// The Rollouts that the selector picks. Nothing is asked yet.
    pub(crate) fn new(cluster: &'a Cluster, selector: Option<&'a str>) -> Self {
        Self {
            cluster,
            selector,
            next: None,
            ended: false,
            kinds: Kinds::default(),
            shelves: HashMap::new(),
        }
    }

    /// The next page, with what is known of each; pods are not read. `None` at the end.
    ///
    /// # Errors
    /// Rollouts may not be listed or are not served; with code 410 the server does not know any more what it was listing.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<World>>, Error> {
        if self.ended {
            return Ok(None);
        }
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = self.selector.map(str::to_owned);
        params.continue_token = self.next.take();
        let page = self
            .cluster
            .page(&self.cluster.rollouts_within(), &params)
            .await?;
        self.next = next_page(&page.metadata);
        self.ended = self.next.is_none();
        // Of a selection the server does not tell how many follow.
        let untold = if self.ended { 0 } else { MANY };
        let rest = page.metadata.remaining_item_count.unwrap_or(untold);
        self.with_workloads(page.items, rest.max(0).unsigned_abs())
            .await
            .map(Some)
    }

    /// Begins anew; what was said of rights and kinds stays known.
    pub(crate) fn restart(&mut self) {
        self.next = None;
        self.ended = false;
        self.shelves.clear();
    }

    /// What could not be read so far, each once.
    pub(crate) fn hidden(&self) -> &[Hidden] {
        &self.kinds.hidden
    }

    /// The kinds that have been met.
    pub(crate) fn into_kinds(self) -> Kinds {
        self.kinds
    }

    /// `rest`: so many Rollouts follow behind this page.
    async fn with_workloads(&mut self, rollouts: Vec<Rollout>, rest: u64) -> Result<Vec<World>, Error> {
        let mut resources = Vec::with_capacity(rollouts.len());
        for rollout in &rollouts {
            let resource = self.kinds.resource(self.cluster, &rollout.spec.workload_ref);
            resources.push(resource.await?);
        }
        self.read_shelves(&rollouts, &resources, rest).await?;
        let mut worlds: Vec<_> = rollouts.into_iter().map(World::new).collect();
        let mut alone = Vec::new();
        for (position, resource) in resources.into_iter().enumerate() {
            let world = &mut worlds[position];
            let shelf = |resource: &ApiResource| self.shelves.get(&qualified(resource))?.as_ref();
            match resource
                .as_ref()
                .and_then(shelf)
                .and_then(|shelf| shelf.sighting(world.rollout()))
            {
                Some(sighting) => world.take(sighting),
                None => alone.push((position, resource)),
            }
        }
        for shelf in self.shelves.values_mut().flatten() {
            shelf.forget(worlds.iter().map(World::rollout));
        }
        self.cluster
            .look_at_each(&mut worlds, alone, &mut self.kinds)
            .await?;
        Ok(worlds)
    }

    /// Reads the workloads of those kinds that many Rollouts of a page name.
    async fn read_shelves(
        &mut self,
        rollouts: &[Rollout],
        resources: &[Option<ApiResource>],
        rest: u64,
    ) -> Result<(), Error> {
        let mut named = BTreeMap::<String, (&ApiResource, Vec<&Rollout>)>::new();
        for (rollout, resource) in rollouts.iter().zip(resources) {
            if let Some(resource) = resource {
                let (_, naming) = named.entry(qualified(resource)).or_insert((resource, Vec::new()));
                naming.push(rollout);
            }
        }
        for (name, (resource, naming)) in named {
            if naming.len() > FEW && !self.shelves.contains_key(&name) {
                let first = naming[0].namespace().unwrap_or_default();
                let wanted = naming.len() as u64 + rest;
                let shelf = Shelf::open(self.cluster, resource, &first, wanted).await?;
                self.shelves.insert(name.clone(), shelf);
            }
            if let Some(Some(shelf)) = self.shelves.get_mut(&name) {
                shelf.read_for(self.cluster, &naming).await?;
            }
        }
        Ok(())
    }
}

impl Cluster {
    /// One page of Rollouts.
    ///
    /// # Errors
    /// They may not be listed or are not served.
    pub(super) async fn page(
        &self,
        api: &Api<Rollout>,
        params: &ListParams,
    ) -> Result<ObjectList<Rollout>, Error> {
        let right = format!("list rollouts.{}", names::GROUP);
        match self.call(&right, api.list(params)).await {
            Err(Error::Server(status)) if status.code == 404 => Err(Error::NotInstalled),
            page => page,
        }
    }

    /// A Rollout with its workload. What may not be read is left out and noted.
    pub(super) async fn alone(&self, rollout: Rollout, kinds: &mut Kinds) -> Result<World, Error> {
        let resource = kinds.resource(self, &rollout.spec.workload_ref).await?;
        let mut worlds = [World::new(rollout)];
        self.look_at_each(&mut worlds, vec![(0, resource)], kinds).await?;
        let [world] = worlds;
        Ok(world)
    }

    /// Reads the workloads of some of these, several at once.
    async fn look_at_each(
        &self,
        worlds: &mut [World],
        which: Vec<(usize, Option<ApiResource>)>,
        kinds: &mut Kinds,
    ) -> Result<(), Error> {
        let asked: Vec<_> = which
            .into_iter()
            .map(|(position, resource)| {
                let rollout = worlds[position].rollout();
                let namespace = rollout.namespace().unwrap_or_default();
                (
                    position,
                    resource,
                    namespace,
                    rollout.spec.workload_ref.name.clone(),
                )
            })
            .collect();
        let answers = stream::iter(asked).map(async |(position, resource, namespace, name)| {
            let Some(resource) = resource else {
                return (position, Ok(Sighting::of(None)));
            };
            let answer = self.within(&namespace).workload(&resource, &name).await;
            let answer = answer.map(|workload| Sighting::of(workload.as_ref()));
            (position, answer.map_err(|error| (resource, error)))
        });
        let mut answers = answers.buffered(AT_ONCE);
        while let Some((position, answer)) = answers.next().await {
            let world = &mut worlds[position];
            match answer {
                Ok(sighting) => world.take(sighting),
                Err((resource, Error::Forbidden { right, .. })) => {
                    let part = "the workload and its pods";
                    world.hidden.push(Hidden { part, right });
                    // Not with the namespace: in a list of all it would be said for each.
                    kinds.hide(format!("get {}", qualified(&resource)));
                }
                Err((_, error)) => return Err(error),
            }
        }
        Ok(())
    }
}
