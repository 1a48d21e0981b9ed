use jiff::Timestamp;
use serde_json::Value;

use crate::api::v1beta1::Rollout;
use crate::lens::FieldError;
use crate::names;
use crate::workload::{Adapter, GroupKind, PodView, View, adapter_for};

/// How this program is called.
pub const PROGRAM: &str = "kubectl-kruise";

/// Something that may not have been seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Looked<T> {
    /// It was seen.
    Seen(T),
    /// The caller lacks this right: verb and resource.
    Forbidden(String),
    /// The server answered something else.
    Failed(String),
    /// Nobody asked.
    #[default]
    Not,
}

impl<T> Looked<T> {
    /// What was seen.
    pub const fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(seen) => Some(seen),
            Self::Forbidden(_) | Self::Failed(_) | Self::Not => None,
        }
    }

    /// The same with what was seen made into something else.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Looked<U> {
        match self {
            Self::Seen(seen) => Looked::Seen(make(seen)),
            Self::Forbidden(right) => Looked::Forbidden(right),
            Self::Failed(answer) => Looked::Failed(answer),
            Self::Not => Looked::Not,
        }
    }

    /// Why it was not seen, in words.
    pub fn why_not(&self) -> Option<String> {
        match self {
            Self::Seen(_) => None,
            Self::Forbidden(right) => Some(format!("you may not {right}")),
            Self::Failed(answer) => Some(format!("the server answered: {answer}")),
            Self::Not => Some("not asked for".to_owned()),
        }
    }
}

/// Everything that the rules judge.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The time, by the API server's clock where it told it.
    pub now: Timestamp,
    /// Namespace that is looked at.
    pub namespace: String,
    /// The API server.
    pub server: Server,
    /// The CustomResourceDefinition of Rollouts.
    pub definition: Looked<Option<Value>>,
    /// What runs.
    pub controller: Controller,
    /// What is registered.
    pub registrations: Registrations,
    /// The Rollouts that are looked at, with their workloads.
    pub subjects: Vec<Subject>,
    /// Every Rollout of the namespace.
    pub rollouts: Looked<Vec<Rollout>>,
    /// Workloads of the namespace with the workload-type label.
    pub labelled: Looked<Vec<Labelled>>,
    /// What the caller may do.
    pub rights: Vec<Right>,
    /// Who the caller is.
    pub user: String,
    /// This program.
    pub programs: Programs,
}

/// The API server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Its version, such as `v1.36.3`.
    pub version: String,
}

/// What runs of a controller.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    /// Where it was looked for.
    pub namespace: String,
    /// Deployments there that are ours or the existing controller's.
    pub deployments: Looked<Vec<Value>>,
    /// Leases there, likewise.
    pub leases: Looked<Vec<Value>>,
}

impl Controller {
    /// The Deployment of this name.
    #[must_use]
    pub fn deployment(&self, name: &str) -> Option<&Value> {
        named(self.deployments.seen()?, name)
    }

    /// The Lease of this name.
    #[must_use]
    pub fn lease(&self, name: &str) -> Option<&Value> {
        named(self.leases.seen()?, name)
    }

    /// Whether the existing controller is what is installed, and ours is not.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.deployment(names::LEGACY_DEPLOYMENT).is_some()
            && self.deployment(names::CONTROLLER).is_none()
            && self.lease(names::CONTROLLER).is_none()
    }
}

/// What is registered.
#[derive(Clone, Debug, Default)]
pub struct Registrations {
    /// Mutating webhook configurations of any controllers of ours, and the existing controller's.
    pub webhooks: Looked<Vec<Value>>,
    /// Mutating admission policies of ours; `None` where the server has no such kind.
    pub policies: Looked<Option<Vec<Value>>>,
    /// Names of their bindings.
    pub bindings: Looked<Option<Vec<Value>>>,
    /// ClusterRoles whose rules are added to the controller's.
    pub roles: Looked<Vec<Value>>,
    /// EndpointSlices of the webhook's Service, where a registration names one.
    pub endpoints: Looked<Vec<Value>>,
}

impl Registrations {
    /// The webhook configuration of this name.
    #[must_use]
    pub fn configuration(&self, name: &str) -> Option<&Value> {
        named(self.webhooks.seen()?, name)
    }
}

fn named<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    objects.iter().find(|object| object["metadata"]["name"] == name)
}

/// What a dry-run of a template change came back as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Held.
    Held,
    /// As it was sent: it would roll at once.
    NotHeld,
    /// Not at all.
    Refused(String),
}

/// A Rollout and its workload.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The Rollout.
    pub rollout: Rollout,
    /// Plural of the workload's kind; `None` where the server has no such kind.
    pub plural: Looked<Option<String>>,
    /// The workload; `None` where it is not there.
    pub workload: Looked<Option<Value>>,
    /// The CustomResourceDefinition of its kind; `None` for built-in kinds.
    pub definition: Looked<Option<Value>>,
    /// Its pods.
    pub pods: Looked<Vec<PodView>>,
    /// Whether admission holds it.
    pub probe: Looked<Answer>,
}

impl Subject {
    /// As kubectl takes it: `rollout/NAME`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("rollout/{}", self.rollout_name())
    }

    pub(super) fn rollout_name(&self) -> &str {
        self.rollout.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.rollout.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn group_kind(&self) -> GroupKind {
        let reference = &self.rollout.spec.workload_ref;
        GroupKind {
            group: reference
                .group_version()
                .map_or_else(String::new, |(group, _)| group.to_owned()),
            kind: reference.kind.clone(),
        }
    }

    /// The resource as kubectl takes it, `plural.group`; by the usual plural where it is not known.
    pub(super) fn resource(&self) -> String {
        let kind = self.group_kind();
        let plural = self.plural.seen().cloned().flatten();
        let plural = plural.unwrap_or_else(|| format!("{}s", kind.kind.to_lowercase()));
        qualified(&plural, &kind.group)
    }

    pub(super) fn object(&self) -> Option<&Value> {
        self.workload.seen()?.as_ref()
    }

    pub(super) fn adapter(&self) -> Option<&'static dyn Adapter> {
        adapter_for(&self.group_kind())
    }

    pub(super) fn view(&self) -> Option<Result<View, FieldError>> {
        Some(self.adapter()?.view(self.object()?))
    }

    /// The workload as kubectl takes it: `plural.group/name`.
    pub(super) fn target(&self) -> String {
        format!("{}/{}", self.resource(), self.rollout.spec.workload_ref.name)
    }
}

pub(super) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// A workload that carries the workload-type label.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// Group and kind.
    pub kind: GroupKind,
    /// Plural.
    pub plural: String,
    /// The object.
    pub object: Value,
}

/// Something that the caller may do or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// Verb.
    pub verb: String,
    /// API group.
    pub group: String,
    /// Resource, with its subresource.
    pub resource: String,
    /// What it is needed for, such as `approve`.
    pub purpose: String,
    /// The server's answer.
    pub allowed: bool,
}

/// This program on the caller's machine.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// Programs called [`PROGRAM`], in the order in which they are found.
    pub found: Vec<String>,
    /// The one that runs.
    pub running: String,
    /// Home of the plugin `kruise` that krew has installed, where it is another product's.
    pub krew: Option<String>,
}
