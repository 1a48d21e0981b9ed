//! The policy that refuses what would be stored unheld.

use serde_json::{Value, json};

use super::cel::{any_of, is_fixed, is_rolling, of_the_hold, quoted, variable};
use super::{Governed, Scope, guarded, not_let_go, not_our_own_step, touched};
use crate::names;
use crate::workload::{Adapter, Means};

/// The `spec` of the ValidatingAdmissionPolicy that sees what is going to be stored, after all mutating webhooks. Where one of them
/// changes the template in a write that did not concern the hold, the API server does not ask the policy that holds any more. `None`
/// for kinds without a partition.
#[must_use]
pub fn confirm(adapter: &dyn Adapter, scope: &Scope<'_>) -> Option<Value> {
    let partition = adapter.partition_path()?;
    let mut conditions = vec![guarded()];
    conditions.extend(may_be_loosened(adapter));
    conditions.extend([not_our_own_step(scope.username), not_let_go(scope.username)]);
    let mut variables = of_the_hold(adapter, partition);
    let guard = quoted(names::GUARDED_BY);
    variables.push(variable(
        "kept",
        format!(
            "variables.newMarks[?{guard}] == variables.oldMarks[?{guard}] && (!variables.changed && !variables.held || \
             variables.asked.exists(p, p >= variables.floor) && {} && {} in variables.newMarks && \
             variables.newMarks[?{}].orValue('') == string(variables.floor))",
            is_rolling(adapter),
            quoted(names::IN_PROGRESSING),
            quoted(names::GRANTED_PARTITION),
        ),
    ));
    Some(json!({
        "failurePolicy": "Fail",
        "matchConstraints": scope.constraints(Governed::resources),
        "matchConditions": conditions,
        "variables": variables,
        "validations": [{
            "expression": "variables.kept",
            "reason": "Forbidden",
            "messageExpression": "object.metadata.name + ': pods would be updated without a step of Rollout ' + variables.rollout \
                + ', because a mutating webhook has changed the template or the hold after it had been looked at, or because the \
                policy that holds has gone. Take the workload out of the rules of that webhook, or look at the controller'",
        }],
    }))
}

/// Conditions: the template changes and is not held, the guard mark changes, or in mid-release what the hold is made of. Where no
/// webhook undoes what was made of a write, there are few such updates.
#[must_use]
pub fn may_be_loosened(adapter: &dyn Adapter) -> [Value; 2] {
    let means = &adapter.paths().means;
    let fully = match means {
        Means::Partition(field) => format!(
            "object.?{}.optMap(p, type(p) == int && p >= {}).orValue(false) && {}",
            field.path().join(".?"),
            names::HOLD_PARTITION,
            is_rolling(adapter)
        ),
        Means::Held(held) => {
            let fixed: Vec<_> = held.fields.iter().map(is_fixed).collect();
            format!(
                "{} && object.metadata.?annotations[?{}].orValue('') == '{}'",
                fixed.join(" && "),
                quoted(names::GRANTED_PARTITION),
                names::HOLD_PARTITION
            )
        }
    };
    let members = touched(adapter);
    let (guard, held) = (quoted(names::GUARDED_BY), quoted(names::IN_PROGRESSING));
    let release = any_of(names::RELEASE_MARKS);
    [
        json!({
            "name": "not-held",
            "expression": format!(
                "!({fully} && \
                 object.metadata.?annotations[?{held}].hasValue() && \
                 object.metadata.?annotations[?{guard}] == oldObject.metadata.?annotations[?{guard}])",
            ),
        }),
        json!({
            "name": "the-hold-may-be-loosened",
            "expression": format!(
                "object.?spec.?template != oldObject.?spec.?template || \
                 object.metadata.?annotations[?{guard}] != oldObject.metadata.?annotations[?{guard}] || \
                 oldObject.metadata.?annotations[?{held}].hasValue() && (\
                 {members}.exists(f, object.?spec[?f] != oldObject.?spec[?f]) || \
                 {release}.exists(k, object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k]))"
            ),
        }),
    ]
}
