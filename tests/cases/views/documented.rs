//! The documents are those that docs/cli-json.md describes.

use serde_json::Value;

/// The reference.
const REFERENCE: &str = include_str!("../../../docs/cli-json.md");

/// The rows of a section's table: each field, and the section that describes what is in it.
fn described(section: &str) -> Vec<(&'static str, Option<&'static str>)> {
    let heading = format!("## {section}\n");
    let (_, text) = REFERENCE
        .split_once(&heading)
        .unwrap_or_else(|| panic!("docs/cli-json.md has no section {section}"));
    let text = text.split("\n## ").next().unwrap();
    let row = |line: &'static str| {
        let (field, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let kind = rest.split(" | ").next()?;
        let inner = kind.split_once('[').and_then(|(_, link)| link.split(']').next());
        Some((field, inner))
    };
    // The table of fields is the first one.
    let table = text.lines().skip_while(|line| !line.starts_with('|'));
    table
        .take_while(|line| line.starts_with('|'))
        .filter_map(row)
        .collect()
}

/// Fails on a field that the reference does not have.
pub(crate) fn check(document: &Value) {
    check_fields(document, document["kind"].as_str().unwrap());
}

fn check_fields(value: &Value, section: &str) {
    let described = described(section);
    for (name, value) in value.as_object().unwrap() {
        let row = described.iter().find(|(field, _)| field == name);
        let (_, inner) = row.unwrap_or_else(|| panic!("docs/cli-json.md has no field {name} in {section}"));
        match (inner, value) {
            (None, _) => {}
            (Some(inner), Value::Array(items)) => items.iter().for_each(|item| check_fields(item, inner)),
            (Some(inner), item) => check_fields(item, inner),
        }
    }
}
