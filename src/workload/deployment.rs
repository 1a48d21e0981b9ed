//! Deployment of Kubernetes, under its own controller.

use serde_json::Value;

use super::adapter::{Adapter, UpdateOrder};
use super::means::{Fixed, HeldField, Means};
use super::paths::{Paths, Replicas, StatusPaths};
use super::revision::RevisionKind;
use crate::lens::Field;
use crate::names;

/// Deployment. Its controller has no partition: while paused it makes no ReplicaSet and moves no pod from one to another, and with
/// the type `Recreate` it does not scale several of them in proportion either. So its ReplicaSets are ours to size.
#[derive(Debug)]
pub(super) struct Deployment;

/// The adapter.
pub(super) static DEPLOYMENT: Deployment = Deployment;

static PATHS: Paths = Paths {
    type_label: names::TYPE_DEPLOYMENT,
    means: Means::Held(&[
        HeldField {
            path: &["spec", "paused"],
            fixed: Fixed::True,
        },
        HeldField {
            path: &["spec", "strategy", "type"],
            fixed: Fixed::Text("Recreate"),
        },
        // It must not be there with that type.
        HeldField {
            path: &["spec", "strategy", "rollingUpdate"],
            fixed: Fixed::Absent,
        },
    ]),
    strategy_type: None,
    paused: Some(Field::at(&["spec", "paused"])),
    replicas: Replicas::Written(Field::at(&["spec", "replicas"])),
    pod_management: None,
    min_ready_seconds: &[Field::at(&["spec", "minReadySeconds"])],
    status: StatusPaths {
        current_revision: None,
        update_revision: None,
        ..StatusPaths::USUAL
    },
    revisions: Some(RevisionKind::ReplicaSet),
};

impl Adapter for Deployment {
    fn paths(&self) -> &'static Paths {
        &PATHS
    }

    fn order(&self, _: &Value) -> UpdateOrder {
        UpdateOrder::Any
    }
}
