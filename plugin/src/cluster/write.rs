//! Writes. This is the only place that sends one, so what holds here holds for every command.

use json_patch::Patch as JsonPatch;
use kruise_rollout::names;
use kube::api::{ApiResource, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Request;
use serde_json::{Map, Value, json};

use super::{Cluster, Workload, qualified};
use crate::cli::writing::{DryRun, Writing};
use crate::error::Error;

/// Path of ClusterRoles.
pub(super) const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// One change of one object, to be sent or shown.
pub(crate) struct Write<'a> {
    /// The object as it was read.
    pub(crate) object: &'a Value,
    /// Path of the object.
    path: String,
    /// `status`, or nothing for the object itself.
    subresource: Option<&'static str>,
    change: Change,
    /// What a caller must be allowed to.
    right: String,
}

/// What is sent.
enum Change {
    /// What is changed, with tests.
    Patch(JsonPatch),
    /// The object is to be as it is given, by server-side apply.
    Apply,
    /// The object goes, if it is still the one that was read.
    Delete,
}

impl Write<'_> {
    /// The request as it would be sent: method and path, type, body.
    pub(crate) fn request(&self, field_manager: &str) -> String {
        let subresource = self
            .subresource
            .map(|name| format!("/{name}"))
            .unwrap_or_default();
        let (method, query, media, body) = match &self.change {
            Change::Patch(patch) => (
                "PATCH",
                format!("?fieldManager={field_manager}"),
                "application/json-patch+json",
                serde_json::to_string_pretty(patch),
            ),
            Change::Apply => (
                "PATCH",
                format!("?fieldManager={field_manager}"),
                "application/apply-patch+yaml",
                serde_json::to_string_pretty(self.object),
            ),
            Change::Delete => (
                "DELETE",
                String::new(),
                "application/json",
                serde_json::to_string_pretty(&self.deletion(false)),
            ),
        };
        let body = body.unwrap_or_default();
        format!(
            "{method} {}{subresource}{query}\nContent-Type: {media}\n\n{body}",
            self.path
        )
    }

    /// The object as it will be. `None` when a test in the patch fails.
    fn foreseen(&self) -> Option<Value> {
        let mut after = self.object.clone();
        if let Change::Patch(patch) = &self.change {
            json_patch::patch(&mut after, patch).ok()?;
        }
        Some(after)
    }

    fn deletion(&self, dry_run: bool) -> DeleteParams {
        DeleteParams {
            dry_run,
            preconditions: Some(Preconditions {
                uid: self.object["metadata"]["uid"].as_str().map(str::to_owned),
                resource_version: None,
            }),
            ..DeleteParams::default()
        }
    }
}

impl Cluster {
    /// A change of a Rollout, or of its status.
    pub(crate) fn write_rollout<'a>(
        &self,
        object: &'a Value,
        subresource: Option<&'static str>,
        patch: JsonPatch,
    ) -> Write<'a> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let suffix = subresource.map(|name| format!("/{name}")).unwrap_or_default();
        Write {
            object,
            path: format!("{}/{name}", self.rollouts_folder()),
            subresource,
            change: Change::Patch(patch),
            right: format!("patch rollouts.{}{suffix}", names::GROUP),
        }
    }

    /// A change of a workload.
    pub(crate) fn write_workload<'a>(&self, workload: &'a Workload, patch: JsonPatch) -> Write<'a> {
        Write {
            object: &workload.object,
            path: format!("{}/{}", self.folder(&workload.resource), workload.name),
            subresource: None,
            change: Change::Patch(patch),
            right: format!("patch {}", qualified(&workload.resource)),
        }
    }

    /// A ClusterRole that is to be there as it is given.
    pub(crate) fn apply_role<'a>(&self, role: &'a Value) -> Write<'a> {
        of_role(role, Change::Apply, "patch")
    }

    /// A ClusterRole, as it was read, that is to go.
    pub(crate) fn delete_role<'a>(&self, role: &'a Value) -> Write<'a> {
        of_role(role, Change::Delete, "delete")
    }

    /// Sends a change, unless nothing is to be sent. Returns the object after it; `None` when it is not as it was read any more,
    /// and nothing was written.
    pub(crate) async fn send(&self, write: &Write<'_>, writing: &Writing) -> Result<Option<Value>, Error> {
        if writing.dry_run() == DryRun::Client {
            return Ok(Some(write.foreseen().unwrap_or_else(|| write.object.clone())));
        }
        let patch = match &write.change {
            Change::Patch(patch) => Patch::Json::<()>(patch.clone()),
            Change::Apply => {
                let answer = self.patch(write, &Patch::Apply(write.object), writing).await;
                return answer.map(Some).map_err(cluster_wide);
            }
            Change::Delete => return self.delete(write, writing).await.map_err(cluster_wide),
        };
        match tested(self.patch(write, &patch, writing).await) {
            Err(Error::Server(status)) if status.code == 415 => self.send_merged(write, writing).await,
            answer => answer,
        }
    }

    /// The same for servers that take no JSON patch: what differs, and the version that it was read in.
    async fn send_merged(&self, write: &Write<'_>, writing: &Writing) -> Result<Option<Value>, Error> {
        let Some(after) = write.foreseen() else {
            return Ok(None);
        };
        let mut merge = difference(write.object, &after);
        merge["metadata"]["resourceVersion"] = write.object["metadata"]["resourceVersion"].clone();
        tested(self.patch(write, &Patch::Merge(merge), writing).await)
    }

    /// Deletes the object. Returns it as it was; `None` when another one has its name now.
    async fn delete(&self, write: &Write<'_>, writing: &Writing) -> Result<Option<Value>, Error> {
        let params = write.deletion(writing.dry_run() == DryRun::Server);
        let (folder, name) = write.path.rsplit_once('/').unwrap_or((&write.path, ""));
        let request = Request::new(folder).delete(name, &params);
        let request = request.map_err(|error| Error::Usage(format!("{}: {error}", write.path)))?;
        let answer = self
            .call(&write.right, self.client.request::<Value>(request))
            .await;
        Ok(tested(answer)?.map(|_| write.object.clone()))
    }

    async fn patch<P: serde::Serialize + std::fmt::Debug>(
        &self,
        write: &Write<'_>,
        patch: &Patch<P>,
        writing: &Writing,
    ) -> Result<Value, Error> {
        let params = PatchParams {
            dry_run: writing.dry_run() == DryRun::Server,
            field_manager: Some(writing.field_manager.clone()),
            ..PatchParams::default()
        };
        let (folder, name) = write.path.rsplit_once('/').unwrap_or((&write.path, ""));
        let request = Request::new(folder);
        let request = match write.subresource {
            None => request.patch(name, &params, patch),
            Some(subresource) => request.patch_subresource(subresource, name, &params, patch),
        };
        let request = request.map_err(|error| Error::Usage(format!("{}: {error}", write.path)))?;
        self.call(&write.right, self.client.request(request)).await
    }

    /// Path of the Rollouts of the namespace.
    pub(super) fn rollouts_folder(&self) -> String {
        format!(
            "/apis/{}/namespaces/{}/rollouts",
            names::API_VERSION,
            self.namespace
        )
    }

    /// Path of the objects of a resource in the namespace; in all where there is none.
    pub(super) fn folder(&self, resource: &ApiResource) -> String {
        let (group, version, plural) = (&resource.group, &resource.version, &resource.plural);
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        if self.namespace.is_empty() {
            format!("{root}/{plural}")
        } else {
            format!("{root}/namespaces/{}/{plural}", self.namespace)
        }
    }
}

fn of_role<'a>(role: &'a Value, change: Change, verb: &str) -> Write<'a> {
    let name = role["metadata"]["name"].as_str().unwrap_or_default();
    Write {
        object: role,
        path: format!("{CLUSTER_ROLES}/{name}"),
        subresource: None,
        change,
        right: format!("{verb} clusterroles.rbac.authorization.k8s.io"),
    }
}

/// A right to an object without a namespace is not one in a namespace.
fn cluster_wide(error: Error) -> Error {
    match error {
        Error::Forbidden { message, right, .. } => Error::Forbidden {
            message,
            right: right.split(" in ").next().unwrap_or_default().to_owned(),
            role: None,
        },
        error => error,
    }
}

/// A failed test of a JSON patch comes back as 422 without causes; a change that lost a race as 409.
fn tested(answer: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(Error::Server(status)) if status.code == 409 => Ok(None),
        Err(Error::Server(status))
            if status.code == 422
                && status
                    .details
                    .as_ref()
                    .is_none_or(|details| details.causes.is_empty()) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The smallest merge patch from one object to another.
fn difference(before: &Value, after: &Value) -> Value {
    let (Some(was), Some(now)) = (before.as_object(), after.as_object()) else {
        return after.clone();
    };
    let mut members = Map::new();
    for (name, value) in now {
        match was.get(name) {
            Some(old) if old == value => {}
            Some(old) => {
                members.insert(name.clone(), difference(old, value));
            }
            None => {
                members.insert(name.clone(), value.clone());
            }
        }
    }
    for name in was.keys().filter(|name| !now.contains_key(*name)) {
        members.insert(name.clone(), Value::Null);
    }
    json!(members)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(tested(Ok(Value::Null)).unwrap().is_some());
        assert!(tested(status(409, false)).unwrap().is_none());
        assert!(tested(status(422, false)).unwrap().is_none());
        assert!(tested(status(422, true)).is_err());
        assert!(tested(status(403, false)).is_err());
    }

    #[test]
    fn a_merge_patch_has_what_differs_and_no_more() {
        let before =
            json!({"spec": {"a": 1, "list": [1, 2], "gone": {"x": 1}, "same": {"deep": true}}, "status": {}});
        let after =
            json!({"spec": {"a": 2, "list": [1], "same": {"deep": true}, "new": {"y": 1}}, "status": {}});
        let patch = difference(&before, &after);
        assert_eq!(
            patch,
            json!({"spec": {"a": 2, "list": [1], "gone": null, "new": {"y": 1}}})
        );
        let mut patched = before;
        json_patch::merge(&mut patched, &patch);
        assert_eq!(patched, after);
    }
}
