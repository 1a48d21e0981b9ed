use json_patch::Patch;
use serde_json::Value;

use super::Change;
use super::pause::on;
use crate::api::v1beta1::{Rollout, phase};

const DISABLED: [&str; 2] = ["spec", "disabled"];

/// What switching a Rollout off comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Switch {
    /// It is off already.
    Unchanged,
    /// It is to be written.
    Write {
        /// A release is in progress: its workload is let go, and every pod is updated at once.
        releases: bool,
        /// For the Rollout.
        patch: Patch,
    },
}

/// Lets the Rollout govern its workload again.
#[must_use]
pub fn enable(rollout: &Rollout) -> Change {
    if rollout.spec.disabled {
        Change::Write(set(rollout, false))
    } else {
        Change::Unchanged
    }
}

/// Lets the Rollout govern nothing until it is enabled again.
#[must_use]
pub fn disable(rollout: &Rollout) -> Switch {
    if rollout.spec.disabled {
        return Switch::Unchanged;
    }
    let status = rollout.status.as_ref();
    Switch::Write {
        releases: status.is_some_and(|status| status.phase == phase::PROGRESSING),
        patch: set(rollout, true),
    }
}

fn set(rollout: &Rollout, disabled: bool) -> Patch {
    on(rollout).set(&DISABLED, Value::Bool(disabled)).build()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::on(Value::Null, "Healthy", None, Some(false))]
    #[case::on_in_mid_release(json!(false), "Progressing", None, Some(true))]
    #[case::off(json!(true), "Disabled", Some(()), None)]
    fn what_is_written(
        #[case] disabled: Value,
        #[case] phase: &str,
        #[case] enables: Option<()>,
        #[case] disables: Option<bool>,
    ) {
        let mut object = json!({"metadata": {"uid": "u"}, "spec": {"workloadRef": {}, "strategy": {}}, "status": {"phase": phase}});
        if !disabled.is_null() {
            object["spec"]["disabled"] = disabled;
        }
        let rollout: Rollout = serde_json::from_value(object.clone()).unwrap();
        let after = |patch: &Patch| {
            let mut after = object.clone();
            json_patch::patch(&mut after, patch).unwrap();
            after["spec"]["disabled"].clone()
        };
        match (enable(&rollout), enables) {
            (Change::Unchanged, None) => {}
            (Change::Write(patch), Some(())) => assert_eq!(after(&patch), false),
            other => panic!("{other:?}"),
        }
        match (disable(&rollout), disables) {
            (Switch::Unchanged, None) => {}
            (Switch::Write { releases, patch }, Some(expected)) => {
                assert_eq!((after(&patch), releases), (json!(true), expected));
            }
            other => panic!("{other:?}"),
        }
    }
}
