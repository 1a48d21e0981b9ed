//! The requests that write.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::{Api, Resource};
use serde_json::{Map, Value, json};
use thiserror::Error;
use tracing::{debug, info};

use crate::app::App;
use crate::kruise::in_place;
use crate::plan::{PodAction, target};
use crate::pod::{self, Pod};
use crate::reconcile::{Operator, key, ours};
use crate::revision::{self, Revision, Revisions};

const FIELD_MANAGER: &str = "my-stateful-app-operator";

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
    #[error("record the template of {0}: what is written does not show up")]
    RevisionNotShown(String),
}

impl Error {
    fn write(verb: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
        let object = object.into();
        move |source| Error::Write { verb, object, source }
    }
}

impl Operator {
    /// Creates a revision, or learns that its name is taken.
    pub(crate) async fn create_revision(
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

    /// Marks the current revision in the history, for an operator whose status may not name it.
    pub(crate) async fn mark_current(
        &self,
        app: &App,
        history: &[Revision],
        current: &str,
    ) -> Result<(), Error> {
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

    /// Deletes revisions beyond the history limit.
    pub(crate) async fn trim(
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

    /// Patches a revision of the app.
    pub(crate) async fn patch_revision(
        &self,
        app: &App,
        name: &str,
        patch: Patch<Value>,
    ) -> Result<(), Error> {
        let patched = self.revision_api(app).patch(name, &patching(), &patch).await;
        self.revisions
            .wrote(patched.map_err(Error::write("patch revision", name))?);
        Ok(())
    }

    /// Does all actions at once; the first error is returned after the last has ended.
    pub(crate) async fn write_pods(
        &self,
        app: &App,
        history: &[Revision],
        actions: &[PodAction],
    ) -> Result<(), Error> {
        let results = join_all(actions.iter().map(|action| async move {
            debug!(app = %app.name, pod = %target(app, action), ?action);
            match action {
                PodAction::Create { ordinal, revision } => match recorded(history, revision) {
                    Some(revision) => self.create_pod(app, *ordinal, revision).await,
                    None => Ok(()),
                },
                PodAction::Add { node, revision } => match recorded(history, revision) {
                    Some(revision) => {
                        let pod = pod::addition(&self.kind, app, node.as_deref(), revision);
                        self.post_pod(app, &pod).await
                    }
                    None => Ok(()),
                },
                PodAction::Delete { name, uid, .. } => self.delete_pod(app, name, uid).await,
                PodAction::Renew { name, uid, revision } => match recorded(history, revision) {
                    Some(revision) => self.renew_pod(app, name, uid, revision).await,
                    None => Ok(()),
                },
                PodAction::Open { name, uid } => self.set_gate(app, name, uid, true).await,
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
        self.post_pod(app, &pod::manifest(&self.kind, app, ordinal, revision))
            .await
    }

    async fn post_pod(&self, app: &App, pod: &Value) -> Result<(), Error> {
        let request = Request::new(core::Pod::url_path(&(), Some(&app.namespace)))
            .create(&parameters(), pod.to_string().into_bytes())
            .map_err(kube::Error::BuildRequest);
        let created = match request {
            Ok(request) => self.client.request::<core::Pod>(request).await,
            Err(error) => Err(error),
        };
        let name = || pod["metadata"]["name"].as_str().unwrap_or(&app.name).to_owned();
        match created {
            Ok(pod) => {
                self.pods.wrote(pod);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => Err(Error::PodNameInUse(name())),
            Err(source) => Err(Error::write("create pod", name())(source)),
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

    /// Closes the gate and changes the images; it is opened when the containers have been replaced.
    async fn renew_pod(&self, app: &App, name: &str, uid: &str, revision: &Revision) -> Result<(), Error> {
        self.set_gate(app, name, uid, false).await?;
        let patch = Patch::Strategic(in_place::renewal(&self.kind, uid, revision));
        let renewed = self.pod_api(app).patch(name, &patching(), &patch).await;
        self.pods.wrote(renewed.map_err(Error::write("renew pod", name))?);
        Ok(())
    }

    async fn set_gate(&self, app: &App, name: &str, uid: &str, open: bool) -> Result<(), Error> {
        let patch = Patch::Strategic(in_place::gate(uid, open));
        let patched = self.pod_api(app).patch_status(name, &patching(), &patch).await;
        self.pods.wrote(patched.map_err(Error::write("patch pod", name))?);
        Ok(())
    }

    async fn adopt_pod(&self, app: &App, name: &str, uid: &str) -> Result<(), Error> {
        let adopted = self
            .pod_api(app)
            .patch(name, &patching(), &self.adoption(app, uid))
            .await;
        self.pods.wrote(adopted.map_err(Error::write("adopt pod", name))?);
        Ok(())
    }

    /// Patches members of the status.
    pub(crate) async fn write_status(&self, app: &App, changes: &Map<String, Value>) -> Result<(), Error> {
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
    pub(crate) fn adoption(&self, app: &App, uid: &str) -> Patch<Value> {
        let reference = self.kind.controller_reference(&app.name, &app.uid);
        Patch::Strategic(json!({"metadata": {"uid": uid, "ownerReferences": [reference]}}))
    }

    fn pod_api(&self, app: &App) -> Api<core::Pod> {
        Api::namespaced(self.client.clone(), &app.namespace)
    }

    fn revision_api(&self, app: &App) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), &app.namespace)
    }
}

fn recorded<'h>(history: &'h [Revision], name: &str) -> Option<&'h Revision> {
    history.iter().find(|revision| revision.name == name)
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
