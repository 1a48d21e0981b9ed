//! The policy that holds.

use serde_json::{Value, json};

use super::cel::{any_of, count, is_map, is_rolling, of_the_hold, pointer, prune, quoted, set, variable};
use super::{Governed, Scope, guarded, may_touch_the_hold, not_let_go, not_our_own_step};
use crate::names;
use crate::workload::Adapter;

/// The `spec` of the MutatingAdmissionPolicy that holds workloads of the adapter's kinds.
#[must_use]
pub fn hold(adapter: &dyn Adapter, scope: &Scope<'_>) -> Value {
    let mut variables = of_the_hold(adapter.partition_path());
    variables.extend(of_the_writer());
    json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": scope.constraints(Governed::resources),
        "matchConditions": [
            guarded(), may_touch_the_hold(), not_our_own_step(scope.username), not_let_go(scope.username),
        ],
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!(
            "variables.changed || variables.held ? {} : {}",
            keep(adapter),
            restore(adapter)
        )}}],
    })
}

/// What the writer asks for: an object whose partition is the grant in its own marks echoes a state of ours, and nobody asked for
/// that; it asks for the original partition that it carries. Else the partition to restore is the one that people asked for last.
/// And what is answered: partition and marks.
fn of_the_writer() -> Vec<Value> {
    let new_mark = |mark| format!("variables.newMarks[?{}].orValue('')", quoted(mark));
    let original = |marks: &str| {
        let text = format!(
            "variables.{marks}[?{}].orValue('')",
            quoted(names::ORIGINAL_PARTITION)
        );
        format!("[{text}].map(t, {})[0]", count("t", "-1"))
    };
    let text = |count: &str| {
        format!(
            "({count} < 0 ? {} : string({count}))",
            quoted(names::NO_PARTITION)
        )
    };
    vec![
        variable(
            "echoes",
            format!(
                "{} in variables.newMarks && variables.asked.exists(p, string(p) == {}) && \
                 {}.matches('^({}|[0-9]{{1,9}})$')",
                quoted(names::IN_PROGRESSING),
                new_mark(names::GRANTED_PARTITION),
                new_mark(names::ORIGINAL_PARTITION),
                names::NO_PARTITION
            ),
        ),
        // A count, or -1 where there is none.
        variable("oldOriginal", original("oldMarks")),
        variable("newOriginal", original("newMarks")),
        variable(
            "original",
            format!(
                "variables.echoes ? {} : variables.held && variables.asked == variables.askedBefore ? {} : \
                 size(variables.asked) > 0 ? string(variables.asked[0]) : {}",
                text("variables.newOriginal"),
                text("variables.oldOriginal"),
                quoted(names::NO_PARTITION)
            ),
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
fn keep(adapter: &dyn Adapter) -> String {
    let label = quoted(names::WORKLOAD_TYPE);
    let marks = [&[names::GUARDED_BY], names::RELEASE_MARKS.as_slice()].concat();
    let partition = set(adapter.partition_path(), "variables.partition");
    let rolling = set(adapter.strategy_type_path(), "'RollingUpdate'");
    let kept_label = set(
        &["metadata", "labels", names::WORKLOAD_TYPE],
        &format!("oldObject.metadata.labels[{label}]"),
    );
    format!(
        "[{partition}] + ({} ? [] : [{rolling}]) + \
         ({} ? {}.map(k, JSONPatch{{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey(k), value: variables.marks[k]}}) \
         : [JSONPatch{{op: 'add', path: '/metadata/annotations', value: variables.marks}}]) + \
         (oldObject.metadata.?labels[?{label}].hasValue() ? [{kept_label}] : [])",
        is_rolling(adapter.strategy_type_path()),
        is_map("object", &["metadata", "annotations"]),
        any_of(marks),
    )
}

/// What is changed at rest, where a writer may do anything but touch the marks. An echo of a release asks for what it says people
/// want.
fn restore(adapter: &dyn Adapter) -> String {
    let path = adapter.partition_path();
    let guard = quoted(names::GUARDED_BY);
    let removed = names::RELEASE_MARKS.iter().map(|mark| {
        let pointer = pointer(["metadata", "annotations", *mark]);
        format!(
            "({} in variables.newMarks ? [JSONPatch{{op: 'remove', path: {pointer}}}] : [])",
            quoted(mark)
        )
    });
    let removed: Vec<_> = removed.collect();
    format!(
        "(!variables.echoes ? [] : variables.newOriginal < 0 ? [{}] : [{}]) + {} + \
         (variables.newMarks[?{guard}] == variables.oldMarks[?{guard}] ? [] : [{}])",
        prune(path),
        set(path, "variables.newOriginal"),
        removed.join(" + "),
        set(
            &["metadata", "annotations", names::GUARDED_BY],
            &format!("variables.oldMarks[{guard}]")
        ),
    )
}
