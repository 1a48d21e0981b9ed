//! The workloads of one kind, read in pages beside the pages of Rollouts.

use std::collections::BTreeMap;

use kruise_rollout::api::v1beta1::Rollout;
use kube::ResourceExt;
use kube::api::{ApiResource, ListParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::Value;

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

/// One page of workloads.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: kube::core::ListMeta,
    items: Vec<Value>,
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
        let page: Page = cluster.call(&right, cluster.client.request(request)).await?;
        for object in page.items {
            let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default();
            let key = key(text("namespace"), text("name"));
            if key >= self.floor {
                let workload = Workload {
                    resource: self.resource.clone(),
                    name: text("name").to_owned(),
                    object,
                };
                self.kept.insert(key.clone(), Sighting::of(Some(&workload)));
            }
            self.through = key;
        }
        self.next = page.metadata.continue_.filter(|token| !token.is_empty());
        Ok(page
            .metadata
            .remaining_item_count
            .unwrap_or_default()
            .max(0)
            .unsigned_abs())
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
