//! One workload as it changes.

use kube::core::DynamicObject;

use super::feed::{Event, Feed, Selected};
use super::{Cluster, Workload, qualified};
use crate::error::Error;

/// The watch of one workload. It comes back after a broken connection by itself.
pub(crate) struct WorkloadFeed {
    cluster: Cluster,
    workload: Workload,
    feed: Feed<DynamicObject>,
    /// A list that is under way has had it.
    listed: bool,
}

impl WorkloadFeed {
    pub(crate) fn new(cluster: &Cluster, workload: &Workload) -> Self {
        let api = cluster.objects(&workload.resource);
        Self {
            feed: Feed::new(api, Selected::name(&workload.name)),
            cluster: cluster.clone(),
            workload: workload.clone(),
            listed: false,
        }
    }

    /// The workload when it has changed, or may have.
    ///
    /// # Errors
    /// It was deleted; it may not be watched.
    pub(crate) async fn next(&mut self) -> Result<Workload, Error> {
        loop {
            match self.feed.next().await {
                Ok(Event::Listed(object) | Event::Apply(object)) => {
                    self.listed = true;
                    let object = serde_json::to_value(object).map_err(|error| Error::Io(error.into()))?;
                    return Ok(Workload {
                        object,
                        ..self.workload.clone()
                    });
                }
                Ok(Event::Init) => self.listed = false,
                Ok(Event::InitDone) if self.listed => self.feed.works(),
                Ok(Event::InitDone | Event::Delete(_)) => {
                    return Err(Error::Deleted(self.workload.subject()));
                }
                Err(error) => {
                    let right = format!("watch {}", qualified(&self.workload.resource));
                    let error = self.cluster.shaped(error, &right);
                    let refused = matches!(error, Error::Forbidden { .. } | Error::Unauthorized(_));
                    if refused && self.feed.refused() {
                        return Err(error);
                    }
                    self.feed.again();
                }
            }
        }
    }
}
