//! What the watches of one namespace have shown, with the local time at which each event arrived.

use std::collections::BTreeMap;
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

/// The name of an object.
pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// The time between two instants; zero if they came the other way round, as events of two watches may.
pub(crate) fn since(from: Instant, to: Instant) -> Duration {
    to.saturating_duration_since(from)
}

/// When so many pods with an image had become ready for the first time.
pub(crate) fn last_ready(seen: &[Seen], image: &str, count: usize) -> Option<Instant> {
    let mut first = BTreeMap::new();
    let ready = seen
        .iter()
        .filter(|seen| !seen.gone && pod_image(&seen.object) == image && is_ready(&seen.object));
    for seen in ready {
        first.entry(name(&seen.object)).or_insert(seen.at);
    }
    let mut times: Vec<_> = first.into_values().collect();
    times.sort();
    count.checked_sub(1).and_then(|index| times.get(index).copied())
}

/// The objects that exist, by name.
pub(crate) fn present(seen: &[Seen]) -> BTreeMap<String, Value> {
    let mut present = BTreeMap::new();
    for seen in seen {
        if seen.gone {
            present.remove(&name(&seen.object));
        } else {
            present.insert(name(&seen.object), seen.object.clone());
        }
    }
    present
}

/// The partitions that followed each other.
pub(crate) fn partitions(seen: &[Seen]) -> Vec<i64> {
    let mut all: Vec<_> = seen.iter().filter_map(|seen| partition(&seen.object)).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, image: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({"metadata": {"name": name}, "spec": {"containers": [{"image": image}]},
            "status": {"conditions": [{"type": "Ready", "status": status}]}})
    }

    fn seen(objects: impl IntoIterator<Item = (Value, bool)>) -> Vec<Seen> {
        let start = Instant::now();
        let number = |(index, (object, gone))| Seen {
            at: start + Duration::from_secs(index),
            object,
            gone,
        };
        (0..).zip(objects).map(number).collect()
    }

    #[test]
    fn a_batch_is_ready_with_its_last_pod() {
        let seen = seen([
            (pod("a-4", "v1", true), false),
            (pod("a-4", "v1", true), true),
            (pod("a-4", "v2", false), false),
            (pod("a-4", "v2", true), false),
            (pod("a-4", "v2", true), false),
            (pod("a-3", "v2", true), false),
        ]);
        assert_eq!(last_ready(&seen, "v2", 1), Some(seen[3].at));
        assert_eq!(last_ready(&seen, "v2", 2), Some(seen[5].at));
        assert_eq!(last_ready(&seen, "v2", 3), None);
        assert_eq!(last_ready(&seen, "v1", 1), Some(seen[0].at));
    }

    #[test]
    fn a_deleted_pod_is_not_present() {
        let seen = seen([
            (pod("a-4", "v1", true), false),
            (pod("a-3", "v1", true), false),
            (pod("a-4", "v1", true), true),
        ]);
        assert_eq!(present(&seen).into_keys().collect::<Vec<_>>(), ["a-3"]);
    }

    #[test]
    fn partitions_are_told_once() {
        let app = |partition: i64| {
            let strategy = json!({"rollingUpdate": {"partition": partition}});
            (json!({"spec": {"updateStrategy": strategy}}), false)
        };
        let seen = seen([app(0), app(32_767), app(32_767), (json!({}), false), app(4)]);
        assert_eq!(partitions(&seen), [0, 32_767, 4]);
    }

    #[tokio::test]
    async fn waiting_begins_at_an_instant() {
        let record = Record::new();
        for seen in seen([
            (pod("a-4", "v1", true), false),
            (pod("a-3", "v1", true), true),
            (pod("a-2", "v1", true), false),
        ]) {
            record.push(seen);
        }
        let second = record.since(Instant::now() - Duration::from_secs(60))[1].at;
        let found = record.wait(second, "any", |_| true).await.unwrap();
        // What is deleted satisfies nothing.
        assert_eq!(name(&found.object), "a-2");
    }
}
