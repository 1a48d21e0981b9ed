//! Writes. This is the only place that sends one, so what holds here holds for every command.

use json_patch::Patch as JsonPatch;
use kruise_rollout::names;
use kube::api::{ApiResource, Patch, PatchParams};
use kube::core::Request;
use serde_json::{Map, Value, json};

use super::{Cluster, Workload, qualified};
use crate::cli::writing::{DryRun, Writing};
use crate::error::Error;

/// One change of one object, to be sent or shown.
pub(crate) struct Write<'a> {
    /// The object as it was read.
    pub(crate) object: &'a Value,
    /// Path of the object.
    path: String,
    /// `status`, or nothing for the object itself.
    subresource: Option<&'static str>,
    /// What is changed, with tests.
    patch: JsonPatch,
    /// What a caller must be allowed to.
    right: String,
}

impl Write<'_> {
    /// The request as it would be sent: method and path, type, body.
    pub(crate) fn request(&self, field_manager: &str) -> String {
        let subresource = self
            .subresource
            .map(|name| format!("/{name}"))
            .unwrap_or_default();
        let body = serde_json::to_string_pretty(&self.patch).unwrap_or_default();
        format!(
            "PATCH {}{subresource}?fieldManager={field_manager}\nContent-Type: application/json-patch+json\n\n{body}",
            self.path
        )
    }

    /// The object as it will be. `None` when a test in the patch fails.
    fn foreseen(&self) -> Option<Value> {
        let mut after = self.object.clone();
        json_patch::patch(&mut after, &self.patch).ok()?;
        Some(after)
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
            patch,
            right: format!("patch rollouts.{}{suffix}", names::GROUP),
        }
    }

    /// A change of a workload.
    pub(crate) fn write_workload<'a>(&self, workload: &'a Workload, patch: JsonPatch) -> Write<'a> {
        Write {
            object: &workload.object,
            path: format!("{}/{}", self.folder(&workload.resource), workload.name),
            subresource: None,
            patch,
            right: format!("patch {}", qualified(&workload.resource)),
        }
    }

    /// Sends a change, unless nothing is to be sent. Returns the object after it; `None` when it is not as it was read any more,
    /// and nothing was written.
    pub(crate) async fn send(&self, write: &Write<'_>, writing: &Writing) -> Result<Option<Value>, Error> {
        if writing.dry_run() == DryRun::Client {
            return Ok(Some(write.foreseen().unwrap_or_else(|| write.object.clone())));
        }
        let patch = Patch::Json::<()>(write.patch.clone());
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

    /// Path of the objects of a resource in the namespace.
    pub(super) fn folder(&self, resource: &ApiResource) -> String {
        let (group, version, plural) = (&resource.group, &resource.version, &resource.plural);
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        format!("{root}/namespaces/{}/{plural}", self.namespace)
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
