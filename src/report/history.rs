//! Revisions of a workload: the templates that it had, newest first.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::Revisions;
use crate::intent::abbreviates;
use crate::names;
use crate::workload::pod::names_revision;
use crate::workload::{Likeness, TemplateId, View};

/// Annotation in which people say why a template changed.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// Annotation of a ReplicaSet with the number of its revision.
const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";

/// Who keeps a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Source {
    /// The Rollout: a ControllerRevision that it owns.
    Rollout,
    /// The workload: a ControllerRevision that it owns.
    ControllerRevision,
    /// The workload, a Deployment: its ReplicaSet.
    ReplicaSet,
}

/// A template that an object keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    source: Source,
    number: i64,
    /// Name of the object.
    name: String,
    created: Option<Timestamp>,
    /// The operator's hash, which its pods carry as a label.
    hash: Option<String>,
    cause: Option<String>,
    id: TemplateId,
    template: Value,
}

impl Recorded {
    /// Reads a ControllerRevision that the Rollout with this UID owns. `None` for all others.
    #[must_use]
    pub fn of_rollout(object: &Value, rollout_uid: &str) -> Option<Self> {
        let owners = object["metadata"]["ownerReferences"].as_array()?;
        owners.iter().find(|owner| owner["uid"] == rollout_uid)?;
        let template = object["data"]
            .get("template")
            .filter(|template| template.is_object())?;
        let number = object["revision"].as_i64()?;
        Some(Self::new(Source::Rollout, number, object, None, template.clone()))
    }

    /// Reads a ControllerRevision or ReplicaSet that the workload with this UID controls. `None` for all others.
    #[must_use]
    pub fn of_workload(object: &Value, workload_uid: &str) -> Option<Self> {
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array()?;
        owners
            .iter()
            .find(|owner| owner["uid"] == workload_uid && owner["controller"] == true)?;
        let label = |name: &str| metadata["labels"][name].as_str().map(str::to_owned);
        if let Some(number) = object["revision"].as_i64() {
            let mut template = object["data"]["spec"]["template"].clone();
            // How a StatefulSet says that the template is to be replaced as a whole.
            template.as_object_mut()?.remove("$patch");
            let name = metadata["name"].as_str();
            let hash = label(names::CONTROLLER_REVISION_HASH).or_else(|| name.map(str::to_owned));
            return Some(Self::new(
                Source::ControllerRevision,
                number,
                object,
                hash,
                template,
            ));
        }
        let number = metadata["annotations"][DEPLOYMENT_REVISION]
            .as_str()?
            .parse()
            .ok()?;
        let mut template = object["spec"]["template"].clone();
        if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
            labels.remove(names::POD_TEMPLATE_HASH);
        }
        let hash = label(names::POD_TEMPLATE_HASH);
        template
            .is_object()
            .then(|| Self::new(Source::ReplicaSet, number, object, hash, template))
    }

    fn new(source: Source, number: i64, object: &Value, hash: Option<String>, template: Value) -> Self {
        let metadata = &object["metadata"];
        let cause = |metadata: &Value| {
            let text = metadata["annotations"][CHANGE_CAUSE].as_str();
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Self {
            source,
            number,
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            created: metadata["creationTimestamp"]
                .as_str()
                .and_then(|time| time.parse().ok()),
            hash,
            cause: cause(&template["metadata"]).or_else(|| cause(metadata)),
            // Computed, not read: an annotation that somebody changed must not lead to another template.
            id: TemplateId::of(&template),
            template,
        }
    }

    fn is_of(&self, id: &TemplateId) -> bool {
        self.id.likeness(id) != Likeness::Different
    }
}

/// What a revision is to the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RevisionState {
    /// The template that pods go back to.
    Stable,
    /// The template that is being released.
    Update,
}

/// One revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionReport {
    /// Its number; larger is later.
    pub revision: i64,
    /// Name of the object that keeps it.
    pub name: String,
    /// Who keeps it.
    pub source: Source,
    /// The operator's name or hash of it, which its pods carry as a label; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// When it was kept first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// What it is to the workload; absent for those that it had before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RevisionState>,
    /// Why the template changed, by the annotation `kubernetes.io/change-cause`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_cause: Option<String>,
    /// Images of its containers.
    pub images: Vec<String>,
}

/// All revisions that are known, newest first, each with its template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Revision and template.
    pub revisions: Vec<(RevisionReport, Value)>,
}

impl History {
    /// What the workload keeps, since that is whose numbers people know; without any, what the Rollout keeps.
    #[must_use]
    pub fn new(recorded: Vec<Recorded>, view: Option<&View>, named: &Revisions) -> Self {
        let (ours, theirs): (Vec<_>, Vec<_>) = recorded
            .into_iter()
            .partition(|recorded| recorded.source == Source::Rollout);
        let (mut kept, others) = if theirs.is_empty() {
            (ours, Vec::new())
        } else {
            (theirs, ours)
        };
        for recorded in &mut kept {
            // The operator's name of the same template, and what it was told.
            if let Some(same) = others.iter().find(|other| other.is_of(&recorded.id)) {
                recorded.hash = recorded.hash.take().or_else(|| same.hash.clone());
                recorded.cause = recorded.cause.take().or_else(|| same.cause.clone());
            }
        }
        kept.sort_by_key(|recorded| std::cmp::Reverse(recorded.number));
        let states = States::of(&kept, view, named);
        let report = |(place, recorded): (usize, Recorded)| {
            let report = RevisionReport {
                revision: recorded.number,
                source: recorded.source,
                hash: recorded.hash.or_else(|| states.hash(place, named)),
                created: recorded.created,
                state: states.state(place),
                change_cause: recorded.cause,
                images: images(&recorded.template),
                name: recorded.name,
            };
            (report, recorded.template)
        };
        Self {
            revisions: kept.into_iter().enumerate().map(report).collect(),
        }
    }

    /// The revision with this number, state (`stable`, `update`) or hash. A hash may be its last part, or how only that of one
    /// revision [`begins`](abbreviates).
    #[must_use]
    pub fn find(&self, word: &str) -> Option<&(RevisionReport, Value)> {
        let is_named = |report: &RevisionReport| {
            let state = report.state.map(|state| match state {
                RevisionState::Stable => "stable",
                RevisionState::Update => "update",
            });
            state == Some(word) || names_revision(word, report.hash.as_deref().unwrap_or_default())
        };
        let begins_so = |report: &RevisionReport| {
            let hash = report.hash.as_deref().unwrap_or_default();
            let last = hash.rsplit('-').next().unwrap_or_default();
            abbreviates(word, hash) || abbreviates(word, last)
        };
        let number = word.parse::<i64>().ok();
        let all = || self.revisions.iter();
        let exact = all().find(|(report, _)| Some(report.revision) == number);
        exact
            .or_else(|| all().find(|(report, _)| is_named(report)))
            .or_else(|| {
                let mut alike = all().filter(|(report, _)| begins_so(report));
                alike.next().filter(|_| alike.next().is_none())
            })
    }

    /// Numbers of all revisions, oldest first, as they are told to people.
    #[must_use]
    pub fn numbers(&self) -> String {
        let numbers = self.revisions.iter().rev();
        let numbers: Vec<_> = numbers.map(|(report, _)| report.revision.to_string()).collect();
        numbers.join(", ")
    }
}

/// Which of the revisions are stable and update: places in the list.
#[derive(Default)]
struct States {
    stable: Option<usize>,
    update: Option<usize>,
}

impl States {
    fn of(kept: &[Recorded], view: Option<&View>, named: &Revisions) -> Self {
        let by_id = |id: Option<&TemplateId>| {
            let id = id?;
            kept.iter().position(|recorded| recorded.is_of(id))
        };
        let by_name = |name: Option<&str>| {
            let hash = |recorded: &Recorded| recorded.hash.clone().unwrap_or_default();
            kept.iter()
                .position(|recorded| names_revision(&hash(recorded), name.unwrap_or_default()))
        };
        let (stable, update) = match view {
            Some(view) => (view.stable(), Some(&view.template)),
            None => (None, None),
        };
        let update = by_id(update).or_else(|| by_name(named.update.as_deref()));
        let releasing = view.is_some_and(|view| view.marks.hold.is_some());
        let stable = by_id(stable).or_else(|| by_name(named.stable.as_deref()).filter(|_| releasing));
        Self {
            // At rest the template that all pods run is the one to go back to.
            stable: stable.or(update.filter(|_| !releasing)),
            update: update.filter(|_| releasing),
        }
    }

    fn state(&self, place: usize) -> Option<RevisionState> {
        if self.stable == Some(place) {
            Some(RevisionState::Stable)
        } else if self.update == Some(place) {
            Some(RevisionState::Update)
        } else {
            None
        }
    }

    /// The name that the Rollout or the workload has for it.
    fn hash(&self, place: usize, named: &Revisions) -> Option<String> {
        match self.state(place)? {
            RevisionState::Update => named.update.clone(),
            RevisionState::Stable if self.update.is_none() => named.update.clone(),
            RevisionState::Stable => named.stable.clone(),
        }
    }
}

fn images(template: &Value) -> Vec<String> {
    let containers = template["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .filter_map(|container| container["image"].as_str().map(str::to_owned))
        .collect()
}
