//! Watches, the queue of apps, and the end.

use std::future::pending;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Error as QueueError;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::{Store, Writer};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Config as QueueConfig, WatchStreamExt, applier};
use kube::{Api, Client, Config, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{debug, info, warn};

use crate::kind::Kind;
use crate::kruise::Kruise;
use crate::observed::{Observable, Observed};
use crate::reconcile::Operator;

/// How long the server may keep a watch open, in seconds: a dead connection is noticed soon after.
const WATCH_TIMEOUT: u32 = 60;

type Wake = UnboundedSender<ObjectRef<DynamicObject>>;

/// A client for the kubeconfig file, or for the usual places without one.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> Result<Client> {
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await?,
    };
    Ok(Client::try_from(config)?)
}

/// Operates the kind until SIGINT or SIGTERM.
pub(crate) async fn run(
    client: Client,
    kind: Kind,
    namespace: Option<&str>,
    omitted: Vec<String>,
) -> Result<()> {
    info!(kind = %kind.resource.kind, api_version = %kind.resource.api_version, "operating");
    let operator = Arc::new(Operator::new(client, kind, omitted));
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        () = operate(&operator, namespace) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn operate(operator: &Arc<Operator>, namespace: Option<&str>) {
    let (wake, woken) = unbounded();
    let resource = &operator.kind.resource;
    let apps = match namespace {
        Some(namespace) => Api::namespaced_with(operator.client.clone(), namespace, resource),
        None => Api::all_with(operator.client.clone(), resource),
    };
    let writer = Writer::new(resource.clone());
    let store = writer.as_reader();
    let all_apps = writer.as_reader();

    let queue = async {
        // An app that is looked at before its pods are known would get them a second time.
        operator.pods.ready().await;
        operator.revisions.ready().await;
        if operator.kind.kruise == Some(Kruise::Daemonsets) {
            operator.nodes.ready().await;
        }
        let reconcile = |app, operator: Arc<Operator>| Box::pin(operator.reconcile(app));
        let failed =
            |app: Arc<DynamicObject>, error: &_, operator: Arc<Operator>| operator.retry(&app, error);
        let queue = woken.map(Ok::<_, std::convert::Infallible>);
        let results = applier(
            reconcile,
            failed,
            Arc::clone(operator),
            store,
            queue,
            QueueConfig::default(),
        );
        let mut results = pin!(results);
        while let Some(result) = results.next().await {
            match result {
                // Logged when it happened, or an event of an app that is gone.
                Ok(_) | Err(QueueError::ReconcilerFailed(..) | QueueError::ObjectNotFound(_)) => {}
                Err(error) => warn!("queue: {error}"),
            }
        }
    };
    tokio::join!(
        watch_apps(operator, apps, writer, wake.clone()),
        watch_owned(
            operator,
            &operator.pods,
            scoped(operator, namespace),
            watcher::Config::default(),
            &wake
        ),
        watch_owned(
            operator,
            &operator.revisions,
            scoped(operator, namespace),
            watcher::Config::default().labels(&operator.kind.name_label),
            &wake
        ),
        watch_nodes(operator, &all_apps, &wake),
        queue,
    );
    pending().await
}

fn scoped<K>(operator: &Operator, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(operator.client.clone(), namespace),
        None => Api::all(operator.client.clone()),
    }
}

async fn watch_apps(
    operator: &Operator,
    api: Api<DynamicObject>,
    mut writer: Writer<DynamicObject>,
    wake: Wake,
) {
    let reader = writer.as_reader();
    let config = watcher::Config::default().timeout(WATCH_TIMEOUT);
    let mut events = pin!(watcher::watcher(api, config).backoff(Retry::default()));
    while let Some(event) = events.next().await {
        let mut event = match event {
            Ok(event) => event,
            Err(error) => {
                warn!("watch {}: {error}", operator.kind.resource.plural);
                continue;
            }
        };
        if let Event::Apply(app) | Event::InitApply(app) = &mut event {
            app.metadata.managed_fields = None;
        }
        writer.apply_watcher_event(&event);
        let changed = match event {
            Event::Apply(app) => vec![ObjectRef::from_obj_with(&app, operator.kind.resource.clone())],
            Event::Delete(app) => {
                operator.forget(&app.uid().unwrap_or_default());
                Vec::new()
            }
            Event::InitDone => {
                let of = |app: &Arc<_>| ObjectRef::from_obj_with(&**app, operator.kind.resource.clone());
                reader.state().iter().map(of).collect()
            }
            Event::Init | Event::InitApply(_) => Vec::new(),
        };
        send(&wake, changed);
    }
}

async fn watch_owned<V>(
    operator: &Operator,
    observed: &Observed<V>,
    api: Api<V::Object>,
    config: watcher::Config,
    wake: &Wake,
) where
    V: Observable,
    V::Object: DeserializeOwned,
{
    let events = watcher::watcher(api, config.timeout(WATCH_TIMEOUT)).backoff(Retry::default());
    let mut events = pin!(events.inspect_err(|error| warn!("watch: {error}")));
    while let Some(event) = events.next().await {
        let Ok(event) = event else { continue };
        let app = |key: crate::kind::AppKey| {
            ObjectRef::new_with(&key.name, operator.kind.resource.clone()).within(&key.namespace)
        };
        send(wake, observed.absorb(event).into_iter().map(app).collect());
    }
}

/// Nodes come and go, and change their labels, for DaemonSets.
async fn watch_nodes(operator: &Operator, apps: &Store<DynamicObject>, wake: &Wake) {
    if operator.kind.kruise != Some(Kruise::Daemonsets) {
        return;
    }
    let api: Api<Node> = Api::all(operator.client.clone());
    let config = watcher::Config::default().timeout(WATCH_TIMEOUT);
    let events = watcher::watcher(api, config).backoff(Retry::default());
    let mut events = pin!(events.inspect_err(|error| warn!("watch: {error}")));
    while let Some(event) = events.next().await {
        if event.is_ok_and(|event| operator.nodes.absorb(event)) {
            let all = apps.state();
            let resource = &operator.kind.resource;
            let all = all
                .iter()
                .map(|app| ObjectRef::from_obj_with(&**app, resource.clone()));
            send(wake, all.collect());
        }
    }
}

fn send(wake: &Wake, apps: Vec<ObjectRef<DynamicObject>>) {
    for app in apps {
        // The receiver ends with the process.
        if wake.unbounded_send(app).is_err() {
            debug!("the queue is closed");
        }
    }
}

/// Waits between failed watches: short, because the CRD may be about to appear.
#[derive(Default)]
struct Retry {
    failures: u32,
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = Duration::from_millis(200) * (1 << self.failures.min(4));
        self.failures += 1;
        Some(wait)
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        self.failures = 0;
    }
}
