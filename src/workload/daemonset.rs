//! DaemonSet of Kubernetes, under its own controller.

mod pod;
mod turns;

use serde_json::Value;

pub use self::pod::{Spot, of_revision};

use self::turns::{Scene, Turn, turns};
use super::adapter::{Adapter, UpdateOrder};
use super::drive::{Drive, Driven, Move, Premise, PutBack};
use super::means::{Fixed, Held, HeldField, Means};
use super::paths::{Paths, Replicas, StatusPaths};
use super::revision::{RevisionKind, revision_of};
use super::{Revision, View, strategy};
use crate::api::v1beta1::IntOrPercent;
use crate::lens::Field;
use crate::names;
use crate::plan::scaled;

/// DaemonSet. Its controller has no partition: with the type `OnDelete` it replaces no pod, but makes one of the newest template
/// wherever one is missing. So pods are ours to delete, and those that nobody asked for to put back.
///
/// What people have in `rollingUpdate` stays there in a release, and we keep to its `maxUnavailable`. No pod is made beside another
/// one on its node; where people ask for `maxSurge` alone, one node at a time is without a pod.
#[derive(Debug)]
pub(super) struct DaemonSet;

/// The adapter.
pub(super) static DAEMONSET: DaemonSet = DaemonSet;

static PATHS: Paths = Paths {
    version: None,
    type_label: names::TYPE_DAEMONSET,
    means: Means::Held(Held {
        fields: &[HeldField {
            path: &["spec", "updateStrategy", "type"],
            fixed: Fixed::Text("OnDelete"),
        }],
        strategy: &["spec", "updateStrategy"],
        takes: strategy::of_daemon_set,
    }),
    strategy_type: Some(Field::at(&["spec", "updateStrategy", "type"])),
    paused: None,
    replicas: Replicas::Reported(Field::at(&["status", "desiredNumberScheduled"])),
    pod_management: None,
    min_ready_seconds: &[Field::at(&["spec", "minReadySeconds"])],
    status: StatusPaths {
        replicas: Field::at(&["status", "currentNumberScheduled"]),
        ready: Field::at(&["status", "numberReady"]),
        updated: Field::at(&["status", "updatedNumberScheduled"]),
        misplaced: Some(Field::at(&["status", "numberMisscheduled"])),
        current_revision: None,
        update_revision: &[],
    },
    revisions: Some(RevisionKind::ControllerRevision),
};

impl Adapter for DaemonSet {
    fn paths(&self) -> &'static Paths {
        &PATHS
    }

    fn order(&self, _: &Value) -> UpdateOrder {
        UpdateOrder::Any
    }

    fn drive(&self, driven: &Driven<'_>) -> Drive {
        let view = driven.view;
        let (Some(update), Some(hold)) = (&view.reported.update_revision, view.hold()) else {
            return Drive::default();
        };
        let stable = view
            .stable()
            .and_then(|stable| revision_of(driven.revisions, stable))
            .filter(|stable| !stable.revision.is_empty());
        let desired = i64::from(view.replicas);
        let exposure = desired - hold.granted.clamp(0, desired);
        let scene = Scene {
            desired: view.replicas,
            misplaced: view.reported.misplaced.unwrap_or_default(),
            exposure: u32::try_from(exposure).unwrap_or_default(),
            open: hold.granted == 0,
            update,
            stable: stable.map(|stable| stable.revision.as_str()),
            max_unavailable: max_unavailable(view),
            min_ready_seconds: view.min_ready_seconds,
            now: driven.now,
            pods: driven.pods,
        };
        let moves = turns(&scene)
            .into_iter()
            .filter_map(|turn| a_move(view, turn, stable));
        let ready = driven.pods.iter().filter(|pod| pod.ready);
        Drive {
            moves: moves.collect(),
            wake: ready
                .filter_map(|pod| pod.fresh_until(view.min_ready_seconds, driven.now))
                .min(),
        }
    }
}

/// How many nodes may be without an available pod: what people allow, one at the least.
fn max_unavailable(view: &View) -> u32 {
    let written = &view.skeleton.value()["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
    let amount = serde_json::from_value::<IntOrPercent>(written.clone())
        .ok()
        .and_then(|written| written.amount().ok());
    amount.map_or(1, |amount| scaled(amount, view.replicas)).max(1)
}

fn a_move(view: &View, turn: Turn<'_>, stable: Option<&Revision>) -> Option<Move> {
    let (Turn::Replace(pod) | Turn::PutBack(pod) | Turn::Keep(pod)) = turn;
    let (premise, name, uid) = (Premise::of(view), pod.name.clone(), pod.uid.clone());
    let resource_version = pod.resource_version.clone();
    Some(match turn {
        Turn::Replace(_) => Move::Delete {
            premise,
            pod: name,
            uid,
            resource_version,
        },
        Turn::PutBack(_) | Turn::Keep(_) => Move::PutBack(Box::new(PutBack {
            premise,
            revision: stable?.name.clone(),
            node: pod.node.clone()?,
            pod: name,
            uid,
            resource_version: matches!(turn, Turn::PutBack(_)).then_some(resource_version),
        })),
    })
}

#[cfg(test)]
mod tests;
