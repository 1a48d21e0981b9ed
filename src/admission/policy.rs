//! The hold as policies that the API server keeps by itself, in its own process: what makes it outlive ours.
//!
//! Each function gives the `spec` of one object of `admissionregistration.k8s.io/v1`. The expressions say what
//! [`super::workload::review`] says of workloads that carry the guard mark; one table of cases binds both. A workload without the
//! mark is the webhook's matter, since only the controller knows which Rollout names it.
//!
//! Every member that the API server would fill in is written out, so that a policy that somebody has narrowed can be told from the
//! policy that we wrote.

pub(super) mod cel;
mod confirm;
mod hold;
mod tell;

use serde_json::{Value, json};

use self::cel::{any_of, quoted};
pub use self::confirm::{confirm, may_be_loosened};
pub use self::hold::hold;
pub use self::tell::tell;
use crate::area::Area;
use crate::names;
use crate::workload::{ADAPTERS, Adapter};

/// A kind of workload, as rules name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Governed {
    /// API group.
    pub group: String,
    /// Plural name.
    pub plural: String,
    /// The version in which its objects are looked at; writes through others are converted.
    pub version: String,
}

impl Governed {
    /// The resources whose updates may touch the hold. Status writes of built-in kinds may change metadata too, and so the marks.
    #[must_use]
    pub fn resources(&self) -> Vec<String> {
        let mut resources = vec![self.plural.clone()];
        if self.group == "apps" {
            resources.push(format!("{}/status", self.plural));
        }
        resources
    }

    /// The kinds in the rules of a policy's `spec`.
    #[must_use]
    pub fn read_all(spec: &Value) -> Vec<Self> {
        let rules = spec["matchConstraints"]["resourceRules"].as_array();
        let first = |rule: &Value, member: &str| rule[member].get(0)?.as_str().map(str::to_owned);
        let read = |rule: &Value| {
            Some(Self {
                group: first(rule, "apiGroups")?,
                plural: first(rule, "resources")?,
                version: first(rule, "apiVersions")?,
            })
        };
        rules.into_iter().flatten().filter_map(read).collect()
    }

    /// Whether both are the same kind, in whatever version.
    #[must_use]
    pub fn is_same_kind(&self, other: &Self) -> bool {
        self.group == other.group && self.plural == other.plural
    }
}

/// The names of the policies, and of their bindings, for the kinds of one adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The one that holds.
    pub hold: String,
    /// The one that refuses what would be stored unheld.
    pub confirm: String,
    /// The one that warns.
    pub tell: String,
}

impl Names {
    /// The names for an adapter in an area; `None` where its kinds have no partition, so that no policy can hold them.
    #[must_use]
    pub fn of(adapter: &dyn Adapter, area: &Area) -> Option<Self> {
        let _ = adapter.partition_path()?;
        let name = |what| area.name(&format!("kruise-rollout-{what}-{}", adapter.type_label()));
        Some(Self {
            hold: name("hold"),
            confirm: name("confirm"),
            tell: name("tell"),
        })
    }

    /// Those of all adapters.
    pub fn all(area: &Area) -> impl Iterator<Item = Self> {
        ADAPTERS.iter().filter_map(|adapter| Self::of(*adapter, area))
    }
}

/// The names of all policies and bindings that the controller of an area may have written.
#[must_use]
pub fn all_names(area: &Area) -> Vec<String> {
    let families = Names::all(area).flat_map(|Names { hold, confirm, tell }| [hold, confirm, tell]);
    families.chain([area.name(names::STATUS_POLICY)]).collect()
}

/// Whether a refusal of the API server is by what confirms a write, webhook or policy: another webhook has changed the template or
/// the hold. Both are named in its message.
#[must_use]
pub fn is_refused_unheld(message: &str) -> bool {
    // Each begins so in every area.
    let anywhere = Area::whole("");
    let policies = Names::all(&anywhere).map(|names| names.confirm);
    let names = policies.chain([names::CONFIRM_WEBHOOK.to_owned()]);
    names.into_iter().any(|name| message.contains(&name))
}

/// For whom a policy is: kinds that are updated in one way, and who the controller is.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// User name of the controller.
    pub username: &'a str,
    /// What the controller governs.
    pub area: &'a Area,
    /// The kinds.
    pub governed: &'a [Governed],
}

impl Scope<'_> {
    /// The `matchConstraints` of a policy that is about these resources of each kind.
    fn constraints(&self, resources: fn(&Governed) -> Vec<String>) -> Value {
        let rules: Vec<_> = self
            .governed
            .iter()
            .map(|kind| {
                json!({"apiGroups": [kind.group], "apiVersions": [kind.version], "operations": ["UPDATE"],
                    "resources": resources(kind), "scope": "Namespaced"})
            })
            .collect();
        json!({
            "matchPolicy": "Equivalent",
            "namespaceSelector": self.area.selector(),
            "objectSelector": {},
            "resourceRules": rules,
        })
    }
}

/// The `spec` of the binding that puts a mutating policy in force everywhere.
#[must_use]
pub fn mutating_binding(policy: &str) -> Value {
    json!({ "policyName": policy })
}

/// The `spec` of the binding that puts a validating policy in force everywhere, with `Deny` or `Warn`.
#[must_use]
pub fn validating_binding(policy: &str, action: &str) -> Value {
    json!({"policyName": policy, "validationActions": [action]})
}

/// Condition: the update could touch the hold. Status writes, scaling by `/scale` and metadata of others never do; outside a
/// release only template and marks matter.
#[must_use]
pub fn may_touch_the_hold(adapter: &dyn Adapter) -> Value {
    let marks = any_of([&[names::GUARDED_BY], names::RELEASE_MARKS.as_slice()].concat());
    let (held, label) = (quoted(names::IN_PROGRESSING), quoted(names::WORKLOAD_TYPE));
    let members = touched(adapter);
    json!({
        "name": "the-hold-may-be-touched",
        "expression": format!(
            "object.?spec.?template != oldObject.?spec.?template || \
             {marks}.exists(k, object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k]) || \
             oldObject.metadata.?annotations[?{held}].hasValue() && (\
             {members}.exists(f, object.?spec[?f] != oldObject.?spec[?f]) || \
             object.metadata.?labels[?{label}] != oldObject.metadata.?labels[?{label}])"
        ),
    })
}

/// The members of `spec` beside the template that an update of a held workload must not change unseen.
fn touched(adapter: &dyn Adapter) -> String {
    any_of(adapter.paths().means.members().into_iter().chain(["replicas"]))
}

/// Condition: the update is none of the controller's own steps, which leave the template alone. So a webhook that is down cannot
/// stop a release.
#[must_use]
pub fn not_our_own_step(username: &str) -> Value {
    json!({
        "name": "not-the-controllers-own-step",
        "expression": format!(
            "!(request.userInfo.username == {} && request.?options.?fieldManager.orValue('') == {} && \
             object.?spec.?template == oldObject.?spec.?template)",
            quoted(username),
            quoted(names::FIELD_MANAGER)
        ),
    })
}

/// Condition: the update is none of the dry-runs that ask whether the policies hold without the webhook.
#[must_use]
pub fn no_probe_of_the_policies(username: &str) -> Value {
    json!({
        "name": "not-a-probe-of-the-policies",
        "expression": format!(
            "!(request.?dryRun.orValue(false) && request.userInfo.username == {} && \
             request.?options.?fieldManager.orValue('') == {})",
            quoted(username),
            quoted(names::POLICY_PROBE)
        ),
    })
}

/// Condition: a Rollout governs the workload, by a mark that was made for this very object.
fn guarded() -> Value {
    let mark = quoted(names::GUARDED_BY);
    json!({
        "name": "guarded",
        "expression": format!(
            "oldObject.metadata.?annotations[?{mark}].orValue('').split('/', 3).size() > 1 && \
             oldObject.metadata.annotations[{mark}].startsWith(oldObject.metadata.uid + '/') && \
             oldObject.metadata.annotations[{mark}].split('/', 3)[1] != ''"
        ),
    })
}

/// Condition: not the controller that lets go of the workload. Whoever ends a Rollout releases the rest, also what a webhook makes
/// of the template in that write.
fn not_let_go(username: &str) -> Value {
    json!({
        "name": "not-let-go-by-the-controller",
        "expression": format!(
            "!(request.userInfo.username == {} && request.?options.?fieldManager.orValue('') == {} && \
             !object.metadata.?annotations[?{}].hasValue())",
            quoted(username),
            quoted(names::FIELD_MANAGER),
            quoted(names::GUARDED_BY)
        ),
    })
}
