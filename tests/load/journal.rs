//! What the watches of the fleet have shown: each event with the local time at which it arrived, and how everything is now.
//!
//! Events keep what is measured and nothing else, so that thousands of objects are no burden.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fleet::NAMESPACE;

/// Nothing happens any more when nothing has happened for so long.
const QUIET: Duration = Duration::from_secs(2);

/// A workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Set {
    /// Of the template.
    pub(crate) image: String,
    pub(crate) replicas: i64,
    pub(crate) partition: i64,
    /// All pods are of the template and ready, and nothing holds it.
    pub(crate) settled: bool,
}

/// A Rollout.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Course {
    pub(crate) phase: String,
    pub(crate) step: i64,
    pub(crate) state: String,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Runner {
    pub(crate) pod: String,
    /// None while it is being deleted or gone.
    pub(crate) image: Option<String>,
    pub(crate) ready: bool,
}

/// What an event shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Set(Set),
    Rollout(Course),
    Pod(Runner),
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// When it arrived.
    pub(crate) at: Instant,
    /// The number of the write, over all kinds.
    pub(crate) version: u64,
    /// The workload that it is about.
    pub(crate) name: String,
    pub(crate) what: What,
}

/// Everything until now.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<Event>,
    pub(crate) sets: BTreeMap<String, Set>,
    pub(crate) courses: BTreeMap<String, Course>,
    /// How often a watch had to begin anew, so that events are missing.
    pub(crate) gaps: u32,
}

/// The watches, until dropped.
pub(crate) struct Journal {
    seen: Arc<Mutex<Seen>>,
    grown: watch::Sender<()>,
    _watches: JoinSet<()>,
}

impl Journal {
    /// Watches workloads and pods, and Rollouts where there are any.
    pub(crate) fn open(client: &Client, resource: &ApiResource, with_rollouts: bool) -> Self {
        let mut journal = Self {
            seen: Arc::default(),
            grown: watch::Sender::new(()),
            _watches: JoinSet::new(),
        };
        journal.follow(client, resource, set);
        journal.follow(client, &ApiResource::erase::<Pod>(&()), pod);
        if with_rollouts {
            journal.follow(client, &ApiResource::erase::<Rollout>(&()), course);
        }
        journal
    }

    fn follow(
        &mut self,
        client: &Client,
        resource: &ApiResource,
        read: fn(&DynamicObject, bool) -> (String, What),
    ) {
        let api = Api::namespaced_with(client.clone(), NAMESPACE, resource);
        let (seen, grown) = (self.seen.clone(), self.grown.clone());
        self._watches.spawn(async move {
            let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
            let mut begun = false;
            while let Some(event) = events.next().await {
                let at = Instant::now();
                let (object, deleted) = match event {
                    Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => (object, false),
                    Ok(watcher::Event::Delete(object)) => (object, true),
                    Ok(watcher::Event::Init) => {
                        lock(&seen).gaps += u32::from(begun);
                        begun = true;
                        continue;
                    }
                    // An error is tried again; if something was missed for it, the watch begins anew.
                    Ok(watcher::Event::InitDone) | Err(_) => continue,
                };
                let (name, what) = read(&object, deleted);
                let version = object.resource_version().and_then(|text| text.parse().ok());
                lock(&seen).push(Event {
                    at,
                    version: version.unwrap_or_default(),
                    name,
                    what,
                });
                grown.send_replace(());
            }
        });
    }

    /// What was seen until now.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Waits until nothing is left to be waited for, and tells when that was.
    ///
    /// # Errors
    /// Something still is at the deadline.
    pub(crate) async fn until(
        &self,
        deadline: Duration,
        what: &str,
        left: impl Fn(&Seen) -> usize,
    ) -> anyhow::Result<Instant> {
        let mut grown = self.grown.subscribe();
        let come = async {
            loop {
                grown.mark_unchanged();
                if left(&self.seen()) == 0 {
                    return Instant::now();
                }
                // The sender is ours, so this does not fail.
                let _ = grown.changed().await;
            }
        };
        let come = tokio::time::timeout(deadline, come).await;
        come.map_err(|_| {
            let left = left(&self.seen());
            anyhow!("not within {} s: {what}; {left} are missing", deadline.as_secs())
        })
    }

    /// Waits until nothing has happened for a while.
    ///
    /// # Errors
    /// Something happens all the time until the deadline.
    pub(crate) async fn quiet(&self, deadline: Duration) -> anyhow::Result<()> {
        let mut grown = self.grown.subscribe();
        let quiet = async { while tokio::time::timeout(QUIET, grown.changed()).await.is_ok() {} };
        let quiet = tokio::time::timeout(deadline, quiet).await;
        quiet.map_err(|_| anyhow!("something happens all the time"))
    }
}

impl Seen {
    fn push(&mut self, event: Event) {
        match &event.what {
            What::Set(set) => drop(self.sets.insert(event.name.clone(), set.clone())),
            What::Rollout(course) => drop(self.courses.insert(event.name.clone(), course.clone())),
            What::Pod(_) => {}
        }
        self.events.push(event);
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn image(pod_spec: &Value) -> String {
    text(&pod_spec["containers"][0]["image"])
}

fn set(object: &DynamicObject, _: bool) -> (String, What) {
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let all = |field: &str| status[field].as_i64().unwrap_or(0) == replicas;
    let settled = status["observedGeneration"].as_i64() == object.metadata.generation
        && status["currentRevision"] == status["updateRevision"]
        && all("readyReplicas")
        && (replicas == 0 || all("updatedReplicas") || status["updatedReplicas"].is_null())
        && !object.annotations().contains_key(names::IN_PROGRESSING);
    let set = Set {
        image: image(&spec["template"]["spec"]),
        replicas,
        partition: spec["updateStrategy"]["rollingUpdate"]["partition"]
            .as_i64()
            .unwrap_or(0),
        settled,
    };
    (object.name_any(), What::Set(set))
}

fn course(object: &DynamicObject, _: bool) -> (String, What) {
    let status = &object.data["status"];
    let canary = &status["canaryStatus"];
    let course = Course {
        phase: text(&status["phase"]),
        step: canary["currentStepIndex"].as_i64().unwrap_or(0),
        state: text(&canary["currentStepState"]),
    };
    (object.name_any(), What::Rollout(course))
}

fn pod(object: &DynamicObject, deleted: bool) -> (String, What) {
    let pod = object.name_any();
    let set = pod
        .rsplit_once('-')
        .map_or(pod.as_str(), |(set, _)| set)
        .to_owned();
    let leaves = deleted || object.metadata.deletion_timestamp.is_some();
    let conditions = object.data["status"]["conditions"].as_array();
    let ready = conditions.is_some_and(|all| {
        all.iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    });
    let runner = Runner {
        pod,
        image: (!leaves).then(|| image(&object.data["spec"])),
        ready: ready && !leaves,
    };
    (set, What::Pod(runner))
}
