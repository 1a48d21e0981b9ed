//! Earlier templates: where undo looks for them.

use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::intent::{Record, Search, Source};
use kube::api::{ApiResource, ListParams};
use serde_json::Value;

use super::{Cluster, PAGE, Workload};
use crate::error::Error;

impl Cluster {
    /// Looks through everything that may keep a template of this workload. What may not be read is named in the result.
    pub(crate) async fn search(&self, rollout: &Rollout, workload: &Workload) -> Result<Search, Error> {
        let uid = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let workload_uid = uid(&workload.object["metadata"]["uid"]);
        let rollout_uid = rollout.metadata.uid.clone().unwrap_or_default();
        let mut search = Search::default();
        if Source::of(&workload.kind()).contains(&Source::ReplicaSets) {
            let sets = self.owned("replicasets", "ReplicaSet", |object| {
                Record::of_replica_set(object, &workload_uid)
            });
            take(&mut search, &[Source::ReplicaSets], sets.await)?;
        }
        // Neither kind carries labels that could be relied on, so all of the namespace are looked through, once.
        let revisions = self.owned("controllerrevisions", "ControllerRevision", |object| {
            Record::of_revision(object, &workload_uid).or_else(|| Record::of_rollout(object, &rollout_uid))
        });
        take(
            &mut search,
            &[Source::Revisions, Source::Records],
            revisions.await,
        )?;
        Ok(search)
    }

    /// Objects of the group `apps`, page by page; each is reduced on arrival.
    async fn owned(
        &self,
        plural: &str,
        kind: &str,
        read: impl Fn(&Value) -> Option<Record>,
    ) -> Result<Vec<Record>, Error> {
        let resource = ApiResource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api = self.objects(&resource);
        let mut params = ListParams::default().limit(PAGE);
        let mut records = Vec::new();
        loop {
            let right = format!("list {plural}.apps");
            let page = self.call(&right, api.list(&params)).await?;
            for object in page.items {
                if let Ok(object) = serde_json::to_value(&object) {
                    records.extend(read(&object));
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(records),
            }
        }
    }
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
