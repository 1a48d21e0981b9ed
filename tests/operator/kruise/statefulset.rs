//! Advanced StatefulSet: what the example operator does, with the counters that OpenKruise adds.

use crate::app::{App, Report};
use crate::plan::{self, PodAction};
use crate::pod::Pod;
use crate::revision::Revisions;

/// Decides the next writes and the status.
pub(crate) fn plan(app: &App, pods: &[Pod], revisions: &Revisions) -> (Vec<PodAction>, Report) {
    let (actions, status) = plan::plan(app, pods, revisions);
    let mut report = status.report();
    report.remove("selector");
    let updated = pods
        .iter()
        .filter(|pod| pod.available() && pod.runs(&revisions.update));
    let updated = updated.filter(|pod| pod.ordinal(&app.name).is_some()).count();
    report.insert("labelSelector".to_owned(), status.selector.into());
    report.insert("availableReplicas".to_owned(), status.ready_replicas.into());
    report.insert("updatedReadyReplicas".to_owned(), updated.into());
    report.insert("updatedAvailableReplicas".to_owned(), updated.into());
    (actions, report)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kruise::Kruise;
    use crate::kruise::crd::manifest;
    use crate::plan::tests::app;

    #[test]
    fn the_schema_keeps_every_counter() {
        let revisions = Revisions {
            current: "my-app-v1".to_owned(),
            update: "my-app-v2".to_owned(),
        };
        let app = app(3, 1);
        for (kind, report) in [
            (Kruise::Statefulsets, plan(&app, &[], &revisions).1),
            (
                Kruise::Clonesets,
                crate::kruise::cloneset::plan(&app, &[], &revisions).1,
            ),
            (
                Kruise::Daemonsets,
                crate::kruise::daemonset::plan(&app, &[], &[], &revisions).1,
            ),
        ] {
            let definition = manifest(kind);
            for version in definition["spec"]["versions"].as_array().unwrap() {
                let kept = &version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
                let lost: Vec<_> = report.keys().filter(|field| kept.get(*field).is_none()).collect();
                assert_eq!(json!(lost), json!([]), "{kind:?}");
            }
        }
    }
}
