//! The objects that stand for revisions, by namespace and kind. They are only here while they are watched.

use std::collections::{BTreeMap, HashMap, HashSet};

use kruise_rollout::workload::{Revision, RevisionKind};

use super::inner::adds_nothing;

/// Revisions in the namespaces in which a workload is released whose status names none.
#[derive(Default)]
pub(crate) struct Revisions {
    namespaces: HashMap<(String, RevisionKind), Namespace>,
}

#[derive(Default)]
struct Namespace {
    known: bool,
    objects: BTreeMap<String, Revision>,
}

impl Revisions {
    /// The revisions whose controller has this UID; `None` while the namespace has not been read whole.
    pub(crate) fn of(&self, namespace: &str, kind: RevisionKind, owner: &str) -> Option<Vec<Revision>> {
        let namespace = self.namespaces.get(&(namespace.to_owned(), kind))?;
        let owned = |revision: &&Revision| revision.owner.as_deref() == Some(owner);
        namespace
            .known
            .then(|| namespace.objects.values().filter(owned).cloned().collect())
    }

    /// A revision was seen, or answered a call of ours. Returns the owners concerned, none if nothing of interest changed.
    pub(crate) fn put(&mut self, namespace: &str, kind: RevisionKind, revision: Revision) -> Vec<String> {
        let store = self.namespaces.entry((namespace.to_owned(), kind)).or_default();
        let known = store.objects.get(&revision.name);
        let known = known.filter(|known| known.uid == revision.uid);
        if known.is_some_and(|known| adds_nothing(&revision.resource_version, &known.resource_version)) {
            return Vec::new();
        }
        let news = known.is_none_or(|known| !known.says_the_same(&revision));
        let owner = revision.owner.clone();
        let old = store.objects.insert(revision.name.clone(), revision);
        let left = old
            .and_then(|old| old.owner)
            .filter(|old| owner.as_ref() != Some(old));
        if news {
            left.into_iter().chain(owner).collect()
        } else {
            Vec::new()
        }
    }

    /// A revision is gone; its owner.
    pub(crate) fn remove(&mut self, namespace: &str, kind: RevisionKind, name: &str) -> Option<String> {
        let store = self.namespaces.get_mut(&(namespace.to_owned(), kind))?;
        store.objects.remove(name)?.owner
    }

    /// Keeps only these revisions: the namespace has been read whole.
    pub(crate) fn complete(&mut self, namespace: &str, kind: RevisionKind, names: &HashSet<String>) {
        let store = self.namespaces.entry((namespace.to_owned(), kind)).or_default();
        store.objects.retain(|name, _| names.contains(name));
        store.known = true;
    }

    /// The namespace is no longer watched.
    pub(crate) fn forget(&mut self, namespace: &str, kind: RevisionKind) {
        self.namespaces.remove(&(namespace.to_owned(), kind));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, version: &str, replicas: u32) -> Revision {
        let object = json!({"metadata": {"name": name, "uid": name, "resourceVersion": version,
            "ownerReferences": [{"uid": "owner", "controller": true}]}, "spec": {"replicas": replicas}});
        Revision::read(RevisionKind::ReplicaSet, &object)
    }

    #[test]
    fn what_is_told_late_is_not_taken_and_what_says_nothing_new_concerns_nobody() {
        const SETS: RevisionKind = RevisionKind::ReplicaSet;
        let mut revisions = Revisions::default();
        assert_eq!(revisions.put("ns", SETS, set("a", "5", 3)), ["owner"]);
        assert_eq!(revisions.of("ns", SETS, "owner"), None, "not read whole yet");
        revisions.complete("ns", SETS, &HashSet::from(["a".to_owned()]));
        assert_eq!(revisions.put("ns", SETS, set("a", "7", 4)), ["owner"]);
        assert_eq!(revisions.put("ns", SETS, set("a", "6", 3)), [""; 0]);
        assert_eq!(revisions.put("ns", SETS, set("a", "8", 4)), [""; 0]);
        let known = revisions.of("ns", SETS, "owner").unwrap();
        assert_eq!((known[0].resource_version.as_str(), known[0].replicas), ("8", 4));
        assert_eq!(revisions.of("ns", SETS, "other"), Some(vec![]));
        assert_eq!(revisions.remove("ns", SETS, "a").as_deref(), Some("owner"));
        revisions.forget("ns", SETS);
        assert_eq!(revisions.of("ns", SETS, "owner"), None);
    }
}
