//! From the steps of a Rollout to counts of pods.
//!
//! Percentages end here: past this module there are only counts. Rounding is decided in [`scaled`] and nowhere else.

use serde_json::Value;

use crate::api::v1beta1::{Amount, CanaryStrategy, IntOrPercent, MalformedAmount};
use crate::workload::template::hex;

/// What follows a step once its pods are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The next step, at once.
    None,
    /// Approval by a person.
    Manual,
    /// So many seconds, then the next step.
    Seconds(u32),
}

/// One step, as counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Pods on the new template at the end of the step, all steps before it included; from 0 to the workload's replicas.
    pub exposure: u32,
    /// What follows.
    pub pause: Pause,
    /// It was written as fewer pods than the step before it, and keeps as many as that one.
    pub raised: bool,
}

/// A plan for a workload of so many replicas; at least one step, the last one reaches all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
    replicas: u32,
    tolerance: Option<Amount>,
}

/// A strategy that is no plan. Validation refuses such Rollouts; they exist where it was not asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The list of steps is empty.
    #[error("spec.strategy.canary.steps is empty: add at least one step")]
    NoSteps,
    /// A step says nothing about replicas.
    #[error("spec.strategy.canary.steps[{0}].replicas is missing: set it to a number or a percentage")]
    NoReplicas(usize),
    /// An amount below none or above all.
    #[error("{0} is out of range: write a number from 0 on, or a percentage from \"0%\" to \"100%\"")]
    OutOfRange(String),
    /// An amount that cannot be read.
    #[error("{field}: {error}")]
    Malformed {
        /// The field.
        field: String,
        /// What is wrong.
        error: MalformedAmount,
    },
}

impl Plan {
    /// Computes the plan. Later steps are never smaller than earlier ones. A plan whose last step leaves pods behind gets a
    /// final step for all of them; the step that was written last keeps its pause. A last step that reaches all replicas never
    /// pauses, however it is written, since there is nothing left to decide; without replicas no step does.
    ///
    /// # Errors
    /// No steps, or amounts that cannot be read or are out of range.
    pub fn new(strategy: &CanaryStrategy, replicas: u32) -> Result<Self, PlanError> {
        let mut steps: Vec<Step> = Vec::with_capacity(strategy.steps.len() + 1);
        for (index, step) in strategy.steps.iter().enumerate() {
            let amount = step.replicas.as_ref().ok_or(PlanError::NoReplicas(index))?;
            let amount = read(amount, || format!("spec.strategy.canary.steps[{index}].replicas"))?;
            let before = steps.last().map_or(0, |step| step.exposure);
            let asked = scaled(amount, replicas);
            let pause = match step.pause.duration {
                None => Pause::Manual,
                Some(seconds) => u32::try_from(seconds)
                    .ok()
                    .filter(|s| *s > 0)
                    .map_or(Pause::None, Pause::Seconds),
            };
            steps.push(Step {
                exposure: asked.max(before),
                pause,
                raised: asked < before,
            });
        }
        let last = steps.last_mut().ok_or(PlanError::NoSteps)?;
        if last.exposure == replicas {
            last.pause = Pause::None;
        } else {
            steps.push(Step {
                exposure: replicas,
                pause: Pause::None,
                raised: false,
            });
        }
        if replicas == 0 {
            // There is nothing to look at before the next step.
            steps.iter_mut().for_each(|step| step.pause = Pause::None);
        }
        let tolerance = match &strategy.failure_threshold {
            None => None,
            Some(amount) => Some(read(amount, || {
                "spec.strategy.canary.failureThreshold".to_owned()
            })?),
        };
        Ok(Self {
            steps,
            replicas,
            tolerance,
        })
    }

    /// Number of steps, at least 1.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Never true: a plan has at least one step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Step `number`, counted from 1; numbers outside are taken as the nearest step.
    #[must_use]
    pub fn step(&self, number: usize) -> Step {
        self.steps[number.clamp(1, self.steps.len()) - 1]
    }

    /// Whether this is the last step.
    #[must_use]
    pub fn is_last(&self, number: usize) -> bool {
        number >= self.steps.len()
    }

    /// The partition of a step: the pods that it keeps back.
    #[must_use]
    pub fn partition(&self, number: usize) -> i64 {
        i64::from(self.replicas - self.step(number).exposure)
    }

    /// How many of a step's new pods may be unready while the step still counts as done: `failureThreshold` of the step's
    /// exposure, rounded up, and never all of them.
    #[must_use]
    pub fn tolerated(&self, number: usize) -> u32 {
        let exposure = self.step(number).exposure;
        self.tolerance.map_or(0, |amount| {
            scaled(amount, exposure).min(exposure.saturating_sub(1))
        })
    }

    /// The earliest step that has this partition, or else the last one that exposes no more: where a release stands whose
    /// status was lost.
    #[must_use]
    pub fn step_of_partition(&self, partition: i64) -> usize {
        let numbers = 1..=self.steps.len();
        numbers
            .clone()
            .find(|number| self.partition(*number) == partition)
            .or_else(|| numbers.rev().find(|number| self.partition(*number) > partition))
            .unwrap_or(1)
    }
}

/// Fingerprint of what a strategy does to pods: pauses and thresholds may change without starting anything anew.
#[must_use]
pub fn fingerprint(strategy: &CanaryStrategy) -> String {
    use sha2::{Digest, Sha256};
    let mut plan = strategy.clone();
    plan.failure_threshold = None;
    plan.progress_deadline_seconds = None;
    plan.steps
        .iter_mut()
        .for_each(|step| step.pause = Default::default());
    let text = serde_json::to_value(&plan).unwrap_or(Value::Null).to_string();
    hex(&Sha256::digest(text.as_bytes()), 64)
}

fn read(amount: &IntOrPercent, field: impl FnOnce() -> String) -> Result<Amount, PlanError> {
    match amount.amount() {
        Ok(Amount::Count(..0) | Amount::Percent(101..)) => Err(PlanError::OutOfRange(field())),
        Ok(amount) => Ok(amount),
        Err(error) => Err(PlanError::Malformed {
            field: field(),
            error,
        }),
    }
}

/// A share of `of` pods: percentages round up, and nothing leaves 0..=`of`.
#[must_use]
pub fn scaled(amount: Amount, of: u32) -> u32 {
    match amount {
        Amount::Count(count) => u32::try_from(count.max(0)).unwrap_or(u32::MAX).min(of),
        Amount::Percent(percent) => {
            let pods = (u64::from(percent.min(100)) * u64::from(of)).div_ceil(100);
            u32::try_from(pods).unwrap_or(u32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn strategy(steps: Value) -> CanaryStrategy {
        serde_json::from_value(json!({ "steps": steps })).unwrap()
    }

    fn partitions(plan: &Plan) -> Vec<i64> {
        (1..=plan.len()).map(|n| plan.partition(n)).collect()
    }

    #[rstest]
    #[case(5, json!(1), 4)]
    #[case(5, json!("20%"), 4)]
    #[case(5, json!("50%"), 2)]
    #[case(5, json!("99%"), 0)]
    #[case(3, json!("10%"), 2)]
    #[case(5, json!(9), 0)]
    #[case(1, json!("10%"), 0)]
    #[case(0, json!("10%"), 0)]
    #[case(1000, json!("0.1%"), 1000)]
    #[case(1000, json!(-1), 1000)]
    #[case(1000, json!("101%"), 1000)]
    fn rounding(#[case] replicas: u32, #[case] step: Value, #[case] partition: i64) {
        let plan = Plan::new(&strategy(json!([{"replicas": step}])), replicas);
        match plan {
            Ok(plan) => assert_eq!(plan.partition(1), partition),
            Err(error) => assert!(
                partition == 1000 && error.to_string().contains("steps[0].replicas"),
                "{error}"
            ),
        }
    }

    #[test]
    fn the_plan_of_the_walk() {
        let plan = Plan::new(
            &strategy(json!([
                {"replicas": 1, "pause": {}},
                {"replicas": "50%", "pause": {"duration": 300}},
                {"replicas": "100%"}
            ])),
            5,
        )
        .unwrap();
        assert_eq!(partitions(&plan), [4, 2, 0]);
        let pauses: Vec<_> = (1..=3).map(|n| plan.step(n).pause).collect();
        assert_eq!(pauses, [Pause::Manual, Pause::Seconds(300), Pause::None]);
    }

    #[test]
    fn the_last_step_to_reach_all_never_pauses_and_one_that_does_not_is_followed() {
        let plan = Plan::new(&strategy(json!([{"replicas": 5, "pause": {}}])), 5).unwrap();
        assert_eq!((plan.len(), plan.step(1).pause), (1, Pause::None));
        let plan = Plan::new(&strategy(json!([{"replicas": 2, "pause": {"duration": 7}}])), 5).unwrap();
        assert_eq!(partitions(&plan), [3, 0]);
        assert_eq!(
            (plan.step(1).pause, plan.step(2).pause),
            (Pause::Seconds(7), Pause::None)
        );
    }

    #[test]
    fn without_replicas_no_step_pauses_and_one_that_goes_back_says_so() {
        let steps = json!([{"replicas": 4, "pause": {}}, {"replicas": "50%", "pause": {"duration": 7}}, {"replicas": "100%"}]);
        let none = Plan::new(&strategy(steps.clone()), 0).unwrap();
        assert!((1..=none.len()).all(|n| none.step(n).pause == Pause::None && !none.step(n).raised));
        let five = Plan::new(&strategy(steps), 5).unwrap();
        assert_eq!(partitions(&five), [1, 1, 0]);
        assert_eq!([1, 2, 3].map(|n| five.step(n).raised), [false, true, false]);
    }

    #[test]
    fn a_lost_status_is_found_again_by_the_partition() {
        let plan = Plan::new(
            &strategy(json!([{"replicas": 1}, {"replicas": "50%"}, {"replicas": "100%"}])),
            5,
        )
        .unwrap();
        for (partition, step) in [(32767, 1), (5, 1), (4, 1), (3, 1), (2, 2), (1, 2), (0, 3)] {
            assert_eq!(plan.step_of_partition(partition), step, "{partition}");
        }
    }

    #[test]
    fn tolerance_is_a_share_of_the_step_and_never_all_of_it() {
        let mut strategy = strategy(json!([{"replicas": 1}, {"replicas": "100%"}]));
        strategy.failure_threshold = Some("20%".into());
        let plan = Plan::new(&strategy, 10).unwrap();
        assert_eq!((plan.tolerated(1), plan.tolerated(2)), (0, 2));
    }

    #[test]
    fn pauses_and_deadlines_do_not_change_the_fingerprint() {
        let one = strategy(json!([{"replicas": 1, "pause": {}}]));
        let two = strategy(json!([{"replicas": 1, "pause": {"duration": 5}}]));
        let mut patient = two.clone();
        patient.progress_deadline_seconds = Some(3600);
        let three = strategy(json!([{"replicas": 2}]));
        assert_eq!(fingerprint(&one), fingerprint(&two));
        assert_eq!(fingerprint(&one), fingerprint(&patient));
        assert_ne!(fingerprint(&one), fingerprint(&three));
        assert_eq!(fingerprint(&one).len(), 64);
    }

    proptest! {
        #[test]
        fn a_share_is_at_least_one_pod_and_all_of_them_only_by_rounding_up(replicas in 1..2000_u32, percent in 1..=100_u32) {
            let share = scaled(Amount::Percent(percent), replicas);
            prop_assert!((1..=replicas).contains(&share));
            prop_assert!(percent < 100 || share == replicas);
            // The least number of pods that is no less than the share.
            let (share, percent, replicas) = (u64::from(share), u64::from(percent), u64::from(replicas));
            prop_assert!(share * 100 >= percent * replicas && (share - 1) * 100 < percent * replicas);
        }

        #[test]
        fn steps_never_shrink_and_end_with_all(
            replicas in 0..2000_u32,
            amounts in proptest::collection::vec(prop_oneof![
                (0..5000_i64).prop_map(IntOrPercent::Int),
                (0..=100_u32).prop_map(|p| IntOrPercent::String(format!("{p}%")))], 1..12)
        ) {
            let steps: Vec<_> = amounts.iter().map(|amount| json!({"replicas": amount})).collect();
            let plan = Plan::new(&strategy(json!(steps)), replicas).unwrap();
            let found = partitions(&plan);
            prop_assert!(found.windows(2).all(|pair| pair[0] >= pair[1]));
            prop_assert!(found.iter().all(|p| (0..=i64::from(replicas)).contains(p)));
            prop_assert_eq!(found.last(), Some(&0));
        }
    }
}
