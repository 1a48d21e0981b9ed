//! Kinds of workloads: how far their watches have come, and which are needed.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use kruise_rollout::rollout::Proof;
use kruise_rollout::workload::{GroupKind, adapter_for};
use kube::api::ApiResource;

use super::World;
use super::place::{Key, Place};

/// How long the API server goes on serving the watches that began before a change of a schema. They show objects by the old
/// schema, so an operator may not see a partition that is stored: a second, after which it ends them; and a margin.
const SCHEMA_SETTLES: Duration = Duration::from_secs(2);

/// How far the watch of a kind has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Not filled yet.
    Starting,
    /// Filled and following.
    Following,
    /// The server has no such kind.
    NoKind,
    /// The server refuses: what it says.
    Refused(String),
}

impl World {
    /// The state of a kind's watch changed.
    pub(crate) fn set_watch(
        &self,
        kind: &GroupKind,
        watch: Watch,
        resource: Option<ApiResource>,
    ) -> Vec<Key> {
        let mut inner = self.lock();
        let entry = inner.kinds.entry(kind.clone()).or_default();
        let lost = watch == Watch::NoKind;
        if resource.is_some() {
            entry.resource = resource;
        }
        if entry.watch == watch {
            return Vec::new();
        }
        entry.watch = watch;
        if lost {
            inner.clear_kind(kind);
        }
        inner.concerned_by_kind(kind)
    }

    /// The kind is no longer watched.
    pub(crate) fn forget_kind(&self, kind: &GroupKind) {
        let mut inner = self.lock();
        inner.clear_kind(kind);
        inner.kinds.remove(kind);
    }

    /// The kind's schema changed: what was proven has to be proven again, once the change is in force everywhere.
    pub(crate) fn outdate(&self, kind: &GroupKind) -> Vec<Key> {
        let mut inner = self.lock();
        let keys = inner.concerned_by_kind(kind);
        inner.changed.insert(kind.clone(), Instant::now());
        for key in &keys {
            let uid = inner.target_view(key).map(|view| view.uid.clone());
            if let (Some(uid), Some(known)) = (uid, inner.accounts.get_mut(key)) {
                known.proof = Some(Box::new((uid, Proof::Outdated)));
            }
        }
        keys
    }

    /// How long until a change of the kind's schema is in force everywhere; zero if it is.
    pub(crate) fn settles_in(&self, kind: &GroupKind) -> Duration {
        let changed = self.lock().changed.get(kind).copied();
        changed.map_or(Duration::ZERO, |at| SCHEMA_SETTLES.saturating_sub(at.elapsed()))
    }

    /// The kind is registered now: what could not be guarded before is tried again.
    pub(crate) fn retry(&self, kind: &GroupKind) -> Vec<Key> {
        let mut inner = self.lock();
        let keys = inner.concerned_by_kind(kind);
        for key in &keys {
            let known = inner.accounts.get_mut(key);
            let proof = known.and_then(|known| known.proof.as_deref_mut());
            if let Some((_, proof @ Proof::Refused { .. })) = proof {
                *proof = Proof::Outdated;
            }
        }
        keys
    }

    /// Whether the server has been asked for a kind, and has answered.
    pub(crate) fn is_looked_up(&self, kind: &GroupKind) -> bool {
        let inner = self.lock();
        let of_kind = inner.kinds.get(kind);
        of_kind.is_some_and(|kind| kind.resource.is_some() || kind.watch == Watch::NoKind)
    }

    /// Resource of a kind, once it is known.
    pub(crate) fn resource(&self, kind: &GroupKind) -> Option<ApiResource> {
        self.lock().kinds.get(kind)?.resource.clone()
    }

    /// Namespaces and names of the workloads of a kind that the store has, in a namespace or in all.
    pub(crate) fn workload_names(
        &self,
        kind: &GroupKind,
        namespace: Option<&str>,
    ) -> HashSet<(String, String)> {
        let inner = self.lock();
        inner
            .workloads_of(kind)
            .filter(|place| namespace.is_none_or(|namespace| place.namespace == namespace))
            .map(|place| (place.namespace.clone(), place.workload.name.clone()))
            .collect()
    }

    /// Kinds that must be watched and registered: those that Rollouts refer to, and those with a marked object.
    pub(crate) fn wanted_kinds(&self) -> BTreeSet<GroupKind> {
        let inner = self.lock();
        let kinds = inner.named.all().chain(inner.marked_kinds.all());
        kinds
            .filter(|kind| adapter_for(kind).is_some())
            .cloned()
            .collect()
    }

    /// Some workloads of the kind that carry marks, at most `limit`.
    pub(crate) fn guarded_places(&self, kind: &GroupKind, limit: usize) -> Vec<Place> {
        let inner = self.lock();
        let marked = inner.accounts.values().flat_map(|known| &known.marked);
        marked
            .filter(|place| place.workload.kind == *kind)
            .take(limit)
            .map(|place| (**place).clone())
            .collect()
    }

    /// Whether the kind's watch has been filled.
    pub(crate) fn is_followed(&self, kind: &GroupKind) -> bool {
        self.lock()
            .kinds
            .get(kind)
            .is_some_and(|kind| kind.watch == Watch::Following)
    }
}

#[cfg(test)]
mod tests {
    use kruise_rollout::api::v1beta1::Rollout;
    use kruise_rollout::names;
    use kruise_rollout::rollout::Workload;
    use kruise_rollout::workload::{Guard, TemplateId};
    use serde_json::{Value, json};

    use super::*;

    fn kind(name: &str) -> GroupKind {
        GroupKind {
            group: "example.io".to_owned(),
            kind: name.to_owned(),
        }
    }

    fn rollout(name: &str, kind: &str, guarded: &str) -> Rollout {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"strategy": {}, "workloadRef": {"apiVersion": "example.io/v1", "kind": kind, "name": name}},
            "status": {"conditions": [{"type": "Guarded", "status": guarded}]},
        }))
        .unwrap()
    }

    fn place(name: &str, of: &str) -> Place {
        Place {
            namespace: "shop".to_owned(),
            workload: Workload {
                kind: kind(of),
                name: name.to_owned(),
            },
        }
    }

    fn wanted(world: &World) -> Vec<String> {
        let kinds = world.wanted_kinds().into_iter();
        kinds.map(|kind| kind.kind).collect()
    }

    #[test]
    fn a_kind_is_wanted_while_one_rollout_names_it_or_one_object_is_marked() {
        let world = World::default();
        world.put_rollout(rollout("a", "One", "True"));
        world.put_rollout(rollout("b", "One", "True"));
        let mut moved = rollout("a", "Two", "True");
        moved.metadata.resource_version = Some("2".to_owned());
        world.put_rollout(moved);
        assert_eq!(wanted(&world), ["One", "Two"]);
        let app = |mark: Value, version: &str| {
            json!({"metadata": {"name": "b", "uid": "w", "resourceVersion": version,
            "annotations": {names::GUARDED_BY: mark}}, "spec": {}})
        };
        let mark = json!(Guard::text("w", "b", &TemplateId::of(&json!({}))));
        world.put_workload(&place("b", "One"), &app(mark.clone(), "1"));
        world.put_workload(&place("b", "One"), &app(mark, "2"));
        world.drop_rollout(&Key::new("shop", "b"));
        world.drop_rollout(&Key::new("shop", "b"));
        assert_eq!(wanted(&world), ["One", "Two"]);
        world.put_workload(&place("b", "One"), &app(Value::Null, "3"));
        assert_eq!(wanted(&world), ["Two"]);
        world.drop_rollout(&Key::new("shop", "a"));
        assert_eq!(wanted(&world), [""; 0]);
    }

    #[test]
    fn a_workload_is_claimed_where_one_of_its_kind_is_guarded() {
        let world = World::default();
        let claim = || world.claim(&place("new", "One"));
        let put = |mut rollout: Rollout, version: &str| {
            rollout.metadata.resource_version = Some(version.to_owned());
            world.put_rollout(rollout);
        };
        let mut new = rollout("new", "One", "");
        new.status = None;
        put(new, "1");
        put(rollout("other", "Two", "True"), "2");
        assert_eq!(claim(), None);
        put(rollout("first", "One", "True"), "3");
        assert_eq!(claim().as_deref(), Some("new"));
        put(rollout("second", "One", "True"), "4");
        put(rollout("first", "One", "False"), "5");
        assert_eq!(claim().as_deref(), Some("new"));
        world.drop_rollout(&Key::new("shop", "second"));
        assert_eq!(claim(), None);
    }

    #[test]
    fn what_an_event_costs_does_not_depend_on_how_many_rollouts_there_are() {
        let allocations = |rollouts: u32| {
            let world = World::default();
            for number in 0..rollouts {
                world.put_rollout(rollout(&format!("ro-{number}"), "One", "True"));
            }
            world.put_rollout(rollout("apart", "Two", "True"));
            let place = place("ro-1", "One");
            let ask = || (world.wanted_kinds(), world.claim(&place), world.sights());
            allocation_counter::measure(|| drop(ask())).count_total
        };
        assert_eq!(allocations(10), allocations(1_000));
    }
}
