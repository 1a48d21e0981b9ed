use serde::Serialize;

use crate::names;
use crate::workload::View;

/// How far the update of a workload is that no Rollout releases: `WorkloadStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlainStatus {
    /// `TYPE.GROUP/NAME`.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Pods that there should be.
    pub replicas: u32,
    /// Pods on the update revision, as its operator reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<u32>,
    /// Pods that are ready, as its operator reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Pods that the partition keeps back.
    pub partition: i64,
    /// Nothing more is to come.
    pub complete: bool,
    /// A sentence.
    pub message: String,
}

impl PlainStatus {
    /// What the workload's own operator says. With a partition the update is complete when all pods that it lets go are updated.
    #[must_use]
    pub fn new(name: String, namespace: String, view: &View) -> Self {
        let reported = &view.reported;
        let kept = view.partition_in_force().clamp(0, i64::from(view.replicas));
        let target = view.replicas - u32::try_from(kept).unwrap_or(view.replicas);
        let (updated, ready) = (reported.updated_replicas, reported.ready_replicas);
        let count =
            |count: Option<u32>| count.map_or_else(|| "an unknown number".to_owned(), |n| n.to_string());
        let replicas = view.replicas;
        let told = format!(
            "{} of {target} pods are updated, {} of {replicas} are ready",
            count(updated),
            count(ready)
        );
        let arrived =
            updated.is_some_and(|updated| updated >= target) && ready.is_some_and(|ready| ready >= replicas);
        let (complete, message) = if view.observed() != Some(true) {
            (
                false,
                "waiting for its operator to see the latest change".to_owned(),
            )
        } else if view.marks.hold.is_some() {
            let held = format!(
                "held by a release, as the mark {} says: {told}",
                names::IN_PROGRESSING
            );
            (false, held)
        } else if !arrived {
            (false, format!("waiting: {told}"))
        } else if kept > 0 {
            (
                true,
                format!("partitioned roll out complete: {told}, and the partition keeps back {kept}"),
            )
        } else {
            (true, format!("roll out complete: {told}"))
        };
        Self {
            name,
            namespace,
            replicas,
            updated,
            ready,
            partition: kept,
            complete,
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::{GroupKind, adapter_for};

    #[rstest]
    #[case::partitioned(json!({}), true, "partitioned roll out complete: 2 of 2 pods are updated, 5 of 5 are ready, and the partition keeps back 3")]
    #[case::on_its_way(json!({"status": {"updatedReplicas": 1}}), false, "waiting: 1 of 2 pods are updated, 5 of 5 are ready")]
    #[case::not_ready(json!({"status": {"readyReplicas": 4}}), false, "waiting: 2 of 2 pods are updated, 4 of 5 are ready")]
    #[case::not_seen(json!({"metadata": {"generation": 3}}), false, "waiting for its operator to see the latest change")]
    #[case::silent(json!({"status": {"updatedReplicas": null}}), false, "waiting: an unknown number of 2 pods are updated, 5 of 5 are ready")]
    #[case::whole(json!({"spec": {"updateStrategy": null}, "status": {"updatedReplicas": 5}}), true,
        "roll out complete: 5 of 5 pods are updated, 5 of 5 are ready")]
    #[case::parked(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 32767}}}}), true,
        "partitioned roll out complete: 2 of 0 pods are updated, 5 of 5 are ready, and the partition keeps back 5")]
    fn as_its_operator_says(#[case] change: Value, #[case] complete: bool, #[case] message: &str) {
        let kind = GroupKind {
            group: "apps".to_owned(),
            kind: "StatefulSet".to_owned(),
        };
        let mut object = json!({
            "metadata": {"uid": "u", "generation": 2},
            "spec": {"replicas": 5, "updateStrategy": {"rollingUpdate": {"partition": 3}}},
            "status": {"observedGeneration": 2, "readyReplicas": 5, "updatedReplicas": 2}
        });
        json_patch::merge(&mut object, &change);
        let view = adapter_for(&kind).unwrap().view(&object).unwrap();
        let status = PlainStatus::new("statefulsets.apps/web".to_owned(), "shop".to_owned(), &view);
        assert_eq!((status.complete, status.message.as_str()), (complete, message));
    }

    #[test]
    fn a_share_is_one_of_the_pods_that_there_should_be() {
        let kind = GroupKind {
            group: "apps.kruise.io".to_owned(),
            kind: "CloneSet".to_owned(),
        };
        let object = json!({
            "metadata": {"uid": "u", "generation": 1}, "spec": {"replicas": 5, "updateStrategy": {"partition": "50%"}},
            "status": {"observedGeneration": 1, "readyReplicas": 5, "updatedReplicas": 2}
        });
        let view = adapter_for(&kind).unwrap().view(&object).unwrap();
        let status = PlainStatus::new(
            "clonesets.apps.kruise.io/web".to_owned(),
            "shop".to_owned(),
            &view,
        );
        assert!(status.complete, "{}", status.message);
        assert_eq!((status.updated, status.partition), (Some(2), 3));
    }
}
