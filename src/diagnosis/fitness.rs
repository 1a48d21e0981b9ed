//! Whether a kind, and a workload of it, can be released in steps: field by field.

use serde::Serialize;
use serde_json::{Value, json};

use super::schema::{self, Slot};
use super::{Answer, Remedy};
use crate::lens::Field;
use crate::names;
use crate::workload::{Adapter, GroupKind, Means, Paths, Replicas, adapter_for};

/// What a field comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Fit,
    /// No release is possible, or none goes well.
    Unfit,
    /// It works without; what is lost is in the purpose.
    Lacking,
    /// Nothing is known.
    Unknown,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its path, dotted; of a subresource, its name; of what stands beside the fields, what it is.
    pub field: String,
    /// What it has to be, or `optional`.
    pub required: &'static str,
    /// What the schema says; `-` where it has no say.
    pub schema: String,
    /// What the object has, or the cluster; absent where neither was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why, where it is not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What mends it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

/// All fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fitness {
    /// [`crate::report::REPORT_VERSION`].
    pub api_version: &'static str,
    /// `Fitness`.
    pub kind: &'static str,
    /// The kind, or the object, that was looked at.
    pub subject: String,
    /// Whether no field is unfit.
    pub fit: bool,
    /// The fields.
    pub rows: Vec<Row>,
}

/// What the fitness is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Group and kind.
    pub kind: &'a GroupKind,
    /// The version in which it is referred to.
    pub version: &'a str,
    /// The definition of the kind; `None` for built-in kinds, and where it may not be read.
    pub definition: Option<&'a Value>,
    /// An object.
    pub object: Option<&'a Value>,
    /// What a dry-run of the hold partition came back as.
    pub probe: Option<&'a Answer>,
}

/// Judges a kind, and an object of it. `None` for kinds that are not supported.
#[must_use]
pub fn fitness(candidate: &Candidate<'_>, subject: &str) -> Option<Fitness> {
    let adapter = adapter_for(candidate.kind)?;
    let rows = rows(candidate, adapter);
    Some(Fitness {
        api_version: crate::report::REPORT_VERSION,
        kind: "Fitness",
        subject: subject.to_owned(),
        fit: !rows.iter().any(|row| row.verdict == Verdict::Unfit),
        rows,
    })
}

/// What is asked of a field.
struct Wanted {
    path: Vec<&'static str>,
    required: &'static str,
    /// Types that its schema may have.
    types: &'static [&'static str],
    /// Why it is needed.
    purpose: &'static str,
}

fn rows(candidate: &Candidate<'_>, adapter: &dyn Adapter) -> Vec<Row> {
    let at = candidate
        .definition
        .and_then(|definition| schema::version(definition, candidate.version));
    let wanted = wanted(adapter.paths());
    let mut rows: Vec<Row> = wanted.iter().map(|wanted| row(candidate, at, wanted)).collect();
    for row in &mut rows {
        let is = |path: Option<&'static [&'static str]>| path.filter(|path| row.field == path.join("."));
        if let Some(path) = is(adapter.partition_path()) {
            partition(row, candidate, at, path);
        } else if is(adapter.strategy_type_path()).is_some() {
            strategy_type(row, candidate);
        }
    }
    one_of_two(&mut rows, adapter.paths());
    rows.push(subresource(candidate, at));
    rows
}

/// Updated pods are counted by their revision, or else the operator's count is believed: either will do.
fn one_of_two(rows: &mut [Row], paths: &Paths) {
    let status = &paths.status;
    let is_unfit = |rows: &[Row], path: &[&str]| {
        let row = rows.iter().position(|row| row.field == path.join("."))?;
        Some((row, rows[row].verdict == Verdict::Unfit))
    };
    let count = is_unfit(rows, status.updated.path());
    let revision = status
        .update_revision
        .first()
        .and_then(|field| is_unfit(rows, field.path()));
    let (missing, instead) = match (count, revision) {
        (Some((count, true)), Some((_, false))) => {
            (count, "pods are counted by the revision in their labels")
        }
        (Some((_, false)), Some((revision, true))) => (
            revision,
            "status.updatedReplicas is believed, and no batch is labelled",
        ),
        _ => return,
    };
    let row = &mut rows[missing];
    (row.verdict, row.remedy) = (Verdict::Lacking, None);
    row.why = Some(instead.to_owned());
}

fn wanted(paths: &Paths) -> Vec<Wanted> {
    const COUNT: &[&str] = &["integer", "int-or-string"];
    let of = |path: &[&'static str], required, types, purpose| Wanted {
        path: path.to_vec(),
        required,
        types,
        purpose,
    };
    let mut wanted = Vec::new();
    if let Replicas::Written(field) = &paths.replicas {
        wanted.push(of(field.path(), "integer", COUNT, "the steps are shares of it"));
    }
    wanted.push(of(
        &["spec", "template", "metadata"],
        "object",
        &["object"],
        "the pods need labels",
    ));
    wanted.push(of(
        &["spec", "template", "spec"],
        "object",
        &["object"],
        "its changes are what is rolled out",
    ));
    if let Some(field) = &paths.strategy_type {
        let purpose = "another type than RollingUpdate does not heed the partition";
        wanted.push(of(field.path(), "optional", &["string"], purpose));
    }
    if let Means::Partition(field) = &paths.means {
        let purpose = "the partition is how an update is held and let go step by step";
        wanted.push(of(field.path(), "integer", COUNT, purpose));
    }
    if let Some(field) = &paths.paused {
        let purpose = "a pause of the operator is not seen";
        wanted.push(of(field.path(), "optional", &["boolean"], purpose));
    }
    wanted.push(of(
        &["spec", "selector"],
        "optional",
        &["object"],
        "all pods of the namespace are looked through",
    ));
    let status = &paths.status;
    let count = |field: &Field<u32>| field.path();
    let purpose = "without it nobody knows whether the operator has seen a change";
    wanted.push(of(&["status", "observedGeneration"], "integer", COUNT, purpose));
    wanted.push(of(
        count(&status.replicas),
        "optional",
        COUNT,
        "it says how many pods there are",
    ));
    wanted.push(of(
        count(&status.ready),
        "optional",
        COUNT,
        "ready pods are counted one by one",
    ));
    let purpose = "without it nobody knows when a step is done";
    wanted.push(of(count(&status.updated), "integer", COUNT, purpose));
    if let Some(field) = &status.current_revision {
        wanted.push(of(
            field.path(),
            "optional",
            &["string"],
            "the stable revision has no name",
        ));
    }
    // Any of them will do.
    if let Some(field) = status.update_revision.first() {
        let purpose = "without it the pods of the new template cannot be told apart";
        wanted.push(of(field.path(), "string", &["string"], purpose));
    }
    wanted
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "int-or-string".to_owned();
    }
    let fallback = if schema["x-kubernetes-preserve-unknown-fields"] == true {
        "any"
    } else {
        "untyped"
    };
    schema["type"].as_str().unwrap_or(fallback).to_owned()
}

/// Judges a field by its schema, and by the object where that says more.
fn row(candidate: &Candidate<'_>, at: Option<(usize, &Value)>, wanted: &Wanted) -> Row {
    let required = wanted.required != "optional";
    let (schema, mut verdict, mut why) = match (candidate.definition, at) {
        (None, _) => ("not seen".to_owned(), Verdict::Unknown, None),
        (Some(_), None) => ("no such version".to_owned(), Verdict::Unknown, None),
        (Some(_), Some((_, version))) => match schema::slot(version, &wanted.path) {
            Slot::Kept => ("kept".to_owned(), Verdict::Fit, None),
            Slot::Pruned if required => (
                "missing".to_owned(),
                Verdict::Unfit,
                Some(format!(
                    "the server removes it, since the schema lacks it; {}",
                    wanted.purpose
                )),
            ),
            Slot::Pruned => (
                "missing".to_owned(),
                Verdict::Lacking,
                Some(wanted.purpose.to_owned()),
            ),
            Slot::Described(schema) => {
                let found = type_of(schema);
                if wanted.types.contains(&found.as_str()) || found == "any" {
                    (found, Verdict::Fit, None)
                } else {
                    let why = format!("the schema says {found}, not {}", wanted.types.join(" or "));
                    (found, Verdict::Unfit, Some(why))
                }
            }
        },
    };
    let live = candidate.object.map(|object| shown(object, &wanted.path));
    let is_status = wanted.path.first() == Some(&"status");
    // What the operator has not reported by the time that it reports anything it will not report later.
    let reports = candidate.object.is_some_and(|object| {
        object["status"]
            .as_object()
            .is_some_and(|status| !status.is_empty())
    });
    if let Some(live) = &live {
        match (live.as_str(), verdict) {
            ("absent", Verdict::Fit | Verdict::Unknown) if is_status && reports && required => {
                verdict = Verdict::Unfit;
                why = Some(format!("the operator does not report it; {}", wanted.purpose));
            }
            ("absent", _) => {}
            (_, Verdict::Unknown) => verdict = Verdict::Fit,
            _ => {}
        }
    }
    if verdict == Verdict::Unfit && is_status {
        return Row {
            remedy: Some(Remedy::Advice(format!(
                "have the operator report {}, and its definition describe it",
                wanted.path.join(".")
            ))),
            ..plain(wanted, schema, live, verdict, why)
        };
    }
    plain(wanted, schema, live, verdict, why)
}

fn plain(
    wanted: &Wanted,
    schema: String,
    live: Option<String>,
    verdict: Verdict,
    why: Option<String>,
) -> Row {
    Row {
        field: wanted.path.join("."),
        required: wanted.required,
        schema,
        live,
        verdict,
        why,
        remedy: None,
    }
}

/// What stands there, in short.
fn shown(object: &Value, path: &[&str]) -> String {
    let at = path.iter().try_fold(object, |at, name| at.get(*name));
    match at {
        None | Some(Value::Null) => "absent".to_owned(),
        Some(Value::String(text)) => format!("{text:?}"),
        Some(Value::Object(members)) => format!("object of {}", members.len()),
        Some(other) => other.to_string(),
    }
}

/// The member of the partition's schema that stands in the way of a release, and how.
fn bound(schema: &Value) -> Option<(&'static str, String)> {
    let hold = names::HOLD_PARTITION;
    if let Some(maximum) = schema["maximum"].as_i64().filter(|maximum| *maximum < hold) {
        let why = format!("the schema allows at most {maximum}, but the hold is {hold}");
        return Some(("maximum", why));
    }
    if let Some(minimum) = schema["minimum"].as_i64().filter(|minimum| *minimum > 0) {
        let why = format!("the schema allows {minimum} at least, but a release ends at 0");
        return Some(("minimum", why));
    }
    let values = schema["enum"].as_array()?;
    let refused = !values.iter().any(|value| value == hold);
    refused.then(|| {
        let why = format!(
            "the schema allows certain values only, but the hold is {hold}, and a release takes any below"
        );
        ("enum", why)
    })
}

/// The field that carries the hold has bounds too, and a dry-run is the best witness.
fn partition(row: &mut Row, candidate: &Candidate<'_>, at: Option<(usize, &Value)>, path: &[&'static str]) {
    let hold = names::HOLD_PARTITION;
    let mut unfit = |why: String, remedy: Option<Remedy>| {
        row.verdict = Verdict::Unfit;
        row.why = Some(why);
        row.remedy = remedy;
    };
    if let (Some(definition), Some((index, version))) = (candidate.definition, at) {
        let integer = json!({"type": "integer", "format": "int32", "minimum": 0});
        match schema::slot(version, path) {
            Slot::Pruned => {
                let why = "the server removes it, since the schema lacks it: no update can be held";
                let command = schema::add(definition, index, path, integer);
                return unfit(why.to_owned(), Some(Remedy::Command(command)));
            }
            Slot::Described(schema) => {
                if !["integer", "int-or-string", "any"].contains(&type_of(schema).as_str()) {
                    let why = format!("the schema says {}, but the hold is an integer", type_of(schema));
                    let command = schema::add(definition, index, path, integer);
                    return unfit(why, Some(Remedy::Command(command)));
                }
                if let Some((member, why)) = bound(schema) {
                    let command = schema::without(definition, index, path, member);
                    return unfit(why, Some(Remedy::Command(command)));
                }
            }
            Slot::Kept => {}
        }
    }
    match candidate.probe {
        Some(Answer::Held) => row.verdict = Verdict::Fit,
        Some(Answer::NotHeld) => {
            let advice = Remedy::Advice(format!("describe {} as an integer in the schema", path.join(".")));
            unfit(
                format!("a dry-run that set it to {hold} came back without it"),
                Some(advice),
            );
        }
        Some(Answer::Refused(answer)) => {
            let advice = Remedy::Advice(format!("let {} take {hold}", path.join(".")));
            unfit(
                format!("a dry-run that set it to {hold} was refused: {answer}"),
                Some(advice),
            );
        }
        None => {}
    }
}

fn strategy_type(row: &mut Row, candidate: &Candidate<'_>) {
    if row.schema == "missing" {
        // A kind without types heeds the partition alone.
        (row.verdict, row.why) = (Verdict::Fit, None);
        return;
    }
    let Some(live) = row.live.clone().filter(|_| candidate.object.is_some()) else {
        return;
    };
    if !["absent", "\"\"", "\"RollingUpdate\""].contains(&live.as_str()) {
        row.verdict = Verdict::Unfit;
        row.why = Some(format!(
            "{live} does not heed the partition: set it to RollingUpdate"
        ));
    }
}

fn subresource(candidate: &Candidate<'_>, at: Option<(usize, &Value)>) -> Row {
    let mut row = Row {
        field: "/status".to_owned(),
        required: "subresource",
        schema: "not seen".to_owned(),
        live: None,
        verdict: Verdict::Unknown,
        why: None,
        remedy: None,
    };
    if let (Some(definition), Some((index, version))) = (candidate.definition, at) {
        if version["subresources"]["status"].is_object() {
            (row.schema, row.verdict) = ("present".to_owned(), Verdict::Fit);
        } else {
            (row.schema, row.verdict) = ("missing".to_owned(), Verdict::Unfit);
            let why =
                "status writes raise metadata.generation, so that nobody knows what the operator has seen";
            row.why = Some(why.to_owned());
            row.remedy = Some(Remedy::Command(schema::add_status(definition, index)));
        }
    }
    row
}
