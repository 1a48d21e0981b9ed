//! What the steps of a Rollout will do, before they do it.

use serde::Serialize;

use crate::api::v1beta1::{CanaryStrategy, Rollout};
use crate::plan::{Pause, Plan, PlanError};
use crate::workload::UpdateOrder;

/// Ordinals of one step that are listed at most.
const LISTED: usize = 1_000;
/// Ordinals that are looked through for them, since some may be left out.
const LOOKED_THROUGH: i64 = 100_000;

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewStep {
    /// Number of the step, from 1.
    pub number: usize,
    /// As it is written; `100%` for the one that is added at the end.
    pub replicas: String,
    /// Pods on the new template at its end.
    pub target: u32,
    /// Those that it updates itself.
    pub new: u32,
    /// The partition that it sets.
    pub partition: i64,
    /// Ordinals of the pods that it updates, the first one first; absent where pods are updated in any order, or are too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<Vec<i64>>,
    /// `none`, `approval`, or seconds with an `s`.
    pub pause: String,
}

/// What the steps of a Rollout will do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// [`crate::report::REPORT_VERSION`].
    pub api_version: &'static str,
    /// `Preview`.
    pub kind: &'static str,
    /// Name of the Rollout.
    pub name: String,
    /// Pods of the workload.
    pub replicas: u32,
    /// The steps.
    pub steps: Vec<PreviewStep>,
    /// Approvals that a release takes.
    pub approvals: usize,
    /// Seconds of all timed pauses: no release is faster.
    pub pauses_seconds: u64,
    /// What is worth knowing, one sentence each without a period.
    pub notes: Vec<String>,
}

/// What a release of so many pods will do. `order` is how the workload updates them, by ordinal unless it is known.
///
/// # Errors
/// Steps that are no plan, or none at all.
pub fn preview(rollout: &Rollout, replicas: u32, order: Option<&UpdateOrder>) -> Result<Preview, PlanError> {
    let canary = rollout.spec.strategy.canary.as_ref().ok_or(PlanError::NoSteps)?;
    let plan = Plan::new(canary, replicas)?;
    let by_default = UpdateOrder::Ordinal(Default::default());
    let order = order.unwrap_or(&by_default);
    let mut before = 0;
    let steps: Vec<_> = (1..=plan.len())
        .map(|number| {
            let step = row(&plan, canary, number, before, order);
            before = step.target;
            step
        })
        .collect();
    let pauses = || (1..=plan.len()).map(|number| plan.step(number).pause);
    Ok(Preview {
        api_version: crate::report::REPORT_VERSION,
        kind: "Preview",
        name: rollout.metadata.name.clone().unwrap_or_default(),
        replicas,
        approvals: pauses().filter(|pause| *pause == Pause::Manual).count(),
        pauses_seconds: pauses()
            .map(|pause| match pause {
                Pause::Seconds(seconds) => u64::from(seconds),
                Pause::None | Pause::Manual => 0,
            })
            .sum(),
        notes: notes(&plan, canary, replicas, &steps),
        steps,
    })
}

fn row(plan: &Plan, canary: &CanaryStrategy, number: usize, before: u32, order: &UpdateOrder) -> PreviewStep {
    let step = plan.step(number);
    let written = canary
        .steps
        .get(number - 1)
        .and_then(|step| step.replicas.as_ref());
    PreviewStep {
        number,
        replicas: written.map_or_else(|| "100%".to_owned(), ToString::to_string),
        target: step.exposure,
        new: step.exposure - before,
        partition: plan.partition(number),
        ordinals: ordinals(
            order,
            plan.partition(number),
            plan.partition(number) + i64::from(step.exposure - before),
        ),
        pause: match step.pause {
            Pause::None => "none".to_owned(),
            Pause::Manual => "approval".to_owned(),
            Pause::Seconds(seconds) => format!("{seconds}s"),
        },
    }
}

/// The ordinals whose places are from `from` up to `to`, the highest first.
fn ordinals(order: &UpdateOrder, from: i64, to: i64) -> Option<Vec<i64>> {
    let UpdateOrder::Ordinal(_) = order else {
        return None;
    };
    // Ordinals rise with places, and leave some out; so the place of an ordinal is never above it.
    let wanted = usize::try_from(to - from)
        .ok()
        .filter(|wanted| *wanted <= LISTED)?;
    let mut found = Vec::new();
    let mut ordinals = from..from.saturating_add(LOOKED_THROUGH);
    while found.len() < wanted {
        let ordinal = ordinals.next()?;
        if order.place(ordinal).is_some_and(|place| place >= from) {
            found.push(ordinal);
        }
    }
    found.reverse();
    Some(found)
}

fn notes(plan: &Plan, canary: &CanaryStrategy, replicas: u32, steps: &[PreviewStep]) -> Vec<String> {
    let mut notes = Vec::new();
    if replicas == 0 {
        notes.push("without pods every step is done at once".to_owned());
        return notes;
    }
    for step in steps.iter().filter(|step| step.new == 0) {
        let why = if plan.step(step.number).raised {
            "it is written as fewer pods than the step before it"
        } else {
            "it is as many pods as the step before it"
        };
        notes.push(format!("step {} updates no pod: {why}", step.number));
    }
    if plan.len() > canary.steps.len() {
        notes.push(format!(
            "step {} is added, since the last one that is written leaves pods behind",
            plan.len()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::{GroupKind, adapter_for};

    fn rollout(steps: &Value) -> Rollout {
        serde_json::from_value(json!({
            "apiVersion": crate::names::API_VERSION, "kind": "Rollout", "metadata": {"name": "web"},
            "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
                "strategy": {"canary": {"steps": steps}}}}))
        .unwrap()
    }

    fn order(spec: Value) -> UpdateOrder {
        let kind = GroupKind {
            group: "apps.kruise.io".to_owned(),
            kind: "StatefulSet".to_owned(),
        };
        adapter_for(&kind).unwrap().order(&json!({ "spec": spec }))
    }

    #[test]
    fn the_example_of_five_pods() {
        let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {"duration": 300}}, {"replicas": "100%"}]);
        let preview = preview(&rollout(&steps), 5, None).unwrap();
        let rows: Vec<_> = preview
            .steps
            .iter()
            .map(|s| {
                (
                    s.target,
                    s.new,
                    s.partition,
                    s.ordinals.clone().unwrap(),
                    s.pause.as_str(),
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                (1, 1, 4, vec![4], "approval"),
                (3, 2, 2, vec![3, 2], "300s"),
                (5, 2, 0, vec![1, 0], "none")
            ]
        );
        assert_eq!(
            (preview.approvals, preview.pauses_seconds, preview.notes.len()),
            (1, 300, 0)
        );
    }

    #[rstest]
    #[case(json!([{"replicas": 2}, {"replicas": "40%"}, {"replicas": "100%"}]), 5, &["step 2 updates no pod: it is as many"])]
    #[case(json!([{"replicas": 3}, {"replicas": "40%"}, {"replicas": "100%"}]), 5, &["step 2 updates no pod: it is written as fewer"])]
    #[case(json!([{"replicas": 2}]), 5, &["step 2 is added"])]
    #[case(json!([{"replicas": 2}]), 0, &["without pods"])]
    #[case(json!([{"replicas": 2}, {"replicas": "100%"}]), 5, &[])]
    fn what_is_worth_knowing(#[case] steps: Value, #[case] replicas: u32, #[case] expected: &[&str]) {
        let preview = preview(&rollout(&steps), replicas, None).unwrap();
        assert_eq!(preview.notes.len(), expected.len(), "{:?}", preview.notes);
        for (note, text) in preview.notes.iter().zip(expected) {
            assert!(note.contains(text), "{note}");
        }
    }

    #[test]
    fn ordinals_that_are_left_out_are_no_pods() {
        let steps = json!([{"replicas": 1}, {"replicas": "100%"}]);
        let all = |order: &UpdateOrder| {
            let preview = preview(&rollout(&steps), 3, Some(order)).unwrap();
            preview
                .steps
                .into_iter()
                .map(|step| step.ordinals)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            all(&order(json!({"ordinals": {"start": 5}}))),
            [Some(vec![7]), Some(vec![6, 5])]
        );
        assert_eq!(
            all(&order(json!({"reserveOrdinals": [1]}))),
            [Some(vec![3]), Some(vec![2, 0])]
        );
        assert_eq!(all(&UpdateOrder::Any), [None, None]);
    }

    #[test]
    fn no_step_lists_ordinals_without_end() {
        let ends = |steps: &Value, replicas, order: &UpdateOrder| {
            let preview = preview(&rollout(steps), replicas, Some(order)).unwrap();
            preview.steps.last().unwrap().ordinals.clone()
        };
        let all = json!([{"replicas": "100%"}]);
        let left_out = order(json!({"reserveOrdinals": ["0-1000000"]}));
        assert_eq!(ends(&all, 3, &left_out), None);
        assert_eq!(ends(&all, 2_000_000_000, &order(json!({}))), None);
    }

    #[test]
    fn no_plan_is_an_error_that_names_the_field() {
        let error = preview(&rollout(&json!([{}])), 5, None).unwrap_err();
        assert!(error.to_string().contains("steps[0].replicas"), "{error}");
        let error = preview(&rollout(&json!([])), 5, None).unwrap_err();
        assert!(error.to_string().contains("canary.steps"), "{error}");
    }
}
