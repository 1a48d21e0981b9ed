//! Templates that a workload had: as its Rollout recorded them, and as it keeps them itself.

use jiff::Timestamp;
use kruise_rollout::names;
use kruise_rollout::report::{History, Recorded};
use kube::api::{ApiResource, ListParams};
use kube::core::{DynamicObject, GroupVersionKind};

use super::{Cluster, Details, Workload};
use crate::error::Error;

impl Cluster {
    /// The revisions of a workload, newest first.
    pub(crate) async fn history(&self, details: &Details, now: Timestamp) -> Result<History, Error> {
        let rollout = details.world.rollout();
        let rollout_uid = rollout.metadata.uid.clone().unwrap_or_default();
        let workload_uid = details.workload.as_ref().and_then(|workload| {
            let uid = workload.object["metadata"]["uid"].as_str()?;
            Some(uid.to_owned())
        });
        let mut recorded = Vec::new();
        let mut take = |object: DynamicObject| {
            let Ok(object) = serde_json::to_value(&object) else {
                return;
            };
            let ours = Recorded::of_rollout(&object, &rollout_uid);
            let theirs = || Recorded::of_workload(&object, workload_uid.as_deref()?);
            recorded.extend(ours.or_else(theirs));
        };
        self.revisions(&rollout_uid, details.workload.as_ref(), &mut take)
            .await?;
        if let Some(workload) = &details.workload
            && (workload.resource.group.as_str(), workload.resource.kind.as_str()) == ("apps", "Deployment")
        {
            self.apps("ReplicaSet", "replicasets", workload.selector(), &mut take)
                .await?;
        }
        let named = details.world.report(None, now).revisions;
        Ok(History::new(recorded, details.world.view(), &named))
    }

    /// The ControllerRevisions that may hold a template of a workload: the records of its Rollout, and what its own controller keeps.
    /// Those of StatefulSets and DaemonSets of Kubernetes have the labels that these select by, so the others of the namespace need
    /// not be read. Of other operators that is not known.
    pub(super) async fn revisions(
        &self,
        rollout_uid: &str,
        workload: Option<&Workload>,
        mut take: impl FnMut(DynamicObject),
    ) -> Result<(), Error> {
        let records = Some(format!("{}={rollout_uid}", names::RECORD_OF));
        let of =
            |workload: &Workload| (workload.resource.group == "apps").then(|| workload.resource.kind.clone());
        let selectors = match (
            workload.and_then(of).as_deref(),
            workload.and_then(Workload::selector),
        ) {
            (Some("Deployment"), _) => vec![records],
            (Some("StatefulSet" | "DaemonSet"), Some(selector)) => vec![records, Some(selector)],
            _ => vec![None],
        };
        for selector in selectors {
            self.apps("ControllerRevision", "controllerrevisions", selector, &mut take)
                .await?;
        }
        Ok(())
    }

    /// Objects of the group `apps`, page by page.
    pub(super) async fn apps(
        &self,
        kind: &str,
        plural: &str,
        selector: Option<String>,
        take: impl FnMut(DynamicObject),
    ) -> Result<(), Error> {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("apps", "v1", kind), plural);
        let params = ListParams {
            label_selector: selector,
            ..ListParams::default()
        };
        let right = format!("list {plural}.apps");
        self.each(&self.objects(&resource), params, &right, take).await
    }
}
