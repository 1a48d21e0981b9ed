//! The workload of a Rollout.

use kruise_rollout::api::v1beta1::{Rollout, WorkloadRef};
use kruise_rollout::lens::FieldError;
use kruise_rollout::workload::{GroupKind, View, adapter_for};
use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use serde_json::Value;

use super::kind::guessed;
use super::{Cluster, qualified};
use crate::error::Error;

/// A workload as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// Its resource.
    pub(crate) resource: ApiResource,
    /// Its name.
    pub(crate) name: String,
    /// The object.
    pub(crate) object: Value,
}

impl Workload {
    /// Group and kind.
    pub(crate) fn kind(&self) -> GroupKind {
        GroupKind {
            group: self.resource.group.clone(),
            kind: self.resource.kind.clone(),
        }
    }

    /// As kubectl names it in its answers: `statefulset.apps/web`.
    pub(crate) fn subject(&self) -> String {
        let kind = self.resource.kind.to_lowercase();
        let group = &self.resource.group;
        if group.is_empty() {
            format!("{kind}/{}", self.name)
        } else {
            format!("{kind}.{group}/{}", self.name)
        }
    }

    /// What is read of it; `None` for kinds that are not supported.
    pub(crate) fn view(&self) -> Option<Result<View, FieldError>> {
        adapter_for(&self.kind()).map(|adapter| adapter.view(&self.object))
    }

    /// The selector of its pods, for a list; `None` when it has none.
    pub(super) fn selector(&self) -> Option<String> {
        selector(&self.object["spec"]["selector"])
    }
}

/// The resource in the version that its kind is to be read in.
pub(super) fn readable(resource: &ApiResource) -> ApiResource {
    let kind = GroupKind {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
    };
    let Some(version) = adapter_for(&kind).and_then(|adapter| adapter.version()) else {
        return resource.clone();
    };
    let gvk = GroupVersionKind::gvk(&resource.group, version, &resource.kind);
    ApiResource::from_gvk_with_plural(&gvk, &resource.plural)
}

/// A label selector in the form that the API server takes in a query.
fn selector(selector: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut terms = Vec::new();
    for (name, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{name}={}", value.as_str()?));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"])?;
        let values: Vec<_> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(text)
            .collect();
        let values = values.join(",");
        terms.push(match expression["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key,
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!terms.is_empty()).then(|| terms.join(","))
}

impl Cluster {
    /// The workload that a Rollout names; `None` when it or its kind is not there.
    ///
    /// The resource is taken by its usual plural first. A server that has no such resource says 404, or 403 to those who may not
    /// use everything: then it is asked for the right name.
    pub(crate) async fn workload_of(&self, reference: &WorkloadRef) -> Result<Option<Workload>, Error> {
        let Some(guess) = guessed(reference) else {
            return Ok(None);
        };
        match self.workload(&guess, &reference.name).await {
            Ok(Some(workload)) => Ok(Some(workload)),
            first => match self.discovered(reference).await? {
                Some(resource) if resource != guess => self.workload(&resource, &reference.name).await,
                _ => first,
            },
        }
    }

    /// The workload of a Rollout, which must be there.
    pub(crate) async fn existing_workload(&self, rollout: &Rollout) -> Result<Workload, Error> {
        let reference = &rollout.spec.workload_ref;
        self.workload_of(reference).await?.ok_or_else(|| Error::NotFound {
            resource: reference.kind.clone(),
            name: reference.name.clone(),
            namespace: self.namespace.clone(),
            close: Vec::new(),
        })
    }

    /// An object of a resource, in the version that its kind is to be read in; `None` when it is not there.
    pub(crate) async fn workload(
        &self,
        resource: &ApiResource,
        name: &str,
    ) -> Result<Option<Workload>, Error> {
        let readable = readable(resource);
        match self.workload_as(&readable, name).await? {
            None if readable != *resource => self.workload_as(resource, name).await,
            found => Ok(found),
        }
    }

    async fn workload_as(&self, resource: &ApiResource, name: &str) -> Result<Option<Workload>, Error> {
        let right = format!("get {}", qualified(resource));
        match self.get_json(&right, &self.folder(resource), name).await {
            Ok(object) => Ok(Some(Workload {
                resource: resource.clone(),
                name: name.to_owned(),
                object,
            })),
            Err(Error::Server(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_clone_set_is_read_in_its_older_version() {
        let of = |kind| ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", kind));
        let read = readable(&of("CloneSet"));
        assert_eq!(
            (read.api_version.as_str(), read.plural.as_str()),
            ("apps.kruise.io/v1alpha1", "clonesets")
        );
        for kind in ["StatefulSet", "DaemonSet"] {
            assert_eq!(readable(&of(kind)), of(kind));
        }
    }

    #[test]
    fn selectors() {
        assert_eq!(
            selector(&json!({"matchLabels": {"app": "a", "tier": "b"}})).as_deref(),
            Some("app=a,tier=b")
        );
        let expressions = json!({"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}]});
        assert_eq!(selector(&expressions).as_deref(), Some("app in (a,b),!old"));
        assert_eq!(selector(&Value::Null), None);
        assert_eq!(
            selector(&json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})),
            None
        );
        // A ReplicationController's selector is a plain map; it selects nothing here, and the whole namespace is looked through.
        assert_eq!(selector(&json!({"app": "a"})), None);
    }
}
