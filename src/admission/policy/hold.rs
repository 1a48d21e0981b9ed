//! The policy that holds.

use serde_json::{Value, json};

use super::cel::{
    PERCENT, any_of, at, is_integer, is_map, is_rolling, of_the_hold, pointer, prune, quoted, set, variable,
};
use super::{Governed, Scope, guarded, may_touch_the_hold, not_let_go, not_our_own_step};
use crate::names;
use crate::workload::Adapter;

/// The `spec` of the MutatingAdmissionPolicy that holds workloads of the adapter's kinds; `None` where these have no partition.
#[must_use]
pub fn hold(adapter: &dyn Adapter, scope: &Scope<'_>) -> Option<Value> {
    let partition = adapter.partition_path()?;
    let mut variables = of_the_hold(adapter, partition);
    variables.extend(of_the_writer(partition));
    Some(json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": scope.constraints(Governed::resources),
        "matchConditions": [
            guarded(), may_touch_the_hold(adapter), not_our_own_step(scope.username), not_let_go(scope.username),
        ],
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!(
            "variables.changed || variables.held ? {} : {}",
            keep(adapter, partition),
            restore(partition)
        )}}],
    }))
}

/// What the writer asks for: an object whose partition is the grant in its own marks echoes a state of ours, and nobody asked for
/// that; it asks for the original partition that it carries. Else the partition to restore is the one that people asked for last.
/// And what is answered: partition and marks.
fn of_the_writer(partition: &[&str]) -> Vec<Value> {
    let new_mark = |mark| format!("variables.newMarks[?{}].orValue('')", quoted(mark));
    let none = quoted(names::NO_PARTITION);
    let original = |marks: &str| {
        let mark = quoted(names::ORIGINAL_PARTITION);
        format!(
            "[variables.{marks}[?{mark}].orValue('')].map(t, t.matches('^[0-9]{{1,10}}$') ? string(int(t)) : \
             t.matches('^{PERCENT}$') ? t : {none})[0]"
        )
    };
    let asked = |root: &str| {
        format!(
            "[{}].map(p, {} ? string(int(p)) : \
             type(p) == string && string(p).matches('^{PERCENT}$') ? string(p) : {none})[0]",
            at(root, partition),
            is_integer("p")
        )
    };
    vec![
        variable(
            "echoes",
            format!(
                "{} in variables.newMarks && variables.asked.exists(p, string(p) == {}) && \
                 {}.matches('^({}|[0-9]{{1,10}}|{PERCENT})$')",
                quoted(names::IN_PROGRESSING),
                new_mark(names::GRANTED_PARTITION),
                new_mark(names::ORIGINAL_PARTITION),
                names::NO_PARTITION
            ),
        ),
        // A count, a percentage, or the word for none.
        variable("askedText", asked("object")),
        variable("askedBefore", asked("oldObject")),
        variable("oldOriginal", original("oldMarks")),
        variable("newOriginal", original("newMarks")),
        variable(
            "original",
            "variables.echoes ? variables.newOriginal : \
             variables.held && variables.askedText == variables.askedBefore ? variables.oldOriginal : variables.askedText",
        ),
        variable(
            "partition",
            "!variables.echoes && variables.asked.exists(p, p > variables.floor) ? variables.asked[0] : variables.floor",
        ),
        variable(
            "marks",
            format!(
                "{{{guard}: string(variables.oldMarks[{guard}]), {}: '{{\"rolloutName\":\"' + variables.rollout + '\"}}', \
                 {}: string(variables.floor), {}: variables.original}}",
                quoted(names::IN_PROGRESSING),
                quoted(names::GRANTED_PARTITION),
                quoted(names::ORIGINAL_PARTITION),
                guard = quoted(names::GUARDED_BY),
            ),
        ),
    ]
}

/// What is changed in a release, and of a new template.
fn keep(adapter: &dyn Adapter, partition: &[&str]) -> String {
    let label = quoted(names::WORKLOAD_TYPE);
    let marks = [&[names::GUARDED_BY], names::RELEASE_MARKS.as_slice()].concat();
    let partition = set(partition, "variables.partition");
    let rolling = adapter.strategy_type_path().map_or("[]".to_owned(), |path| {
        format!(
            "({} ? [] : [{}])",
            is_rolling(adapter),
            set(path, "'RollingUpdate'")
        )
    });
    let kept_label = set(
        &["metadata", "labels", names::WORKLOAD_TYPE],
        &format!("oldObject.metadata.labels[{label}]"),
    );
    format!(
        "[{partition}] + {rolling} + \
         ({} ? {}.map(k, JSONPatch{{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey(k), value: variables.marks[k]}}) \
         : [JSONPatch{{op: 'add', path: '/metadata/annotations', value: variables.marks}}]) + \
         (oldObject.metadata.?labels[?{label}].hasValue() ? [{kept_label}] : [])",
        is_map("object", &["metadata", "annotations"]),
        any_of(marks),
    )
}

/// What is changed at rest, where a writer may do anything but touch the marks. An echo of a release asks for what it says people
/// want.
fn restore(path: &[&str]) -> String {
    let guard = quoted(names::GUARDED_BY);
    let removed = names::RELEASE_MARKS.iter().map(|mark| {
        let pointer = pointer(["metadata", "annotations", *mark]);
        format!(
            "({} in variables.newMarks ? [JSONPatch{{op: 'remove', path: {pointer}}}] : [])",
            quoted(mark)
        )
    });
    let removed: Vec<_> = removed.collect();
    let original = "(variables.newOriginal.endsWith('%') ? dyn(variables.newOriginal) : dyn(int(variables.newOriginal)))";
    format!(
        "(!variables.echoes ? [] : variables.newOriginal == {} ? [{}] : [{}]) + {} + \
         (variables.newMarks[?{guard}] == variables.oldMarks[?{guard}] ? [] : [{}])",
        quoted(names::NO_PARTITION),
        prune(path),
        set(path, original),
        removed.join(" + "),
        set(
            &["metadata", "annotations", names::GUARDED_BY],
            &format!("variables.oldMarks[{guard}]")
        ),
    )
}
