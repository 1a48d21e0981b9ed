//! Where Rollouts and workloads are, and which workload a Rollout names.

use std::collections::BTreeMap;

use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::rollout::Workload;
use kruise_rollout::workload::GroupKind;

/// Namespace and name of a Rollout, whether it exists or only its marks do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A workload and the namespace that it is in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) workload: Workload,
}

/// The workload that a Rollout names.
pub(crate) fn target_of(rollout: &Rollout) -> Workload {
    let reference = &rollout.spec.workload_ref;
    let group = reference.group_version().map_or("", |(group, _)| group);
    Workload {
        kind: GroupKind {
            group: group.to_owned(),
            kind: reference.kind.clone(),
        },
        name: reference.name.clone(),
    }
}

pub(crate) fn key_of(rollout: &Rollout) -> Key {
    let (namespace, name) = (&rollout.metadata.namespace, &rollout.metadata.name);
    Key::new(
        namespace.as_deref().unwrap_or_default(),
        name.as_deref().unwrap_or_default(),
    )
}

/// What a map has of one namespace.
pub(super) fn in_namespace<'a, T>(
    map: &'a BTreeMap<Key, T>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a Key, &'a T)> {
    map.range(Key::new(namespace, "")..)
        .take_while(move |(key, _)| key.namespace == namespace)
}
