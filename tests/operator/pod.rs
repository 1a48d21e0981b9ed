//! Pods: what is observed of one, and the object that is created.

use k8s_openapi::api::core::v1 as core;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::kind::{Kind, Owner, label_value};
use crate::kruise::in_place;
use crate::observed::Observable;
use crate::revision::Revision;

/// Longest host name.
const HOSTNAME_LENGTH: usize = 63;

/// What the operator needs to know about a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) owner: Owner,
    /// Name of the revision it was made from.
    pub(crate) revision: Option<String>,
    /// Phase Failed or Succeeded: it will never run again.
    pub(crate) finished: bool,
    /// Running, with condition Ready.
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    /// Its gate for updates in place has to be opened.
    pub(crate) gate_is_due: bool,
    /// The node that it is bound to.
    pub(crate) node: Option<String>,
}

impl Pod {
    /// Ready, and meant to stay.
    pub(crate) fn available(&self) -> bool {
        self.ready && !self.terminating
    }

    /// Whether it was made from a revision. Its label has the name, or only the hash at the end of it.
    pub(crate) fn runs(&self, revision: &str) -> bool {
        let label = self.revision.as_deref();
        label == Some(revision) || label == Some(short(revision))
    }

    /// The ordinal, if the name is one that the app gives.
    pub(crate) fn ordinal(&self, app: &str) -> Option<u32> {
        let digits = self.name.strip_prefix(app)?.strip_prefix('-')?;
        let ordinal: u32 = digits.parse().ok()?;
        (ordinal.to_string() == digits).then_some(ordinal)
    }
}

impl Observable for Pod {
    type Object = core::Pod;

    fn view(kind: &Kind, owner: Owner, object: core::Pod) -> Option<Self> {
        let status = object.status.as_ref();
        let phase = status
            .and_then(|status| status.phase.as_deref())
            .unwrap_or_default();
        let conditions = status
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default();
        let condition = conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        Some(Pod {
            revision: object.labels().get(&kind.revision_label).cloned(),
            finished: matches!(phase, "Failed" | "Succeeded"),
            ready: phase == "Running" && condition,
            terminating: object.metadata.deletion_timestamp.is_some(),
            gate_is_due: in_place::gate_is_due(&object),
            node: object.spec.and_then(|spec| spec.node_name),
            name: object.metadata.name?,
            uid: object.metadata.uid?,
            owner,
        })
    }
}

/// The hash at the end of a revision's name.
pub(crate) fn short(revision: &str) -> &str {
    revision.rsplit('-').next().unwrap_or(revision)
}

/// Name of the pod with this ordinal.
pub(crate) fn name(app: &str, ordinal: u32) -> String {
    format!("{app}-{ordinal}")
}

/// The pod of an ordinal at a revision.
pub(crate) fn manifest(kind: &Kind, app: &App, ordinal: u32, revision: &Revision) -> Value {
    let name = name(&app.name, ordinal);
    let mut pod = from_template(kind, app, revision);
    pod["metadata"]["labels"][&kind.index_label] = ordinal.to_string().into();
    let hostname = &mut pod["spec"]["hostname"];
    if hostname.is_null() && name.len() <= HOSTNAME_LENGTH {
        *hostname = name.clone().into();
    }
    pod["metadata"]["name"] = name.into();
    pod
}

/// One more pod at a revision, bound to a node or to none.
pub(crate) fn addition(kind: &Kind, app: &App, node: Option<&str>, revision: &Revision) -> Value {
    let mut pod = from_template(kind, app, revision);
    pod["metadata"]["generateName"] = format!("{}-", app.name).into();
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// A pod without a name. It stays JSON, so that fields which this program does not know are kept.
fn from_template(kind: &Kind, app: &App, revision: &Revision) -> Value {
    let template = &revision.template;
    let mut labels = members(template, "/metadata/labels");
    labels.insert(kind.name_label.clone(), label_value(&app.name).into());
    labels.extend(kind.revision_labels(&revision.name));
    let metadata = ObjectMeta {
        namespace: Some(app.namespace.clone()),
        owner_references: Some(vec![kind.controller_reference(&app.name, &app.uid)]),
        ..ObjectMeta::default()
    };
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    pod["metadata"]["labels"] = labels.into();
    pod["metadata"]["annotations"] = members(template, "/metadata/annotations").into();
    pod["spec"] = members(template, "/spec").into();
    pod
}

fn members(template: &Value, pointer: &str) -> Map<String, Value> {
    template
        .pointer(pointer)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::app;
    use crate::revision::tests::revision;

    fn pod(name: &str) -> Pod {
        Pod {
            name: name.to_owned(),
            uid: String::new(),
            owner: Owner::Nobody,
            revision: None,
            finished: false,
            ready: true,
            terminating: false,
            gate_is_due: false,
            node: None,
        }
    }

    #[test]
    fn ordinals_are_read_from_names_that_the_app_gives() {
        for (name, ordinal) in [
            ("my-app-0", Some(0)),
            ("my-app-12", Some(12)),
            ("my-app-012", None),
            ("my-app-+1", None),
            ("my-app", None),
            ("my-app-x-1", None),
            ("other-1", None),
        ] {
            assert_eq!(pod(name).ordinal("my-app"), ordinal, "{name}");
        }
    }

    #[test]
    fn a_pod_carries_the_template_and_the_marks_of_its_owner() {
        let kind = crate::plan::tests::kind();
        let template = json!({
            "metadata": {"labels": {"app": "my-app"}, "annotations": {"note": "x"}},
            "spec": {"containers": [{"name": "app", "image": "app:v1", "aFieldOfTomorrow": 1}]},
        });
        let made = manifest(&kind, &app(5, 0), 4, &revision("my-app-abc", 1, template));
        assert_eq!(made["metadata"]["name"], "my-app-4");
        assert_eq!(
            made["metadata"]["labels"],
            json!({
                "app": "my-app",
                "app.example.io/name": "my-app",
                "app.example.io/pod-index": "4",
                "controller-revision-hash": "my-app-abc",
            })
        );
        assert_eq!(made["metadata"]["annotations"], json!({"note": "x"}));
        assert_eq!(made["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(made["spec"]["containers"][0]["aFieldOfTomorrow"], 1);
        assert_eq!(made["spec"]["hostname"], "my-app-4");
    }
}
