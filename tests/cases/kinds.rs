//! Custom kinds of a case's own, so that definition, operator and rights can be broken without touching other cases.

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use support::{Identity, Installation, Process, eventually};

use crate::scene::SOON;

/// A kind of group `example.io` that nobody else uses.
pub struct OwnKind {
    pub resource: ApiResource,
    arguments: [String; 4],
}

impl OwnKind {
    /// Names a kind; nothing exists yet.
    pub fn new(kind: &str) -> Self {
        let plural = format!("{}s", kind.to_lowercase());
        let gvk = GroupVersionKind::gvk("example.io", "v1", kind);
        Self {
            resource: ApiResource::from_gvk_with_plural(&gvk, &plural),
            arguments: [
                "--kind".to_owned(),
                kind.to_owned(),
                "--plural".to_owned(),
                plural,
            ],
        }
    }

    /// Applies its definition, with further arguments of the operator's `crd`, and waits until it is served.
    pub async fn define(&self, installation: &Installation<'_>, schema: &[&str]) {
        installation.define(&self.with(schema)).await.unwrap();
        let admin = installation
            .control_plane()
            .client(Identity::Admin)
            .await
            .unwrap();
        let api: Api<DynamicObject> = Api::all_with(admin, &self.resource);
        eventually(SOON, "the kind is served", async || {
            api.list(&ListParams::default()).await.map(drop)
        })
        .await;
    }

    /// Lets the controller govern it.
    pub async fn enable(&self, installation: &Installation<'_>) {
        let (group, plural) = (&self.resource.group, &self.resource.plural);
        installation.enable_kind(group, plural).await.unwrap();
    }

    /// Runs an operator for it, with further arguments of `run`, until dropped.
    pub fn operate(&self, installation: &Installation<'_>, options: &[&str]) -> Process {
        installation.run_operator(&self.with(options)).unwrap()
    }

    fn with<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.arguments
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect()
    }
}
