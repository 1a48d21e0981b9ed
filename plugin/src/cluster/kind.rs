//! Finding the resource of a kind, or of a word that somebody typed.

use kruise_rollout::api::v1beta1::WorkloadRef;
use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use serde_json::Value;

use super::Cluster;
use crate::error::Error;

/// A resource from its reference, by the usual plural; no request is needed when it is right.
pub(super) fn guessed(reference: &WorkloadRef) -> Option<ApiResource> {
    let (group, version) = reference.group_version()?;
    Some(ApiResource::from_gvk(&GroupVersionKind::gvk(
        group,
        version,
        &reference.kind,
    )))
}

impl Cluster {
    /// The resource of a reference, as the server names it; `None` when it serves no such kind.
    pub(super) async fn discovered(&self, reference: &WorkloadRef) -> Result<Option<ApiResource>, Error> {
        let Some((group, version)) = reference.group_version() else {
            return Ok(None);
        };
        let resources = self.resources(group, version).await?;
        Ok(resources
            .into_iter()
            .find(|resource| resource.api.kind == reference.kind)
            .map(|resource| resource.api))
    }

    /// The resource that a typed word means: plural, singular, short name or kind, in a group where one is given.
    ///
    /// # Errors
    /// No such type.
    pub(crate) async fn resource(&self, word: &str, group: Option<&str>) -> Result<ApiResource, Error> {
        let typed = || group.map_or_else(|| word.to_owned(), |group| format!("{word}.{group}"));
        let found = match group {
            None => self.anywhere(word).await?,
            Some("") => None,
            Some(group) => match self.in_group(word, group).await? {
                Some(found) => Some(found),
                // TYPE.VERSION.GROUP
                None => match group.split_once('.') {
                    Some((version, group)) => self.named(word, group, version).await?,
                    None => None,
                },
            },
        };
        found.ok_or_else(|| Error::NoType(typed()))
    }

    /// In a group, in the server's order of preference: a kind may be served in another version than most of its group.
    async fn in_group(&self, word: &str, group: &str) -> Result<Option<ApiResource>, Error> {
        let answer = match self.get_json("", "/apis", group).await {
            Ok(answer) => answer,
            Err(Error::Server(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error),
        };
        let versions = answer["versions"].as_array().into_iter().flatten();
        for version in versions.filter_map(|version| version["version"].as_str()) {
            if let Some(found) = self.named(word, group, version).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn named(&self, word: &str, group: &str, version: &str) -> Result<Option<ApiResource>, Error> {
        let resources = self.resources(group, version).await?;
        Ok(resources
            .into_iter()
            .find(|resource| resource.is_called(word))
            .map(|resource| resource.api))
    }

    /// In all groups and their versions, in the server's order of preference: what is namespaced. One request.
    async fn anywhere(&self, word: &str) -> Result<Option<ApiResource>, Error> {
        let groups = self.call("", self.client.list_api_groups_aggregated()).await?;
        for group in groups.items {
            let name = group
                .metadata
                .and_then(|metadata| metadata.name)
                .unwrap_or_default();
            for served in group.versions {
                let version = served.version.unwrap_or_default();
                let namespaced = served
                    .resources
                    .into_iter()
                    .filter(|resource| resource.scope.as_deref() == Some("Namespaced"));
                for resource in namespaced {
                    let kind = resource
                        .response_kind
                        .and_then(|kind| kind.kind)
                        .unwrap_or_default();
                    let plural = resource.resource.unwrap_or_default();
                    let named = Named {
                        singular: resource.singular_resource.unwrap_or_default(),
                        short: resource.short_names,
                        api: ApiResource::from_gvk_with_plural(
                            &GroupVersionKind::gvk(&name, &version, &kind),
                            &plural,
                        ),
                    };
                    if named.is_called(word) {
                        return Ok(Some(named.api));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The namespaced resources of a group and version; none when it is not served.
    async fn resources(&self, group: &str, version: &str) -> Result<Vec<Named>, Error> {
        let folder = if group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{group}")
        };
        let answer = match self.get_json("", &folder, version).await {
            Ok(answer) => answer,
            Err(Error::Server(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resources = answer["resources"].as_array().into_iter().flatten();
        Ok(resources
            .filter(|resource| resource["namespaced"] == true && !text(&resource["name"]).contains('/'))
            .map(|resource| Named {
                singular: text(&resource["singularName"]),
                short: resource["shortNames"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(text)
                    .collect(),
                api: ApiResource::from_gvk_with_plural(
                    &GroupVersionKind::gvk(group, version, &text(&resource["kind"])),
                    &text(&resource["name"]),
                ),
            })
            .collect())
    }
}

/// A resource with the names that it may be called by.
struct Named {
    singular: String,
    short: Vec<String>,
    api: ApiResource,
}

impl Named {
    fn is_called(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        word == self.api.plural
            || word == self.singular
            || word == self.api.kind.to_lowercase()
            || self.short.contains(&word)
    }
}
