//! Advanced DaemonSet of Kruise, in any version.

use serde_json::Value;

use super::adapter::{Adapter, UpdateOrder};
use super::means::Means;
use super::paths::{Paths, Replicas, StatusPaths};
use crate::lens::Field;
use crate::names;

/// Advanced DaemonSet. It has a pod for each node that wants one, and names no revision of the pods that are kept back: a pod that is
/// made in mid-release, on a new node or in the place of a lost one, runs the new template whatever the partition is. Such pods
/// count, so fewer others follow.
#[derive(Debug)]
pub(super) struct AdvancedDaemonSet;

/// The adapter.
pub(super) static ADVANCED_DAEMONSET: AdvancedDaemonSet = AdvancedDaemonSet;

static PATHS: Paths = Paths {
    version: None,
    type_label: names::TYPE_DAEMONSET,
    means: Means::Partition(Field::at(&[
        "spec",
        "updateStrategy",
        "rollingUpdate",
        "partition",
    ])),
    strategy_type: Some(Field::at(&["spec", "updateStrategy", "type"])),
    paused: Some(Field::at(&["spec", "updateStrategy", "rollingUpdate", "paused"])),
    replicas: Replicas::Reported(Field::at(&["status", "desiredNumberScheduled"])),
    pod_management: None,
    min_ready_seconds: &[Field::at(&["spec", "minReadySeconds"])],
    status: StatusPaths {
        replicas: Field::at(&["status", "currentNumberScheduled"]),
        ready: Field::at(&["status", "numberReady"]),
        updated: Field::at(&["status", "updatedNumberScheduled"]),
        // Its own controller counts.
        misplaced: None,
        current_revision: None,
        // The older version has the second.
        update_revision: &[
            Field::at(&["status", "updateRevision"]),
            Field::at(&["status", "daemonSetHash"]),
        ],
    },
    revisions: None,
};

impl Adapter for AdvancedDaemonSet {
    fn paths(&self) -> &'static Paths {
        &PATHS
    }

    fn order(&self, _: &Value) -> UpdateOrder {
        UpdateOrder::Any
    }
}
