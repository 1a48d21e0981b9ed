use std::fmt;

use serde_json::Value;

use crate::names;
use crate::workload::{GroupKind, Likeness, TemplateId};

/// Fewer letters are a number that is no longer there, rather than the beginning of a hash.
const SHORTEST_HASH: usize = 4;

/// Whether the text stands for a hash: how it begins, with at least four letters.
pub(crate) fn abbreviates(text: &str, hash: &str) -> bool {
    text.len() >= SHORTEST_HASH && hash.starts_with(text)
}

/// Where an earlier template was found. They are looked through in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// ReplicaSets that a Deployment owns.
    ReplicaSets,
    /// ControllerRevisions that the workload owns: the operator's own history.
    Revisions,
    /// ControllerRevisions that the Rollout owns: what its controller recorded, word for word.
    Records,
    /// A manifest.
    File,
}

impl Source {
    /// The sources that workloads of this kind have, in the order in which they count.
    #[must_use]
    pub fn of(kind: &GroupKind) -> &'static [Self] {
        if kind.group == "apps" && kind.kind == "Deployment" {
            &[Self::ReplicaSets, Self::Revisions, Self::Records]
        } else {
            &[Self::Revisions, Self::Records]
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReplicaSets => "ReplicaSets of the workload",
            Self::Revisions => "ControllerRevisions of the workload",
            Self::Records => "templates recorded for the Rollout",
            Self::File => "the file",
        })
    }
}

/// An earlier template.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where it was found.
    pub source: Source,
    /// Its number there; larger is later. Numbers of different sources have nothing to do with each other.
    pub number: Option<i64>,
    /// Name of the object, or of the file.
    pub name: String,
    /// Identity of the template.
    pub id: TemplateId,
    /// The value of `spec.template`.
    pub template: Value,
}

impl Record {
    fn new(source: Source, number: Option<i64>, name: &Value, template: Value) -> Self {
        Self {
            source,
            number,
            name: name.as_str().unwrap_or_default().to_owned(),
            // Computed, not read: an annotation that somebody changed must not lead to another template.
            id: TemplateId::of(&template),
            template,
        }
    }

    /// Reads a ReplicaSet that the Deployment with this UID owns; `None` for others.
    #[must_use]
    pub fn of_replica_set(object: &Value, workload_uid: &str) -> Option<Self> {
        let metadata = owned(object, workload_uid)?;
        let number = metadata["annotations"][names::DEPLOYMENT_REVISION].as_str();
        let template = object["spec"].get("template").filter(|t| t.is_object())?;
        Some(Self::new(
            Source::ReplicaSets,
            number.and_then(|number| number.parse().ok()),
            &metadata["name"],
            plain(template),
        ))
    }

    /// Reads a ControllerRevision that the workload with this UID owns; `None` for others and for those that hold no template in
    /// the usual place, `data.spec.template`.
    #[must_use]
    pub fn of_revision(object: &Value, workload_uid: &str) -> Option<Self> {
        let metadata = owned(object, workload_uid)?;
        let template = object.pointer("/data/spec/template").filter(|t| t.is_object())?;
        Some(Self::new(
            Source::Revisions,
            object["revision"].as_i64(),
            &metadata["name"],
            plain(template),
        ))
    }

    /// Reads a ControllerRevision that the Rollout with this UID owns; `None` for others and for those that hold no template.
    #[must_use]
    pub fn of_rollout(object: &Value, rollout_uid: &str) -> Option<Self> {
        let metadata = owned(object, rollout_uid)?;
        let template = object["data"].get("template").filter(|t| t.is_object())?;
        Some(Self::new(
            Source::Records,
            object["revision"].as_i64(),
            &metadata["name"],
            template.clone(),
        ))
    }

    /// Takes the template from a manifest of this workload; `None` when it is one of something else.
    #[must_use]
    pub fn of_manifest(manifest: &Value, kind: &GroupKind, name: &str, file: &str) -> Option<Self> {
        let version = manifest["apiVersion"].as_str()?;
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let is = group == kind.group && manifest["kind"] == kind.kind && manifest["metadata"]["name"] == name;
        let template = manifest["spec"].get("template").filter(|t| is && t.is_object())?;
        Some(Self::new(
            Source::File,
            None,
            &Value::from(file),
            template.clone(),
        ))
    }

    /// Whether it is the same template, but for what makes no difference.
    pub(super) fn is(&self, id: &TemplateId) -> bool {
        self.id.likeness(id) != Likeness::Different
    }

    /// Whether it may be called so: the object's name, or what [`abbreviates`] the hash at its end or the template's identity.
    pub(super) fn is_called(&self, text: &str) -> bool {
        let hash = self.name.rsplit('-').next().unwrap_or_default();
        self.name == text || abbreviates(text, hash) || abbreviates(text, &self.id.to_string())
    }
}

/// The members of an object's metadata, if it has this owner.
fn owned<'a>(object: &'a Value, uid: &str) -> Option<&'a Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["uid"] == uid)?;
    Some(&object["metadata"])
}

/// The template without what operators put into their records.
fn plain(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(members) = template.as_object_mut() {
        // Of strategic merge patches, which is what these records are.
        members.remove("$patch");
    }
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(names::POD_TEMPLATE_HASH);
        labels.remove(names::CONTROLLER_REVISION_HASH);
    }
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut)
        && metadata.get("creationTimestamp") == Some(&Value::Null)
    {
        metadata.remove("creationTimestamp");
    }
    template
}

/// Everything that was looked through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// What was found, of all sources.
    pub records: Vec<Record>,
    /// The sources, and why one could not be read.
    pub sources: Vec<(Source, Option<String>)>,
}

impl Search {
    /// The records of one source, the latest first; those without a number last.
    pub(super) fn of(&self, source: Source) -> Vec<&Record> {
        let mut records: Vec<_> = self.records.iter().filter(|r| r.source == source).collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.number));
        records
    }

    /// The source whose numbers count: the first that has any.
    pub(super) fn numbering(&self) -> Option<Source> {
        let numbered = self.records.iter().filter(|record| record.number.is_some());
        numbered.map(|record| record.source).min()
    }
}

/// What was looked through, for a person.
impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (source, unreadable)) in self.sources.iter().enumerate() {
            let separator = if place == 0 { "looked at " } else { ", " };
            write!(f, "{separator}{source} (")?;
            let records = self.of(*source);
            let mut numbers: Vec<_> = records.iter().filter_map(|record| record.number).collect();
            numbers.reverse();
            let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            match (unreadable, records.len()) {
                (Some(why), _) => write!(f, "{why})")?,
                (None, 0) => write!(f, "none)")?,
                (None, _) if Some(*source) == self.numbering() => write!(f, "{})", numbers.join(", "))?,
                (None, count) => write!(f, "{count})")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}})
    }

    fn object(owner: &str, more: &Value) -> Value {
        let mut object = json!({"metadata": {"name": "web-5c9b", "ownerReferences": [{"uid": owner}]}});
        for (name, value) in more.as_object().unwrap() {
            object[name] = value.clone();
        }
        object
    }

    #[test]
    fn a_replica_set_is_read_without_its_hash() {
        let mut dressed = template();
        dressed["metadata"]["labels"]["pod-template-hash"] = json!("5c9b");
        dressed["metadata"]["creationTimestamp"] = Value::Null;
        let mut set = object("w", &json!({"spec": {"template": dressed}}));
        set["metadata"]["annotations"] = json!({names::DEPLOYMENT_REVISION: "4"});
        let record = Record::of_replica_set(&set, "w").unwrap();
        assert_eq!((record.number, record.template), (Some(4), template()));
        assert_eq!(Record::of_replica_set(&set, "other"), None);
    }

    #[test]
    fn a_revision_is_read_without_its_directive() {
        let mut dressed = template();
        dressed["$patch"] = json!("replace");
        let more = json!({"revision": 3, "data": {"spec": {"template": dressed}}});
        let record = Record::of_revision(&object("w", &more), "w").unwrap();
        assert_eq!((record.number, record.template.clone()), (Some(3), template()));
        assert!(record.is_called("web-5c9b") && record.is_called("5c9b") && !record.is_called("5c"));
    }

    #[test]
    fn records_of_others_and_of_other_shapes_are_left_alone() {
        let of = |owner: &str, data: Value| object(owner, &json!({"revision": 1, "data": data}));
        assert_eq!(
            Record::of_rollout(&of("other", json!({"template": {}})), "r"),
            None
        );
        assert_eq!(
            Record::of_rollout(&of("r", json!({"spec": {"template": {}}})), "r"),
            None
        );
        assert_eq!(Record::of_revision(&of("w", json!({"template": {}})), "w"), None);
        let orphan = json!({"metadata": {}, "revision": 1, "data": {"template": {}}});
        assert_eq!(Record::of_rollout(&orphan, "r"), None);
    }

    #[test]
    fn a_manifest_is_the_workloads_own() {
        let kind = GroupKind {
            group: "example.io".to_owned(),
            kind: "MyStatefulApp".to_owned(),
        };
        let manifest = json!({"apiVersion": "example.io/v2", "kind": "MyStatefulApp", "metadata": {"name": "web"},
            "spec": {"template": template()}});
        let record = Record::of_manifest(&manifest, &kind, "web", "web.yaml").unwrap();
        assert_eq!((record.name.as_str(), record.template), ("web.yaml", template()));
        assert_eq!(Record::of_manifest(&manifest, &kind, "shop", "web.yaml"), None);
        for (member, value) in [
            ("kind", json!("Other")),
            ("apiVersion", json!("v1")),
            ("spec", json!({})),
        ] {
            let mut other = manifest.clone();
            other[member] = value;
            assert_eq!(
                Record::of_manifest(&other, &kind, "web", "web.yaml"),
                None,
                "{member}"
            );
        }
    }

    #[test]
    fn what_was_looked_at_is_told() {
        let record = |source, number: i64| Record {
            number: Some(number),
            ..Record::new(source, None, &Value::Null, template())
        };
        let search = Search {
            records: vec![
                record(Source::Records, 9),
                record(Source::Revisions, 3),
                record(Source::Revisions, 1),
            ],
            sources: vec![
                (
                    Source::ReplicaSets,
                    Some("you may not list replicasets.apps".to_owned()),
                ),
                (Source::Revisions, None),
                (Source::Records, None),
                (Source::File, None),
            ],
        };
        assert_eq!(
            search.to_string(),
            "looked at ReplicaSets of the workload (you may not list replicasets.apps), ControllerRevisions of the workload \
             (1, 3), templates recorded for the Rollout (1), the file (none)"
        );
    }
}
