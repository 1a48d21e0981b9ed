//! What the schema of a CustomResourceDefinition makes of a field.

use crate::shell::quoted;
use serde_json::{Value, json};

/// A field in a schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Slot<'a> {
    /// Described, by this schema.
    Described(&'a Value),
    /// Not described, and kept as it is.
    Kept,
    /// Not described: the server removes it.
    Pruned,
}

/// The version's entry in a definition, and its place. Where no version is named, the stored one, unless only others are served.
pub(super) fn version<'a>(definition: &'a Value, name: &str) -> Option<(usize, &'a Value)> {
    let versions = definition["spec"]["versions"].as_array()?;
    let first = |wanted: &dyn Fn(&Value) -> bool| versions.iter().enumerate().find(|(_, one)| wanted(one));
    let (served, stored) = (
        |one: &Value| one["served"] == true,
        |one: &Value| one["storage"] == true,
    );
    first(&|one| one["name"] == name)
        .or_else(|| first(&|one| served(one) && stored(one)))
        .or_else(|| first(&served))
        .or_else(|| first(&stored))
}

/// The field at `path` in a version.
pub(super) fn slot<'a>(version: &'a Value, path: &[&str]) -> Slot<'a> {
    let mut at = &version["schema"]["openAPIV3Schema"];
    if !at.is_object() {
        return Slot::Kept;
    }
    for name in path {
        let kept = at["x-kubernetes-preserve-unknown-fields"] == true;
        at = match at["properties"].get(*name) {
            Some(next) => next,
            None if kept => return Slot::Kept,
            None => match &at["additionalProperties"] {
                values @ Value::Object(_) => values,
                Value::Bool(true) => return Slot::Kept,
                _ => return Slot::Pruned,
            },
        };
    }
    Slot::Described(at)
}

/// The command that adds the field to the schema, below the deepest parent that is there.
pub(super) fn add(definition: &Value, version: usize, path: &[&str], schema: Value) -> String {
    let root = &definition["spec"]["versions"][version]["schema"]["openAPIV3Schema"];
    let (mut at, mut pointer) = (root, format!("/spec/versions/{version}/schema/openAPIV3Schema"));
    let mut depth = 0;
    while let Some(next) = path.get(depth).and_then(|name| at["properties"].get(*name)) {
        at = next;
        pointer.push_str(&format!("/properties/{}", escaped(path[depth])));
        depth += 1;
    }
    let Some(first) = path.get(depth) else {
        return patch(
            definition,
            &json!([{"op": "replace", "path": pointer, "value": schema}]),
        );
    };
    let nested = path[depth + 1..].iter().rev().fold(
        schema,
        |inner, name| json!({"type": "object", "properties": {*name: inner}}),
    );
    let operation = if at["properties"].is_object() {
        json!([{"op": "add", "path": format!("{pointer}/properties/{}", escaped(first)), "value": nested}])
    } else {
        json!([{"op": "add", "path": format!("{pointer}/properties"), "value": {*first: nested}}])
    };
    patch(definition, &operation)
}

/// The command that takes a member of the field's schema away.
pub(super) fn without(definition: &Value, version: usize, path: &[&str], member: &str) -> String {
    let mut pointer = format!("/spec/versions/{version}/schema/openAPIV3Schema");
    for name in path {
        pointer.push_str(&format!("/properties/{}", escaped(name)));
    }
    patch(
        definition,
        &json!([{"op": "remove", "path": format!("{pointer}/{member}")}]),
    )
}

/// The command that gives a version the status subresource.
pub(super) fn add_status(definition: &Value, version: usize) -> String {
    let path = format!("/spec/versions/{version}/subresources");
    let operation = if definition["spec"]["versions"][version]["subresources"].is_object() {
        json!([{"op": "add", "path": format!("{path}/status"), "value": {}}])
    } else {
        json!([{"op": "add", "path": path, "value": {"status": {}}}])
    };
    patch(definition, &operation)
}

fn patch(definition: &Value, operations: &Value) -> String {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    format!(
        "kubectl patch crd {name} --type=json -p {}",
        quoted(&operations.to_string())
    )
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: [&str; 4] = ["spec", "updateStrategy", "rollingUpdate", "partition"];

    fn definition(schema: Value) -> Value {
        json!({"metadata": {"name": "apps.example.io"}, "spec": {"versions": [
            {"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    }

    /// The definition as the printed command leaves it.
    fn patched(definition: &Value, command: &str) -> Value {
        let text = command.split_once(" -p '").unwrap().1.trim_end_matches('\'');
        let mut after = definition.clone();
        let patch: json_patch::Patch = serde_json::from_str(text).unwrap();
        json_patch::patch(&mut after, &patch).unwrap();
        after
    }

    #[test]
    fn a_field_is_added_wherever_the_schema_ends() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"spec": {"type": "object"}}}),
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "updateStrategy": {"type": "object", "properties": {"rollingUpdate": {"type": "object"}}}}}}}),
        ] {
            let before = definition(schema);
            let (index, at) = version(&before, "v1").unwrap();
            assert_eq!(slot(at, &PATH), Slot::Pruned);
            let after = patched(&before, &add(&before, index, &PATH, json!({"type": "integer"})));
            let (_, at) = version(&after, "v1").unwrap();
            assert_eq!(
                slot(at, &PATH),
                Slot::Described(&json!({"type": "integer"})),
                "{after:#}"
            );
        }
    }

    #[test]
    fn without_a_name_a_version_that_is_served_is_looked_at() {
        let of = |versions: Value| {
            let definition = json!({"spec": {"versions": versions}});
            version(&definition, "").map(|(index, _)| index)
        };
        let one = |served: bool, stored: bool| json!({"name": "v", "served": served, "storage": stored});
        assert_eq!(of(json!([one(true, false), one(true, true)])), Some(1));
        assert_eq!(of(json!([one(false, true), one(true, false)])), Some(1));
        assert_eq!(of(json!([one(false, false), one(false, true)])), Some(1));
        assert_eq!(of(json!([])), None);
    }

    #[test]
    fn what_is_kept_is_not_pruned() {
        let kept =
            definition(json!({"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": true}}}));
        assert_eq!(slot(version(&kept, "v1").unwrap().1, &PATH), Slot::Kept);
        let values =
            definition(json!({"properties": {"spec": {"additionalProperties": {"type": "string"}}}}));
        let at = version(&values, "v1").unwrap().1;
        assert_eq!(slot(at, &PATH[..2]), Slot::Described(&json!({"type": "string"})));
    }

    #[test]
    fn a_bound_and_the_subresource_are_mended() {
        let bounded = definition(
            json!({"properties": {"spec": {"properties": {"updateStrategy": {"properties": {
            "rollingUpdate": {"properties": {"partition": {"type": "integer", "maximum": 10}}}}}}}}}),
        );
        let after = patched(&bounded, &without(&bounded, 0, &PATH, "maximum"));
        let (index, at) = version(&after, "v1").unwrap();
        assert_eq!(slot(at, &PATH), Slot::Described(&json!({"type": "integer"})));
        let after = patched(&after, &add_status(&after, index));
        assert!(after["spec"]["versions"][0]["subresources"]["status"].is_object());
    }
}
