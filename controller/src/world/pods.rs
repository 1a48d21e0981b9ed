//! Pods, by namespace and owner. A namespace is only here while its pods are watched.

use std::collections::{BTreeMap, HashMap};

use json_patch::Patch;
use kruise_rollout::rollout::PodPatch;
use kruise_rollout::workload::PodView;
use tokio::time::Instant;

use super::inner::adds_nothing;
use crate::pace::Pace;

/// Pods of the namespaces in which a release is in progress.
#[derive(Default)]
pub(crate) struct Pods {
    namespaces: HashMap<String, Namespace>,
}

#[derive(Default)]
struct Namespace {
    known: bool,
    /// Owner UID → pod name → pod.
    owned: HashMap<String, BTreeMap<String, PodView>>,
    /// Pod name → owner UID.
    owners: HashMap<String, String>,
    /// Pod name → how often it may be labelled: its operator may take labels away that it does not know.
    paces: HashMap<String, Pace<Patch>>,
    /// DaemonSet by UID, and node → how often a pod of a revision may be put there: the DaemonSet's controller may be there first.
    put_back: HashMap<(String, String), Pace<String>>,
}

impl Pods {
    /// The pods whose controller has this UID; `None` while the namespace has not been read whole.
    pub(crate) fn of(&self, namespace: &str, owner: &str) -> Option<Vec<PodView>> {
        let namespace = self
            .namespaces
            .get(namespace)
            .filter(|namespace| namespace.known)?;
        Some(
            namespace
                .owned
                .get(owner)
                .map(|pods| pods.values().cloned().collect())
                .unwrap_or_default(),
        )
    }

    /// A pod was seen. Returns the owners concerned, none if nothing of interest changed, or if it has been seen in this state or a
    /// later one.
    pub(crate) fn put(&mut self, namespace: &str, pod: PodView) -> Vec<String> {
        let store = self.namespaces.entry(namespace.to_owned()).or_default();
        let mut concerned = Vec::new();
        if let Some(owner) = store.owners.get(&pod.name).cloned() {
            let known = store
                .owned
                .get_mut(&owner)
                .and_then(|pods| pods.get_mut(&pod.name));
            if let Some(known) = known {
                // An intermediate owner may have become known since.
                if known.owner == pod.owner
                    && known.uid == pod.uid
                    && adds_nothing(&pod.resource_version, &known.resource_version)
                {
                    return concerned;
                }
                if known.says_the_same(&pod) {
                    *known = pod;
                    return concerned;
                }
            }
            if pod.owner.as_deref() != Some(&owner) {
                concerned.extend(store.remove(&pod.name));
            }
        }
        if let Some(owner) = pod.owner.clone() {
            store.owners.insert(pod.name.clone(), owner.clone());
            store
                .owned
                .entry(owner.clone())
                .or_default()
                .insert(pod.name.clone(), pod);
            concerned.push(owner);
        }
        concerned
    }

    /// This very pod has been asked to leave; the watch will say more.
    pub(crate) fn leaves(&mut self, namespace: &str, pod: &str, uid: &str) {
        let Some(store) = self.namespaces.get_mut(namespace) else {
            return;
        };
        let owner = store.owners.get(pod);
        let pods = owner.and_then(|owner| store.owned.get_mut(owner));
        if let Some(known) = pods
            .and_then(|pods| pods.get_mut(pod))
            .filter(|known| known.uid == uid)
        {
            known.terminating = true;
        }
    }

    /// A write of ours was answered with a pod: it is known before a watch tells of it, and what a watch tells late does not undo
    /// it. A watch may have told of a later state already. Returns the owners concerned if more has changed than the labels.
    pub(crate) fn answered(&mut self, namespace: &str, mut answer: PodView) -> Vec<String> {
        let store = self.namespaces.get_mut(namespace);
        let known = store.and_then(|store| {
            let owner = store.owners.get(&answer.name)?;
            store.owned.get_mut(owner)?.get_mut(&answer.name)
        });
        let news = |pod: &&mut PodView| {
            pod.uid == answer.uid && !adds_nothing(&answer.resource_version, &pod.resource_version)
        };
        let Some(known) = known.filter(news) else {
            return Vec::new();
        };
        known.rollout_id.clone_from(&answer.rollout_id);
        known.batch_id.clone_from(&answer.batch_id);
        // The workload, which need not be the owner that the pod itself names.
        answer.owner.clone_from(&known.owner);
        self.put(namespace, answer)
    }

    /// Until when a pod may not be given the same labels again.
    pub(crate) fn not_labelled_before(
        &self,
        namespace: &str,
        pod: &PodPatch,
        now: Instant,
    ) -> Option<Instant> {
        let pace = self.namespaces.get(namespace)?.paces.get(&pod.pod)?;
        pace.must_wait(&pod.patch, now)
    }

    /// A pod has been labelled.
    pub(crate) fn labelled(&mut self, namespace: &str, pod: &PodPatch, now: Instant) {
        if let Some(store) = self.namespaces.get_mut(namespace) {
            let pace = store.paces.entry(pod.pod.clone()).or_default();
            pace.wrote(pod.patch.clone(), now);
        }
    }

    /// Until when a pod of this revision may not be put on the node of a DaemonSet again.
    pub(crate) fn not_put_back_before(
        &self,
        namespace: &str,
        spot: &(String, String),
        revision: &str,
        now: Instant,
    ) -> Option<Instant> {
        let pace = self.namespaces.get(namespace)?.put_back.get(spot)?;
        pace.must_wait(&revision.to_owned(), now)
    }

    /// A pod of this revision has been put on the node of a DaemonSet.
    pub(crate) fn was_put_back(
        &mut self,
        namespace: &str,
        spot: (String, String),
        revision: &str,
        now: Instant,
    ) {
        if let Some(store) = self.namespaces.get_mut(namespace) {
            let pace = store.put_back.entry(spot).or_default();
            pace.wrote(revision.to_owned(), now);
        }
    }

    /// A pod is gone.
    pub(crate) fn remove(&mut self, namespace: &str, pod: &str) -> Option<String> {
        self.namespaces.get_mut(namespace)?.remove(pod)
    }

    /// Keeps only these pods: the namespace has been read whole.
    pub(crate) fn complete(&mut self, namespace: &str, names: &std::collections::HashSet<String>) {
        let store = self.namespaces.entry(namespace.to_owned()).or_default();
        let gone: Vec<_> = store
            .owners
            .keys()
            .filter(|name| !names.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            store.remove(&name);
        }
        store.known = true;
    }

    /// The namespace is no longer watched.
    pub(crate) fn forget(&mut self, namespace: &str) {
        self.namespaces.remove(namespace);
    }
}

impl Namespace {
    fn remove(&mut self, pod: &str) -> Option<String> {
        self.paces.remove(pod);
        let owner = self.owners.remove(pod)?;
        if let Some(pods) = self.owned.get_mut(&owner) {
            pods.remove(pod);
            if pods.is_empty() {
                self.owned.remove(&owner);
            }
        }
        Some(owner)
    }
}

#[cfg(test)]
mod tests {
    use kruise_rollout::names;
    use serde_json::json;

    use super::*;

    fn pod(version: &str, batch: Option<&str>) -> PodView {
        PodView::read(&json!({"metadata": {
            "name": "a-0", "uid": "u", "resourceVersion": version, "labels": {names::ROLLOUT_BATCH_ID: batch},
            "ownerReferences": [{"uid": "owner", "controller": true}],
        }}))
    }

    #[test]
    fn an_answer_does_not_undo_what_a_watch_has_told_since() {
        let mut pods = Pods::default();
        pods.complete("ns", &std::collections::HashSet::new());
        pods.put("ns", pod("9", None));
        let batch = |pods: &Pods| pods.of("ns", "owner").unwrap()[0].batch_id.clone();
        assert_eq!(pods.answered("ns", pod("10", Some("1"))), [""; 0]);
        assert_eq!(batch(&pods).as_deref(), Some("1"));
        // Somebody has taken the label away, and the answer to our write arrives after that.
        pods.put("ns", pod("11", None));
        pods.answered("ns", pod("10", Some("1")));
        assert_eq!(batch(&pods), None);
    }

    #[test]
    fn a_pod_that_a_watch_tells_of_late_is_not_labelled_again() {
        let mut pods = Pods::default();
        pods.complete("ns", &std::collections::HashSet::new());
        pods.put("ns", pod("8", None));
        let mut answer = pod("10", Some("1"));
        answer.ready = true;
        // The answer tells of a state in between, too, which the watch is going to tell as an older one.
        assert_eq!(pods.answered("ns", answer.clone()), ["owner"]);
        assert_eq!(pods.put("ns", pod("9", None)), [""; 0]);
        assert_eq!(pods.put("ns", answer), [""; 0]);
        let known = &pods.of("ns", "owner").unwrap()[0];
        assert_eq!((known.batch_id.as_deref(), known.ready), (Some("1"), true));
        // A pod of the same name that is another one.
        let mut other = pod("9", None);
        other.uid = "other".to_owned();
        assert_eq!(pods.put("ns", other), ["owner"]);
    }

    #[test]
    fn whoever_takes_labels_away_again_and_again_is_answered_more_slowly() {
        let mut pods = Pods::default();
        pods.put("ns", pod("9", None));
        let now = Instant::now();
        let label = |id: &str| PodPatch {
            pod: "a-0".to_owned(),
            patch: serde_json::from_value(json!([{"op": "add", "path": "/metadata/labels/id", "value": id}]))
                .unwrap(),
        };
        let rests = |pods: &Pods| pods.not_labelled_before("ns", &label("1"), now).is_some();
        pods.labelled("ns", &label("1"), now);
        assert!(!rests(&pods), "taken away once");
        pods.labelled("ns", &label("1"), now);
        assert!(rests(&pods));
        assert!(
            pods.not_labelled_before("ns", &label("2"), now).is_none(),
            "another id"
        );
        pods.remove("ns", "a-0");
        assert!(!rests(&pods), "another pod of this name");
    }
}
