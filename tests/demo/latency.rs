//! How long each reaction took, beside its budget.

use std::time::Duration;

use crate::story::Story;

/// A reaction with a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// From the held change of the template to the first lowered partition.
    Start,
    /// From the readiness of the last pod of a batch to the pause.
    Pause,
    /// From the approval to the lowered partition.
    Approval,
    /// From the reverted template to the opened workload.
    Revert,
}

impl Reaction {
    fn words(self) -> &'static str {
        match self {
            Self::Start => "template patched -> first partition lowered",
            Self::Pause => "last pod of a batch ready -> StepPaused visible",
            Self::Approval => "approved -> partition lowered",
            Self::Revert => "reverted at step 1 -> opened to the stable revision",
        }
    }

    /// How long it may take.
    fn budget(self) -> Duration {
        Duration::from_millis(match self {
            Self::Approval => 100,
            Self::Start | Self::Pause | Self::Revert => 150,
        })
    }
}

/// The reactions that were measured.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<(Reaction, String, Duration)>);

impl Latencies {
    /// Adds a reaction and where in the walk it was.
    pub(crate) fn add(&mut self, reaction: Reaction, place: &str, took: Duration) {
        self.0.push((reaction, place.to_owned(), took));
    }

    /// Tells them as a table. A time alone never fails: machines differ.
    pub(crate) fn tell(&self, story: &mut Story) {
        story.row(
            &format!(
                "{:<52} {:<11} {:>8} {:>8}",
                "reaction", "where", "took", "budget"
            ),
            None,
        );
        for (reaction, place, took) in &self.0 {
            let budget = reaction.budget();
            let within = *took <= budget;
            let verdict = if within { "within" } else { "over" };
            story.row(
                &format!(
                    "{:<52} {place:<11} {:>6.3} s {:>6.3} s  {verdict}",
                    reaction.words(),
                    took.as_secs_f64(),
                    budget.as_secs_f64()
                ),
                Some(within),
            );
        }
        story.tell("Measured between watch events, by the time at which this program received them.");
    }
}
