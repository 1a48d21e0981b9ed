//! The thin shell around `plan`: reads what is observed, and writes what is planned.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join;
use kube::api::{DynamicObject, Patch};
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tracing::warn;

use crate::app::{App, Report, changes, only_counts};
use crate::kind::{AppKey, Kind, Owner, label_value};
use crate::kruise::{self, Kruise, Nodes};
use crate::observed::{Observed, version};
use crate::plan::{PodAction, plan};
use crate::pod::Pod;
use crate::revision::{self, Record, Revision, Revisions};
use crate::write::Error;

/// How often names may collide before the reconcile fails.
const RECORD_ATTEMPTS: u32 = 16;

/// Shortest and longest wait before a failed reconcile is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Everything that a reconcile needs besides the app.
pub(crate) struct Operator {
    pub(crate) client: Client,
    pub(crate) kind: Kind,
    /// Members of the status that are not reported.
    pub(crate) omitted: Vec<String>,
    pub(crate) pods: Observed<Pod>,
    pub(crate) revisions: Observed<Revision>,
    /// Followed for DaemonSets only.
    pub(crate) nodes: Nodes,
    memory: Mutex<HashMap<String, Memory>>,
}

/// What the operator knows about an app of a uid before the watches say it.
#[derive(Default)]
pub(crate) struct Memory {
    /// Uids of pods that were deleted and that the watch still shows.
    pub(crate) deleted: HashSet<String>,
    /// Revision names that objects of others have.
    pub(crate) taken: HashSet<String>,
    /// The answer to the last status patch, until the watch is past it.
    pub(crate) written: Option<Arc<DynamicObject>>,
    /// Reconciles that failed in a row.
    failures: u32,
}

impl Operator {
    pub(crate) fn new(client: Client, kind: Kind, omitted: Vec<String>) -> Self {
        let pods = Observed::new(kind.clone());
        let revisions = Observed::new(kind.clone());
        Operator {
            client,
            kind,
            omitted,
            pods,
            revisions,
            nodes: Nodes::default(),
            memory: Mutex::default(),
        }
    }

    /// Brings an app one step closer to its spec. The events of that step cause the next one.
    pub(crate) async fn reconcile(self: Arc<Self>, object: Arc<DynamicObject>) -> Result<Action, Error> {
        let object = self.freshest(object);
        if object.metadata.deletion_timestamp.is_some() {
            // Pods and revisions go with their owner.
            return Ok(Action::await_change());
        }
        let template = object.data.pointer("/spec/template").unwrap_or(&Value::Null);
        let nodes = self.nodes.selected_by(template);
        let read = match self.kind.kruise {
            Some(kind) => kruise::read(kind, &object, nodes.len()),
            None => App::read(&object),
        };
        let mut app = match read {
            Ok(app) => app,
            Err(invalid) => {
                warn!(app = %object.name_any(), "{invalid}");
                return Ok(Action::await_change());
            }
        };
        app.selector = format!("{}={}", self.kind.name_label, label_value(&app.name));

        let (history, update) = self.record(&app, template).await?;
        let revisions = Revisions::of(&history, &update, app.current_revision.as_deref());
        let pods = self.observe(&app);
        let (mut actions, report) = match self.kind.kruise {
            Some(Kruise::Clonesets) => kruise::cloneset::plan(&app, &pods, &revisions),
            Some(Kruise::Daemonsets) => kruise::daemonset::plan(&app, &nodes, &pods, &revisions),
            Some(Kruise::Statefulsets) => kruise::statefulset::plan(&app, &pods, &revisions),
            None => {
                let (actions, status) = plan(&app, &pods, &revisions);
                (actions, status.report())
            }
        };
        actions.extend(kruise::in_place::openings(&pods));
        let current = report.get("currentRevision").and_then(Value::as_str);
        let current = current.unwrap_or_default().to_owned();
        self.write(&app, &object, &history, &actions, report).await?;

        if self.omitted.iter().any(|field| field == "currentRevision") {
            self.mark_current(&app, &history, &current).await?;
        }
        self.trim(&app, &history, &revisions, &pods).await?;
        self.remember(&app.uid, |memory| memory.failures = 0);
        Ok(Action::await_change())
    }

    /// Writes pods and status at the same time. If only counts differ in the status, it is left to the next
    /// reconcile, which the pods' events cause: they will change the counts anyway.
    async fn write(
        &self,
        app: &App,
        object: &DynamicObject,
        history: &[Revision],
        actions: &[PodAction],
        report: Report,
    ) -> Result<(), Error> {
        let changes = changes(report, object, &self.omitted);
        let pods = self.write_pods(app, history, actions);
        if actions.is_empty() || !only_counts(&changes) {
            let (pods, status) = join(pods, self.write_status(app, &changes)).await;
            return pods.and(status);
        }
        let pods = pods.await;
        if pods.is_err() {
            self.write_status(app, &changes).await?;
        }
        pods
    }

    /// How long to wait after a failure.
    pub(crate) fn retry(&self, object: &DynamicObject, error: &Error) -> Action {
        let uid = object.uid().unwrap_or_default();
        let failures = self.remember(&uid, |memory| {
            memory.failures += 1;
            memory.failures
        });
        let wait = RETRY.0.saturating_mul(1 << failures.min(16)).min(RETRY.1);
        warn!(app = %object.name_any(), failures, "{error}");
        Action::requeue(wait)
    }

    /// Drops what is remembered of an app that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// The app as the watch shows it, or as our last status patch left it if that is newer.
    fn freshest(&self, object: Arc<DynamicObject>) -> Arc<DynamicObject> {
        let uid = object.uid().unwrap_or_default();
        self.remember(&uid, |memory| match &memory.written {
            Some(written) if version(&written.metadata) > version(&object.metadata) => Arc::clone(written),
            _ => {
                memory.written = None;
                object
            }
        })
    }

    /// The app's pods and the orphans under its label, with those that we have deleted as terminating.
    fn observe(&self, app: &App) -> Vec<Pod> {
        let mut pods = self.pods.of(&key(app));
        self.remember(&app.uid, |memory| {
            let there: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
            memory.deleted.retain(|uid| there.contains(uid.as_str()));
            pods.retain(|pod| ours(&pod.owner, app));
            for pod in &mut pods {
                pod.terminating |= memory.deleted.contains(&pod.uid);
            }
        });
        pods
    }

    /// Records the template, and returns the history and the name of the update revision.
    async fn record(&self, app: &App, template: &Value) -> Result<(Vec<Revision>, String), Error> {
        self.adopt_revisions(app).await?;
        for _ in 0..RECORD_ATTEMPTS {
            let mut history = self.revisions.of(&key(app));
            history.retain(|revision| ours(&revision.owner, app));
            let taken = self.remember(&app.uid, |memory| memory.taken.clone());
            match revision::record(&app.name, template, &history, &taken) {
                Record::Latest { name } => return Ok((history, name)),
                Record::Renumber { name, number } => {
                    let patch = json!({"revision": number});
                    self.patch_revision(app, &name, Patch::Merge(patch)).await?;
                }
                Record::Create { name, number } => self.create_revision(app, name, number, template).await?,
            }
        }
        Err(Error::RevisionNotShown(app.name.clone()))
    }

    async fn adopt_revisions(&self, app: &App) -> Result<(), Error> {
        for orphan in self
            .revisions
            .of(&key(app))
            .iter()
            .filter(|revision| revision.owner == Owner::Nobody)
        {
            self.patch_revision(app, &orphan.name, self.adoption(app, &orphan.uid))
                .await?;
        }
        Ok(())
    }

    /// Works on what is remembered of an app.
    pub(crate) fn remember<T>(&self, uid: &str, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(self.lock().entry(uid.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the app is.
pub(crate) fn key(app: &App) -> AppKey {
    AppKey {
        namespace: app.namespace.clone(),
        name: app.name.clone(),
    }
}

/// Whether an object is the app's, or nobody's and may become so.
pub(crate) fn ours(owner: &Owner, app: &App) -> bool {
    match owner {
        Owner::App(uid) => *uid == app.uid,
        Owner::Nobody => true,
    }
}
