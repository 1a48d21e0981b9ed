//! Watching without a gap: a watch is resumed from its last resourceVersion, and fails where the server cannot resume it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use tokio::task::JoinSet;

/// Seconds after which the server ends a watch, which is then resumed.
const WATCH_SECONDS: u32 = 30;

/// The number of changes of the objects of one kind and namespace, until dropped.
pub struct Changes {
    count: Arc<AtomicUsize>,
    _watch: JoinSet<()>,
}

impl Changes {
    /// Counts from now on.
    pub async fn watch(api: &Api<DynamicObject>) -> Self {
        let list = api.list(&ListParams::default()).await.unwrap();
        let from = list.metadata.resource_version.unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let mut watch = JoinSet::new();
        watch.spawn({
            let (api, count) = (api.clone(), count.clone());
            async move {
                let note = |_: &DynamicObject, _| {
                    count.fetch_add(1, Ordering::Relaxed);
                };
                let failure = follow(api, from, note).await;
                panic!("the watch has a gap: {failure}");
            }
        });
        Self { count, _watch: watch }
    }

    /// So many until now.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// Hands every state of the objects to `note`, with whether it was deleted. Returns why it cannot go on.
pub async fn follow(
    api: Api<DynamicObject>,
    mut from: String,
    note: impl Fn(&DynamicObject, bool),
) -> String {
    loop {
        if let Err(failure) = resume(&api, &mut from, &note).await {
            return failure;
        }
    }
}

/// One watch, until the server ends it.
async fn resume(
    api: &Api<DynamicObject>,
    from: &mut String,
    note: &impl Fn(&DynamicObject, bool),
) -> Result<(), String> {
    let params = WatchParams::default().timeout(WATCH_SECONDS);
    let events = api
        .watch(&params, from)
        .await
        .map_err(|error| error.to_string())?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let (object, deleted) = match event.map_err(|error| error.to_string())? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(bookmark) => {
                *from = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => return Err(format!("{} {}", status.code, status.message)),
        };
        note(&object, deleted);
        *from = object.resource_version().unwrap_or_default();
    }
    Ok(())
}

/// The number of an object's last write.
pub fn version(object: &DynamicObject) -> u64 {
    object
        .resource_version()
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}
