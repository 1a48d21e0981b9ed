//! The steps of a release: each for itself, and each against the one before it.

use std::fmt;

use super::{CANARY, MAX_STEPS, Review, unsupported, written};
use crate::api::v1beta1::{Amount, CanaryStep, IntOrPercent};

impl Review {
    pub(super) fn steps(&mut self, steps: &[CanaryStep], custom: bool) {
        let field = format!("{CANARY}.steps");
        if steps.is_empty() {
            let remedy = "Write at least one, for example: replicas: 1, pause: {}";
            self.refuse(&*field, "missing", "a release needs a step", remedy);
        }
        if steps.len() > MAX_STEPS {
            let problem = format!("there can be at most {MAX_STEPS}");
            self.refuse(
                &*field,
                format!("{} steps long", steps.len()),
                problem,
                "Merge some of them",
            );
        }
        let mut before = None;
        for (index, step) in steps.iter().enumerate() {
            let field = format!("{field}[{index}]");
            let reached = self.replicas(&format!("{field}.replicas"), step.replicas.as_ref(), before);
            self.pause(&field, step);
            self.traffic(&field, step, custom);
            before = reached;
        }
        if let (Some(reached), Some(last)) = (before, steps.len().checked_sub(1)) {
            self.remainder(&format!("{field}[{last}].replicas"), reached);
        }
    }

    /// Reviews how far a step goes; `before` is how far the step before it goes, where that is known. Returns how far this
    /// one goes, unless that makes no sense.
    fn replicas(
        &mut self,
        field: &str,
        replicas: Option<&IntOrPercent>,
        before: Option<Amount>,
    ) -> Option<Amount> {
        let usual = "Write a number of pods such as 1, or a percentage such as \"50%\"";
        let Some(replicas) = replicas else {
            let problem = "every step says how many pods run the new template at its end";
            self.refuse(field, "missing", problem, usual);
            return None;
        };
        let value = written(replicas);
        let Ok(reached) = replicas.amount() else {
            let remedy = ambiguous(replicas).unwrap_or_else(|| usual.to_owned());
            self.refuse(
                field,
                value,
                "this is neither a whole number nor a percentage",
                remedy,
            );
            return None;
        };
        match (reached, before) {
            (Amount::Count(..1), _) => {
                self.refuse(field, value, "a step updates at least one pod", "Write 1 or more");
                return None;
            }
            (Amount::Percent(0 | 101..), _) => {
                let problem = "a step updates more than none and at most all of the pods";
                self.refuse(
                    field,
                    value,
                    problem,
                    "Write a percentage from \"1%\" to \"100%\"",
                );
                return None;
            }
            (Amount::Count(count), Some(Amount::Count(least))) if count < least => {
                self.refuse(field, value, goes_back(least), format!("Write {least} or more"));
            }
            (Amount::Percent(share), Some(Amount::Percent(least))) if share < least => {
                let least = format!("\"{least}%\"");
                self.refuse(field, value, goes_back(&least), format!("Write {least} or more"));
            }
            // A number against a percentage: which is more depends on the workload's replicas.
            (Amount::Count(_) | Amount::Percent(_), _) => {}
        }
        Some(reached)
    }

    fn pause(&mut self, step: &str, CanaryStep { pause, .. }: &CanaryStep) {
        if let Some(duration @ ..0) = pause.duration {
            self.refuse(
                format!("{step}.pause.duration"),
                duration.to_string(),
                "a pause cannot be negative",
                "Write the seconds to wait, 0 to go on at once, or leave duration out to wait for approval",
            );
        }
    }

    fn traffic(&mut self, field: &str, step: &CanaryStep, custom: bool) {
        for (name, value) in [
            ("traffic", step.traffic.as_ref().map(|share| format!("{share:?}"))),
            ("matches", (!step.matches.is_empty()).then(|| "set".to_owned())),
            (
                "requestHeaderModifier",
                step.request_header_modifier.as_ref().map(|_| "set".to_owned()),
            ),
        ] {
            if let Some(value) = value {
                let remedy = "Remove it; a pod then gets requests as soon as it is ready";
                self.refuse(
                    format!("{field}.{name}"),
                    value,
                    unsupported(custom, "moving traffic"),
                    remedy,
                );
            }
        }
    }

    /// Says so when the plan ends before all pods run the new template.
    fn remainder(&mut self, field: &str, reached: Amount) {
        let ending = "a last step of 100% with the same pause is added";
        match reached {
            Amount::Percent(share @ ..100) => {
                self.warnings.push(format!(
                    "{field} is \"{share}%\", which leaves pods behind: {ending}."
                ));
            }
            Amount::Count(count) => {
                self.warnings.push(format!(
                    "{field} is {count}: for more than {count} replicas, {ending}."
                ));
            }
            Amount::Percent(_) => {}
        }
    }
}

fn goes_back(before: impl fmt::Display) -> String {
    format!("steps go forward, and the step before this one reaches {before}")
}

/// What to write instead of a number in quotes.
fn ambiguous(replicas: &IntOrPercent) -> Option<String> {
    let IntOrPercent::String(text) = replicas else {
        return None;
    };
    let number: u32 = text.trim().trim_end_matches('%').trim_end().parse().ok()?;
    if !(1..=100).contains(&number) {
        return None;
    }
    Some(format!(
        "Write {number} for a number of pods, or \"{number}%\" for a share of them"
    ))
}
