//! The workloads of one kind, read in pages beside the pages of Rollouts.

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

use kruise_rollout::api::v1beta1::Rollout;
use kube::ResourceExt;
use kube::api::{ApiResource, ListParams};
use kube::core::{ListMeta, Request};
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::views::next_page;
use super::workload::readable;
use super::world::Sighting;
use super::{Cluster, PAGE, Workload, qualified};
use crate::error::Error;

/// A list is read if for each wanted workload there are not more than so many in it; else asking one by one is less work.
const FOR_EACH: u64 = 10;

/// Workloads of one kind. The server lists Rollouts and workloads in the same order of namespaces, and mostly of names. So workloads are
/// read as far as the Rollouts have come, and kept until their Rollout comes or their namespace is over.
pub(super) struct Shelf {
    resource: ApiResource,
    /// By [`key`].
    kept: BTreeMap<String, Sighting>,
    /// Workloads before this key are of no interest.
    floor: String,
    /// Key of the last workload that was read.
    through: String,
    /// Token of the next page.
    next: Option<String>,
}

impl Shelf {
    /// Begins to read, from this namespace on, for so many Rollouts. `None` where it is better to ask for each workload: there are
    /// many more of them than are wanted, or they may not be listed.
    pub(super) async fn open(
        cluster: &Cluster,
        resource: &ApiResource,
        first: &str,
        wanted: u64,
    ) -> Result<Option<Self>, Error> {
        let mut shelf = Self {
            resource: readable(resource),
            kept: BTreeMap::new(),
            floor: key(first, ""),
            through: String::new(),
            next: None,
        };
        match shelf.read(cluster).await {
            Ok(rest) => Ok((rest <= FOR_EACH * wanted).then_some(shelf)),
            // Another version of the kind may be served.
            Err(Error::Server(status)) if status.code == 404 => Ok(None),
            Err(Error::Forbidden { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads on until the workloads of these Rollouts are known, as far as they are there.
    pub(super) async fn read_for(&mut self, cluster: &Cluster, rollouts: &[&Rollout]) -> Result<(), Error> {
        for rollout in rollouts {
            let key = wanted(rollout);
            while self.next.is_some() && self.through < key {
                self.read(cluster).await?;
            }
        }
        Ok(())
    }

    /// What is known of the workload of a Rollout; `None` where it has not been seen.
    pub(super) fn sighting(&self, rollout: &Rollout) -> Option<Sighting> {
        self.kept.get(&wanted(rollout)).cloned()
    }

    /// Lets go of workloads whose Rollouts have come, of which this is the last one. Should a further one name such a workload, it is
    /// asked about alone.
    pub(super) fn forget<'a>(&mut self, rollouts: impl Iterator<Item = &'a Rollout>) {
        for rollout in rollouts {
            self.kept.remove(&wanted(rollout));
            self.floor = key(&rollout.namespace().unwrap_or_default(), "");
        }
        self.kept = self.kept.split_off(&self.floor);
    }

    /// Reads one page. Returns how many workloads follow behind it.
    async fn read(&mut self, cluster: &Cluster) -> Result<u64, Error> {
        let mut params = ListParams::default().limit(PAGE);
        params.continue_token = self.next.take();
        let folder = cluster.folder(&self.resource);
        let request = Request::new(&folder).list(&params);
        let request = request.map_err(|error| Error::Usage(format!("{folder}: {error}")))?;
        let right = format!("list {}", qualified(&self.resource));
        let text = cluster.call(&right, cluster.client.request_text(request)).await?;
        let metadata = self.take_page(&text);
        let metadata =
            metadata.map_err(|error| Error::Unreadable(qualified(&self.resource), error.to_string()))?;
        self.next = next_page(&metadata);
        let rest = metadata.remaining_item_count.unwrap_or_default();
        Ok(rest.max(0).unsigned_abs())
    }

    fn take_page(&mut self, text: &str) -> serde_json::Result<ListMeta> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let metadata = reader.deserialize_map(Page(self))?;
        reader.end()?;
        Ok(metadata)
    }

    fn take(&mut self, object: Value) {
        let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default();
        let (key, name) = (key(text("namespace"), text("name")), text("name").to_owned());
        if key >= self.floor {
            let workload = Workload {
                resource: self.resource.clone(),
                name,
                object,
            };
            self.kept.insert(key.clone(), Sighting::of(Some(&workload)));
        }
        self.through = key;
    }
}

/// Reads a list into a shelf, one object after the other: all of a page as trees take several times the room of their text.
struct Page<'a>(&'a mut Shelf);

impl<'de> Visitor<'de> for Page<'_> {
    type Value = ListMeta;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ListMeta, A::Error> {
        let mut metadata = ListMeta::default();
        while let Some(member) = members.next_key::<String>()? {
            match member.as_str() {
                "metadata" => metadata = members.next_value()?,
                "items" => members.next_value_seed(Items(&mut *self.0))?,
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(metadata)
    }
}

/// The objects of a list.
struct Items<'a>(&'a mut Shelf);

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<(), A::Error> {
        while let Some(object) = objects.next_element()? {
            self.0.take(object);
        }
        Ok(())
    }
}

/// Key of the workload of a Rollout.
fn wanted(rollout: &Rollout) -> String {
    let namespace = rollout.namespace().unwrap_or_default();
    key(&namespace, &rollout.spec.workload_ref.name)
}

/// Keys are in the order of the server, which has `a-b/x` before `a/x`.
fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
