//! What the watches have brought: projections of Rollouts, workloads and pods, and the indexes between them.
//!
//! Every change says which Rollouts it may concern. Copies are ordered by resourceVersion where that can be read, so that the
//! answer to our own write is not undone by an event that is older. Nothing here waits or calls.

mod census;
mod few;
#[cfg(test)]
mod footprint;
mod inner;
mod kinds;
mod place;
mod pods;
mod revisions;
mod stored;
mod tally;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::lens::FieldError;
use kruise_rollout::rollout::{Proof, Workload};
use kruise_rollout::workload::{Adapter, PodView, Revision, RevisionKind, View, adapter_for, with_revisions};
use serde_json::Value;
use tokio::sync::watch;

use self::inner::Inner;
use self::place::in_namespace;
use self::pods::Pods;
use self::revisions::Revisions;
use crate::lease::Term;

pub(crate) use self::census::{Census, PHASES};
pub(crate) use self::kinds::Watch;
pub(crate) use self::place::{Key, Place, key_of, target_of};

/// How long nothing is granted to a workload whose template changes with every write.
const REWRITTEN_PAUSE: SignedDuration = SignedDuration::from_secs(15);

/// A workload that cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) uid: String,
    pub(crate) error: FieldError,
}

/// A workload as it was last seen, or why it cannot be read.
pub(crate) type Seen = Result<Arc<View>, Arc<Unreadable>>;

/// One sort of objects that releases in a namespace need to be watched there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Sight {
    /// Pods.
    Pods,
    /// Objects that stand for revisions.
    Revisions(RevisionKind),
}

/// The stores, shared by watches, workers and the webhook.
#[derive(Default)]
pub(crate) struct World {
    inner: Mutex<Inner>,
    /// Whether all Rollouts have been read once: before that nothing is decided.
    known: watch::Sender<bool>,
}

/// One Rollout's world, copied out.
pub(crate) struct Snapshot {
    pub(crate) rollout: Option<Arc<Rollout>>,
    pub(crate) workload: Option<Workload>,
    pub(crate) watch: Watch,
    pub(crate) seen: Option<Seen>,
    pub(crate) pods: Option<Vec<PodView>>,
    pub(crate) revisions: Vec<Revision>,
    pub(crate) proof: Proof,
    pub(crate) strays: Vec<(Workload, &'static dyn Adapter, Arc<View>)>,
    pub(crate) rival: Option<String>,
    pub(crate) first_look: bool,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All Rollouts have been read once; returns those that can be decided on from now on.
    pub(crate) fn rollouts_known(&self) -> Vec<Key> {
        self.known.send_replace(true);
        self.lock().accounts.keys().cloned().collect()
    }

    /// Whether all Rollouts have been read once.
    pub(crate) fn knows_rollouts(&self) -> bool {
        *self.known.borrow()
    }

    /// Waits until all Rollouts have been read once.
    pub(crate) async fn until_rollouts_known(&self) {
        // The sender is this very object's.
        let _ = self.known.subscribe().wait_for(|known| *known).await;
    }

    /// A watch has seen a Rollout.
    pub(crate) fn put_rollout(&self, rollout: Rollout) -> Vec<Key> {
        self.lock().take_rollout(rollout)
    }

    /// A write of ours was answered with a Rollout. One that the watch has seen leave meanwhile does not come back: nobody would
    /// ever say again that it is gone.
    pub(crate) fn put_answered_rollout(&self, rollout: Rollout) -> Vec<Key> {
        let mut inner = self.lock();
        let known = inner.stored(&key_of(&rollout));
        if known.is_none_or(|known| known.uid != rollout.metadata.uid) {
            return Vec::new();
        }
        inner.take_rollout(rollout)
    }

    /// A Rollout is gone.
    pub(crate) fn drop_rollout(&self, key: &Key) -> Vec<Key> {
        let mut concerned = self.lock().drop_rollout(key);
        concerned.push(key.clone());
        concerned
    }

    /// Rollouts that the store has, in a namespace or in all; for finding out which are gone after a relist.
    pub(crate) fn rollout_keys(&self, namespace: Option<&str>) -> HashSet<Key> {
        let inner = self.lock();
        let existing = inner.accounts.iter().filter(|(_, known)| known.stored.is_some());
        existing
            .map(|(key, _)| key)
            .filter(|key| namespace.is_none_or(|namespace| key.namespace == namespace))
            .cloned()
            .collect()
    }

    /// The Rollouts that name a workload.
    pub(crate) fn rollouts_of(&self, place: &Place) -> Vec<Arc<Rollout>> {
        let inner = self.lock();
        let names = inner.spots.get(place).into_iter().flat_map(|spot| &spot.claims);
        let stored = names.filter_map(|name| inner.stored(&Key::new(&place.namespace, name)));
        stored.filter_map(|stored| stored.rollout()).collect()
    }

    /// The Rollout that names a workload and may hold it although it carries no mark yet: it is enabled, not being deleted, has
    /// not found that the workload cannot be held, and another workload of the kind is guarded.
    pub(crate) fn claim(&self, place: &Place) -> Option<String> {
        let inner = self.lock();
        let names = &inner.spots.get(place)?.claims;
        if !inner.guarded.has(&place.workload.kind) {
            return None;
        }
        let holds = |name: &&String| {
            inner
                .stored(&Key::new(&place.namespace, name))
                .is_some_and(|rollout| rollout.governs && rollout.guarded != Some(false))
        };
        names.iter().find(holds).cloned()
    }

    /// A watch has seen a workload.
    pub(crate) fn put_workload(&self, place: &Place, object: &Value) -> Vec<Key> {
        self.lock().take_workload(place, object)
    }

    /// A call of ours was answered with a workload; see [`Self::put_answered_rollout`].
    pub(crate) fn put_answered_workload(&self, place: &Place, object: &Value) -> Vec<Key> {
        let mut inner = self.lock();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if inner.by_uid.contains_key(uid) {
            inner.take_workload(place, object)
        } else {
            Vec::new()
        }
    }

    /// A workload is gone.
    pub(crate) fn drop_workload(&self, place: &Place) -> Vec<Key> {
        let mut inner = self.lock();
        let concerned = inner.concerned_by(place);
        inner.remove_workload(place);
        concerned
    }

    /// What releases in progress need to be watched, by namespace.
    pub(crate) fn sights(&self) -> BTreeSet<(String, Sight)> {
        self.lock().sights.all().cloned().collect()
    }

    /// Remembers whether a workload can be held, for the Rollout that asked.
    pub(crate) fn prove(&self, key: &Key, uid: &str, proof: Proof) {
        if let Some(known) = self.lock().accounts.get_mut(key) {
            known.proof = Some(Box::new((uid.to_owned(), proof)));
        }
    }

    /// A workload as the store has it, if it can be read.
    pub(crate) fn view_of(&self, place: &Place) -> Option<Arc<View>> {
        self.lock().view(place).cloned()
    }

    /// A write of ours to a workload was stored as it was sent, or another webhook changed the template in it. The first time it is
    /// tried again at once: what it brings may be always the same.
    pub(crate) fn wrote(&self, uid: &str, rewritten: bool) {
        let mut inner = self.lock();
        if !rewritten {
            inner.rewritten.remove(uid);
            return;
        }
        let again = inner.rewritten.contains_key(uid);
        let until = again.then(|| Timestamp::now() + REWRITTEN_PAUSE);
        inner.rewritten.insert(uid.to_owned(), until);
    }

    /// Changes the pods of a namespace; see [`Pods`].
    pub(crate) fn with_pods<T>(&self, change: impl FnOnce(&mut Pods) -> T) -> T {
        change(&mut self.lock().pods)
    }

    /// Changes the revisions of a namespace; see [`Revisions`].
    pub(crate) fn with_revisions<T>(&self, change: impl FnOnce(&mut Revisions) -> T) -> T {
        change(&mut self.lock().revisions)
    }

    /// Whether an object with this UID is in the stores.
    pub(crate) fn is_workload(&self, uid: &str) -> bool {
        self.lock().by_uid.contains_key(uid)
    }

    /// The Rollouts concerned by a change of pods with this owner.
    pub(crate) fn concerned_by_owner(&self, owner: &str) -> Vec<Key> {
        let inner = self.lock();
        inner
            .by_uid
            .get(owner)
            .map(|place| inner.concerned_by(place))
            .unwrap_or_default()
    }

    /// The Rollouts of a namespace.
    pub(crate) fn keys_in(&self, namespace: &str) -> Vec<Key> {
        let inner = self.lock();
        in_namespace(&inner.accounts, namespace)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// The first look at a Rollout, or at what carries the mark of one that is gone, was had in this term: what was decided then, with
    /// its workload in sight, has been carried out.
    pub(crate) fn looked(&self, key: &Key, term: Term) {
        if let Some(known) = self.lock().accounts.get_mut(key) {
            known.looked = Some(term);
        }
    }

    /// Everything about one Rollout, to be decided on in this term; `None` before all Rollouts have been read once.
    pub(crate) fn snapshot(&self, key: &Key, term: Term) -> Option<Snapshot> {
        if !self.knows_rollouts() {
            return None;
        }
        let inner = self.lock();
        let known = inner.accounts.get(key);
        let rollout = known.and_then(|known| known.stored.as_ref()?.rollout());
        let workload = rollout.as_deref().map(target_of);
        let place = workload.clone().map(|workload| Place {
            namespace: key.namespace.clone(),
            workload,
        });
        let kind = workload
            .as_ref()
            .and_then(|workload| inner.kinds.get(&workload.kind));
        let spot = place.as_ref().and_then(|place| inner.spots.get(place));
        let seen = spot.and_then(|spot| spot.seen.clone());
        let seen = seen.map(|seen| seen.map(|view| inner.with_rewritten(&view)));
        let uid = match &seen {
            Some(Ok(view)) => view.uid.clone(),
            _ => String::new(),
        };
        let mut pods = inner.pods.of(&key.namespace, &uid);
        let adapter = workload.as_ref().and_then(|workload| adapter_for(&workload.kind));
        let kind_of_revisions = adapter.and_then(|adapter| adapter.paths().revisions);
        let revisions = kind_of_revisions.map(|kind| inner.revisions.of(&key.namespace, kind, &uid));
        if revisions == Some(None) {
            // Without the revisions nobody can tell the pods apart.
            pods = None;
        }
        let revisions = revisions.flatten();
        let seen = seen.map(|seen| {
            seen.map(|mut view| {
                if let (Some(adapter), Some(revisions)) = (adapter, &revisions) {
                    let next = adapter.next_revision(&view);
                    let view = Arc::make_mut(&mut view);
                    view.reported = with_revisions(view, revisions, next);
                }
                view
            })
        });
        let proof = known.and_then(|known| known.proof.as_deref());
        let proof = proof
            .filter(|(of, _)| *of == uid)
            .map_or(Proof::Unknown, |(_, proof)| proof.clone());
        Some(Snapshot {
            watch: kind.map_or(Watch::Starting, |kind| kind.watch.clone()),
            pods,
            revisions: revisions.unwrap_or_default(),
            proof,
            first_look: known.and_then(|known| known.looked) != Some(term),
            strays: inner.strays(key, workload.as_ref()),
            rival: rollout
                .as_deref()
                .zip(place.as_ref())
                .and_then(|(rollout, place)| inner.rival(rollout, place)),
            rollout,
            workload,
            seen,
        })
    }
}

#[cfg(test)]
mod tests {
    use kruise_rollout::workload::GroupKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_does_not_bring_back_what_is_gone() {
        let world = World::default();
        let place = Place {
            namespace: "shop".to_owned(),
            workload: Workload {
                kind: GroupKind {
                    group: "example.io".to_owned(),
                    kind: "MyStatefulApp".to_owned(),
                },
                name: "my-app".to_owned(),
            },
        };
        let app = |uid: &str, version: &str| json!({"metadata": {"name": "my-app", "uid": uid, "resourceVersion": version}, "spec": {}});
        world.put_workload(&place, &app("a", "1"));
        world.put_answered_workload(&place, &app("a", "2"));
        assert!(world.is_workload("a"));
        world.drop_workload(&place);
        world.put_answered_workload(&place, &app("a", "2"));
        assert!(!world.is_workload("a"));
        world.put_workload(&place, &app("b", "4"));
        world.put_answered_workload(&place, &app("a", "2"));
        assert!(world.is_workload("b") && !world.is_workload("a"));

        let key = Key::new("shop", "ro");
        let rollout = || {
            let mut rollout = Rollout::new("ro", Default::default());
            rollout.metadata.namespace = Some("shop".to_owned());
            rollout.metadata.uid = Some("r".to_owned());
            rollout
        };
        world.put_rollout(rollout());
        world.drop_rollout(&key);
        world.put_answered_rollout(rollout());
        assert!(world.rollout_keys(None).is_empty());
    }

    #[test]
    fn a_workload_is_the_same_in_every_version_of_its_kind() {
        let rollout = |name: &str, version: &str, created: &str| -> Rollout {
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created},
                "spec": {"strategy": {}, "workloadRef": {"apiVersion": format!("apps.kruise.io/{version}"),
                    "kind": "StatefulSet", "name": "my-app"}},
            }))
            .unwrap()
        };
        let world = World::default();
        world.rollouts_known();
        world.put_rollout(rollout("new", "v1beta1", "2026-01-02T00:00:00Z"));
        let concerned = world.put_rollout(rollout("old", "v1alpha1", "2026-01-01T00:00:00Z"));
        assert_eq!(concerned, ["new", "old"].map(|name| Key::new("shop", name)));
        assert_eq!(world.wanted_kinds().len(), 1);
        let snapshot = |name| world.snapshot(&Key::new("shop", name), Term(1)).unwrap();
        let (new, old) = (snapshot("new"), snapshot("old"));
        assert_eq!(new.workload, old.workload);
        assert_eq!((new.rival.as_deref(), old.rival), (Some("old"), None));

        // The watch shows the object in the version that it was begun with: the workload of both.
        let place = Place {
            namespace: "shop".to_owned(),
            workload: old.workload.unwrap(),
        };
        let app = json!({"apiVersion": "apps.kruise.io/v1beta1", "metadata": {"name": "my-app", "uid": "a"}, "spec": {}});
        assert_eq!(world.put_workload(&place, &app), concerned);
        assert!(snapshot("new").seen.is_some() && snapshot("old").seen.is_some());
        assert_eq!(world.drop_rollout(&Key::new("shop", "old")), concerned);
        assert_eq!(snapshot("new").rival, None);
    }

    #[test]
    fn each_term_has_a_first_look_at_each_rollout() {
        let world = World::default();
        let mut rollout = Rollout::new("ro", Default::default());
        rollout.metadata.namespace = Some("shop".to_owned());
        let key = key_of(&rollout);
        let first_look = |term| world.snapshot(&key, Term(term)).unwrap().first_look;
        world.put_rollout(rollout.clone());
        world.rollouts_known();
        assert!(first_look(1));
        world.looked(&key, Term(1));
        assert!(!first_look(1) && first_look(2));
        world.looked(&key, Term(2));
        assert!(!first_look(2));
        world.drop_rollout(&key);
        world.looked(&key, Term(2));
        world.put_rollout(rollout);
        assert!(first_look(2));
    }
}
