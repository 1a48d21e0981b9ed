//! The policy that refuses what would be stored unheld.

use serde_json::{Value, json};

use super::cel::{is_rolling, of_the_hold, quoted, variable};
use super::{Governed, Scope, guarded, not_let_go, not_our_own_step};
use crate::names;
use crate::workload::Adapter;

/// The `spec` of the ValidatingAdmissionPolicy that sees what is going to be stored, after all mutating webhooks. Where one of them
/// changes the template in a write that did not concern the hold, the API server does not ask the policy that holds any more.
#[must_use]
pub fn confirm(adapter: &dyn Adapter, scope: &Scope<'_>) -> Value {
    let mut conditions = vec![guarded()];
    conditions.extend(may_be_loosened(adapter));
    conditions.extend([not_our_own_step(scope.username), not_let_go(scope.username)]);
    let mut variables = of_the_hold(adapter);
    variables.push(variable(
        "kept",
        format!(
            "variables.asked.exists(p, p >= variables.floor) && {} && {} in variables.newMarks",
            is_rolling(adapter),
            quoted(names::IN_PROGRESSING)
        ),
    ));
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": scope.constraints(Governed::resources),
        "matchConditions": conditions,
        "variables": variables,
        "validations": [{
            "expression": "variables.kept",
            "reason": "Forbidden",
            "messageExpression": "object.metadata.name + ': a mutating webhook has changed the template or the hold after it had \
                been looked at, so that pods would be updated without a step of Rollout ' + variables.rollout + '. Take the \
                workload out of the rules of that webhook'",
        }],
    })
}

/// Conditions: the template changes and is not held, or the strategy changes in mid-release. Where no webhook undoes what was made of
/// a write, there are no such updates.
#[must_use]
pub fn may_be_loosened(adapter: &dyn Adapter) -> [Value; 2] {
    let partition = adapter.partition_path().join(".?");
    [
        json!({
            "name": "not-held",
            "expression": format!(
                "!object.?{partition}.optMap(p, type(p) == int && p >= {}).orValue(false)",
                names::HOLD_PARTITION
            ),
        }),
        json!({
            "name": "the-hold-may-be-loosened",
            "expression": format!(
                "object.?spec.?template != oldObject.?spec.?template || \
                 (oldObject.metadata.?annotations[?{}].hasValue() && \
                 object.?spec.?updateStrategy != oldObject.?spec.?updateStrategy)",
                quoted(names::IN_PROGRESSING)
            ),
        }),
    ]
}
