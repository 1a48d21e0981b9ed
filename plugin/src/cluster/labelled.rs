//! Workloads with the workload-type label, of every kind that may have it.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::diagnosis::{Labelled, Looked};
use kruise_rollout::names;
use kruise_rollout::workload::{GroupKind, adapter_for};
use kube::api::ApiResource;
use serde_json::Value;

use super::look::Place;
use super::{Cluster, qualified};
use crate::error::Error;

/// Kinds that are listed at a time.
const AT_ONCE: usize = 8;

impl Cluster {
    /// The labelled workloads of a namespace, or of all; and what may not be listed.
    pub(crate) async fn labelled(
        &self,
        everywhere: bool,
        rollouts: &[Rollout],
    ) -> Result<(Vec<Labelled>, Vec<String>), Error> {
        let kinds = self.candidates(rollouts).await?;
        let lists = stream::iter(kinds.into_iter().map(|kind| self.labelled_of(kind, everywhere)));
        let lists: Vec<_> = lists.buffered(AT_ONCE).try_collect().await?;
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for list in lists {
            match list {
                Looked::Seen(list) => found.extend(list),
                Looked::Forbidden(right) => refused.push(right),
                Looked::Failed(_) | Looked::Not => {}
            }
        }
        Ok((found, refused))
    }

    async fn labelled_of(
        &self,
        resource: ApiResource,
        everywhere: bool,
    ) -> Result<Looked<Vec<Labelled>>, Error> {
        let kind = GroupKind {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
        };
        let labelled = |object| Labelled {
            kind: kind.clone(),
            plural: resource.plural.clone(),
            object,
        };
        let found = self
            .objects_of(&resource, everywhere, Some(names::WORKLOAD_TYPE))
            .await?;
        Ok(found.map(|list| list.into_iter().map(labelled).collect()))
    }

    /// The kinds that may have the label: those that are known by name, those that Rollouts name, and those that can be scaled.
    async fn candidates(&self, rollouts: &[Rollout]) -> Result<Vec<ApiResource>, Error> {
        let named: BTreeSet<(String, String)> = rollouts
            .iter()
            .filter_map(|rollout| {
                let reference = &rollout.spec.workload_ref;
                Some((reference.group_version()?.0.to_owned(), reference.kind.clone()))
            })
            .collect();
        let groups = self.call("", self.client.list_api_groups_aggregated()).await?;
        let mut found = Vec::new();
        for group in groups.items {
            let name = group
                .metadata
                .and_then(|metadata| metadata.name)
                .unwrap_or_default();
            let Some(version) = group.versions.into_iter().next() else {
                continue;
            };
            let version_name = version.version.unwrap_or_default();
            for resource in version.resources {
                let kind = resource
                    .response_kind
                    .and_then(|kind| kind.kind)
                    .unwrap_or_default();
                let group_kind = GroupKind {
                    group: name.clone(),
                    kind: kind.clone(),
                };
                let scales = resource
                    .subresources
                    .iter()
                    .any(|sub| sub.subresource.as_deref() == Some("scale"));
                let wanted =
                    scales || !group_kind.is_custom() || named.contains(&(name.clone(), kind.clone()));
                let namespaced = resource.scope.as_deref() == Some("Namespaced");
                let lists = resource.verbs.iter().any(|verb| verb == "list");
                if wanted && namespaced && lists && adapter_for(&group_kind).is_some() {
                    let gvk = kube::core::GroupVersionKind::gvk(&name, &version_name, &kind);
                    let plural = resource.resource.unwrap_or_default();
                    found.push(ApiResource::from_gvk_with_plural(&gvk, &plural));
                }
            }
        }
        Ok(found)
    }

    /// Every Rollout of the namespace, or of all.
    pub(crate) async fn all_rollouts(&self, everywhere: bool) -> Result<Looked<Vec<Rollout>>, Error> {
        let root = format!("/apis/{}", names::API_VERSION);
        let folder = if everywhere {
            format!("{root}/rollouts")
        } else {
            format!("{root}/namespaces/{}/rollouts", self.namespace)
        };
        let resource = format!("rollouts.{}", names::GROUP);
        let place = Place {
            folder: &folder,
            resource: &resource,
        };
        let read = |object: Value| serde_json::from_value(object).ok();
        let found = self.all(place, None).await?;
        Ok(found.map(|list| list.into_iter().filter_map(read).collect()))
    }

    /// The objects of a resource, in the namespace or in all, with these labels.
    pub(crate) async fn objects_of(
        &self,
        resource: &ApiResource,
        everywhere: bool,
        selector: Option<&str>,
    ) -> Result<Looked<Vec<Value>>, Error> {
        let folder = if everywhere {
            self.everywhere().folder(resource)
        } else {
            self.folder(resource)
        };
        let place = Place {
            folder: &folder,
            resource: &qualified(resource),
        };
        self.all(place, selector).await
    }
}
