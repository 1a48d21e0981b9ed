//! The thin shell around `plan`: reads what is observed, and writes what is planned.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{join, join_all};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use thiserror::Error;
use tracing::{debug, info, warn};

use crate::app::{App, Status};
use crate::kind::{AppKey, Kind, Owner, label_value};
use crate::observed::{Observed, version};
use crate::plan::{PodAction, plan, target};
use crate::pod::{self, Pod};
use crate::revision::{self, Record, Revision, Revisions};

const FIELD_MANAGER: &str = "my-stateful-app-operator";

/// Shortest and longest wait before a failed reconcile is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// A reconcile that has to be tried again.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("{verb} {object}: {source}")]
    Write {
        verb: &'static str,
        object: String,
        source: kube::Error,
    },
    #[error("create pod {0}: the name is in use")]
    PodNameInUse(String),
}

impl Error {
    fn write(verb: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
        let object = object.into();
        move |source| Error::Write { verb, object, source }
    }
}

/// Everything that a reconcile needs besides the app.
pub(crate) struct Operator {
    pub(crate) client: Client,
    pub(crate) kind: Kind,
    /// Members of the status that are not reported.
    pub(crate) omitted: Vec<String>,
    pub(crate) pods: Observed<Pod>,
    pub(crate) revisions: Observed<Revision>,
    memory: Mutex<HashMap<String, Memory>>,
}

/// What the operator knows about an app of a uid before the watches say it.
#[derive(Default)]
struct Memory {
    /// Uids of pods that were deleted and that the watch still shows.
    deleted: HashSet<String>,
    /// Revision names that objects of others have.
    taken: HashSet<String>,
    /// The answer to the last status patch, until the watch is past it.
    written: Option<Arc<DynamicObject>>,
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
        let mut app = match App::read(&object) {
            Ok(app) => app,
            Err(invalid) => {
                warn!(app = %object.name_any(), "{invalid}");
                return Ok(Action::await_change());
            }
        };
        app.selector = format!("{}={}", self.kind.name_label, label_value(&app.name));
        let template = object.data.pointer("/spec/template").unwrap_or(&Value::Null);

        let (history, update) = self.record(&app, template).await?;
        let revisions = Revisions::of(&history, &update, app.current_revision.as_deref());
        let pods = self.observe(&app);
        let (actions, status) = plan(&app, &pods, &revisions);
        let pods_written = self.write_pods(&app, &history, &actions);
        let (pods_written, status_written) =
            join(pods_written, self.write_status(&app, &object, &status)).await;
        pods_written.and(status_written)?;

        if self.omitted.iter().any(|field| field == "currentRevision") {
            self.mark_current(&app, &history, &status.current_revision)
                .await?;
        }
        self.trim(&app, &history, &revisions, &pods).await?;
        self.remember(&app.uid, |memory| memory.failures = 0);
        Ok(Action::await_change())
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
        loop {
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
    }

    async fn create_revision(
        &self,
        app: &App,
        name: String,
        number: i64,
        template: &Value,
    ) -> Result<(), Error> {
        let api = self.revision_api(app);
        let manifest = revision::manifest(&self.kind, app, name.clone(), number, template);
        let found = match api.create(&parameters(), &manifest).await {
            Ok(created) => {
                info!(app = %app.name, revision = %name, "recorded");
                created
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => api
                .get(&name)
                .await
                .map_err(Error::write("get revision", &name))?,
            Err(source) => return Err(Error::write("create revision", name)(source)),
        };
        let owner = self.kind.owner_of(&found.metadata).map(|(_, owner)| owner);
        if owner.is_some_and(|owner| ours(&owner, app)) {
            self.revisions.wrote(found);
        } else {
            self.remember(&app.uid, |memory| memory.taken.insert(name));
        }
        Ok(())
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

    /// Marks the current revision in the history, for an operator whose status may not name it.
    async fn mark_current(&self, app: &App, history: &[Revision], current: &str) -> Result<(), Error> {
        let mark = |value: Value| {
            Patch::Merge(json!({"metadata": {"annotations": {&self.kind.current_annotation: value}}}))
        };
        if history
            .iter()
            .any(|revision| revision.name == current && !revision.current)
        {
            self.patch_revision(app, current, mark("true".into())).await?;
        }
        for old in history
            .iter()
            .filter(|revision| revision.current && revision.name != current)
        {
            self.patch_revision(app, &old.name, mark(Value::Null)).await?;
        }
        Ok(())
    }

    async fn patch_revision(&self, app: &App, name: &str, patch: Patch<Value>) -> Result<(), Error> {
        let patched = self.revision_api(app).patch(name, &patching(), &patch).await;
        self.revisions
            .wrote(patched.map_err(Error::write("patch revision", name))?);
        Ok(())
    }

    async fn trim(
        &self,
        app: &App,
        history: &[Revision],
        revisions: &Revisions,
        pods: &[Pod],
    ) -> Result<(), Error> {
        let on_pods = pods.iter().filter_map(|pod| pod.revision.as_deref()).collect();
        for old in revision::expendable(history, revisions, &on_pods, app.revision_history_limit) {
            let deleted = self.revision_api(app).delete(&old.name, &exactly(&old.uid)).await;
            gone_is_fine(deleted).map_err(Error::write("delete revision", &old.name))?;
        }
        Ok(())
    }

    async fn write_pods(&self, app: &App, history: &[Revision], actions: &[PodAction]) -> Result<(), Error> {
        let results = join_all(actions.iter().map(|action| async move {
            debug!(app = %app.name, pod = %target(app, action), ?action);
            match action {
                PodAction::Create { ordinal, revision } => {
                    let found = history.iter().find(|recorded| recorded.name == *revision);
                    match found {
                        Some(recorded) => self.create_pod(app, *ordinal, recorded).await,
                        None => Ok(()),
                    }
                }
                PodAction::Delete { name, uid, .. } => self.delete_pod(app, name, uid).await,
                PodAction::Adopt { name, uid } => self.adopt_pod(app, name, uid).await,
            }
        }));
        results.await.into_iter().collect()
    }

    async fn create_pod(&self, app: &App, ordinal: u32, revision: &Revision) -> Result<(), Error> {
        let name = pod::name(&app.name, ordinal);
        let taken = self.pods.of(&key(app)).iter().any(|pod| pod.name == name);
        if taken {
            // A pod of an earlier app of this name: its end wakes us.
            return Ok(());
        }
        let resource = kube::core::ApiResource::erase::<core::Pod>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &app.namespace, &resource);
        let manifest = pod::manifest(&self.kind, app, ordinal, revision);
        let object = serde_json::from_value(manifest).map_err(kube::Error::SerdeError);
        let created = match object {
            Ok(object) => api.create(&parameters(), &object).await,
            Err(error) => Err(error),
        };
        match created.and_then(|pod| {
            pod.try_parse::<core::Pod>()
                .map_err(|error| kube::Error::SerdeError(serde::de::Error::custom(error)))
        }) {
            Ok(pod) => {
                self.pods.wrote(pod);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => Err(Error::PodNameInUse(name)),
            Err(source) => Err(Error::write("create pod", name)(source)),
        }
    }

    async fn delete_pod(&self, app: &App, name: &str, uid: &str) -> Result<(), Error> {
        // Before the request: its event may come before its answer.
        self.remember(&app.uid, |memory| memory.deleted.insert(uid.to_owned()));
        let deleted = gone_is_fine(self.pod_api(app).delete(name, &exactly(uid)).await);
        deleted.map_err(|source| {
            self.remember(&app.uid, |memory| memory.deleted.remove(uid));
            Error::write("delete pod", name)(source)
        })
    }

    async fn adopt_pod(&self, app: &App, name: &str, uid: &str) -> Result<(), Error> {
        let adopted = self
            .pod_api(app)
            .patch(name, &patching(), &self.adoption(app, uid))
            .await;
        self.pods.wrote(adopted.map_err(Error::write("adopt pod", name))?);
        Ok(())
    }

    async fn write_status(&self, app: &App, object: &DynamicObject, status: &Status) -> Result<(), Error> {
        let changes = status.changes(object, &self.omitted);
        if changes.is_empty() {
            return Ok(());
        }
        debug!(app = %app.name, ?changes);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &app.namespace, &self.kind.resource);
        let patch = Patch::Merge(json!({"metadata": {"uid": app.uid}, "status": changes}));
        match api.patch_status(&app.name, &patching(), &patch).await {
            Ok(written) => {
                self.remember(&app.uid, |memory| memory.written = Some(Arc::new(written)));
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(source) => Err(Error::write("patch status", app.name.clone())(source)),
        }
    }

    /// Adds our reference to the owners of an object of a built-in kind, which are merged by uid.
    fn adoption(&self, app: &App, uid: &str) -> Patch<Value> {
        let reference = self.kind.controller_reference(&app.name, &app.uid);
        Patch::Strategic(json!({"metadata": {"uid": uid, "ownerReferences": [reference]}}))
    }

    fn pod_api(&self, app: &App) -> Api<core::Pod> {
        Api::namespaced(self.client.clone(), &app.namespace)
    }

    fn revision_api(&self, app: &App) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), &app.namespace)
    }

    fn remember<T>(&self, uid: &str, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(self.lock().entry(uid.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(app: &App) -> AppKey {
    AppKey {
        namespace: app.namespace.clone(),
        name: app.name.clone(),
    }
}

/// Whether an object is the app's, or nobody's and may become so.
fn ours(owner: &Owner, app: &App) -> bool {
    match owner {
        Owner::App(uid) => *uid == app.uid,
        Owner::Nobody => true,
    }
}

fn parameters() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Delete this object only, not another of the same name.
fn exactly(uid: &str) -> DeleteParams {
    let preconditions = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    };
    DeleteParams::default().preconditions(preconditions)
}

/// An object that is gone, or is another one now, need not be deleted.
fn gone_is_fine<T>(result: kube::Result<T>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => other.map(drop),
    }
}
