//! CloneSet of Kruise. It is read and written in the version that every release of Kruise serves, whatever version others use.

use serde_json::Value;

use super::adapter::{Adapter, UpdateOrder};
use super::means::Means;
use super::paths::{Paths, Replicas, StatusPaths};
use crate::lens::Field;
use crate::names;

/// CloneSet. Its update types (`ReCreate`, `InPlaceIfPossible`, `InPlaceOnly`) all heed the partition and are people's matter. A pod
/// that is missing comes back on the revision of which the partition leaves too few. With `maxSurge` there may be more pods than
/// replicas for a time.
#[derive(Debug)]
pub(super) struct CloneSet;

/// The adapter.
pub(super) static CLONESET: CloneSet = CloneSet;

static PATHS: Paths = Paths {
    // The newer one has the strategy's members one level further down.
    version: Some("v1alpha1"),
    type_label: names::TYPE_CLONESET,
    means: Means::Partition(Field::at(&["spec", "updateStrategy", "partition"])),
    strategy_type: None,
    paused: Some(Field::at(&["spec", "updateStrategy", "paused"])),
    replicas: Replicas::Written(Field::at(&["spec", "replicas"])),
    pod_management: None,
    min_ready_seconds: &[Field::at(&["spec", "minReadySeconds"])],
    status: StatusPaths::USUAL,
    revisions: None,
};

impl Adapter for CloneSet {
    fn paths(&self) -> &'static Paths {
        &PATHS
    }

    fn order(&self, _: &Value) -> UpdateOrder {
        UpdateOrder::Any
    }
}
