//! Deployment of Kubernetes, under its own controller.

mod sizes;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use self::sizes::{Bounds, Set, Sizes};
use super::adapter::{Adapter, UpdateOrder};
use super::drive::{Drive, Driven, Move, Premise};
use super::means::{Fixed, Held, HeldField, Means};
use super::paths::{Paths, Replicas, StatusPaths};
use super::revision::{Revision, RevisionKind, revision_of};
use super::template::{TemplateId, hex};
use super::{Partition, PodView, View, strategy};
use crate::lens::{Field, PatchBuilder};
use crate::names;

/// Deployment. Its controller has no partition: while paused it makes no ReplicaSet and moves no pod from one to another, and with
/// the type `Recreate` it does not scale several of them in proportion either. So its ReplicaSets are ours to make and to size.
///
/// Two things it still does. A ReplicaSet that is the only one with pods gets as many as the Deployment is to have. And where the
/// one of the present template has all of them, by an annotation on it too, the others get none; we take that annotation away from
/// every ReplicaSet that we size, which it takes for "not known".
#[derive(Debug)]
pub(super) struct Deployment;

/// The adapter.
pub(super) static DEPLOYMENT: Deployment = Deployment;

/// Its held fields.
const TYPE: &[&str] = &["spec", "strategy", "type"];
const ROLLING: &[&str] = &["spec", "strategy", "rollingUpdate"];
const RECREATE: &str = "Recreate";
const PAUSED: &[&str] = &["spec", "paused"];
/// What people may have more, and less, at a time.
const MAX_SURGE: Field<Partition> = Field::at(&["spec", "strategy", "rollingUpdate", "maxSurge"]);
const MAX_UNAVAILABLE: Field<Partition> = Field::at(&["spec", "strategy", "rollingUpdate", "maxUnavailable"]);
/// Either, where people do not say.
const DEFAULT_BOUND: Partition = Partition::Percent(25);
/// Digits of the hash of a ReplicaSet that we make.
const HASH_DIGITS: usize = 10;

static PATHS: Paths = Paths {
    version: None,
    type_label: names::TYPE_DEPLOYMENT,
    means: Means::Held(Held {
        fields: &[
            HeldField {
                path: PAUSED,
                fixed: Fixed::True,
            },
            HeldField {
                path: TYPE,
                fixed: Fixed::Text(RECREATE),
            },
            // It must not be there with that type.
            HeldField {
                path: ROLLING,
                fixed: Fixed::Absent,
            },
        ],
        strategy: &["spec", "strategy"],
        takes: strategy::of_deployment,
    }),
    strategy_type: None,
    paused: Some(Field::at(PAUSED)),
    replicas: Replicas::Written(Field::at(&["spec", "replicas"])),
    pod_management: None,
    min_ready_seconds: &[Field::at(&["spec", "minReadySeconds"])],
    status: StatusPaths {
        current_revision: None,
        update_revision: &[],
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

    /// Sizes the ReplicaSets: that of the present template up to what is exposed, that of the stable one down to what is kept back,
    /// all others away, within the bounds that people set.
    fn drive(&self, driven: &Driven<'_>) -> Drive {
        // Told to wait by people.
        if driven.view.paused {
            return Drive::default();
        }
        let sizes = sizes(driven).next();
        let premise = Premise::of(driven.view);
        let moves = sizes.into_iter().filter_map(|(place, replicas)| match place {
            Some(place) => resize(&premise, &driven.revisions[place], replicas),
            None => Some(Move::Create {
                premise: premise.clone(),
                replicas,
            }),
        });
        Drive {
            moves: moves.collect(),
            wake: None,
        }
    }

    fn next_revision(&self, view: &View) -> Option<String> {
        Some(hash(&view.uid, &view.template))
    }

    fn revision(&self, workload: &Value, replicas: u32) -> Option<Value> {
        replica_set(workload, replicas)
    }
}

/// The task of the moment.
fn sizes(driven: &Driven<'_>) -> Sizes {
    let Driven {
        view,
        revisions,
        pods,
        ..
    } = *driven;
    let place = |template: Option<&TemplateId>| {
        let found = revision_of(revisions, template?)?;
        revisions.iter().position(|revision| revision.uid == found.uid)
    };
    let back = view.stable() == Some(&view.template);
    Sizes {
        replicas: view.replicas,
        exposed: u32::try_from(i64::from(view.replicas) - view.partition_in_force()).unwrap_or(0),
        bounds: bounds(view),
        sets: revisions.iter().map(|revision| set(revision, pods)).collect(),
        update: place(Some(&view.template)),
        stable: place(view.stable()).filter(|_| !back),
        back,
    }
}

/// What there is of a ReplicaSet. What its status says is late at times: pods that are seen count too, those that are there for
/// more, and those that are not ready for less.
fn set(revision: &Revision, pods: &[PodView]) -> Set {
    let of_it = || {
        let of_it = pods.iter().filter(|pod| pod.runs(&revision.revision));
        of_it.filter(|pod| pod.revision.as_deref() == Some(&revision.revision))
    };
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let ready = count(of_it().filter(|pod| pod.ready).count());
    Set {
        wanted: revision.replicas,
        there: revision
            .replicas
            .max(revision.existing)
            .max(count(of_it().count())),
        available: revision.available.min(ready).min(revision.replicas),
        created: revision.created,
    }
}

/// How many pods more and less than its size the strategy allows that people ask for, as Kubernetes itself reads it. With `Recreate`
/// none may be more, and all be less.
fn bounds(view: &View) -> Bounds {
    let asked = PATHS.means.as_asked(&view.skeleton.value(), view.hold());
    let replicas = view.replicas;
    if Field::<String>::at(TYPE).peek(&asked).as_deref() == Some(RECREATE) {
        return Bounds {
            surge: 0,
            unavailable: replicas,
        };
    }
    let of = |field: Field<Partition>, up: bool| match field.peek(&asked).unwrap_or(DEFAULT_BOUND) {
        Partition::Count(count) => u32::try_from(count).unwrap_or(0),
        Partition::Percent(percent) => {
            let pods = u64::from(percent) * u64::from(replicas);
            u32::try_from(if up { pods.div_ceil(100) } else { pods / 100 }).unwrap_or(u32::MAX)
        }
    };
    let (surge, unavailable) = (of(MAX_SURGE, true), of(MAX_UNAVAILABLE, false).min(replicas));
    Bounds {
        surge,
        unavailable: if surge == 0 {
            unavailable.max(1)
        } else {
            unavailable
        },
    }
}

/// The patch of a ReplicaSet to another size.
fn resize(premise: &Premise, revision: &Revision, replicas: u32) -> Option<Move> {
    let mut annotations = Map::new();
    if let Some(desired) = &revision.desired {
        annotations.insert(names::DESIRED_REPLICAS.to_owned(), json!(desired));
    }
    let read = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": revision.replicas}});
    let patch = PatchBuilder::new(read)
        .test(["metadata", "uid"], json!(revision.uid))
        .test(["metadata", "resourceVersion"], json!(revision.resource_version))
        .set(&["spec", "replicas"], json!(replicas));
    (!patch.is_empty()).then(|| Move::Resize {
        premise: premise.clone(),
        revision: revision.name.clone(),
        patch: patch
            .remove(&["metadata", "annotations", names::DESIRED_REPLICAS])
            .build(),
    })
}

/// The hash of a template: another one for each Deployment, so that what an earlier one of the same name has left behind is in
/// nobody's way.
fn hash(uid: &str, template: &TemplateId) -> String {
    hex(&Sha256::digest(format!("{uid}/{template}")), HASH_DIGITS)
}

/// The ReplicaSet of a Deployment's present template, as its controller would make it. That one knows it by its template.
fn replica_set(deployment: &Value, replicas: u32) -> Option<Value> {
    let (metadata, spec) = (&deployment["metadata"], &deployment["spec"]);
    let (name, uid) = (metadata["name"].as_str()?, metadata["uid"].as_str()?);
    let hash = hash(uid, &PATHS.template_id(&spec["template"]));
    let (mut template, mut selector) = (spec["template"].clone(), spec["selector"].clone());
    template["metadata"]["labels"][names::POD_TEMPLATE_HASH] = json!(hash);
    selector["matchLabels"][names::POD_TEMPLATE_HASH] = json!(hash);
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{name}-{hash}"),
            "namespace": metadata["namespace"],
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid,
                // True would need a right on the finalizers of Deployments in some clusters.
                "controller": true, "blockOwnerDeletion": false,
            }],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    });
    if let Some(seconds) = spec.get("minReadySeconds") {
        set["spec"]["minReadySeconds"] = seconds.clone();
    }
    Some(set)
}

#[cfg(test)]
mod tests;
