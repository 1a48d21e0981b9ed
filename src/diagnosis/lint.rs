//! Rules for manifests, KR001 to KR012.
//!
//! A rule knows the path of what it is about; where that stands in a file is for whoever has read the file.

mod online;
mod review;
mod shape;
mod workloads;

use serde::{Serialize, Serializer};
use serde_json::Value;

pub use online::{Online, online};

use crate::admission::rollout::WorkloadClaim;
use crate::api::v1beta1::Rollout;
use crate::names;
use crate::workload::{GroupKind, adapter_for};

/// A rule; the number is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Unknown or misspelt fields, values of another type, another version.
    Schema,
    /// Not exactly one strategy; no steps, or too many.
    Strategy,
    /// An amount or a time that makes no sense.
    Amount,
    /// Traffic, where it is not supported.
    Traffic,
    /// Blue-green, where it is not supported.
    BlueGreen,
    /// What a custom workload cannot have.
    Custom,
    /// The last step leaves pods behind.
    Remainder,
    /// Steps that do nothing, or go back, at the known number of replicas.
    Idle,
    /// The workload's label.
    Label,
    /// The workload's shape.
    Shape,
    /// An old version.
    Version,
    /// What only the cluster knows.
    Cluster,
}

impl Rule {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
        Self::Schema,
        Self::Strategy,
        Self::Amount,
        Self::Traffic,
        Self::BlueGreen,
        Self::Custom,
        Self::Remainder,
        Self::Idle,
        Self::Label,
        Self::Shape,
        Self::Version,
        Self::Cluster,
    ];

    /// `KR001` to `KR012`.
    #[must_use]
    pub fn id(self) -> String {
        let place = Self::ALL.iter().position(|rule| *rule == self);
        format!("KR{:03}", place.map_or(0, |place| place + 1))
    }

    /// The rule with this id, in any case.
    #[must_use]
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|rule| rule.id().eq_ignore_ascii_case(id))
    }

    /// What it is about, in a few words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Schema => "fields and their types",
            Self::Strategy => "one strategy, with 1 to 50 steps",
            Self::Amount => "amounts and times",
            Self::Traffic => "traffic is not supported",
            Self::BlueGreen => "blue-green is not supported",
            Self::Custom => "custom workloads are released in batches only",
            Self::Remainder => "the last step reaches all pods",
            Self::Idle => "every step updates pods",
            Self::Label => "the workload has the workload-type label",
            Self::Shape => "the workload updates by partition",
            Self::Version => "the version of the API",
            Self::Cluster => "what the cluster says",
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id())
    }
}

/// How a problem counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It would be refused, or not work.
    Error,
    /// It works otherwise than it looks.
    Warning,
}

/// What a rule has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Place of the document among those that were given.
    pub document: usize,
    /// Members and indices from the document's root to what it is about.
    pub path: Vec<String>,
    /// The rule.
    pub rule: Rule,
    /// How it counts.
    pub level: Level,
    /// What is wrong, and the way out: one line without a final period.
    pub message: String,
}

impl Problem {
    fn new(document: usize, path: &str, rule: Rule, level: Level, message: impl Into<String>) -> Self {
        Self {
            document,
            path: segments(path),
            rule,
            level,
            message: message.into(),
        }
    }

    fn error(document: usize, path: &str, rule: Rule, message: impl Into<String>) -> Self {
        Self::new(document, path, rule, Level::Error, message)
    }

    fn warning(document: usize, path: &str, rule: Rule, message: impl Into<String>) -> Self {
        Self::new(document, path, rule, Level::Warning, message)
    }
}

/// `spec.steps[0].replicas` as members and indices.
fn segments(path: &str) -> Vec<String> {
    path.split(['.', '['])
        .map(|part| part.trim_end_matches(']').to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

/// A document that is a Rollout of the version that is served.
struct Read {
    document: usize,
    rollout: Rollout,
}

/// Judges documents, each a Kubernetes object; others than Rollouts and their workloads are left alone. `replicas` is the number of pods
/// of workloads that are not among the documents. `namespace` is that of documents without one.
#[must_use]
pub fn lint(documents: &[Value], replicas: Option<u32>, namespace: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut read = Vec::new();
    for (document, object) in documents.iter().enumerate() {
        problems.extend(shape::object(document, object));
        if object["kind"] == "Rollout" && object["apiVersion"].as_str().is_some_and(is_ours) {
            problems.extend(shape::version(document, object));
            if object["apiVersion"] == names::API_VERSION {
                problems.extend(shape::fields(document, object));
                read.extend(readable(document, object, namespace));
            }
        }
    }
    for Read { document, rollout } in &read {
        let workload = workloads::of(documents, rollout, namespace);
        let known = workload
            .and_then(|(_, object)| replicas_of(object, rollout))
            .or(replicas);
        problems.extend(review::review(*document, rollout, known));
        if let Some((place, object)) = workload {
            problems.extend(workloads::judge(place, object, rollout));
        }
    }
    problems.extend(twice(&read));
    problems.sort_by(|one, other| {
        (one.document, &one.path, one.rule).cmp(&(other.document, &other.path, other.rule))
    });
    problems.dedup();
    problems
}

/// The Rollouts of the version that is served among documents, each with its place.
#[must_use]
pub fn rollouts(documents: &[Value], namespace: &str) -> Vec<(usize, Rollout)> {
    let ours = documents
        .iter()
        .enumerate()
        .filter(|(_, object)| object["kind"] == "Rollout" && object["apiVersion"] == names::API_VERSION);
    ours.filter_map(|(document, object)| readable(document, object, namespace))
        .map(|Read { document, rollout }| (document, rollout))
        .collect()
}

/// The workload of a Rollout among documents.
#[must_use]
pub fn workload_among<'a>(documents: &'a [Value], rollout: &Rollout, namespace: &str) -> Option<&'a Value> {
    workloads::of(documents, rollout, namespace).map(|(_, object)| object)
}

fn is_ours(version: &str) -> bool {
    version
        .split_once('/')
        .is_some_and(|(group, _)| group == names::GROUP)
}

/// Every member has a default on reading, so that only a value of another type is unreadable, of which the schema tells.
fn readable(document: usize, object: &Value, namespace: &str) -> Option<Read> {
    let mut rollout: Rollout = serde_json::from_value(object.clone()).ok()?;
    rollout
        .metadata
        .namespace
        .get_or_insert_with(|| namespace.to_owned());
    Some(Read { document, rollout })
}

fn replicas_of(object: &Value, rollout: &Rollout) -> Option<u32> {
    let (group, _) = rollout.spec.workload_ref.group_version()?;
    let kind = GroupKind {
        group: group.to_owned(),
        kind: rollout.spec.workload_ref.kind.clone(),
    };
    let view = adapter_for(&kind)?.view(object).ok()?;
    view.replicas_known.then_some(view.replicas)
}

/// Rollouts of the same documents that name one workload.
fn twice(read: &[Read]) -> Vec<Problem> {
    let claims: Vec<_> = read.iter().map(|one| WorkloadClaim::of(&one.rollout)).collect();
    let mut problems = Vec::new();
    for (place, claim) in claims.iter().enumerate() {
        let (Some(claim), earlier) = (claim, &claims[..place]) else {
            continue;
        };
        if let Some(other) = earlier.iter().flatten().find(|other| claim.conflicts_with(other)) {
            problems.push(Problem::error(
                read[place].document,
                "spec.workloadRef",
                Rule::Cluster,
                format!(
                    "Rollout {:?} names this workload already: remove one of the two",
                    other.rollout
                ),
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests;
