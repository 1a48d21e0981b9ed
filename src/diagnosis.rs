//! What is wrong, and the command that mends it.
//!
//! Pure: rules over [`Facts`] that somebody has gathered. A fact that could not be looked at is no finding of anything wrong: its checks
//! are skipped, and the right that is missing is named. The same rules serve the whole path ([`doctor`]) and one release that does not
//! move ([`explain`]); a workload's fitness ([`fitness`]), a plan before it runs ([`preview`]) and manifests ([`lint`]) stand beside them.

mod commands;
mod explain;
mod facts;
pub mod fitness;
mod installation;
mod leftovers;
pub mod lint;
mod operator;
pub mod preview;
mod registration;
mod release;
pub mod requirements;
mod rights;
mod schema;
mod workload;

use serde::{Serialize, Serializer};

pub use explain::{Explanation, explain};
pub use facts::{
    Answer, Controller, Facts, Labelled, Looked, PROGRAM, Programs, Registrations, Right, Server, Subject,
};
pub use fitness::Fitness;

/// A group of rules; the number is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The API server answers and is new enough.
    Server,
    /// The Rollout kind is installed.
    Definition,
    /// One controller runs and leads.
    Controller,
    /// The controller may govern the kinds that are asked of it.
    Kinds,
    /// Admission is registered for the workloads.
    Registration,
    /// Admission holds, as a dry-run shows.
    Admission,
    /// The workload-type label.
    Label,
    /// Schema and shape of the workload.
    Fitness,
    /// The workload's operator is at work and reports what is needed.
    Operator,
    /// The Rollout names one workload, and no other Rollout names it.
    Reference,
    /// The release moves.
    Progress,
    /// Settings of the workload that keep its pods from being updated by steps.
    Settings,
    /// What an earlier release has left behind.
    Leftovers,
    /// What the caller may do.
    Rights,
    /// This program on the caller's machine.
    Program,
}

impl Check {
    /// All of them, in order.
    pub const ALL: [Self; 15] = [
        Self::Server,
        Self::Definition,
        Self::Controller,
        Self::Kinds,
        Self::Registration,
        Self::Admission,
        Self::Label,
        Self::Fitness,
        Self::Operator,
        Self::Reference,
        Self::Progress,
        Self::Settings,
        Self::Leftovers,
        Self::Rights,
        Self::Program,
    ];

    /// `D01` to `D15`.
    #[must_use]
    pub fn id(self) -> String {
        let place = Self::ALL.iter().position(|check| *check == self);
        format!("D{:02}", place.map_or(0, |place| place + 1))
    }

    /// What is looked at, in a few words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Server => "API server",
            Self::Definition => "Rollout kind",
            Self::Controller => "controller",
            Self::Kinds => "governed kinds",
            Self::Registration => "registration of admission",
            Self::Admission => "admission holds",
            Self::Label => "workload-type label",
            Self::Fitness => "fitness of the workload",
            Self::Operator => "operator of the workload",
            Self::Reference => "one Rollout, one workload",
            Self::Progress => "progress",
            Self::Settings => "settings of the workload",
            Self::Leftovers => "leftovers",
            Self::Rights => "your rights",
            Self::Program => "this plugin",
        }
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id())
    }
}

/// How a finding counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It does not work.
    Failure,
    /// It works, and will not for long, or not for everybody.
    Warning,
    /// As it should be, and worth knowing: what a release waits for.
    Note,
    /// As it should be.
    Pass,
    /// It could not be looked at.
    Skipped,
}

/// What mends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Remedy {
    /// A line for a shell.
    Command(String),
    /// What no single command does.
    Advice(String),
}

/// What one rule has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The check that the rule belongs to.
    pub check: Check,
    /// What the check is about.
    pub title: &'static str,
    /// The Rollout or workload that it is about; absent for the installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// How it counts.
    pub severity: Severity,
    /// A sentence without a period.
    pub message: String,
    /// What was seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// What mends it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    /// Of two findings the one that is nearer the cause has the lower rank.
    #[serde(skip)]
    pub rank: u8,
}

impl Finding {
    fn new(check: Check, severity: Severity, rank: u8, message: impl Into<String>) -> Self {
        Self {
            check,
            title: check.title(),
            subject: None,
            severity,
            message: message.into(),
            evidence: Vec::new(),
            remedy: None,
            rank,
        }
    }

    fn fail(check: Check, rank: u8, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Failure, rank, message)
    }

    fn warn(check: Check, rank: u8, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, rank, message)
    }

    fn note(check: Check, rank: u8, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Note, rank, message)
    }

    fn pass(check: Check, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Pass, u8::MAX, message)
    }

    /// Not looked at, since a right is missing, or since an earlier answer makes it moot.
    fn skip(check: Check, why: impl Into<String>) -> Self {
        Self::new(check, Severity::Skipped, u8::MAX, why)
    }

    fn because(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    fn command(mut self, command: impl Into<String>) -> Self {
        self.remedy = Some(Remedy::Command(command.into()));
        self
    }

    fn advice(mut self, advice: impl Into<String>) -> Self {
        self.remedy = Some(Remedy::Advice(advice.into()));
        self
    }

    fn of(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }
}

/// What all checks have found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// [`crate::report::REPORT_VERSION`].
    pub api_version: &'static str,
    /// `Diagnosis`.
    pub kind: &'static str,
    /// In order of the checks; each has at least one.
    pub findings: Vec<Finding>,
    /// Failures.
    pub failures: usize,
    /// Warnings.
    pub warnings: usize,
    /// The finding nearest the cause of the failures, as its place in `findings`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<usize>,
}

/// Looks at the whole path, from the API server to the caller's own program.
#[must_use]
pub fn doctor(facts: &Facts) -> Diagnosis {
    let mut findings = all(facts);
    // Without Rollouts most checks have nothing to look at; that they may not be listed is why.
    let unseen = facts.rollouts.why_not().filter(|_| facts.subjects.is_empty());
    let why = unseen.as_deref().unwrap_or("nothing of this kind to look at");
    for check in Check::ALL {
        if !findings.iter().any(|finding| finding.check == check) {
            findings.push(Finding::skip(check, why));
        }
    }
    findings.sort_by_key(|finding| finding.check);
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let failures = count(Severity::Failure);
    let nearest = findings
        .iter()
        .enumerate()
        .filter(|(_, f)| f.severity == Severity::Failure);
    Diagnosis {
        api_version: crate::report::REPORT_VERSION,
        kind: "Diagnosis",
        failures,
        warnings: count(Severity::Warning),
        cause: nearest.min_by_key(|(_, f)| f.rank).map(|(place, _)| place),
        findings,
    }
}

/// What is wrong with the way of every held update, whatever the workload: controller and registration.
#[must_use]
pub fn outages(facts: &Facts) -> Vec<Finding> {
    let mut findings = installation::findings(facts);
    findings.extend(registration::findings(facts));
    findings.retain(|finding| finding.severity == Severity::Failure);
    findings
}

fn all(facts: &Facts) -> Vec<Finding> {
    let mut findings = installation::findings(facts);
    findings.extend(registration::findings(facts));
    for subject in &facts.subjects {
        let mut of_subject = workload::findings(facts, subject);
        of_subject.extend(operator::findings(facts, subject));
        of_subject.extend(release::findings(facts, subject));
        let name = subject.name();
        findings.extend(of_subject.into_iter().map(|finding| finding.of(name.clone())));
    }
    findings.extend(leftovers::findings(facts));
    findings.extend(rights::findings(facts));
    findings
}

/// What a subject's check comes to where its rules have found nothing.
fn or_pass(found: Vec<Finding>, check: Check, message: impl Into<String>) -> Vec<Finding> {
    if found.iter().any(|finding| finding.check == check) {
        return found;
    }
    let mut found = found;
    found.push(Finding::pass(check, message));
    found
}

#[cfg(test)]
mod tests;
