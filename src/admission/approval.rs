//! The policy of `rollouts/status`: whoever may patch it approves the step that is paused, and writes nothing else.
//!
//! Roles know the status as a whole only, and the controller takes what stands there for its own memory: without the policy, the
//! right to approve one step would be the right to declare a release completed. It is a ValidatingAdmissionPolicy, so the API
//! server judges by itself, also while no controller runs. Administrators are bound by it as everybody is; who has to repair a
//! status does so as a member of [`names::BREAK_GLASS_GROUP`].

use serde_json::{Value, json};

use super::policy::cel::variable as named;
use crate::api::v1beta1::step_state::{STEP_PAUSED, STEP_READY};
use crate::area::Area;
use crate::names;

/// Parts of the status with the state of a release, one for each style.
const RELEASES: [&str; 2] = ["canaryStatus", "blueGreenStatus"];

/// The `spec` of the ValidatingAdmissionPolicy [`names::STATUS_POLICY`] of an area.
///
/// `username` is the controller's, to whom the policy does not apply. With `may_jump`, `canaryStatus.nextStepIndex` may be set to
/// the number of any step, too, in a write of its own.
#[must_use]
pub fn policy(username: &str, area: &Area, may_jump: bool) -> Value {
    let rule = json!({
        "apiGroups": [names::GROUP], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["rollouts/status"], "scope": "*",
    });
    let allowed = if may_jump {
        "variables.approves || variables.jumps"
    } else {
        "variables.approves"
    };
    let mut constraints = json!({"matchPolicy": "Equivalent", "resourceRules": [rule]});
    if let Some(selector) = area.selector_of_rollouts() {
        constraints["namespaceSelector"] = selector;
    }
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints,
        "matchConditions": [
            named("not-the-controller", format!("request.userInfo.username != {}", text(username))),
            named("not-break-glass", format!(
                "!({} in request.userInfo.?groups.orValue([]))", text(names::BREAK_GLASS_GROUP)
            )),
            named("the-status-changes", "object.?status != oldObject.?status"),
        ],
        "variables": variables(may_jump),
        "validations": [{
            "expression": allowed,
            "reason": "Forbidden",
            "message": remedy(may_jump),
            "messageExpression": format!("{REPORT} + {}", text(&format!(". {}", remedy(may_jump)))),
        }],
    })
}

/// The `spec` of the ValidatingAdmissionPolicyBinding [`names::STATUS_POLICY`] of an area.
#[must_use]
pub fn binding(area: &Area) -> Value {
    super::policy::validating_binding(&area.name(names::STATUS_POLICY), "Deny")
}

/// Which object, what would change, and in which state the step is.
const REPORT: &str = "'Rollout ' + object.metadata.namespace + '/' + object.metadata.name + ': this would change ' + \
     variables.changed.join(', ') + '; the step is ' + variables.stepBefore + \
     (variables.stepAfter == variables.stepBefore ? '' : ' and would become ' + variables.stepAfter)";

/// What is allowed, and the way out.
fn remedy(may_jump: bool) -> String {
    let approval = format!(
        "an approval, that is status.canaryStatus.currentStepState from {STEP_PAUSED} to {STEP_READY}"
    );
    let allowed = if may_jump {
        format!(
            "{approval}, or else a jump, that is status.canaryStatus.nextStepIndex to the number of a step"
        )
    } else {
        format!("{approval}, and nothing else")
    };
    format!(
        "Of the status people may write {allowed}. To repair a status, write it as a member of the group {}",
        names::BREAK_GLASS_GROUP
    )
}

/// What the validation and its message are made of.
fn variables(may_jump: bool) -> Vec<Value> {
    let mut variables = vec![
        named("was", "oldObject.?status.orValue({})"),
        named("now", "object.?status.orValue({})"),
        named("members", differing("variables.was", "variables.now")),
    ];
    // The state of a release is looked into, unless it appears or vanishes as a whole.
    for release in RELEASES {
        let (was, now) = (
            format!("variables.was.{release}"),
            format!("variables.now.{release}"),
        );
        let paths = differing(&was, &now);
        variables.push(named(
            release,
            format!(
                "'{release}' in variables.was && '{release}' in variables.now \
                 ? ({paths}).map(k, 'status.{release}.' + k) : []"
            ),
        ));
    }
    let [canary, blue_green] = RELEASES;
    let whole = format!(
        "variables.members.filter(k, !(k in ['{canary}', '{blue_green}'] && k in variables.was && k in variables.now))\
         .map(k, 'status.' + k)"
    );
    variables.extend([
        named(
            "changed",
            format!("{whole} + variables.{canary} + variables.{blue_green}"),
        ),
        named("stepBefore", step("variables.was")),
        named("stepAfter", step("variables.now")),
        named("approves", RELEASES.map(approves).join(" || ")),
    ]);
    if may_jump {
        variables.push(named(
            "jumps",
            "variables.changed == ['status.canaryStatus.nextStepIndex'] && variables.now.canaryStatus.nextStepIndex >= 1 && \
             variables.now.canaryStatus.nextStepIndex <= size(object.spec.?strategy.?canary.?steps.orValue([]))",
        ));
    }
    variables
}

/// The names of the members in which two objects differ.
fn differing(was: &str, now: &str) -> String {
    format!("{was}.filter(k, {was}[?k] != {now}[?k]) + {now}.filter(k, !(k in {was}))")
}

/// The state of the step in a status.
fn step(status: &str) -> String {
    let [canary, blue_green] = RELEASES.map(|release| format!("{status}.?{release}.?currentStepState"));
    format!("{canary}.or({blue_green}).orValue('not set')")
}

/// The step of this release goes from paused to ready, the copy of its state with it or not, and nothing else changes.
fn approves(release: &str) -> String {
    let state = |status: &str| format!("variables.{status}.?{release}.?currentStepState.orValue('')");
    let (was, now) = (state("was"), state("now"));
    format!(
        "({was} == '{STEP_PAUSED}' && {now} == '{STEP_READY}' && \
         variables.changed.all(path, path == 'status.{release}.currentStepState' || \
         (path == 'status.currentStepState' && variables.now.?currentStepState.orValue('') == '{STEP_READY}')))"
    )
}

/// A text as a literal of CEL, whose escapes are a superset of JSON's.
fn text(content: &str) -> String {
    json!(content).to_string()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::{
        ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
    };

    use super::*;

    fn area() -> Area {
        Area::whole("ops")
    }

    #[test]
    fn both_are_objects_of_their_kinds() {
        for may_jump in [false, true] {
            let spec = policy("us", &area(), may_jump);
            let typed: ValidatingAdmissionPolicySpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(serde_json::to_value(typed).unwrap(), spec);
        }
        let typed: ValidatingAdmissionPolicyBindingSpec = serde_json::from_value(binding(&area())).unwrap();
        assert_eq!(serde_json::to_value(typed).unwrap(), binding(&area()));
    }

    #[test]
    fn a_user_name_cannot_leave_its_literal() {
        let spec = policy(r#"a" || true || "\'b"#, &area(), false);
        assert_eq!(
            spec["matchConditions"][0]["expression"],
            r#"request.userInfo.username != "a\" || true || \"\\'b""#
        );
    }

    #[test]
    fn jumps_are_spoken_of_where_they_are_allowed() {
        let speaks = |may_jump| {
            policy("us", &area(), may_jump)
                .to_string()
                .contains("nextStepIndex")
        };
        assert!(speaks(true) && !speaks(false));
    }
}
