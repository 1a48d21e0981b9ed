//! Why a release does not move: the same findings, the nearest to the cause first.

use serde::Serialize;

use super::facts::Facts;
use super::{Check, Finding, Severity, all, release};

/// Most reasons that are given.
const MOST: usize = 5;

/// Why a release does not move.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// [`crate::report::REPORT_VERSION`].
    pub api_version: &'static str,
    /// `Explanation`.
    pub kind: &'static str,
    /// The Rollout, as kubectl takes it.
    pub subject: String,
    /// Its state, in one word.
    pub state: String,
    /// Why, the nearest to the cause first; one to five.
    pub causes: Vec<Finding>,
    /// What could not be looked at, and so may be a cause too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Finding>,
}

/// Explains the first subject of the facts. `None` if there is none.
#[must_use]
pub fn explain(facts: &Facts) -> Option<Explanation> {
    let subject = facts.subjects.first()?;
    let view = subject.view().and_then(Result::ok);
    let state = release::report(facts, subject, view.as_ref()).state;
    // The caller and other workloads are not why this release stands still.
    let own = |finding: &Finding| {
        !matches!(finding.check, Check::Rights | Check::Program)
            && (finding.check != Check::Leftovers || finding.subject.as_ref() == Some(&subject.target()))
    };
    let (mut causes, mut unseen): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for finding in all(facts).into_iter().filter(own) {
        match finding.severity {
            Severity::Failure | Severity::Warning | Severity::Note => causes.push(finding),
            Severity::Skipped if finding.message.contains("you may not") => unseen.push(finding),
            Severity::Skipped | Severity::Pass => {}
        }
    }
    causes.sort_by_key(|finding| (finding.severity, finding.rank));
    let wrong = causes.iter().any(|finding| finding.severity != Severity::Note);
    if wrong {
        // What it would wait for otherwise is no reason while something is wrong; a person's decision always is.
        causes.retain(|finding| finding.severity != Severity::Note || finding.rank < 70);
    }
    causes.truncate(MOST);
    Some(Explanation {
        api_version: crate::report::REPORT_VERSION,
        kind: "Explanation",
        subject: subject.name(),
        state: state.word().to_owned(),
        causes,
        unseen,
    })
}
