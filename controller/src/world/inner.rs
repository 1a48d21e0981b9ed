//! The stores behind the lock, and the indexes between them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::rollout::{Proof, Workload};
use kruise_rollout::workload::{Adapter, GroupKind, View, adapter_for};
use kube::api::ApiResource;
use serde_json::Value;

use super::few::Few;
use super::pods::Pods;
use super::revisions::Revisions;
use super::stored::Stored;
use super::tally::Tally;
use super::{Key, Place, Seen, Sight, Unreadable, Watch, key_of, target_of};
use crate::lease::Term;

/// A kind of workloads.
pub(super) struct Kind {
    pub(super) watch: Watch,
    pub(super) resource: Option<ApiResource>,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            watch: Watch::Starting,
            resource: None,
        }
    }
}

/// What is known under the name of a Rollout, as long as it exists or a workload carries its mark.
#[derive(Default)]
pub(super) struct Account {
    pub(super) stored: Option<Stored>,
    /// Workloads that carry its mark.
    pub(super) marked: Few<Arc<Place>>,
    /// UID of a workload, and whether that one can be held.
    pub(super) proof: Option<Box<(String, Proof)>>,
    /// In which term the first look at it was had.
    pub(super) looked: Option<Term>,
}

/// What is known of a place, as long as a workload is there or a Rollout names it.
#[derive(Default)]
pub(super) struct Spot {
    pub(super) seen: Option<Seen>,
    /// Rollouts that name it.
    pub(super) claims: Few<String>,
}

/// The stores and the indexes between them. There is one [`Account`] and one [`Spot`] for each of many thousand Rollouts, and all that
/// refers to a place shares it.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) accounts: BTreeMap<Key, Box<Account>>,
    pub(super) spots: HashMap<Arc<Place>, Spot>,
    /// Kinds that Rollouts name.
    pub(super) named: Tally<GroupKind>,
    /// Kinds of which a Rollout says that its workload is guarded.
    pub(super) guarded: Tally<GroupKind>,
    pub(super) kinds: HashMap<GroupKind, Kind>,
    /// Kinds of the marked workloads.
    pub(super) marked_kinds: Tally<GroupKind>,
    pub(super) held: BTreeSet<Arc<Place>>,
    /// What the held workloads need to be watched.
    pub(super) sights: Tally<(String, Sight)>,
    pub(super) by_uid: HashMap<String, Arc<Place>>,
    /// Workloads, by UID, of which the last write of ours came back with another template, and from the second time on until when
    /// nothing is granted.
    pub(super) rewritten: HashMap<String, Option<Timestamp>>,
    /// When the schema of a kind changed.
    pub(super) changed: HashMap<GroupKind, Instant>,
    pub(super) pods: Pods,
    pub(super) revisions: Revisions,
}

/// Whether a copy of this resourceVersion tells nothing that one of `old` has not told: it is the same, or certainly older.
pub(super) fn adds_nothing(new: &str, old: &str) -> bool {
    new == old || matches!((new.parse::<u64>(), old.parse::<u64>()), (Ok(new), Ok(old)) if new < old)
}

/// What the release of a workload needs to be watched.
fn sights_of(place: &Place) -> impl Iterator<Item = (String, Sight)> + use<> {
    let adapter = adapter_for(&place.workload.kind);
    let revisions = adapter.and_then(|adapter| adapter.paths().revisions);
    let namespace = place.namespace.clone();
    [Some(Sight::Pods), revisions.map(Sight::Revisions)]
        .into_iter()
        .flatten()
        .map(move |sight| (namespace.clone(), sight))
}

impl Inner {
    /// The Rollout of this name, if it exists.
    pub(super) fn stored(&self, key: &Key) -> Option<&Stored> {
        self.accounts.get(key)?.stored.as_ref()
    }

    /// The one copy of a place.
    fn shared(&self, place: &Place) -> Arc<Place> {
        let known = self.spots.get_key_value(place);
        known.map_or_else(|| Arc::new(place.clone()), |(place, _)| place.clone())
    }

    /// Takes in a Rollout, unless the store has it already or has a newer copy.
    pub(super) fn take_rollout(&mut self, rollout: Rollout) -> Vec<Key> {
        let key = key_of(&rollout);
        let version = rollout.metadata.resource_version.as_deref().unwrap_or_default();
        if self.stored(&key).is_some_and(|old| {
            old.uid == rollout.metadata.uid && adds_nothing(version, &old.resource_version)
        }) {
            return Vec::new();
        }
        let mut concerned = self.remove_rollout(&key);
        let place = self.shared(&Place {
            namespace: key.namespace.clone(),
            workload: target_of(&rollout),
        });
        let new = Stored::of(rollout, place.clone());
        self.named.add(place.workload.kind.clone());
        if new.guarded == Some(true) {
            self.guarded.add(place.workload.kind.clone());
        }
        let names = &mut self.spots.entry(place).or_default().claims;
        names.insert(key.name.clone());
        concerned.extend(names.iter().map(|name| Key::new(&key.namespace, name)));
        self.accounts.entry(key).or_default().stored = Some(new);
        concerned
    }

    /// Takes in a workload, unless the store has it already or has a newer copy.
    pub(super) fn take_workload(&mut self, place: &Place, object: &Value) -> Vec<Key> {
        let Some(adapter) = adapter_for(&place.workload.kind) else {
            return Vec::new();
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let seen = adapter
            .view(object)
            .map(Arc::new)
            .map_err(|error| Arc::new(Unreadable { uid, error }));
        let place = self.shared(place);
        let known = self.spots.entry(place.clone()).or_default();
        if let (Some(Ok(old)), Ok(new)) = (&known.seen, &seen)
            && old.uid == new.uid
            && adds_nothing(&new.resource_version, &old.resource_version)
        {
            return Vec::new();
        }
        let old = known.seen.replace(seen.clone());
        self.reindex(&place, old.as_ref(), Some(&seen));
        self.concerned_by(&place)
    }

    /// Forgets a Rollout, but not what is known under its name; the others that name its workload.
    fn remove_rollout(&mut self, key: &Key) -> Vec<Key> {
        let Some(old) = self.accounts.get_mut(key).and_then(|known| known.stored.take()) else {
            return Vec::new();
        };
        let place = old.target;
        self.named.remove(&place.workload.kind);
        if old.guarded == Some(true) {
            self.guarded.remove(&place.workload.kind);
        }
        let Some(spot) = self.spots.get_mut(&place) else {
            return Vec::new();
        };
        spot.claims.remove(&key.name);
        let rest = spot.claims.iter();
        let rest = rest.map(|name| Key::new(&key.namespace, name)).collect();
        self.leave(&place);
        rest
    }

    /// A Rollout is gone. Returns the others that name its workload.
    pub(super) fn drop_rollout(&mut self, key: &Key) -> Vec<Key> {
        let rest = self.remove_rollout(key);
        if let Some(known) = self.accounts.get_mut(key) {
            (known.proof, known.looked) = (None, None);
        }
        self.close(key);
        rest
    }

    /// Forgets a name that nothing is known under any more.
    fn close(&mut self, key: &Key) {
        let known = self.accounts.get(key);
        if known.is_some_and(|known| known.stored.is_none() && known.marked.is_empty()) {
            self.accounts.remove(key);
        }
    }

    /// Forgets a place that nothing is at and nobody names any more.
    fn leave(&mut self, place: &Place) {
        let spot = self.spots.get(place);
        if spot.is_some_and(|spot| spot.seen.is_none() && spot.claims.is_empty()) {
            self.spots.remove(place);
        }
    }

    pub(super) fn view(&self, place: &Place) -> Option<&Arc<View>> {
        self.spots.get(place)?.seen.as_ref()?.as_ref().ok()
    }

    /// The workload that a Rollout names, if it is there and can be read.
    pub(super) fn target_view(&self, key: &Key) -> Option<&Arc<View>> {
        self.view(&self.stored(key)?.target)
    }

    /// Rollouts that name a workload, and the one whose mark it carries.
    pub(super) fn concerned_by(&self, place: &Place) -> Vec<Key> {
        let spot = self.spots.get(place).into_iter();
        let claims = spot.flat_map(|spot| &spot.claims).map(String::as_str);
        let mark = self
            .view(place)
            .and_then(|view| view.guard())
            .map(|guard| guard.rollout.as_str());
        let names: BTreeSet<&str> = claims.chain(mark).collect();
        names
            .into_iter()
            .map(|name| Key::new(&place.namespace, name))
            .collect()
    }

    /// Rollouts that name a workload of the kind, and those whose mark one carries.
    pub(super) fn concerned_by_kind(&self, kind: &GroupKind) -> Vec<Key> {
        let is = |place: &Arc<Place>| place.workload.kind == *kind;
        let concerned = self.accounts.iter().filter(|(_, known)| {
            known.stored.as_ref().is_some_and(|stored| is(&stored.target)) || known.marked.iter().any(is)
        });
        concerned.map(|(key, _)| key.clone()).collect()
    }

    fn reindex(&mut self, place: &Arc<Place>, old: Option<&Seen>, new: Option<&Seen>) {
        let uid = |seen: &Seen| {
            seen.as_ref()
                .map_or_else(|error| error.uid.clone(), |view| view.uid.clone())
        };
        let mark = |seen: Option<&Seen>| {
            let view = seen?.as_ref().ok()?;
            Some(Key::new(&place.namespace, &view.guard()?.rollout))
        };
        if let Some(old) = old {
            self.by_uid.remove(&uid(old));
        }
        if let (Some(old), None) = (old, new) {
            self.rewritten.remove(&uid(old));
        }
        if let Some(new) = new {
            self.by_uid.insert(uid(new), place.clone());
        }
        let (before, now) = (mark(old), mark(new));
        if before != now {
            if let Some(key) = before {
                self.unmark(&key, place);
            }
            if let Some(key) = now {
                self.accounts.entry(key).or_default().marked.insert(place.clone());
                self.marked_kinds.add(place.workload.kind.clone());
            }
        }
        let holds = |view: &Arc<View>| view.hold().is_some();
        if new.and_then(|new| new.as_ref().ok()).is_some_and(holds) {
            if self.held.insert(place.clone()) {
                sights_of(place).for_each(|sight| self.sights.add(sight));
            }
        } else if self.held.remove(place) {
            sights_of(place).for_each(|sight| self.sights.remove(&sight));
        }
    }

    /// A workload carries the mark of a Rollout no longer.
    fn unmark(&mut self, key: &Key, place: &Arc<Place>) {
        if let Some(known) = self.accounts.get_mut(key)
            && known.marked.remove(place)
        {
            self.marked_kinds.remove(&place.workload.kind);
        }
        self.close(key);
    }

    /// A workload is gone.
    pub(super) fn remove_workload(&mut self, place: &Place) {
        let place = self.shared(place);
        let old = self.spots.get_mut(&place).and_then(|spot| spot.seen.take());
        self.reindex(&place, old.as_ref(), None);
        self.leave(&place);
    }

    /// Workloads of a kind.
    pub(super) fn workloads_of(&self, kind: &GroupKind) -> impl Iterator<Item = &Arc<Place>> {
        let there = self.spots.iter().filter(|(_, spot)| spot.seen.is_some());
        there
            .map(|(place, _)| place)
            .filter(move |place| place.workload.kind == *kind)
    }

    pub(super) fn clear_kind(&mut self, kind: &GroupKind) {
        let places: Vec<_> = self.workloads_of(kind).cloned().collect();
        places.iter().for_each(|place| self.remove_workload(place));
    }

    /// Workloads that carry the mark of a Rollout and are not its target.
    pub(super) fn strays(
        &self,
        key: &Key,
        target: Option<&Workload>,
    ) -> Vec<(Workload, &'static dyn Adapter, Arc<View>)> {
        let marked = self.accounts.get(key).into_iter();
        let marked = marked.flat_map(|known| &known.marked);
        marked
            .filter(|place| Some(&place.workload) != target)
            .filter_map(|place| {
                Some((
                    place.workload.clone(),
                    adapter_for(&place.workload.kind)?,
                    self.with_rewritten(self.view(place)?),
                ))
            })
            .collect()
    }

    /// The view, with what is known of our writes.
    pub(super) fn with_rewritten(&self, view: &Arc<View>) -> Arc<View> {
        let mut view = view.clone();
        if let Some(until @ Some(_)) = self.rewritten.get(&view.uid) {
            Arc::make_mut(&mut view).rewritten = *until;
        }
        view
    }

    /// Another Rollout that names the same workload and comes first: the one whose mark the workload carries, else the oldest.
    pub(super) fn rival(&self, rollout: &Rollout, place: &Place) -> Option<String> {
        let names = &self.spots.get(place).filter(|spot| spot.claims.len() > 1)?.claims;
        let own = rollout.metadata.name.as_deref().unwrap_or_default();
        let marked = self
            .view(place)
            .and_then(|view| view.guard())
            .map(|guard| guard.rollout.clone());
        let first = marked.filter(|name| names.contains(name)).or_else(|| {
            let age = |name: &&String| {
                let stored = self.stored(&Key::new(&place.namespace, name));
                (stored.and_then(|stored| stored.created), (*name).clone())
            };
            names.iter().min_by_key(age).cloned()
        })?;
        (first != own).then_some(first)
    }
}
