//! StatefulSet-like workloads: StatefulSet itself, Advanced StatefulSet of Kruise, and every custom kind of the same shape.

use serde_json::Value;

use super::Ordinals;
use super::adapter::{Adapter, UpdateOrder};
use super::means::Means;
use super::paths::{Paths, Replicas, StatusPaths};
use crate::lens::Field;
use crate::names;

/// StatefulSet-like workloads, which update by ordinal.
#[derive(Debug)]
pub(super) struct StatefulSetLike;

/// The adapter.
pub(super) static STATEFULSET_LIKE: StatefulSetLike = StatefulSetLike;

/// The paths of StatefulSet, which custom kinds follow. Advanced StatefulSet has some more.
static PATHS: Paths = Paths {
    version: None,
    type_label: names::TYPE_STATEFULSET,
    means: Means::Partition(Field::at(&[
        "spec",
        "updateStrategy",
        "rollingUpdate",
        "partition",
    ])),
    strategy_type: Some(Field::at(&["spec", "updateStrategy", "type"])),
    paused: Some(Field::at(&["spec", "updateStrategy", "rollingUpdate", "paused"])),
    replicas: Replicas::Written(Field::at(&["spec", "replicas"])),
    pod_management: Some(Field::at(&["spec", "podManagementPolicy"])),
    min_ready_seconds: &[
        Field::at(&["spec", "minReadySeconds"]),
        Field::at(&["spec", "updateStrategy", "rollingUpdate", "minReadySeconds"]),
    ],
    status: StatusPaths::USUAL,
    revisions: None,
};

impl Adapter for StatefulSetLike {
    fn paths(&self) -> &'static Paths {
        &PATHS
    }

    /// An Advanced StatefulSet may update by priority of pods instead of by ordinal.
    fn order(&self, object: &Value) -> UpdateOrder {
        let rolling = &object["spec"]["updateStrategy"]["rollingUpdate"];
        if rolling["unorderedUpdate"].is_object() {
            UpdateOrder::Any
        } else {
            UpdateOrder::Ordinal(Ordinals::read(object))
        }
    }
}
