//! Pods and revisions by app, fed by one watch each and by the answers to our own writes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::watcher::Event;

use crate::kind::{AppKey, Kind, Owner};

/// Something small that is kept of a watched object.
pub(crate) trait Observable: Clone + PartialEq {
    /// The object it is read from.
    type Object: Resource<DynamicType = ()> + Clone + Debug + Send + 'static;

    /// What is kept of the object; `None` if it is incomplete.
    fn view(kind: &Kind, owner: Owner, object: Self::Object) -> Option<Self>;
}

/// A watched collection, grouped by the app that each object belongs to.
#[derive(Debug)]
pub(crate) struct Observed<V> {
    kind: Kind,
    state: Mutex<State<V>>,
    listed: tokio::sync::watch::Sender<bool>,
}

#[derive(Debug)]
struct State<V> {
    kept: Kept<V>,
    /// The collection of a list in progress, which replaces `kept` when it is complete.
    arriving: Kept<V>,
    /// Highest resourceVersion that the watch has delivered.
    seen: u64,
    /// Objects that are known by an answer and that the watch has yet to tell of. It is news then, though nothing has changed: a
    /// reconcile may leave counts to the one that follows its own writes.
    answered: HashSet<String>,
}

#[derive(Debug)]
struct Kept<V> {
    by_app: HashMap<AppKey, BTreeMap<String, V>>,
    app_of: HashMap<String, AppKey>,
}

impl<V: Observable> Observed<V> {
    pub(crate) fn new(kind: Kind) -> Self {
        let state = State {
            kept: Kept::default(),
            arriving: Kept::default(),
            seen: 0,
            answered: HashSet::new(),
        };
        Observed {
            kind,
            state: Mutex::new(state),
            listed: tokio::sync::watch::Sender::new(false),
        }
    }

    /// Waits for the first complete list.
    pub(crate) async fn ready(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// The objects of an app, and those of earlier apps and of nobody under its name.
    pub(crate) fn of(&self, app: &AppKey) -> Vec<V> {
        self.lock()
            .kept
            .by_app
            .get(app)
            .map(|all| all.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Takes in what the watch says, and returns the apps for which something changed.
    pub(crate) fn absorb(&self, event: Event<V::Object>) -> Vec<AppKey> {
        let mut state = self.lock();
        match event {
            Event::Init => {
                state.arriving = Kept::default();
                Vec::new()
            }
            Event::InitApply(object) => {
                state.seen = state.seen.max(version(object.meta()));
                state.arriving.put(&self.kind, object);
                Vec::new()
            }
            Event::InitDone => {
                let listed = mem::take(&mut state.arriving);
                let before = mem::replace(&mut state.kept, listed);
                state.answered.clear();
                self.listed.send_replace(true);
                let mut changed: Vec<_> = before.by_app.into_keys().collect();
                changed.extend(state.kept.by_app.keys().cloned());
                changed
            }
            Event::Apply(object) => {
                state.seen = state.seen.max(version(object.meta()));
                let uid = object.meta().uid.clone().unwrap_or_default();
                let mut changed = state.kept.put(&self.kind, object);
                if state.answered.remove(&uid) {
                    changed.extend(state.kept.app_of.get(&uid).cloned());
                }
                changed
            }
            Event::Delete(object) => {
                state.seen = state.seen.max(version(object.meta()));
                let uid = object.meta().uid.as_deref().unwrap_or_default();
                state.answered.remove(uid);
                state.kept.remove(uid).into_iter().collect()
            }
        }
    }

    /// Takes in the answer to a write of ours, unless the watch is already past it: then it knows better, the
    /// object may even be gone again.
    pub(crate) fn wrote(&self, object: V::Object) {
        let mut state = self.lock();
        if version(object.meta()) > state.seen {
            state.answered.extend(object.meta().uid.clone());
            state.kept.put(&self.kind, object);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Default for Kept<V> {
    fn default() -> Self {
        Kept {
            by_app: HashMap::new(),
            app_of: HashMap::new(),
        }
    }
}

impl<V: Observable> Kept<V> {
    fn put(&mut self, kind: &Kind, object: V::Object) -> Vec<AppKey> {
        let uid = object.meta().uid.clone().unwrap_or_default();
        let found = kind.owner_of(object.meta());
        let Some((key, view)) = found.and_then(|(key, owner)| Some((key, V::view(kind, owner, object)?)))
        else {
            return self.remove(&uid).into_iter().collect();
        };
        let left = if self.app_of.get(&uid) == Some(&key) {
            None
        } else {
            self.remove(&uid)
        };
        self.app_of.insert(uid.clone(), key.clone());
        let all = self.by_app.entry(key.clone()).or_default();
        let changed = all.get(&uid) != Some(&view);
        all.insert(uid, view);
        left.into_iter().chain(changed.then_some(key)).collect()
    }

    fn remove(&mut self, uid: &str) -> Option<AppKey> {
        let key = self.app_of.remove(uid)?;
        let all = self.by_app.get_mut(&key)?;
        all.remove(uid);
        if all.is_empty() {
            self.by_app.remove(&key);
        }
        Some(key)
    }
}

/// resourceVersions are numbers that grow (promised since Kubernetes 1.35, true of every server before it).
pub(crate) fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::kind;
    use crate::pod::Pod;
    use k8s_openapi::api::core::v1 as core;
    use serde_json::json;

    fn pod(name: &str, version: u32, phase: &str) -> core::Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string(),
                "ownerReferences": [{
                    "apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "my-app", "uid": "u",
                    "controller": true,
                }],
            },
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    fn key() -> AppKey {
        AppKey {
            namespace: "default".to_owned(),
            name: "my-app".to_owned(),
        }
    }

    fn observed() -> Observed<Pod> {
        let observed = Observed::new(kind());
        observed.absorb(Event::Init);
        observed.absorb(Event::InitApply(pod("my-app-0", 7, "Running")));
        observed.absorb(Event::InitDone);
        observed
    }

    #[test]
    fn only_what_matters_wakes_the_app() {
        let observed = observed();
        assert_eq!(observed.absorb(Event::Apply(pod("my-app-0", 8, "Running"))), []);
        assert_eq!(
            observed.absorb(Event::Apply(pod("my-app-0", 9, "Failed"))),
            [key()]
        );
        assert_eq!(
            observed.absorb(Event::Delete(pod("my-app-0", 10, "Failed"))),
            [key()]
        );
        assert_eq!(observed.absorb(Event::Delete(pod("my-app-0", 10, "Failed"))), []);
    }

    #[test]
    fn an_answer_fills_the_gap_until_the_watch_arrives() {
        let observed = observed();
        observed.wrote(pod("my-app-1", 8, "Pending"));
        assert_eq!(observed.of(&key()).len(), 2);
        // Its arrival is news once, as it is.
        assert_eq!(
            observed.absorb(Event::Apply(pod("my-app-1", 8, "Pending"))),
            [key()]
        );
        assert_eq!(observed.absorb(Event::Apply(pod("my-app-1", 9, "Pending"))), []);
    }

    #[test]
    fn an_answer_that_the_watch_has_overtaken_is_void() {
        let observed = observed();
        observed.absorb(Event::Apply(pod("my-app-1", 8, "Pending")));
        observed.absorb(Event::Delete(pod("my-app-1", 9, "Pending")));
        observed.wrote(pod("my-app-1", 8, "Pending"));
        assert_eq!(observed.of(&key()).len(), 1);
    }

    #[test]
    fn a_new_list_replaces_the_old_one() {
        let observed = observed();
        observed.absorb(Event::Init);
        observed.absorb(Event::InitApply(pod("my-app-3", 12, "Running")));
        assert_eq!(observed.of(&key())[0].name, "my-app-0", "until it is complete");
        observed.absorb(Event::InitDone);
        assert_eq!(observed.of(&key())[0].name, "my-app-3");
    }
}
