//! What the views of one Rollout show beside its report: pods in full, with what could not be read.

use std::collections::HashMap;

use jiff::Timestamp;
use kruise_rollout::report::{Hidden, PodFacts, PodReport, pod_reports};
use kube::Resource;
use kube::api::{Api, ListParams};
use kube::core::ListMeta;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;

use super::pod::{Owners, Pod};
use super::{Cluster, PAGE, Workload, World};
use crate::error::Error;

/// Seconds after which a watch is opened anew, so that a dead connection is noticed.
pub(super) const WATCH: u32 = 60;

/// A Rollout, its workload and its pods in full.
#[derive(Debug)]
pub(crate) struct Details {
    /// What the report is made from.
    pub(crate) world: World,
    /// The workload.
    pub(crate) workload: Option<Workload>,
    /// The pods; `None` when they could not be read.
    pub(super) pods: Option<Vec<PodFacts>>,
}

impl Details {
    /// The pods as they are shown.
    pub(crate) fn pods(&self, now: Timestamp) -> Option<Vec<PodReport>> {
        let sources = self.world.sources(None, now);
        let report = self.world.report(None, now);
        let pods = self.pods.as_ref()?;
        Some(pod_reports(&sources, &report, pods))
    }

    /// What could not be read.
    pub(crate) fn hidden(&self) -> &[Hidden] {
        &self.world.hidden
    }

    /// The answer, or nothing where it is forbidden, which is noted.
    ///
    /// # Errors
    /// Any other failure.
    pub(crate) fn unless_forbidden<T>(
        &mut self,
        part: &'static str,
        answer: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::Forbidden { right, .. }) => {
                self.world.hidden.push(Hidden { part, right });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Cluster {
    /// Reads a Rollout with its workload and its pods. What may not be read is left out and noted.
    pub(crate) async fn details(&self, name: &str) -> Result<Details, Error> {
        let mut details = self.without_pods(name).await?;
        if let (Some(view), Some(workload)) = (details.world.view(), &details.workload) {
            let answer = self.pods_in_full(&view.uid, workload).await;
            details.pods = details.unless_forbidden("pods", answer)?;
            let views = |pods: &Vec<PodFacts>| pods.iter().map(|pod| pod.view.clone()).collect();
            details.world.pods = details.pods.as_ref().map(views);
        }
        Ok(details)
    }

    /// The same without the pods.
    pub(crate) async fn without_pods(&self, name: &str) -> Result<Details, Error> {
        let (world, workload) = self.world_without_pods(name).await?;
        Ok(Details {
            world,
            workload,
            pods: None,
        })
    }

    /// The pods of a workload, sorted by name; each is reduced on arrival.
    async fn pods_in_full(&self, uid: &str, workload: &Workload) -> Result<Vec<PodFacts>, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams {
            label_selector: workload.selector(),
            ..ListParams::default()
        };
        let mut owners = Owners::new(uid.to_owned());
        let (mut kept, mut facts) = (Vec::new(), HashMap::new());
        self.each(&api, params, "list pods", |pod| {
            let fact = pod.facts();
            let pod = pod.kept();
            if owners.may_have(&pod) {
                facts.insert(fact.view.name.clone(), fact);
                kept.push(pod);
            }
        })
        .await?;
        let picked = owners.pick(self, kept).await;
        Ok(picked.iter().filter_map(|pod| facts.remove(&pod.name)).collect())
    }

    /// What broke a watch; nothing where it is only to list again, which it does by itself.
    pub(super) fn watch_failure(&self, error: watcher::Error, right: &str) -> Option<Error> {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Some(self.shaped(error, right)),
            // An expired version among others.
            watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
        }
    }

    /// Lists page by page, so that only one page is held.
    pub(super) async fn each<K>(
        &self,
        api: &Api<K>,
        params: ListParams,
        right: &str,
        mut take: impl FnMut(K),
    ) -> Result<(), Error>
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let mut params = params.limit(PAGE);
        loop {
            let page = self.call(right, api.list(&params)).await?;
            page.items.into_iter().for_each(&mut take);
            match next_page(&page.metadata) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}

/// Token of the page behind the one that has come with this.
pub(super) fn next_page(metadata: &ListMeta) -> Option<String> {
    metadata.continue_.clone().filter(|token| !token.is_empty())
}
