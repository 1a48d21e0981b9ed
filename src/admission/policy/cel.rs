//! Pieces of CEL. What they read may be absent, null, or of any type: a schemaless kind stores what it is sent.

use serde_json::{Value, json};

use crate::names;
use crate::workload::{Adapter, Fixed, HeldField};

/// A string literal.
pub(super) fn quoted(text: &str) -> String {
    let mut literal = String::from("'");
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal.push('\'');
    literal
}

/// A list of string literals.
pub(super) fn any_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let literals: Vec<_> = texts.into_iter().map(quoted).collect();
    format!("[{}]", literals.join(", "))
}

/// What is at a path below `root`, or null.
pub(super) fn at(root: &str, path: &[&str]) -> String {
    format!("{root}.?{}.orValue(null)", path.join(".?"))
}

/// Whether there is a map at a path below `root`.
pub(super) fn is_map(root: &str, path: &[&str]) -> String {
    format!("type({}) == map", at(root, path))
}

/// A percentage as people write one; see [`crate::workload::Partition`].
pub(super) const PERCENT: &str = "(0|[1-9][0-9]{0,2})%";

/// A variable of a policy, or a condition.
pub(in crate::admission) fn variable(name: &str, expression: impl Into<String>) -> Value {
    json!({"name": name, "expression": expression.into()})
}

/// A count from an annotation: at most ten digits, else what is given instead.
pub(super) fn count(text: &str, otherwise: &str) -> String {
    format!("({text}.matches('^[0-9]{{1,10}}$') ? int({text}) : {otherwise})")
}

/// An operation that sets the member at a path of `object` and creates the parents that are missing or no maps.
pub(super) fn set(path: &[&str], value: &str) -> String {
    let mut expression = String::new();
    for depth in (1..path.len()).rev() {
        let (present, missing) = path.split_at(depth);
        expression += &format!(
            "{} ? {} : ",
            is_map("object", present),
            add(present, missing, value)
        );
    }
    expression + &add(&[], path, value)
}

/// An operation that adds the first of the missing members, with the others in it.
fn add(present: &[&str], missing: &[&str], value: &str) -> String {
    let at = present.iter().chain(missing.first());
    let nested = missing.iter().skip(1).rev();
    let nested = nested.fold(value.to_owned(), |inner, name| {
        format!("{{{}: {inner}}}", quoted(name))
    });
    format!(
        "JSONPatch{{op: 'add', path: {}, value: {nested}}}",
        pointer(at.copied())
    )
}

/// An operation that removes the member at a path of `object`, and with it the parents, below the first, that it leaves empty.
pub(super) fn prune(path: &[&str]) -> String {
    let mut expression = String::new();
    for depth in (2..path.len()).rev() {
        let parent = format!("object.{}", path[..depth].join("."));
        expression += &format!("{parent}.size() > 1 ? {} : ", remove(&path[..=depth]));
    }
    expression + &remove(&path[..2])
}

fn remove(path: &[&str]) -> String {
    format!(
        "JSONPatch{{op: 'remove', path: {}}}",
        pointer(path.iter().copied())
    )
}

/// A JSON pointer as a literal.
pub(super) fn pointer<'a>(path: impl IntoIterator<Item = &'a str>) -> String {
    quoted(&crate::lens::pointer(path).to_string())
}

/// Variables that more than one policy needs: what the marks and the object say. The partition is a list of at most one integer, since
/// a percentage keeps nothing back for sure.
pub(super) fn of_the_hold(adapter: &dyn Adapter, partition: &[&str]) -> Vec<Value> {
    let large = names::HOLD_PARTITION.to_string();
    let old_mark = |mark| format!("variables.oldMarks[?{}].orValue('')", quoted(mark));
    // Where it is not people who write them, no write adds any.
    let replicas = |root: &str| {
        adapter.replicas_path().map_or("1".to_owned(), |path| {
            format!("[{}].map(r, {} ? int(r) : 1)[0]", at(root, path), is_integer("r"))
        })
    };
    vec![
        variable("oldMarks", "oldObject.metadata.?annotations.orValue({})"),
        variable("newMarks", "object.metadata.?annotations.orValue({})"),
        variable(
            "rollout",
            format!("{}.split('/', 3)[1]", old_mark(names::GUARDED_BY)),
        ),
        variable("changed", "object.?spec.?template != oldObject.?spec.?template"),
        variable(
            "held",
            format!("{} in variables.oldMarks", quoted(names::IN_PROGRESSING)),
        ),
        variable(
            "asked",
            format!(
                "[{}].filter(p, {}).map(p, int(p))",
                at("object", partition),
                is_integer("p")
            ),
        ),
        variable("oldReplicas", replicas("oldObject")),
        variable("newReplicas", replicas("object")),
        // A grant that cannot be read grants nothing.
        variable("grant", count(&old_mark(names::GRANTED_PARTITION), &large)),
        // The least partition that this write may leave behind; pods that the same write adds are not granted.
        variable(
            "floor",
            format!(
                "variables.changed || !variables.held ? {large} : \
                 variables.newReplicas > variables.oldReplicas && variables.newReplicas > variables.grant \
                 ? variables.newReplicas : variables.grant"
            ),
        ),
    ]
}

/// Whether a value is an integer, be it written like `10.0`: it is stored as one.
pub(super) fn is_integer(name: &str) -> String {
    format!(
        "(type({name}) == int || (type({name}) == double && {name} > -1e12 && {name} < 1e12 && double(int({name})) == {name}))"
    )
}

/// Whether a held field of `object` is as it is held.
pub(super) fn is_fixed(field: &HeldField) -> String {
    let found = at("object", field.path);
    match field.fixed {
        Fixed::Text(text) => format!("{found} == {}", quoted(text)),
        Fixed::True => format!("{found} == true"),
        Fixed::Absent => format!("{found} == null"),
    }
}

/// Whether the update type of `object` is one that heeds the partition, or none.
pub(super) fn is_rolling(adapter: &dyn Adapter) -> String {
    adapter.strategy_type_path().map_or("true".to_owned(), |path| {
        format!(
            "[{}].all(t, t == null || (type(t) == string && t in ['', 'RollingUpdate']))",
            at("object", path)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_end_where_they_should() {
        assert_eq!(quoted(r"it's \ here"), r"'it\'s \\ here'");
        assert_eq!(any_of(["a", "b"]), "['a', 'b']");
    }

    #[test]
    fn parents_are_made_where_they_are_missing() {
        assert_eq!(
            set(&["spec", "s", "p"], "4"),
            "type(object.?spec.?s.orValue(null)) == map ? JSONPatch{op: 'add', path: '/spec/s/p', value: 4} : \
             type(object.?spec.orValue(null)) == map ? JSONPatch{op: 'add', path: '/spec/s', value: {'p': 4}} : \
             JSONPatch{op: 'add', path: '/spec', value: {'s': {'p': 4}}}"
        );
    }

    #[test]
    fn parents_go_where_they_are_left_empty() {
        assert_eq!(
            prune(&["spec", "s", "p"]),
            "object.spec.s.size() > 1 ? JSONPatch{op: 'remove', path: '/spec/s/p'} : JSONPatch{op: 'remove', path: '/spec/s'}"
        );
    }
}
