//! docs/crd-reference.md is what the definition says of itself. `UPDATE_DOCS=1` writes it anew.
//!
//! A description has the meaning of a field first. Sentences that begin with `Default:` and `Bounds:` go to columns of their own: a
//! schema with real defaults would have the API server write values that nobody asked for, and most bounds are for admission to
//! tell, in words.

use std::fmt::Write as _;
use std::path::Path;

use kruise_rollout::api::v1beta1;
use serde_json::Value;

const FILE: &str = "../docs/crd-reference.md";
const COMMAND: &str = "UPDATE_DOCS=1 cargo test -p kruise-rollout-controller crd_reference";

/// A description by its columns.
#[derive(Default)]
struct Words {
    meaning: String,
    default: String,
    bounds: String,
}

impl Words {
    fn of(schema: &Value) -> Self {
        let text = schema["description"].as_str().unwrap_or_default();
        let mut words = Self::default();
        for sentence in text.split_inclusive(". ") {
            let sentence = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
            let rest = |mark: &str| {
                sentence
                    .strip_prefix(mark)
                    .map(|rest| rest.trim_end_matches('.').trim())
            };
            match (rest("Default:"), rest("Bounds:")) {
                (Some(rest), _) => rest.clone_into(&mut words.default),
                (_, Some(rest)) => rest.clone_into(&mut words.bounds),
                (None, None) if words.meaning.is_empty() => words.meaning = sentence,
                (None, None) => words.meaning = format!("{} {sentence}", words.meaning),
            }
        }
        if let (Some(most), true) = (schema["maxItems"].as_u64(), words.bounds.is_empty()) {
            words.bounds = format!("at most {most}");
        }
        words
    }
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    let name = schema["type"].as_str().unwrap();
    match (name, schema["format"].as_str()) {
        ("array", _) => format!("list of {}", type_of(&schema["items"])),
        ("object", _) if schema["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&schema["additionalProperties"]))
        }
        ("string", Some("date-time")) => "time".to_owned(),
        _ => name.to_owned(),
    }
}

/// The rows of a part of the schema.
#[derive(Default)]
struct Rows {
    /// Of fields that mean something to the controller.
    used: String,
    /// Of those that are kept and not carried out, with all that is in them.
    kept: String,
}

/// Adds a row for each field below a schema, the field itself before what is in it.
fn rows(schema: &Value, path: &str, is_used: bool, text: &mut Rows) {
    let required = schema["required"].as_array();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let Words {
            meaning,
            default,
            bounds,
        } = Words::of(field);
        assert!(!meaning.is_empty(), "{path} has no description");
        let required = required.is_some_and(|required| required.iter().any(|word| word == name));
        let is_used = is_used && !meaning.contains("not carried out");
        let to = if is_used { &mut text.used } else { &mut text.kept };
        let default = if required { "required" } else { &default };
        writeln!(
            to,
            "| `{path}` | {} | {default} | {bounds} | {meaning} |",
            type_of(field)
        )
        .unwrap();
        rows(field, &path, is_used, text);
        rows(&field["items"], &format!("{path}[]"), is_used, text);
    }
}

const HEADER: &str = "| field | type | default | bounds | meaning |\n|---|---|---|---|---|\n";

/// A word of the definition.
fn word(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn reference() -> String {
    let definition = serde_json::to_value(v1beta1::crd()).unwrap();
    let (spec, version) = (&definition["spec"], &definition["spec"]["versions"][0]);
    let schema = &version["schema"]["openAPIV3Schema"];
    let part = |name: &str| {
        let mut parts = Rows::default();
        rows(&schema["properties"][name], name, true, &mut parts);
        parts
    };
    let (wanted, said) = (part("spec"), part("status"));
    let (group, version_name) = (word(&spec["group"]), word(&version["name"]));
    let (kind, plural) = (word(&spec["names"]["kind"]), word(&spec["names"]["plural"]));
    let (short, scope) = (
        word(&spec["names"]["shortNames"][0]),
        word(&spec["scope"]).to_lowercase(),
    );
    let columns: String = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            let wide = if column["priority"] == 1 {
                "with `-o wide`"
            } else {
                "always"
            };
            format!(
                "| {} | `{}` | {wide} |\n",
                word(&column["name"]),
                word(&column["jsonPath"])
            )
        })
        .collect();
    format!(
        "# Rollout

This file is written from the definition: `{COMMAND}`.

API version `{group}/{version_name}`, kind `{kind}`, resource `{plural}`, short name `{short}`, {scope}. {}

The schema has no defaults and few bounds of its own: what a manifest leaves out stays out. Most bounds are kept by admission, whose answer names the field and
what to write instead. On the server: `kubectl explain rollout.spec --recursive`.

## spec

{}

{HEADER}{}
## status

The controller writes it. Of it people may write an approval, and where that is allowed a jump ([security](security.md#approve-only)). What the words mean:
[concepts](concepts.md#states). What to do about the reason of a condition: [troubleshooting](troubleshooting.md). A new Rollout has the status
`{}` until a controller has looked at it.

{HEADER}{}
## Fields that are not carried out

They are there so that objects which were written for the existing controller keep them. A Rollout that sets one of the outermost is refused, with a sentence.

{HEADER}{}{}
## Columns of kubectl get

| column | from | shown |
|---|---|---|
{columns}",
        word(&schema["description"]),
        word(&schema["properties"]["spec"]["description"]),
        wanted.used,
        schema["properties"]["status"]["default"],
        said.used,
        wanted.kept,
        said.kept,
    )
}

#[test]
fn the_crd_reference_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let fresh = reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == fresh, "docs/crd-reference.md is stale: {COMMAND}");
}
