//! Which policies there should be, and whether the API server can be left alone with a kind.

use std::collections::BTreeMap;

use kruise_rollout::admission::approval;
use kruise_rollout::admission::policy::{self, Governed as Rule, Scope};
use kruise_rollout::names;
use kruise_rollout::workload::{ADAPTERS, Adapter, GroupKind, adapter_for};
use kube::api::ApiResource;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use super::entries::{Governed, kind_of, rule_of};
use super::kept::Wanted;

/// How long a policy has to have been in place before the API servers are left alone with it: ten times what one of them takes to
/// put a binding in force.
const SETTLES: Duration = Duration::from_secs(5);

/// The kinds of objects that are registered, each before what refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    MutatingWebhook,
    ValidatingWebhook,
    MutatingPolicy,
    MutatingBinding,
    ValidatingPolicy,
    ValidatingBinding,
}

impl Sort {
    pub(crate) const ALL: [Self; 6] = [
        Self::MutatingWebhook,
        Self::ValidatingWebhook,
        Self::MutatingPolicy,
        Self::MutatingBinding,
        Self::ValidatingPolicy,
        Self::ValidatingBinding,
    ];

    /// The webhook configurations.
    pub(super) const WEBHOOKS: [Self; 2] = [Self::MutatingWebhook, Self::ValidatingWebhook];

    /// The policies that change writes, and their bindings.
    pub(super) const MUTATING: [Self; 2] = [Self::MutatingPolicy, Self::MutatingBinding];

    /// The policies that refuse and warn, and their bindings.
    pub(super) const VALIDATING: [Self; 2] = [Self::ValidatingPolicy, Self::ValidatingBinding];

    pub(crate) fn resource(self) -> ApiResource {
        let kind = match self {
            Self::MutatingWebhook => "MutatingWebhookConfiguration",
            Self::ValidatingWebhook => "ValidatingWebhookConfiguration",
            Self::MutatingPolicy => "MutatingAdmissionPolicy",
            Self::MutatingBinding => "MutatingAdmissionPolicyBinding",
            Self::ValidatingPolicy => "ValidatingAdmissionPolicy",
            Self::ValidatingBinding => "ValidatingAdmissionPolicyBinding",
        };
        let kind = kube::core::GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        ApiResource::from_gvk(&kind)
    }

    /// The names of the objects that are ours.
    pub(crate) fn names(self) -> Vec<String> {
        match self {
            Self::MutatingWebhook | Self::ValidatingWebhook => vec![names::WEBHOOK_CONFIGURATION.to_owned()],
            _ => policy::all_names(),
        }
    }
}

/// One object that there should be.
pub(super) struct Wish {
    pub(super) sort: Sort,
    pub(super) name: String,
    pub(super) wanted: Wanted,
}

impl Wish {
    fn new(sort: Sort, name: &str, spec: Value) -> Self {
        Self {
            sort,
            name: name.to_owned(),
            wanted: Wanted {
                member: "spec",
                content: spec,
            },
        }
    }

    /// What people may write to the status of Rollouts.
    pub(super) fn status(username: &str, jumps: bool) -> [Self; 2] {
        let name = names::STATUS_POLICY;
        [
            Self::new(Sort::ValidatingPolicy, name, approval::policy(username, jumps)),
            Self::new(Sort::ValidatingBinding, name, approval::binding()),
        ]
    }

    /// Whether a kind is held, confirmed or told by it: a policy of its adapter, or the binding of one.
    pub(super) fn concerns(&self, resource: &ApiResource) -> bool {
        adapter_for(&kind_of(resource)).is_some_and(|adapter| {
            let policy::Names { hold, confirm, tell } = policy::Names::of(adapter);
            [hold, confirm, tell].contains(&self.name)
        })
    }
}

/// The policies and bindings that hold, confirm and tell for these kinds; each policy comes before its binding. What an earlier
/// process governed, by the rules in `present`, stays as long as not all kinds are known.
pub(super) fn wishes(
    username: &str,
    namespace: &str,
    governed: &Governed,
    present: impl Fn(&str) -> Value,
) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for adapter in ADAPTERS {
        let names = policy::Names::of(adapter);
        let of_adapter = |resource: &&ApiResource| {
            adapter_for(&kind_of(resource)).is_some_and(|other| other.type_label() == adapter.type_label())
        };
        let mut rules: Vec<_> = governed
            .resources
            .iter()
            .filter(of_adapter)
            .map(rule_of)
            .collect();
        if !governed.complete {
            let before = Rule::read_all(&present(&names.hold)["spec"]);
            let others: Vec<_> = before
                .into_iter()
                .filter(|rule| !rules.iter().any(|known| known.is_same_kind(rule)))
                .collect();
            rules.extend(others);
        }
        if rules.is_empty() {
            continue;
        }
        rules.sort();
        let scope = Scope {
            username,
            namespace,
            governed: &rules,
        };
        wishes.extend(of_family(adapter, &names, &scope));
    }
    wishes
}

/// What refuses comes before what holds, since only the latter lets the webhook be dispensed with.
fn of_family(adapter: &dyn Adapter, names: &policy::Names, scope: &Scope<'_>) -> [Wish; 6] {
    use Sort::{MutatingBinding, MutatingPolicy, ValidatingBinding, ValidatingPolicy};
    let (hold, confirm, tell) = (&names.hold, &names.confirm, &names.tell);
    [
        Wish::new(ValidatingPolicy, confirm, policy::confirm(adapter, scope)),
        Wish::new(
            ValidatingBinding,
            confirm,
            policy::validating_binding(confirm, "Deny"),
        ),
        Wish::new(ValidatingPolicy, tell, policy::tell(scope)),
        Wish::new(ValidatingBinding, tell, policy::validating_binding(tell, "Warn")),
        Wish::new(MutatingPolicy, hold, policy::hold(adapter, scope)),
        Wish::new(MutatingBinding, hold, policy::mutating_binding(hold)),
    ]
}

/// Since when the policies of each kind have been in place without a break.
#[derive(Default)]
pub(super) struct InPlace {
    since: BTreeMap<GroupKind, Instant>,
}

impl InPlace {
    /// These kinds have their policies in place now, others have not. One of which the webhook has already been dispensed with was in
    /// place before we looked.
    pub(super) fn see(&mut self, kinds: &[GroupKind], dispensed: &[GroupKind], now: Instant) {
        self.since.retain(|kind, _| kinds.contains(kind));
        for kind in kinds {
            let before = if dispensed.contains(kind) {
                now.checked_sub(SETTLES)
            } else {
                None
            };
            self.since.entry(kind.clone()).or_insert(before.unwrap_or(now));
        }
    }

    /// Whether a kind's policies are in force on every API server.
    pub(super) fn has_settled(&self, kind: &GroupKind, now: Instant) -> bool {
        self.since.get(kind).is_some_and(|since| now >= *since + SETTLES)
    }

    /// When the next of them settles.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        self.since
            .values()
            .map(|since| *since + SETTLES)
            .filter(|at| *at > now)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> GroupKind {
        GroupKind {
            group: "example.io".to_owned(),
            kind: name.to_owned(),
        }
    }

    #[test]
    fn a_policy_settles_anew_after_a_break() {
        let (one, two) = (kind("One"), kind("Two"));
        let mut in_place = InPlace::default();
        let start = Instant::now();
        in_place.see(&[one.clone(), two.clone()], std::slice::from_ref(&two), start);
        assert!(!in_place.has_settled(&one, start));
        assert!(in_place.has_settled(&two, start));
        assert_eq!(in_place.next(start), Some(start + SETTLES));
        let later = start + SETTLES;
        in_place.see(&[one.clone(), two.clone()], &[], later);
        assert!(in_place.has_settled(&one, later) && in_place.next(later).is_none());
        in_place.see(std::slice::from_ref(&two), &[], later);
        in_place.see(&[one.clone(), two], &[], later);
        assert!(!in_place.has_settled(&one, later));
    }
}
