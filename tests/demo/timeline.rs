//! What the watches of one namespace have shown, with the local time at which each event arrived.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use futures::StreamExt as _;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a reaction may take before the walk is given up; far above what a busy machine needs.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long nothing happens when everything has happened.
const QUIET: Duration = Duration::from_millis(300);

/// One event of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// When it arrived.
    pub(crate) at: Instant,
    /// The object.
    pub(crate) object: Value,
    /// Whether it was deleted.
    pub(crate) gone: bool,
}

/// The events of one kind, in the order of their arrival.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    seen: Arc<Mutex<Vec<Seen>>>,
    grown: watch::Sender<()>,
}

impl Record {
    fn new() -> Self {
        Self {
            seen: Arc::default(),
            grown: watch::Sender::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, seen: Seen) {
        self.lock().push(seen);
        self.grown.send_replace(());
    }

    /// All events since an instant.
    pub(crate) fn since(&self, start: Instant) -> Vec<Seen> {
        self.lock()
            .iter()
            .filter(|seen| seen.at >= start)
            .cloned()
            .collect()
    }

    /// Waits for the first event since an instant whose object satisfies the condition.
    ///
    /// # Errors
    /// There is none within [`DEADLINE`]; the text has the last object.
    pub(crate) async fn wait(
        &self,
        start: Instant,
        what: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Seen> {
        self.in_time(what, self.find(start, condition)).await
    }

    /// [`Record::wait`] for as long as it takes.
    pub(crate) async fn find(&self, start: Instant, condition: impl Fn(&Value) -> bool) -> Seen {
        self.search(|| {
            let seen = self.lock();
            let since = seen.partition_point(|seen| seen.at < start);
            let mut found = seen[since..].iter();
            found.find(|seen| !seen.gone && condition(&seen.object)).cloned()
        })
        .await
    }

    /// Waits until the events satisfy a condition, and gives what it gives.
    ///
    /// # Errors
    /// They do not within [`DEADLINE`].
    pub(crate) async fn until<T>(&self, what: &str, condition: impl Fn() -> Option<T>) -> anyhow::Result<T> {
        self.in_time(what, self.search(condition)).await
    }

    /// Waits until nothing has happened for a while.
    ///
    /// # Errors
    /// Something happens all the time.
    pub(crate) async fn quiet(&self) -> anyhow::Result<()> {
        let mut grown = self.grown.subscribe();
        let quiet = async { while tokio::time::timeout(QUIET, grown.changed()).await.is_ok() {} };
        self.in_time("nothing happens any more", quiet).await
    }

    async fn search<T>(&self, condition: impl Fn() -> Option<T>) -> T {
        let mut grown = self.grown.subscribe();
        loop {
            grown.mark_unchanged();
            if let Some(found) = condition() {
                return found;
            }
            // The sender is ours, so this does not fail.
            let _ = grown.changed().await;
        }
    }

    async fn in_time<T>(&self, what: &str, search: impl Future<Output = T>) -> anyhow::Result<T> {
        tokio::time::timeout(DEADLINE, search).await.map_err(|_| {
            let last = self.lock().last().map(|seen| brief(&seen.object));
            let last = last.unwrap_or_else(|| "nothing".to_owned());
            anyhow!("not within {} s: {what}; last seen: {last}", DEADLINE.as_secs())
        })
    }
}

/// What helps to understand why something did not happen.
fn brief(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let status = &object["status"];
    let strategy = &object["spec"]["updateStrategy"];
    format!("{name} {strategy} {status}")
}

/// The records of the demo's namespace. The watches end when this is dropped.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// The custom workload.
    pub(crate) apps: Record,
    /// The Rollout.
    pub(crate) rollouts: Record,
    /// The pods.
    pub(crate) pods: Record,
    _watches: JoinSet<()>,
}

impl Timeline {
    /// Starts to watch a namespace.
    pub(crate) fn watch(client: &Client, namespace: &str) -> Self {
        let mut watches = JoinSet::new();
        let mut follow = |group: &str, version: &str, kind: &str, plural: &str| {
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
            let api = Api::namespaced_with(client.clone(), namespace, &resource);
            let record = Record::new();
            watches.spawn(follow(api, record.clone()));
            record
        };
        Self {
            apps: follow("example.io", "v1", "MyStatefulApp", "mystatefulapps"),
            rollouts: follow(names::GROUP, names::VERSION, "Rollout", "rollouts"),
            pods: follow("", "v1", "Pod", "pods"),
            _watches: watches,
        }
    }
}

async fn follow(api: Api<DynamicObject>, record: Record) {
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let at = Instant::now();
        let (object, gone) = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => (object, false),
            Ok(watcher::Event::Delete(object)) => (object, true),
            // An error is tried again; a reaction that is missed for it is said by the one who waits.
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => continue,
        };
        record.push(Seen {
            at,
            object: serde_json::to_value(object).unwrap_or_default(),
            gone,
        });
    }
}

/// The partition of a workload.
pub(crate) fn partition(app: &Value) -> Option<i64> {
    app["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64()
}

/// The image of a workload's template.
pub(crate) fn template_image(app: &Value) -> &str {
    app["spec"]["template"]["spec"]["containers"][0]["image"]
        .as_str()
        .unwrap_or_default()
}

/// The image of a pod.
pub(crate) fn pod_image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

/// Whether a pod is ready and stays.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions.is_some_and(|all| {
        all.iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    });
    ready && pod["metadata"]["deletionTimestamp"].is_null()
}

/// A condition of a Rollout.
pub(crate) fn condition<'a>(rollout: &'a Value, kind: &str) -> &'a Value {
    let conditions = rollout["status"]["conditions"].as_array();
    conditions
        .and_then(|all| all.iter().find(|condition| condition["type"] == kind))
        .unwrap_or(&Value::Null)
}

/// Whether a Rollout is at a step, in a state.
pub(crate) fn is_at(rollout: &Value, step: i64, state: &str) -> bool {
    let canary = &rollout["status"]["canaryStatus"];
    rollout["status"]["phase"] == "Progressing"
        && canary["currentStepIndex"] == step
        && canary["currentStepState"] == state
}
