//! The API server: reads and writes, each with a deadline and an error that says what to do.

mod events;
mod history;
mod kind;
mod list;
mod pod;
mod views;
mod watch;
mod workload;
mod world;

use std::time::Duration;

use json_patch::Patch as JsonPatch;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::intent::Record;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, GetParams, ListParams, Patch, PatchParams};
use kube::core::Request;
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::cli::{DryRun, Writing};
use crate::connect::chain;
use crate::error::Error;

pub(crate) use events::{Timeline, Told};
pub(crate) use list::{Kinds, Roll, RollChange};
pub(crate) use views::Details;
pub(crate) use watch::Feeds;
pub(crate) use workload::Workload;
pub(crate) use world::World;

/// Objects in one answer of a list.
const PAGE: u32 = 200;

/// One API server and namespace.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
    server: String,
    deadline: Option<Duration>,
}

impl Cluster {
    pub(crate) fn new(client: Client, namespace: String, server: String, deadline: Duration) -> Self {
        Self {
            client,
            namespace,
            server,
            deadline: (!deadline.is_zero()).then_some(deadline),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Waits for one answer, at most for `--request-timeout`. `right` names what a caller must be allowed to, for the hint.
    async fn call<T>(&self, right: &str, request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        let answer = match self.deadline {
            None => request.await,
            Some(deadline) => {
                tokio::time::timeout(deadline, request)
                    .await
                    .map_err(|_| Error::Unreachable {
                        server: self.server.clone(),
                        cause: format!(
                            "no answer within {} s (--request-timeout)",
                            deadline.as_secs_f32()
                        ),
                    })?
            }
        };
        answer.map_err(|error| self.shaped(error, right))
    }

    /// The error as kubectl would say it.
    fn shaped(&self, error: kube::Error, right: &str) -> Error {
        match error {
            kube::Error::Api(status) => match status.code {
                401 => Error::Unauthorized(status.message),
                403 if !right.is_empty() => Error::Forbidden {
                    message: status.message,
                    right: if self.namespace.is_empty() {
                        format!("{right} in all namespaces")
                    } else {
                        format!("{right} in namespace {}", self.namespace)
                    },
                },
                _ => Error::Server(status),
            },
            error @ (kube::Error::Auth(_) | kube::Error::InferConfig(_)) => {
                Error::Unauthorized(chain(&error))
            }
            error => Error::Unreachable {
                server: self.server.clone(),
                cause: root(&error),
            },
        }
    }

    fn rollouts(&self) -> Api<Rollout> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A Rollout.
    pub(crate) async fn rollout(&self, name: &str) -> Result<Rollout, Error> {
        let resource = format!("rollouts.{}", names::GROUP);
        match self
            .call(&format!("get {resource}"), self.rollouts().get(name))
            .await
        {
            Err(Error::Server(status))
                if status.code == 404 && status.details.as_ref().is_none_or(|d| d.name.is_empty()) =>
            {
                Err(Error::NotInstalled)
            }
            Err(Error::Server(status)) if status.code == 404 => Err(Error::NotFound {
                resource,
                name: name.to_owned(),
                namespace: self.namespace.clone(),
                close: self.close_to(name).await,
            }),
            other => other,
        }
    }

    /// Names that somebody who typed `name` may have meant. Best effort.
    async fn close_to(&self, name: &str) -> Vec<String> {
        let list = self.rollouts();
        let params = ListParams::default().limit(PAGE);
        let Ok(known) = self.call("", list.list_metadata(&params)).await else {
            return Vec::new();
        };
        let names = known.items.iter().map(ResourceExt::name_any);
        let mut close: Vec<_> = names.filter(|known| is_close(known, name)).collect();
        close.truncate(3);
        close
    }

    /// Writes to the status of a Rollout. `Ok(false)`: a test in the patch failed, nothing is written.
    pub(crate) async fn patch_rollout_status(
        &self,
        name: &str,
        patch: &JsonPatch,
        writing: &Writing,
    ) -> Result<bool, Error> {
        let right = format!("patch rollouts.{}/status", names::GROUP);
        let rollouts = self.rollouts();
        let params = params(writing);
        let patch = Patch::Json::<()>(patch.clone());
        tested(
            self.call(&right, rollouts.patch_status(name, &params, &patch))
                .await
                .map(drop),
        )
    }

    /// Writes to a workload. `Ok(false)`: a test in the patch failed, nothing is written.
    pub(crate) async fn patch_workload(
        &self,
        workload: &Workload,
        patch: &JsonPatch,
        writing: &Writing,
    ) -> Result<bool, Error> {
        let resource = &workload.resource;
        let right = format!("patch {}", qualified(resource));
        let api = self.objects(resource);
        let params = params(writing);
        let patch = Patch::Json::<()>(patch.clone());
        tested(
            self.call(&right, api.patch(&workload.name, &params, &patch))
                .await
                .map(drop),
        )
    }

    fn objects(&self, resource: &ApiResource) -> Api<kube::core::DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, resource)
    }

    /// The templates that were recorded for a Rollout. They carry no labels, lest operators adopt them, so all are looked through.
    pub(crate) async fn records(&self, rollout: &Rollout) -> Result<Vec<Record>, Error> {
        let resource = ApiResource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            api_version: "apps/v1".to_owned(),
            kind: "ControllerRevision".to_owned(),
            plural: "controllerrevisions".to_owned(),
        };
        let uid = rollout.metadata.uid.clone().unwrap_or_default();
        let api = self.objects(&resource);
        let mut params = ListParams::default().limit(PAGE);
        let mut records = Vec::new();
        loop {
            let page = self
                .call("list controllerrevisions.apps", api.list(&params))
                .await?;
            for object in page.items {
                let owned = object
                    .metadata
                    .owner_references
                    .iter()
                    .flatten()
                    .any(|owner| owner.uid == uid);
                if owned && let Ok(object) = serde_json::to_value(&object) {
                    records.extend(Record::read(&object, &uid));
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(records),
            }
        }
    }

    /// The version of the API server.
    pub(crate) async fn server_version(&self) -> Result<String, Error> {
        Ok(self.call("", self.client.apiserver_version()).await?.git_version)
    }

    /// The image of the controller; `None` when it is not installed under its usual name.
    pub(crate) async fn controller_image(&self) -> Result<Option<String>, Error> {
        let resource = ApiResource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            plural: "deployments".to_owned(),
        };
        let api: Api<kube::core::DynamicObject> =
            Api::namespaced_with(self.client.clone(), names::DEFAULT_NAMESPACE, &resource);
        let right = "get deployments.apps";
        let found = self.call(right, api.get_opt(names::CONTROLLER)).await?;
        let image = found.and_then(|object| {
            let containers = object
                .data
                .pointer("/spec/template/spec/containers")?
                .as_array()?;
            containers
                .iter()
                .find_map(|container| container["image"].as_str().map(str::to_owned))
        });
        Ok(image)
    }

    /// One answer as JSON.
    async fn get_json(&self, right: &str, folder: &str, name: &str) -> Result<Value, Error> {
        let request = Request::new(folder).get(name, &GetParams::default());
        let request = request.map_err(|error| Error::Usage(format!("{folder}/{name}: {error}")))?;
        self.call(right, self.client.request(request)).await
    }
}

/// Resource and group, as people write them.
pub(crate) fn qualified(resource: &ApiResource) -> String {
    let ApiResource { group, plural, .. } = resource;
    if group.is_empty() {
        plural.clone()
    } else {
        format!("{plural}.{group}")
    }
}

fn params(writing: &Writing) -> PatchParams {
    PatchParams {
        dry_run: writing.dry_run == DryRun::Server,
        field_manager: Some(writing.field_manager.clone()),
        ..PatchParams::default()
    }
}

/// A failed test of a JSON patch comes back as 422 without causes; a change that lost a race as 409.
fn tested(answer: Result<(), Error>) -> Result<bool, Error> {
    match answer {
        Ok(()) => Ok(true),
        Err(Error::Server(status)) if status.code == 409 => Ok(false),
        Err(Error::Server(status))
            if status.code == 422
                && status
                    .details
                    .as_ref()
                    .is_none_or(|details| details.causes.is_empty()) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The innermost cause of a transport error, which says most.
fn root(error: &kube::Error) -> String {
    let mut at: &dyn std::error::Error = error;
    while let Some(cause) = at.source() {
        at = cause;
    }
    at.to_string()
}

/// Whether two names differ by at most two edits, or one begins with the other.
fn is_close(known: &str, typed: &str) -> bool {
    known.starts_with(typed) || typed.starts_with(known) || distance(known, typed) <= 2
}

fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert!(is_close("my-app-rollout", "my-app"));
        assert!(is_close("my-app-rollout", "my-app-rolout"));
        assert!(!is_close("my-app-rollout", "shop"));
    }

    #[test]
    fn only_a_failed_test_counts_as_a_change_in_between() {
        let status = |code: u16, causes: bool| {
            let mut status = kube::core::Status {
                code,
                ..kube::core::Status::default()
            };
            if causes {
                let cause = serde_json::json!({"causes": [{"field": "spec", "message": "wrong"}]});
                status.details = serde_json::from_value(cause).unwrap();
            }
            Err(Error::Server(status.boxed()))
        };
        assert!(tested(Ok(())).unwrap());
        assert!(!tested(status(409, false)).unwrap());
        assert!(!tested(status(422, false)).unwrap());
        assert!(tested(status(422, true)).is_err());
        assert!(tested(status(403, false)).is_err());
    }
}
