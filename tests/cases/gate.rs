//! The gate watch: what ran when, without a gap.
//!
//! Pods and app of a namespace are watched from one list on, so no state between two looks is missed. One etcd numbers all writes,
//! so pods and partition can be put into one order afterwards.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::names;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use serde_json::{Value, json};
use support::eventually;
use tokio::task::JoinSet;

use crate::changes::{follow, version};
use crate::scene::{APP, SOON, Scene};

/// The watches, until dropped.
pub struct Gate {
    seen: Arc<Mutex<Seen>>,
    pods: Api<DynamicObject>,
    apps: Api<DynamicObject>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    events: Vec<(u64, Event)>,
    failure: Option<String>,
}

#[derive(Clone, Debug)]
enum Event {
    /// Version of the pod's image, none while it is being deleted or gone; and whether it is ready.
    Pod {
        name: String,
        runs: Option<String>,
        ready: bool,
    },
    /// The app's partition in pods, and how many pods it wants.
    App { partition: Option<i64>, replicas: i64 },
}

/// A partition and the most pods that ran the update template while it was in force.
pub type Step = (Option<i64>, usize);

/// How many pods a partition allows to be updated, and the most pods that ran the update template while it was in force.
pub type Exposure = (i64, usize);

impl Gate {
    /// Begins to watch.
    pub async fn open(scene: &Scene<'_>) -> Self {
        let pods: Api<DynamicObject> = Api::namespaced_with(
            scene.admin.clone(),
            scene.namespace.name(),
            &ApiResource::erase::<Pod>(&()),
        );
        let apps = scene.apps(&scene.admin);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut watches = JoinSet::new();
        for (api, read) in [
            (pods.clone(), pod as fn(&DynamicObject, bool) -> Event),
            (apps.clone(), app),
        ] {
            let list = api.list(&ListParams::default()).await.unwrap();
            for object in &list.items {
                note(&seen, object, read(object, false));
            }
            let from = list.metadata.resource_version.unwrap();
            let seen = seen.clone();
            watches.spawn(async move {
                let note = |object: &DynamicObject, deleted| note(&seen, object, read(object, deleted));
                let failure = follow(api.clone(), from, note).await;
                lock(&seen).failure = Some(failure);
            });
        }
        Self {
            seen,
            pods,
            apps,
            _watches: watches,
        }
    }

    /// The partitions that were in force one after the other, each with the most living pods of `version` at any instant of it.
    /// Waits until the watches have come to the present.
    pub async fn steps(&self, version: &str) -> Vec<Step> {
        self.in_force(version, |partition, _| partition).await
    }

    /// The same by what the partitions allow, whatever they are written as and wherever the workload has them.
    pub async fn exposures(&self, version: &str) -> Vec<Exposure> {
        let allowed = |partition: Option<i64>, replicas: i64| replicas - partition.unwrap_or(0).min(replicas);
        self.in_force(version, allowed).await
    }

    /// The most living pods of `version` at any instant until now.
    pub async fn most(&self, version: &str) -> usize {
        let steps = self.steps(version).await;
        steps.into_iter().map(|(_, most)| most).max().unwrap()
    }

    /// The least ready pods and the most living ones at any instant until now, after which first `settled` pods were ready.
    pub async fn crowd(&self, settled: usize) -> (usize, usize) {
        let mut living: BTreeMap<String, bool> = BTreeMap::new();
        let (mut least, mut most) = (None, 0);
        for (_, event) in self.events().await {
            let Event::Pod { name, runs, ready } = event else {
                continue;
            };
            match runs {
                Some(_) => living.insert(name, ready),
                None => living.remove(&name),
            };
            let ready = living.values().filter(|ready| **ready).count();
            if least.is_some() || ready >= settled {
                least = Some(least.unwrap_or(ready).min(ready));
            }
            most = most.max(living.len());
        }
        (least.unwrap_or(0), most)
    }

    /// All events until now, in their order.
    async fn events(&self) -> Vec<(u64, Event)> {
        eventually(SOON, "the gate watch sees the present", async || {
            self.behind().await
        })
        .await;
        let mut events = lock(&self.seen).events.clone();
        events.sort_by_key(|(at, _)| *at);
        events
    }

    /// What was in force one after the other, read from partition and replicas, each with the most living pods of `version`.
    async fn in_force<T: PartialEq>(
        &self,
        version: &str,
        read: impl Fn(Option<i64>, i64) -> T,
    ) -> Vec<(T, usize)> {
        let mut running = BTreeMap::new();
        let mut steps: Vec<(T, usize)> = Vec::new();
        for (_, event) in self.events().await {
            match event {
                Event::Pod { name, runs, .. } => drop(running.insert(name, runs)),
                Event::App { partition, replicas } => {
                    let now = read(partition, replicas);
                    if steps.last().is_none_or(|(last, _)| *last != now) {
                        steps.push((now, 0));
                    }
                }
            }
            let count = running
                .values()
                .filter(|runs| runs.as_deref() == Some(version))
                .count();
            if let Some((_, most)) = steps.last_mut() {
                *most = count.max(*most);
            }
        }
        steps
    }

    /// While this version was the newest, no more pods ran it than the partition in force allowed.
    pub async fn within_grants(&self, version: &str) {
        for (allowed, pods) in self.exposures(version).await {
            assert!(
                i64::try_from(pods).unwrap() <= allowed,
                "{version}: {pods} pods where {allowed} are allowed"
            );
        }
    }

    async fn behind(&self) -> Result<(), String> {
        let pods = self.pods.list(&ListParams::default()).await;
        let app = self.apps.get(APP).await;
        let objects = pods.map_err(|error| error.to_string())?.items;
        let app = app.map_err(|error| error.to_string())?;
        let seen = lock(&self.seen);
        if let Some(failure) = &seen.failure {
            panic!("the gate watch has a gap: {failure}");
        }
        let versions: HashSet<u64> = seen.events.iter().map(|(at, _)| *at).collect();
        match objects
            .iter()
            .chain([&app])
            .find(|object| !versions.contains(&version(object)))
        {
            Some(object) => Err(format!("{} is not seen", object.name_any())),
            None => Ok(()),
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(seen: &Mutex<Seen>, object: &DynamicObject, event: Event) {
    lock(seen).events.push((version(object), event));
}

fn pod(object: &DynamicObject, deleted: bool) -> Event {
    let image = object.data.pointer("/spec/containers/0/image");
    let version = image
        .and_then(Value::as_str)
        .and_then(|image| image.rsplit(':').next());
    let leaves = deleted || object.metadata.deletion_timestamp.is_some();
    Event::Pod {
        name: object.name_any(),
        runs: version.filter(|_| !leaves).map(str::to_owned),
        ready: is_ready(object),
    }
}

fn is_ready(object: &DynamicObject) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

/// What is granted, while the fields that hold a Deployment or a DaemonSet do.
fn granted(object: &DynamicObject) -> Option<i64> {
    let spec = &object.data["spec"];
    let deployment = spec["paused"] == true && spec["strategy"] == json!({"type": "Recreate"});
    let holds = deployment || spec["updateStrategy"]["type"] == "OnDelete";
    let grant = object.annotations().get(names::GRANTED_PARTITION)?;
    grant.parse().ok().filter(|_| holds)
}

fn app(object: &DynamicObject, _: bool) -> Event {
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64);
    let nodes = number("/status/desiredNumberScheduled");
    let replicas = nodes.or_else(|| number("/spec/replicas")).unwrap_or(1);
    let strategy = &object.data["spec"]["updateStrategy"];
    let partition = match &strategy["rollingUpdate"] {
        // CloneSet has it further up.
        Value::Null => &strategy["partition"],
        rolling => &rolling["partition"],
    };
    let percentage = partition
        .as_str()
        .and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    Event::App {
        partition: partition
            .as_i64()
            .or_else(|| percentage.map(|percentage| kept(percentage, replicas)))
            .or_else(|| granted(object)),
        replicas,
    }
}

/// The pods that a partition in percent keeps back: of several, one is let go below 100 %.
fn kept(percentage: i64, replicas: i64) -> i64 {
    let pods = (percentage * replicas + 99) / 100;
    if percentage < 100 && replicas > 1 {
        pods.min(replicas - 1)
    } else {
        pods
    }
}
