use json_patch::{Patch, PatchOperation, ReplaceOperation, TestOperation};
use serde_json::{Map, Value};

use super::{Record, Refusal, Search};
use crate::api::v1beta1::Rollout;
use crate::lens::pointer;
use crate::workload::{Likeness, Marks, TemplateId};

/// Which template is wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum To {
    /// In mid-release the stable one, at rest the one before.
    Previous,
    /// The stable one; at rest there is nothing to go back from.
    Stable,
    /// A recorded one: its number, or a hash.
    Revision(String),
    /// This one.
    Given(Record),
}

/// What undo comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Undo {
    /// The template is the wanted one already.
    Unchanged {
        /// What it is called, if it is recorded.
        at: Option<String>,
    },
    /// The template is to be replaced.
    Restore {
        /// What it is called: `revision 3`.
        to: String,
        /// The value of `spec.template` to come.
        template: Value,
        /// Whether this ends a release in progress and goes back without steps, rather than starting a release.
        rollback: bool,
        /// For the workload.
        patch: Patch,
    },
}

/// The workload as far as undo needs it, of any kind.
struct Present {
    template: TemplateId,
    /// A release is in progress.
    held: bool,
    /// The stable template, by our mark.
    stable: Option<TemplateId>,
}

impl Present {
    fn of(workload: &Value) -> Result<Self, Refusal> {
        let template = workload.pointer("/spec/template").filter(|t| t.is_object());
        let none = Map::new();
        let annotations = workload["metadata"]["annotations"].as_object().unwrap_or(&none);
        let marks = Marks::read(annotations);
        let guard = marks.guard_of(workload["metadata"]["uid"].as_str().unwrap_or_default());
        Ok(Self {
            template: TemplateId::of(template.ok_or(Refusal::NoTemplate)?),
            // The existing controller marks a release without a guard; with one that is void the marks came along with a copy.
            held: marks.hold.is_some() && (marks.guard.is_none() || guard.is_some()),
            stable: guard.and_then(|guard| guard.stable.clone()),
        })
    }
}

/// Goes back to an earlier template of `workload`, as it was read. The whole template is replaced by the one that was recorded.
///
/// # Errors
/// What is missing for it.
pub fn undo(rollout: &Rollout, workload: &Value, search: &Search, to: &To) -> Result<Undo, Refusal> {
    let present = Present::of(workload)?;
    let is_present = |record: &&Record| record.is(&present.template);
    let record = match to {
        To::Given(record) => Some(record),
        To::Revision(asked) => Some(called(search, asked)?),
        To::Stable if !present.held => return Err(Refusal::NoRelease),
        To::Previous | To::Stable if present.held => stable(rollout, &present, search)?,
        To::Previous | To::Stable => Some(previous(search, &present)?),
    };
    let Some(record) = record.filter(|record| !is_present(record)) else {
        let mut known = search.records.iter().filter(is_present);
        let at = record.or_else(|| known.next());
        return Ok(Undo::Unchanged {
            at: at.map(|record| title(search, record)),
        });
    };
    let template = verbatim(search, record);
    Ok(Undo::Restore {
        to: title(search, record),
        rollback: present.held && goes_back(rollout, &present, record),
        patch: patch(workload, template),
        template: template.clone(),
    })
}

/// The stable template; `None` when it is the present one.
fn stable<'a>(
    rollout: &Rollout,
    present: &Present,
    search: &'a Search,
) -> Result<Option<&'a Record>, Refusal> {
    let missing = |stable: String| Refusal::StableNotRecorded {
        stable,
        searched: search.to_string(),
    };
    match &present.stable {
        Some(stable) if stable.likeness(&present.template) != Likeness::Different => Ok(None),
        Some(stable) => {
            let alike = search.records.iter().filter(|record| record.is(stable));
            let best =
                alike.min_by_key(|record| (record.id.likeness(stable) != Likeness::Exact, record.source));
            best.map(Some).ok_or_else(|| missing(stable.to_string()))
        }
        // The existing controller knows the operator's name of it.
        None => {
            let revision = stable_revision(rollout);
            let mut named = search
                .records
                .iter()
                .filter(|record| is_revision(record, revision));
            named.next().map(Some).ok_or_else(|| missing(revision.to_owned()))
        }
    }
}

fn stable_revision(rollout: &Rollout) -> &str {
    let status = rollout.status.as_ref();
    let canary = status.and_then(|status| status.canary_status.as_ref());
    let green = status.and_then(|status| status.blue_green_status.as_ref());
    canary
        .map(|canary| canary.stable_revision.as_str())
        .or(green.map(|green| green.stable_revision.as_str()))
        .unwrap_or_default()
}

/// Whether a record is of this revision, which may be the whole name or the hash at its end.
fn is_revision(record: &Record, revision: &str) -> bool {
    !revision.is_empty() && (record.name == revision || record.name.ends_with(&format!("-{revision}")))
}

fn goes_back(rollout: &Rollout, present: &Present, record: &Record) -> bool {
    match &present.stable {
        Some(stable) => record.is(stable),
        None => is_revision(record, stable_revision(rollout)),
    }
}

/// The latest template before the present one, from the first source that has another one at all.
fn previous<'a>(search: &'a Search, present: &Present) -> Result<&'a Record, Refusal> {
    if search.records.is_empty() {
        return Err(Refusal::NoRecords(search.to_string()));
    }
    let sources = search.sources.iter().map(|(source, _)| *source);
    let mut others = sources.filter_map(|source| {
        let records = search.of(source);
        records.into_iter().find(|record| !record.is(&present.template))
    });
    others.next().ok_or_else(|| Refusal::NoOther(search.to_string()))
}

/// The record that is meant by a number or a hash.
fn called<'a>(search: &'a Search, asked: &str) -> Result<&'a Record, Refusal> {
    if let (Ok(number), Some(source)) = (asked.parse(), search.numbering())
        && let Some(record) = search
            .of(source)
            .into_iter()
            .find(|record| record.number == Some(number))
    {
        return Ok(record);
    }
    let mut matching: Vec<_> = search.records.iter().filter(|r| r.is_called(asked)).collect();
    matching.sort_by_key(|record| record.source);
    match matching.as_slice() {
        [] => Err(Refusal::NoRevision {
            asked: asked.to_owned(),
            searched: search.to_string(),
        }),
        [first, rest @ ..] if rest.iter().all(|record| record.is(&first.id)) => Ok(first),
        several => {
            let names: Vec<_> = several.iter().map(|record| record.name.as_str()).collect();
            Err(Refusal::AmbiguousRevision {
                asked: asked.to_owned(),
                matching: names.join(", "),
            })
        }
    }
}

/// What a record is called.
fn title(search: &Search, record: &Record) -> String {
    match record.number {
        Some(number) if search.numbering() == Some(record.source) => format!("revision {number}"),
        _ if record.source == super::Source::File => format!("the template of {}", record.name),
        _ => format!("revision {}", record.name),
    }
}

/// The template as it stood: operators may leave out of their records what makes no difference to them.
fn verbatim<'a>(search: &'a Search, record: &'a Record) -> &'a Value {
    if record.source == super::Source::File {
        return &record.template;
    }
    let kept = search.of(super::Source::Records);
    let same = kept.into_iter().find(|kept| kept.is(&record.id));
    &same.unwrap_or(record).template
}

/// Replaces the whole template: a merge would leave behind what the later template added.
fn patch(workload: &Value, template: &Value) -> Patch {
    let test = |name: &str| {
        PatchOperation::Test(TestOperation {
            path: pointer(["metadata", name]),
            value: workload["metadata"][name].clone(),
        })
    };
    Patch(vec![
        test("uid"),
        test("generation"),
        PatchOperation::Replace(ReplaceOperation {
            path: pointer(["spec", "template"]),
            value: template.clone(),
        }),
    ])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::Source;
    use super::*;
    use crate::names;
    use crate::workload::Guard;

    fn template(version: u32) -> Value {
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": format!("app:v{version}")}]}})
    }

    fn object(name: &str, owner: &str, revision: i64, data: &Value) -> Value {
        json!({"metadata": {"name": name, "ownerReferences": [{"uid": owner}]}, "revision": revision, "data": data})
    }

    /// Recorded for the Rollout.
    fn record(revision: i64, version: u32) -> Record {
        let data = json!({"template": template(version)});
        Record::of_rollout(
            &object(
                &format!("r-{}", version.to_string().repeat(4)),
                "r",
                revision,
                &data,
            ),
            "r",
        )
        .unwrap()
    }

    /// Of the operator.
    fn revision(number: i64, version: u32) -> Record {
        let mut data = json!({"spec": {"template": template(version)}});
        data["spec"]["template"]["$patch"] = json!("replace");
        Record::of_revision(&object(&format!("web-c{version}"), "w", number, &data), "w").unwrap()
    }

    fn search(records: Vec<Record>) -> Search {
        Search {
            records,
            sources: vec![(Source::Revisions, None), (Source::Records, None)],
        }
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

    fn rollout(stable: &str) -> Rollout {
        let status = json!({"canaryStatus": {"stableRevision": stable}});
        serde_json::from_value(
            json!({"metadata": {}, "spec": {"workloadRef": {}, "strategy": {}}, "status": status}),
        )
        .unwrap()
    }

    /// The version after the undo, what it is called, and whether it is a rollback.
    fn outcome(object: &Value, search: &Search, to: &To) -> String {
        match undo(&rollout("web-c1"), object, search, to) {
            Err(refusal) => refusal.to_string(),
            Ok(Undo::Unchanged { at }) => format!("unchanged: {at:?}"),
            Ok(Undo::Restore {
                to, rollback, patch, ..
            }) => {
                let mut after = object.clone();
                json_patch::patch(&mut after, &patch).unwrap();
                let version = (1..9).find(|version| after["spec"]["template"] == template(*version));
                format!(
                    "v{} {to}{}",
                    version.unwrap(),
                    if rollback { " at once" } else { "" }
                )
            }
        }
    }

    fn by(text: &str) -> To {
        To::Revision(text.to_owned())
    }

    #[rstest]
    #[case::at_rest_to_the_newest_other(3, None, To::Previous, "v2 revision 20")]
    #[case::at_rest_after_an_older_one_came_back(2, None, To::Previous, "v3 revision 30")]
    #[case::in_mid_release_to_the_stable_one(3, Some(1), To::Previous, "v1 revision 10 at once")]
    #[case::abort(3, Some(1), To::Stable, "v1 revision 10 at once")]
    #[case::abort_at_rest(
        3,
        None,
        To::Stable,
        "no release is in progress: it begins with a change of the workload's pod template"
    )]
    #[case::on_the_way_back_already(1, Some(1), To::Previous, "unchanged: Some(\"revision 10\")")]
    #[case::by_number(3, Some(1), by("20"), "v2 revision 20")]
    #[case::by_number_to_the_stable_one(3, Some(1), by("10"), "v1 revision 10 at once")]
    #[case::by_number_to_the_present_one(3, None, by("30"), "unchanged: Some(\"revision 30\")")]
    #[case::by_hash(3, None, by("1111"), "v1 revision 10")]
    #[case::by_name(3, None, by("r-2222"), "v2 revision 20")]
    #[case::unknown_number(
        3,
        None,
        by("7"),
        "no revision 7 is recorded: looked at ControllerRevisions of the workload (none), templates recorded for the Rollout \
         (10, 20, 30)"
    )]
    fn where_it_leads(
        #[case] present: u32,
        #[case] stable: Option<u32>,
        #[case] to: To,
        #[case] expected: &str,
    ) {
        let search = search(vec![record(10, 1), record(30, 3), record(20, 2)]);
        assert_eq!(outcome(&workload(present, stable), &search, &to), expected);
    }

    #[rstest]
    #[case::numbers_are_the_operators(3, None, by("2"), "v2 revision 2")]
    #[case::numbers_of_others_do_not_count(3, None, by("20"), "no revision 20 is recorded: looked at")]
    #[case::stable_is_found_anywhere(4, Some(1), To::Previous, "v1 revision r-1111 at once")]
    #[case::previous_of_the_operator(3, None, To::Previous, "v2 revision 2")]
    #[case::by_hash_of_another_source(3, None, by("1111"), "v1 revision r-1111")]
    fn two_sources(
        #[case] present: u32,
        #[case] stable: Option<u32>,
        #[case] to: To,
        #[case] expected: &str,
    ) {
        let search = search(vec![record(20, 2), record(10, 1), revision(2, 2), revision(3, 3)]);
        let outcome = outcome(&workload(present, stable), &search, &to);
        assert!(outcome.starts_with(expected), "{outcome}");
    }

    #[test]
    fn what_an_operator_left_out_comes_back() {
        let mut kept = record(1, 1);
        kept.template["spec"]["volumes"] = json!([{"name": "tmp", "emptyDir": {}}]);
        kept.id = TemplateId::of(&kept.template);
        let mut reduced = revision(1, 1);
        reduced.template["spec"]["volumes"] = json!([{"name": "tmp"}]);
        reduced.id = TemplateId::of(&reduced.template);
        let search = search(vec![reduced, kept.clone()]);
        let undone = undo(&rollout(""), &workload(2, None), &search, &by("1")).unwrap();
        assert!(matches!(undone, Undo::Restore { template, .. } if template == kept.template));
    }

    #[test]
    fn under_the_existing_controller_the_stable_revision_is_known_by_its_name() {
        let mut held = workload(3, None);
        held["metadata"]["annotations"] = json!({names::IN_PROGRESSING: "{}"});
        let revisions = search(vec![revision(1, 1), revision(2, 2), revision(3, 3)]);
        assert_eq!(outcome(&held, &revisions, &To::Previous), "v1 revision 1 at once");
        let lost = search(vec![revision(3, 3)]);
        assert_eq!(
            outcome(&held, &lost, &To::Previous),
            "the stable template web-c1 is not recorded: looked at ControllerRevisions of the workload (3), templates recorded \
             for the Rollout (none)"
        );
    }

    #[test]
    fn a_given_template_is_written_as_it_is() {
        let kind = crate::workload::GroupKind {
            group: "example.io".to_owned(),
            kind: "App".to_owned(),
        };
        let manifest = json!({"apiVersion": "example.io/v1", "kind": "App", "metadata": {"name": "a"},
            "spec": {"template": template(5)}});
        let given = Record::of_manifest(&manifest, &kind, "a", "a.yaml").unwrap();
        let nothing = search(Vec::new());
        assert_eq!(
            outcome(&workload(3, None), &nothing, &To::Given(given)),
            "v5 the template of a.yaml"
        );
    }

    #[test]
    fn nothing_recorded_is_said() {
        let looked =
            "looked at ControllerRevisions of the workload (none), templates recorded for the Rollout";
        assert_eq!(
            outcome(&workload(1, None), &search(Vec::new()), &To::Previous),
            format!("no earlier template is recorded: {looked} (none)")
        );
        assert_eq!(
            outcome(&workload(1, None), &search(vec![record(1, 1)]), &To::Previous),
            format!("the present template is the only one that is recorded: {looked} (1)")
        );
        let stable = outcome(&workload(3, Some(4)), &search(vec![record(1, 1)]), &To::Previous);
        assert!(stable.starts_with("the stable template ") && stable.ends_with(&format!("{looked} (1)")));
        assert_eq!(
            undo(
                &rollout(""),
                &json!({"spec": {}}),
                &search(Vec::new()),
                &To::Previous
            ),
            Err(Refusal::NoTemplate)
        );
    }

    #[test]
    fn a_change_in_between_makes_the_patch_fail() {
        let object = workload(3, None);
        let search = search(vec![record(1, 1)]);
        let Ok(Undo::Restore { patch, .. }) = undo(&rollout(""), &object, &search, &To::Previous) else {
            panic!()
        };
        for (name, value) in [("generation", json!(8)), ("uid", json!("w2"))] {
            let mut changed = object.clone();
            changed["metadata"][name] = value;
            assert!(json_patch::patch(&mut changed, &patch).is_err());
        }
    }
}
