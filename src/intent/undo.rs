use json_patch::{Patch, PatchOperation, ReplaceOperation, TestOperation};
use serde_json::{Value, json};

use super::Refusal;
use crate::lens::pointer;
use crate::workload::{Likeness, TemplateId, View};

/// A template that the controller recorded: a ControllerRevision that the Rollout owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Number of the revision; larger is later.
    pub revision: i64,
    /// Identity of the template.
    pub id: TemplateId,
    /// The value of `spec.template`.
    pub template: Value,
}

impl Record {
    /// Reads a ControllerRevision. `None` when the Rollout with this UID does not own it, or when it holds no template.
    #[must_use]
    pub fn read(object: &Value, rollout_uid: &str) -> Option<Self> {
        let owners = object["metadata"]["ownerReferences"].as_array()?;
        owners.iter().find(|owner| owner["uid"] == rollout_uid)?;
        let template = object["data"]
            .get("template")
            .filter(|template| template.is_object())?;
        Some(Self {
            revision: object["revision"].as_i64()?,
            // Computed, not read: an annotation that somebody changed must not lead to another template.
            id: TemplateId::of(template),
            template: template.clone(),
        })
    }
}

/// What undo comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Undo {
    /// The template is the wanted one already.
    Unchanged {
        /// Number of its record, if there is one.
        revision: Option<i64>,
    },
    /// The template is to be replaced.
    Restore {
        /// Number of the record.
        revision: i64,
        /// Whether this ends a release in progress and goes back without steps, rather than starting a release.
        rollback: bool,
        /// For the workload.
        patch: Patch,
    },
}

/// Goes back to a recorded template: to revision `to`; without one, in mid-release to the stable template, and at rest to the
/// newest record that is not the present template.
///
/// # Errors
/// What is missing for it.
pub fn undo(view: &View, records: &[Record], to: Option<i64>) -> Result<Undo, Refusal> {
    let stable = view
        .guard()
        .and_then(|guard| guard.stable.as_ref())
        .filter(|_| view.hold().is_some());
    let record = match (to, stable) {
        (Some(asked), _) => {
            if records.is_empty() {
                return Err(Refusal::NoRecords);
            }
            records
                .iter()
                .find(|record| record.revision == asked)
                .ok_or_else(|| {
                    let mut known: Vec<_> = records.iter().map(|record| record.revision).collect();
                    known.sort_unstable();
                    Refusal::NoRevision { asked, known }
                })?
        }
        (None, Some(stable)) if same(stable, &view.template) => {
            let revision = closest(records, stable).map(|record| record.revision);
            return Ok(Undo::Unchanged { revision });
        }
        (None, Some(stable)) => {
            closest(records, stable).ok_or_else(|| Refusal::StableNotRecorded(stable.to_string()))?
        }
        (None, None) => {
            if records.is_empty() {
                return Err(Refusal::NoRecords);
            }
            let others = records.iter().filter(|record| !same(&record.id, &view.template));
            others
                .max_by_key(|record| record.revision)
                .ok_or(Refusal::NoOther)?
        }
    };
    if same(&record.id, &view.template) {
        return Ok(Undo::Unchanged {
            revision: Some(record.revision),
        });
    }
    Ok(Undo::Restore {
        revision: record.revision,
        rollback: stable.is_some_and(|stable| same(stable, &record.id)),
        patch: patch(view, &record.template),
    })
}

fn same(one: &TemplateId, other: &TemplateId) -> bool {
    one.likeness(other) != Likeness::Different
}

/// The record of a template: the same to the last member if there is one.
fn closest<'a>(records: &'a [Record], id: &TemplateId) -> Option<&'a Record> {
    let alike = records.iter().filter(|record| same(&record.id, id));
    alike.max_by_key(|record| (record.id.likeness(id) == Likeness::Exact, record.revision))
}

/// Replaces the whole template: a merge would leave behind what the later template added.
fn patch(view: &View, template: &Value) -> Patch {
    let test = |path: [&str; 2], value: Value| {
        PatchOperation::Test(TestOperation {
            path: pointer(path),
            value,
        })
    };
    Patch(vec![
        test(["metadata", "uid"], json!(view.uid)),
        test(["metadata", "generation"], json!(view.generation)),
        PatchOperation::Replace(ReplaceOperation {
            path: pointer(["spec", "template"]),
            value: template.clone(),
        }),
    ])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::names;
    use crate::workload::{GroupKind, Guard, adapter_for};

    fn template(version: u32) -> Value {
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": format!("app:v{version}")}]}})
    }

    fn record(revision: i64, version: u32) -> Record {
        let object = json!({"metadata": {"ownerReferences": [{"uid": "r"}]}, "revision": revision,
            "data": {"template": template(version)}});
        Record::read(&object, "r").unwrap()
    }

    fn workload(version: u32, stable: Option<u32>) -> Value {
        let mut object = json!({"metadata": {"uid": "w", "generation": 7, "annotations": {}},
            "spec": {"replicas": 5, "template": template(version)}});
        if let Some(stable) = stable {
            let stable = TemplateId::of(&template(stable));
            object["metadata"]["annotations"] = json!({names::GUARDED_BY: Guard::text("w", "ro", &stable),
                names::IN_PROGRESSING: "{}", names::GRANTED_PARTITION: "4"});
        }
        object
    }

    fn view(object: &Value) -> View {
        let kind = GroupKind {
            group: "example.io".to_owned(),
            kind: "MyStatefulApp".to_owned(),
        };
        adapter_for(&kind).unwrap().view(object).unwrap()
    }

    /// The version after the undo, and whether it is a rollback.
    fn goes_to(object: &Value, records: &[Record], to: Option<i64>) -> Result<Option<(u32, bool)>, Refusal> {
        match undo(&view(object), records, to)? {
            Undo::Unchanged { .. } => Ok(None),
            Undo::Restore { rollback, patch, .. } => {
                let mut after = object.clone();
                json_patch::patch(&mut after, &patch).unwrap();
                let version = (1..9)
                    .find(|version| after["spec"]["template"] == template(*version))
                    .unwrap();
                Ok(Some((version, rollback)))
            }
        }
    }

    #[rstest]
    #[case::at_rest_to_the_newest_other(3, None, None, Ok(Some((2, false))))]
    #[case::at_rest_after_an_older_one_came_back(2, None, None, Ok(Some((3, false))))]
    #[case::in_mid_release_to_the_stable_one(3, Some(1), None, Ok(Some((1, true))))]
    #[case::on_the_way_back_already(1, Some(1), None, Ok(None))]
    #[case::by_number(3, Some(1), Some(20), Ok(Some((2, false))))]
    #[case::by_number_to_the_stable_one(3, Some(1), Some(10), Ok(Some((1, true))))]
    #[case::by_number_to_the_present_one(3, None, Some(30), Ok(None))]
    #[case::unknown_number(3, None, Some(7), Err("no revision 7 is recorded: there are 10, 20, 30"))]
    #[case::stable_not_recorded(
        3,
        Some(4),
        None,
        Err("is not recorded: choose a recorded one with --to-revision")
    )]
    fn where_it_leads(
        #[case] present: u32,
        #[case] stable: Option<u32>,
        #[case] to: Option<i64>,
        #[case] expected: Result<Option<(u32, bool)>, &str>,
    ) {
        let records = [record(10, 1), record(30, 3), record(20, 2)];
        match (goes_to(&workload(present, stable), &records, to), expected) {
            (Err(refusal), Err(says)) => assert!(refusal.to_string().ends_with(says), "{refusal}"),
            (outcome, expected) => assert_eq!(
                outcome.map_err(|r| r.to_string()),
                expected.map_err(str::to_owned)
            ),
        }
    }

    #[test]
    fn nothing_recorded_is_said() {
        assert_eq!(goes_to(&workload(1, None), &[], None), Err(Refusal::NoRecords));
        assert_eq!(
            goes_to(&workload(1, None), &[record(1, 1)], None),
            Err(Refusal::NoOther)
        );
    }

    #[test]
    fn a_change_in_between_makes_the_patch_fail() {
        let object = workload(3, None);
        let Ok(Undo::Restore { patch, .. }) = undo(&view(&object), &[record(1, 1)], None) else {
            panic!()
        };
        for (name, value) in [("generation", json!(8)), ("uid", json!("w2"))] {
            let mut changed = object.clone();
            changed["metadata"][name] = value;
            assert!(json_patch::patch(&mut changed, &patch).is_err());
        }
    }

    #[test]
    fn records_of_others_and_of_other_shapes_are_left_alone() {
        let of = |owner: &str, data: Value| json!({"metadata": {"ownerReferences": [{"uid": owner}]}, "revision": 1, "data": data});
        assert!(Record::read(&of("other", json!({"template": {}})), "r").is_none());
        assert!(Record::read(&of("r", json!({"spec": {"template": {}}})), "r").is_none());
        assert!(
            Record::read(
                &json!({"metadata": {}, "revision": 1, "data": {"template": {}}}),
                "r"
            )
            .is_none()
        );
    }
}
