//! Which policies there should be.

use std::collections::BTreeSet;

use kruise_rollout::admission::approval;
use kruise_rollout::admission::policy::{self, Governed as Rule, Scope};
use kruise_rollout::area::Area;
use kruise_rollout::names;
use kruise_rollout::workload::{ADAPTERS, Adapter, adapter_for};
use kube::api::ApiResource;
use serde_json::Value;

use super::entries::{Governed, kind_of, rule_of};
use super::kept::Wanted;
use super::standing::Plural;

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

    /// The names of the objects that are those of the controller of an area.
    pub(crate) fn names(self, area: &Area) -> Vec<String> {
        match self {
            Self::MutatingWebhook | Self::ValidatingWebhook => vec![area.name(names::WEBHOOK_CONFIGURATION)],
            _ => policy::all_names(area),
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
    pub(super) fn status(username: &str, area: &Area, jumps: bool) -> [Self; 2] {
        let name = &area.name(names::STATUS_POLICY);
        [
            Self::new(
                Sort::ValidatingPolicy,
                name,
                approval::policy(username, area, jumps),
            ),
            Self::new(Sort::ValidatingBinding, name, approval::binding(area)),
        ]
    }
}

/// The policies and bindings that hold, confirm and tell for these kinds; each policy comes before its binding. What an earlier
/// process governed, by the rules in `present`, stays as long as not all kinds are known.
pub(super) fn wishes(
    username: &str,
    area: &Area,
    governed: &Governed,
    present: impl Fn(&str) -> Value,
) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for adapter in ADAPTERS {
        let Some(names) = policy::Names::of(adapter, area) else {
            continue;
        };
        let of_adapter = |resource: &&ApiResource| {
            let other = adapter_for(&kind_of(resource)).and_then(|other| policy::Names::of(other, area));
            other.as_ref() == Some(&names)
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
            area,
            governed: &rules,
        };
        wishes.extend(of_family(adapter, &names, &scope).into_iter().flatten());
    }
    wishes
}

/// What refuses comes before what holds, since only the latter lets the webhook be dispensed with.
fn of_family(adapter: &dyn Adapter, names: &policy::Names, scope: &Scope<'_>) -> Option<[Wish; 6]> {
    use Sort::{MutatingBinding, MutatingPolicy, ValidatingBinding, ValidatingPolicy};
    let (hold, confirm, tell) = (&names.hold, &names.confirm, &names.tell);
    Some([
        Wish::new(ValidatingPolicy, confirm, policy::confirm(adapter, scope)?),
        Wish::new(
            ValidatingBinding,
            confirm,
            policy::validating_binding(confirm, "Deny"),
        ),
        Wish::new(ValidatingPolicy, tell, policy::tell(scope)),
        Wish::new(ValidatingBinding, tell, policy::validating_binding(tell, "Warn")),
        Wish::new(MutatingPolicy, hold, policy::hold(adapter, scope)?),
        Wish::new(MutatingBinding, hold, policy::mutating_binding(hold)),
    ])
}

/// The kinds whose policies are all in place, as `says` tells of each wish.
pub(super) fn in_place(wishes: &[Wish], area: &Area, says: impl Fn(&Wish) -> bool) -> BTreeSet<Plural> {
    let whole = policy::Names::all(area).filter_map(|policy::Names { hold, confirm, tell }| {
        let of_family = wishes
            .iter()
            .filter(|wish| [&hold, &confirm, &tell].contains(&&wish.name));
        let of_family: Vec<_> = of_family.collect();
        let holds = of_family.iter().find(|wish| wish.sort == Sort::MutatingPolicy)?;
        of_family
            .iter()
            .all(|wish| says(wish))
            .then(|| Rule::read_all(&holds.wanted.content))
    });
    whole.flatten().map(|rule| (rule.group, rule.plural)).collect()
}
