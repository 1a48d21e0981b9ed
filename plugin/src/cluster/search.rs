//! Earlier templates: where undo looks for them.

use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::intent::{Record, Search, Source};
use kube::core::DynamicObject;
use serde_json::Value;

use super::{Cluster, Workload};
use crate::error::Error;

impl Cluster {
    /// Looks through everything that may keep a template of this workload. What may not be read is named in the result.
    pub(crate) async fn search(&self, rollout: &Rollout, workload: &Workload) -> Result<Search, Error> {
        let uid = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let workload_uid = uid(&workload.object["metadata"]["uid"]);
        let rollout_uid = rollout.metadata.uid.clone().unwrap_or_default();
        let mut search = Search::default();
        if Source::of(&workload.kind()).contains(&Source::ReplicaSets) {
            let mut records = Vec::new();
            let found = self.apps("ReplicaSet", "replicasets", workload.selector(), |object| {
                records
                    .extend(json(&object).and_then(|object| Record::of_replica_set(&object, &workload_uid)));
            });
            let found = found.await.map(|()| records);
            take(&mut search, &[Source::ReplicaSets], found)?;
        }
        let mut records = Vec::new();
        let found = self.revisions(&rollout_uid, Some(workload), |object| {
            let read = |object: Value| {
                Record::of_revision(&object, &workload_uid)
                    .or_else(|| Record::of_rollout(&object, &rollout_uid))
            };
            records.extend(json(&object).and_then(read));
        });
        let found = found.await.map(|()| records);
        take(&mut search, &[Source::Revisions, Source::Records], found)?;
        Ok(search)
    }
}

fn json(object: &DynamicObject) -> Option<Value> {
    serde_json::to_value(object).ok()
}

fn take(search: &mut Search, sources: &[Source], found: Result<Vec<Record>, Error>) -> Result<(), Error> {
    let unreadable = match found {
        Ok(records) => {
            search.records.extend(records);
            None
        }
        Err(Error::Forbidden { right, .. }) => Some(format!("you may not {right}")),
        Err(error) => return Err(error),
    };
    let sources = sources.iter().map(|source| (*source, unreadable.clone()));
    search.sources.extend(sources);
    Ok(())
}
