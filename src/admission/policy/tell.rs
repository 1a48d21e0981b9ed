//! The policy that tells the writer what became of the write; a mutating policy has no words.

use serde_json::{Value, json};

use super::cel::{any_of, quoted, variable};
use super::{Scope, not_our_own_step};
use crate::names;

/// The `spec` of the ValidatingAdmissionPolicy that warns, in the webhook's words.
///
/// It sees what is stored, not what was asked for. So every write of a held workload is told that a release is in progress, unless
/// it visibly was about other metadata; and whether a template is the stable one again it cannot know.
#[must_use]
pub fn tell(scope: &Scope<'_>) -> Value {
    let (held, guard, granted) = (
        quoted(names::IN_PROGRESSING),
        quoted(names::GUARDED_BY),
        quoted(names::GRANTED_PARTITION),
    );
    let see = "see: kubectl kruise rollout status ' + variables.rollout + ' -n ' + object.metadata.namespace";
    json!({
        "failurePolicy": "Ignore",
        // Whoever writes status is no person.
        "matchConstraints": scope.constraints(|kind| vec![kind.plural.clone()]),
        "matchConditions": [
            {
                "name": "held",
                "expression": format!(
                    "{held} in object.metadata.?annotations.orValue({{}}) && \
                     object.metadata.annotations[?{guard}].orValue('').startsWith(object.metadata.uid + '/')"
                ),
            },
            not_our_own_step(scope.username),
            {"name": "not-about-other-metadata", "expression": not_about_other_metadata()},
        ],
        "variables": [
            variable("rollout", format!("object.metadata.annotations[{guard}].split('/', 3)[1]")),
            variable("changed", "object.?spec.?template != oldObject.?spec.?template"),
            variable("before", format!("{held} in oldObject.metadata.?annotations.orValue({{}})")),
        ],
        "validations": [
            {
                "expression": "!variables.changed || variables.before",
                "messageExpression": format!("'the new template is held by Rollout ' + variables.rollout + '; {see}"),
            },
            {
                "expression": "!variables.changed || !variables.before",
                "messageExpression": format!(
                    "'the new template is held by Rollout ' + variables.rollout + ', which rolls back if it is the stable one; {see}"
                ),
            },
            {
                "expression": "variables.changed",
                "messageExpression": format!(
                    "'a release is in progress: the partition stays at ' + \
                     object.metadata.annotations[?{granted}].orValue('{}') + ' or above until Rollout ' + variables.rollout + \
                     ' grants more; {see}",
                    names::HOLD_PARTITION
                ),
            },
        ],
    })
}

/// What of the spec is not as before, or nothing at all is other than before: then something was put right.
fn not_about_other_metadata() -> String {
    let marks = [
        &[names::LAST_APPLIED, names::GUARDED_BY],
        names::RELEASE_MARKS.as_slice(),
    ]
    .concat();
    let ours = any_of(marks);
    let differs = |one: &str, other: &str| {
        format!(
            "{one}.metadata.?annotations.orValue({{}}).exists(k, !(k in {ours}) && \
             {one}.metadata.annotations[k] != {other}.metadata.?annotations[?k].orValue(''))"
        )
    };
    format!(
        "object.?spec != oldObject.?spec || !(\
         ['labels', 'finalizers', 'ownerReferences'].exists(f, object.metadata[?f] != oldObject.metadata[?f]) || \
         {} || {})",
        differs("object", "oldObject"),
        differs("oldObject", "object")
    )
}
