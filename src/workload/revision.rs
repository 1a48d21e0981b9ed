//! The objects that stand for the revisions of a workload: ReplicaSets of a Deployment, ControllerRevisions of a DaemonSet.

use jiff::Timestamp;
use serde_json::Value;

use super::template::TemplateId;
use super::{Likeness, Reported, View};
use crate::lens::Field;
use crate::names;

/// The kinds of such objects. Both are in `apps/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RevisionKind {
    /// ReplicaSet, which makes the pods of its revision.
    ReplicaSet,
    /// ControllerRevision, which is a record alone.
    ControllerRevision,
}

impl RevisionKind {
    /// Kind and plural name.
    #[must_use]
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::ReplicaSet => ("ReplicaSet", "replicasets"),
            Self::ControllerRevision => ("ControllerRevision", "controllerrevisions"),
        }
    }

    /// The label by which pods, too, name the revision.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ReplicaSet => names::POD_TEMPLATE_HASH,
            Self::ControllerRevision => names::CONTROLLER_REVISION_HASH,
        }
    }

    /// The identity of a template, of the workload's or of a revision's: without what is put into it when the object is made. What
    /// people have there is put over, and so makes no other revision.
    pub(super) fn template_id(self, template: &Value) -> TemplateId {
        let (at, injected) = match self {
            Self::ReplicaSet => ("/metadata/labels", self.label()),
            // It is stored as a patch that replaces the template.
            Self::ControllerRevision => ("", "$patch"),
        };
        let mut template = template.clone();
        if let Some(members) = template.pointer_mut(at).and_then(Value::as_object_mut) {
            members.remove(injected);
        }
        TemplateId::of(&template)
    }

    fn template(self, object: &Value) -> TemplateId {
        self.template_id(match self {
            Self::ReplicaSet => &object["spec"]["template"],
            Self::ControllerRevision => &object["data"]["spec"]["template"],
        })
    }

    /// Whether a template makes no other revision of the same workload than one that is like it.
    fn is_made_of(self, likeness: Likeness) -> bool {
        match likeness {
            Likeness::Exact => true,
            // A Deployment's controller tells an empty member from a missing one.
            Likeness::Equivalent => self == Self::ControllerRevision,
            Likeness::Different => false,
        }
    }
}

/// One revision of a workload, reduced to what decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// What stands for it.
    pub kind: RevisionKind,
    /// Name of the object.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// UID of its controller owner.
    pub owner: Option<String>,
    /// What the label of [`RevisionKind::label`] says; empty without one.
    pub revision: String,
    /// Identity of the template that it was made of.
    pub template: TemplateId,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Deletion has been asked for.
    pub deleting: bool,
    /// Pods that there should be; 0 of an object that makes none.
    pub replicas: u32,
    /// Pods that there are, those that were asked to leave aside.
    pub existing: u32,
    /// Pods that have been ready for long enough.
    pub available: u32,
    /// The annotation [`names::DESIRED_REPLICAS`], for tests in patches.
    pub desired: Option<String>,
}

impl Revision {
    /// Reads an object. Whatever is missing or malformed reads as none, or zero.
    #[must_use]
    pub fn read(kind: RevisionKind, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let count = |path| Field::<u32>::at(path).peek(object).unwrap_or_default();
        let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Self {
            kind,
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            resource_version: text(&metadata["resourceVersion"]),
            owner: owners
                .find(|owner| owner["controller"] == true)
                .map(|owner| text(&owner["uid"])),
            revision: text(&metadata["labels"][kind.label()]),
            template: kind.template(object),
            created: metadata["creationTimestamp"]
                .as_str()
                .and_then(|at| at.parse().ok()),
            deleting: metadata["deletionTimestamp"].is_string(),
            replicas: count(&["spec", "replicas"]),
            existing: count(&["status", "replicas"]),
            available: count(&["status", "availableReplicas"]),
            desired: metadata["annotations"][names::DESIRED_REPLICAS]
                .as_str()
                .map(str::to_owned),
        }
    }

    /// Whether another state of it differs in nothing but its resource version.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.resource_version.clone_from(&self.resource_version);
        *self == other
    }

    /// Whether it is of this template.
    #[must_use]
    pub fn is_of(&self, template: &TemplateId) -> bool {
        !self.deleting && self.kind.is_made_of(self.template.likeness(template))
    }
}

/// The revision of a template: the one that is the same to the last member, where there is one, and of several the oldest, as
/// Kubernetes itself picks.
#[must_use]
pub fn revision_of<'a>(revisions: &'a [Revision], template: &TemplateId) -> Option<&'a Revision> {
    let of_template = revisions.iter().filter(|revision| revision.is_of(template));
    of_template.min_by_key(|revision| (revision.template != *template, revision.created, &revision.name))
}

/// Fills in what the status of a workload does not say: the revisions of its present and of its stable template. `next` is how the
/// former will be called where it has yet to be made.
///
/// A revision that is the stable one to the last member is not that of a present template that only resembles it, nor the other way
/// round: its own may come yet, or have been forgotten.
#[must_use]
pub fn with_revisions(view: &View, revisions: &[Revision], next: Option<String>) -> Reported {
    let name = |revision: &Revision| Some(revision.revision.clone()).filter(|name| !name.is_empty());
    let of = |template: &TemplateId, other: Option<&TemplateId>| {
        let found = revision_of(revisions, template)?;
        (found.template == *template || Some(&found.template) != other).then_some(found)
    };
    let stable = view.stable();
    let (current, update) = (
        stable.and_then(|stable| of(stable, Some(&view.template))),
        of(&view.template, stable),
    );
    Reported {
        current_revision: current.and_then(name),
        update_revision: update.and_then(name).or(next),
        ..view.reported.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
    }

    #[test]
    fn the_template_of_a_revision_is_that_of_the_workload() {
        let mut of_pods = template("a:v1");
        of_pods["metadata"]["labels"][names::POD_TEMPLATE_HASH] = json!("x1");
        let set = json!({"metadata": {"labels": {names::POD_TEMPLATE_HASH: "x1"}}, "spec": {"replicas": 3, "template": of_pods},
            "status": {"replicas": 2, "availableReplicas": 1}});
        let mut patch = template("a:v1");
        patch["$patch"] = json!("replace");
        let record = json!({"metadata": {"labels": {names::CONTROLLER_REVISION_HASH: "y1"}},
            "data": {"spec": {"template": patch}}});
        let id = TemplateId::of(&template("a:v1"));
        let set = Revision::read(RevisionKind::ReplicaSet, &set);
        assert_eq!((set.replicas, set.existing, set.available), (3, 2, 1));
        let record = Revision::read(RevisionKind::ControllerRevision, &record);
        assert!(set.is_of(&id) && record.is_of(&id));
        assert_eq!((set.revision.as_str(), record.revision.as_str()), ("x1", "y1"));
        assert!(!set.is_of(&TemplateId::of(&template("a:v2"))));
    }

    #[test]
    fn of_several_revisions_of_a_template_the_oldest_counts() {
        let revision = |name: &str, created: &str| {
            let object = json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": {"template": template("a")}});
            Revision::read(RevisionKind::ReplicaSet, &object)
        };
        let all = [
            revision("b", "2026-01-02T00:00:00Z"),
            revision("a", "2026-01-01T00:00:00Z"),
        ];
        let found = revision_of(&all, &TemplateId::of(&template("a")));
        assert_eq!(found.map(|revision| revision.name.as_str()), Some("a"));
    }

    #[test]
    fn of_records_that_differ_in_empty_members_the_same_one_counts() {
        let record = |name: &str, template: &Value| {
            let object = json!({"metadata": {"name": name}, "data": {"spec": {"template": template}}});
            Revision::read(RevisionKind::ControllerRevision, &object)
        };
        let mut other = template("a");
        other["metadata"]["annotations"] = json!({});
        let all = [record("a", &template("a")), record("b", &other)];
        let found =
            |template: &Value| revision_of(&all, &TemplateId::of(template)).map(|found| found.name.as_str());
        assert_eq!((found(&template("a")), found(&other)), (Some("a"), Some("b")));
        other["spec"]["volumes"] = json!([]);
        assert_eq!(found(&other), Some("a"));
    }
}
