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
use super::{Key, Place, Seen, Sight, Unreadable, Watch, key_of};
use crate::lease::Term;

/// A kind of workloads.
pub(super) struct Kind {
    pub(super) watch: Watch,
    pub(super) resource: Option<ApiResource>,
    pub(super) workloads: BTreeMap<(String, String), Seen>,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            watch: Watch::Starting,
            resource: None,
            workloads: BTreeMap::new(),
        }
    }
}

/// The stores and the indexes between them.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) rollouts: BTreeMap<Key, Box<Stored>>,
    /// Rollouts that name a workload.
    pub(super) claims: HashMap<Arc<Place>, Few<String>>,
    /// Kinds that Rollouts name.
    pub(super) named: Tally<GroupKind>,
    /// Kinds of which a Rollout says that its workload is guarded.
    pub(super) guarded: Tally<GroupKind>,
    pub(super) kinds: HashMap<GroupKind, Kind>,
    /// Workloads that carry the mark of a Rollout.
    pub(super) marked: BTreeMap<Key, Few<Workload>>,
    /// Kinds of the marked workloads.
    pub(super) marked_kinds: Tally<GroupKind>,
    pub(super) held: BTreeSet<Place>,
    /// What the held workloads need to be watched.
    pub(super) sights: Tally<(String, Sight)>,
    pub(super) by_uid: HashMap<String, Arc<Place>>,
    pub(super) proofs: HashMap<Key, (String, Proof)>,
    /// In which term the first look at a Rollout was had.
    pub(super) looked: HashMap<Key, Term>,
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
    /// Takes in a Rollout, unless the store has it already or has a newer copy.
    pub(super) fn take_rollout(&mut self, rollout: Rollout) -> Vec<Key> {
        let (key, new) = (key_of(&rollout), Box::new(Stored::of(rollout)));
        if self.rollouts.get(&key).is_some_and(|old| {
            old.uid == new.uid && adds_nothing(&new.resource_version, &old.resource_version)
        }) {
            return Vec::new();
        }
        let mut concerned = self.remove_rollout(&key);
        let place = Place {
            namespace: key.namespace.clone(),
            workload: new.target.clone(),
        };
        self.named.add(place.workload.kind.clone());
        if new.guarded == Some(true) {
            self.guarded.add(place.workload.kind.clone());
        }
        let names = self.claims.entry(Arc::new(place)).or_default();
        names.insert(key.name.clone());
        concerned.extend(names.iter().map(|name| Key::new(&key.namespace, name)));
        self.rollouts.insert(key, new);
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
        let entry = self.kinds.entry(place.workload.kind.clone()).or_default();
        let name = (place.namespace.clone(), place.workload.name.clone());
        let old = entry.workloads.get(&name).cloned();
        if let (Some(Ok(old)), Ok(new)) = (&old, &seen)
            && old.uid == new.uid
            && adds_nothing(&new.resource_version, &old.resource_version)
        {
            return Vec::new();
        }
        entry.workloads.insert(name, seen.clone());
        self.reindex(place, old.as_ref(), Some(&seen));
        self.concerned_by(place)
    }

    /// Forgets a Rollout; the others that name its workload.
    pub(super) fn remove_rollout(&mut self, key: &Key) -> Vec<Key> {
        let Some(old) = self.rollouts.remove(key) else {
            return Vec::new();
        };
        let place = Place {
            namespace: key.namespace.clone(),
            workload: old.target,
        };
        self.named.remove(&place.workload.kind);
        if old.guarded == Some(true) {
            self.guarded.remove(&place.workload.kind);
        }
        let Some(names) = self.claims.get_mut(&place) else {
            return Vec::new();
        };
        names.remove(&key.name);
        let rest = names.iter().map(|name| Key::new(&key.namespace, name)).collect();
        if names.is_empty() {
            self.claims.remove(&place);
        }
        rest
    }

    pub(super) fn view(&self, place: &Place) -> Option<&Arc<View>> {
        let name = (place.namespace.clone(), place.workload.name.clone());
        self.kinds
            .get(&place.workload.kind)?
            .workloads
            .get(&name)?
            .as_ref()
            .ok()
    }

    /// The workload that a Rollout names, if it is there and can be read.
    pub(super) fn target_view(&self, key: &Key) -> Option<&Arc<View>> {
        let workload = self.rollouts.get(key)?.target.clone();
        self.view(&Place {
            namespace: key.namespace.clone(),
            workload,
        })
    }

    /// Rollouts that name a workload, and the one whose mark it carries.
    pub(super) fn concerned_by(&self, place: &Place) -> Vec<Key> {
        let claims = self.claims.get(place).into_iter().flatten().map(String::as_str);
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

    pub(super) fn concerned_by_kind(&self, kind: &GroupKind) -> Vec<Key> {
        let named = self
            .rollouts
            .iter()
            .filter(|(_, rollout)| rollout.target.kind == *kind)
            .map(|(key, _)| key.clone());
        let marked = self
            .marked
            .iter()
            .filter(|(_, w)| w.iter().any(|w| w.kind == *kind))
            .map(|(key, _)| key.clone());
        let keys: BTreeSet<Key> = named.chain(marked).collect();
        keys.into_iter().collect()
    }

    pub(super) fn reindex(&mut self, place: &Place, old: Option<&Seen>, new: Option<&Seen>) {
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
            let claimed = self.claims.get_key_value(place).map(|(place, _)| place.clone());
            let place = claimed.unwrap_or_else(|| Arc::new(place.clone()));
            self.by_uid.insert(uid(new), place);
        }
        if let Some(key) = mark(old)
            && let Some(workloads) = self.marked.get_mut(&key)
        {
            if workloads.remove(&place.workload) {
                self.marked_kinds.remove(&place.workload.kind);
            }
            if workloads.is_empty() {
                self.marked.remove(&key);
                if !self.rollouts.contains_key(&key) {
                    self.looked.remove(&key);
                }
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
        if let Some(key) = mark(new)
            && self.marked.entry(key).or_default().insert(place.workload.clone())
        {
            self.marked_kinds.add(place.workload.kind.clone());
        }
    }

    pub(super) fn remove_workload(&mut self, place: &Place) {
        let name = (place.namespace.clone(), place.workload.name.clone());
        let Some(kind) = self.kinds.get_mut(&place.workload.kind) else {
            return;
        };
        let old = kind.workloads.remove(&name);
        self.reindex(place, old.as_ref(), None);
    }

    pub(super) fn clear_kind(&mut self, kind: &GroupKind) {
        let names: Vec<_> = self
            .kinds
            .get(kind)
            .map(|k| k.workloads.keys().cloned().collect())
            .unwrap_or_default();
        for (namespace, name) in names {
            self.remove_workload(&Place {
                namespace,
                workload: Workload {
                    kind: kind.clone(),
                    name,
                },
            });
        }
    }

    pub(super) fn strays(
        &self,
        key: &Key,
        target: Option<&Workload>,
    ) -> Vec<(Workload, &'static dyn Adapter, Arc<View>)> {
        let marked = self
            .marked
            .get(key)
            .into_iter()
            .flatten()
            .filter(|workload| Some(*workload) != target);
        marked
            .filter_map(|workload| {
                let view = self.view(&Place {
                    namespace: key.namespace.clone(),
                    workload: workload.clone(),
                })?;
                Some((
                    workload.clone(),
                    adapter_for(&workload.kind)?,
                    self.with_rewritten(view),
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
        let names = self.claims.get(place).filter(|names| names.len() > 1)?;
        let own = rollout.metadata.name.as_deref().unwrap_or_default();
        let marked = self
            .view(place)
            .and_then(|view| view.guard())
            .map(|guard| guard.rollout.clone());
        let first = marked.filter(|name| names.contains(name)).or_else(|| {
            let age = |name: &&String| {
                let rollout = self.rollouts.get(&Key::new(&place.namespace, name));
                (rollout.and_then(|rollout| rollout.created), (*name).clone())
            };
            names.iter().min_by_key(age).cloned()
        })?;
        (first != own).then_some(first)
    }
}
