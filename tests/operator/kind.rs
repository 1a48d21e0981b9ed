//! The custom kind that is operated, as data, so that one program serves any CRD of this shape.

use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use crate::kruise::Kruise;
use crate::pod::short;
use crate::revision::fnv;

/// Label that names a pod's revision, as the built-in kinds have it.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";

/// Label that names the hash of a pod's revision, as CloneSet has it beside the other one.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Longest value that a label may have.
const LABEL_VALUE_LENGTH: usize = 63;

/// Names of the kind, as given on the command line.
#[derive(Args, Clone, Debug)]
pub(crate) struct KindArgs {
    /// Group and version of the kind
    #[arg(long, default_value = "example.io/v1", value_parser = group_version, value_name = "GROUP/VERSION")]
    api_version: (String, String),

    /// Name of the kind
    #[arg(long, default_value = "MyStatefulApp")]
    kind: String,

    /// Plural of the kind, as in the URL
    #[arg(long, default_value = "mystatefulapps")]
    plural: String,

    /// Stand in for the controller of this kind of OpenKruise instead
    #[arg(long, value_name = "PLURAL", conflicts_with_all = ["api_version", "kind", "plural"])]
    pub(crate) openkruise: Option<Kruise>,
}

fn group_version(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((group, version)) if !group.is_empty() && !version.is_empty() => {
            Ok((group.to_owned(), version.to_owned()))
        }
        _ => Err("a custom kind has a group and a version, as in example.io/v1".to_owned()),
    }
}

/// A namespaced custom kind and the labels that its operator writes.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    /// Label of pods and revisions whose value is the app's name.
    pub(crate) name_label: String,
    /// Label of pods whose value is the ordinal.
    pub(crate) index_label: String,
    /// Label of pods that names the revision they were made from.
    pub(crate) revision_label: String,
    /// Annotation of the revision that is the current one, for when the status may not say it.
    pub(crate) current_annotation: String,
    /// The kind of OpenKruise that it is, unless it is a custom kind.
    pub(crate) kruise: Option<Kruise>,
}

impl From<KindArgs> for Kind {
    fn from(args: KindArgs) -> Self {
        let ((group, version), kind, plural) = match args.openkruise {
            Some(kruise) => kruise.names(),
            None => (args.api_version, args.kind, args.plural),
        };
        Kind {
            name_label: format!("app.{group}/name"),
            index_label: format!("app.{group}/pod-index"),
            revision_label: REVISION_LABEL.to_owned(),
            current_annotation: format!("app.{group}/current"),
            resource: ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk(&group, &version, &kind),
                &plural,
            ),
            kruise: args.openkruise,
        }
    }
}

impl Kind {
    /// The app that an object belongs to: the one that controls it, else the one its label names (an orphan).
    pub(crate) fn owner_of(&self, object: &ObjectMeta) -> Option<(AppKey, Owner)> {
        let namespace = object.namespace.clone()?;
        let references = object.owner_references.as_deref().unwrap_or_default();
        if let Some(owner) = references.iter().find(|r| r.controller == Some(true)) {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let ours = group == self.resource.group && owner.kind == self.resource.kind;
            return ours.then(|| {
                let key = AppKey {
                    namespace,
                    name: owner.name.clone(),
                };
                (key, Owner::App(owner.uid.clone()))
            });
        }
        let name = object.labels.as_ref()?.get(&self.name_label)?.clone();
        Some((AppKey { namespace, name }, Owner::Nobody))
    }

    /// The labels by which pods of a revision are found.
    pub(crate) fn revision_labels(&self, revision: &str) -> Vec<(String, Value)> {
        let of = |key: &str, value: &str| (key.to_owned(), value.into());
        match self.kruise {
            Some(Kruise::Clonesets) => vec![
                of(&self.revision_label, revision),
                of(POD_TEMPLATE_HASH, short(revision)),
            ],
            Some(Kruise::Daemonsets) => vec![of(&self.revision_label, short(revision))],
            Some(Kruise::Statefulsets) | None => vec![of(&self.revision_label, revision)],
        }
    }

    /// The controller reference from an app to its pods and revisions.
    pub(crate) fn controller_reference(&self, name: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: self.resource.api_version.clone(),
            kind: self.resource.kind.clone(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// Where an app is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AppKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Who controls a pod or a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An app of this uid. It may be an earlier one of the same name.
    App(String),
    /// No controller at all.
    Nobody,
}

/// The app's name as a label value: itself, or shortened and made unique when it is too long for one.
pub(crate) fn label_value(name: &str) -> String {
    if name.len() <= LABEL_VALUE_LENGTH {
        return name.to_owned();
    }
    format!(
        "{}-{:08x}",
        &name[..LABEL_VALUE_LENGTH - 9],
        fnv(name.as_bytes(), 0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_becomes_a_valid_and_distinct_label() {
        let long = "a".repeat(100);
        assert_eq!(label_value("my-app"), "my-app");
        assert_eq!(label_value(&long).len(), LABEL_VALUE_LENGTH);
        assert_ne!(label_value(&long), label_value(&"a".repeat(101)));
    }

    #[test]
    fn a_group_is_required() {
        assert!(group_version("v1").is_err());
        assert_eq!(
            group_version("example.io/v1"),
            Ok(("example.io".to_owned(), "v1".to_owned()))
        );
    }
}
