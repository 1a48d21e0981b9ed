//! Which part of a cluster a controller governs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::names;

/// The label that the API server gives to every namespace: its name.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// The namespaces that a controller governs: all, or some. Several controllers share a cluster if each governs other namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    own: String,
    namespaces: BTreeSet<String>,
}

impl Area {
    /// The whole cluster, for a controller in the namespace `own`.
    #[must_use]
    pub fn whole(own: &str) -> Self {
        Self {
            own: own.to_owned(),
            namespaces: BTreeSet::new(),
        }
    }

    /// These namespaces, for a controller in the namespace `own`; the whole cluster where there are none.
    ///
    /// # Errors
    /// The first of them in which nothing can be governed.
    pub fn of(own: &str, namespaces: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let area = Self {
            namespaces: namespaces.into_iter().collect(),
            ..Self::whole(own)
        };
        let excluded = area.excluded().find(|name| area.namespaces.contains(*name));
        match excluded.map(str::to_owned) {
            Some(name) => Err(name),
            None => Ok(area),
        }
    }

    /// Namespace of the controller's own objects.
    #[must_use]
    pub fn own(&self) -> &str {
        &self.own
    }

    /// The namespaces that are governed, sorted; none for the whole cluster.
    #[must_use]
    pub fn namespaces(&self) -> &BTreeSet<String> {
        &self.namespaces
    }

    /// Whether it is the whole cluster.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// Whether objects in this namespace are the controller's business.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        self.is_whole() || self.namespaces.contains(namespace)
    }

    /// Name of an object of the controller that is in no namespace. A controller of a part adds its own namespace, so that no two
    /// controllers write the same object.
    #[must_use]
    pub fn name(&self, plain: &str) -> String {
        if self.is_whole() {
            plain.to_owned()
        } else {
            in_part(plain, &self.own)
        }
    }

    /// Selects, for admission, the namespaces of workloads that may be governed.
    #[must_use]
    pub fn selector(&self) -> Value {
        if self.is_whole() {
            let excluded: Vec<_> = self.excluded().collect();
            selects("NotIn", &json!(excluded))
        } else {
            selects("In", &json!(self.namespaces))
        }
    }

    /// Selects, for admission, the namespaces of the Rollouts that are reviewed; `None` for all.
    #[must_use]
    pub fn selector_of_rollouts(&self) -> Option<Value> {
        (!self.is_whole()).then(|| self.selector())
    }

    /// The namespaces that a [`Self::selector`] selects for a controller of a part; `None` for one of the whole cluster.
    #[must_use]
    pub fn selected(selector: &Value) -> Option<Vec<&str>> {
        match Selected::read(selector)? {
            Selected::Only(namespaces) => Some(namespaces.into_iter().collect()),
            Selected::AllBut(_) => None,
        }
    }

    fn excluded(&self) -> impl Iterator<Item = &str> {
        names::EXCLUDED_NAMESPACES.into_iter().chain([self.own.as_str()])
    }
}

/// What a name becomes for the controller in the namespace `own` if that one governs a part of the cluster.
#[must_use]
pub fn in_part(plain: &str, own: &str) -> String {
    format!("{plain}-{own}")
}

/// Whether a MutatingWebhookConfiguration of this name is that of a controller of ours, wherever it runs.
#[must_use]
pub fn is_registration(name: &str) -> bool {
    let rest = name.strip_prefix(names::WEBHOOK_CONFIGURATION);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// What such a configuration says of the namespaces that its controller governs, as [`Area::selector`] has it; `None` before it governs
/// any kind.
#[must_use]
pub fn registered_selector(configuration: &Value) -> Option<&Value> {
    configuration.pointer("/webhooks/0/namespaceSelector")
}

/// Another controller of ours that governs a namespace of this one's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub remedy: &'static str,
}

/// What there is to say of another controller whose configuration of this name selects a namespace that the selector `own` has, too;
/// `None` where it selects none.
#[must_use]
pub fn overlap(own: &Value, name: &str, other: &Value) -> Option<Overlap> {
    let common = match (Selected::read(own)?, Selected::read(other)?) {
        (Selected::AllBut(_), Selected::AllBut(_)) => "the whole cluster".to_owned(),
        (Selected::Only(some), Selected::AllBut(excluded))
        | (Selected::AllBut(excluded), Selected::Only(some)) => listed(some.difference(&excluded))?,
        (Selected::Only(some), Selected::Only(others)) => listed(some.intersection(&others))?,
    };
    Some(Overlap {
        text: format!(
            "another controller governs {common} too, by the MutatingWebhookConfiguration {name}: each takes the other's steps for \
             somebody's writes"
        ),
        remedy: "Install one of them with other --watch-namespaces; or stop it and delete its ClusterRole, with which its registration \
                 goes",
    })
}

/// Namespaces by their names, as a selector of ours has them.
enum Selected<'a> {
    Only(BTreeSet<&'a str>),
    AllBut(BTreeSet<&'a str>),
}

impl<'a> Selected<'a> {
    fn read(selector: &'a Value) -> Option<Self> {
        let mut expressions = selector["matchExpressions"].as_array()?.iter();
        let expression = expressions.find(|one| one["key"] == NAMESPACE_LABEL)?;
        let values = expression["values"].as_array()?.iter();
        let values = values.filter_map(Value::as_str).collect();
        match expression["operator"].as_str()? {
            "In" => Some(Self::Only(values)),
            "NotIn" => Some(Self::AllBut(values)),
            _ => None,
        }
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a &'a str>) -> Option<String> {
    let names: Vec<_> = names.copied().collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("the namespace {name}")),
        _ => Some(format!("the namespaces {}", names.join(", "))),
    }
}

fn selects(operator: &str, values: &Value) -> Value {
    json!({"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": operator, "values": values}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_names_of_its_own_and_selects_its_namespaces() {
        let whole = Area::of("ops", []).unwrap();
        assert_eq!(whole, Area::whole("ops"));
        assert!(whole.covers("shop") && whole.name("x") == "x");
        assert_eq!(whole.selector_of_rollouts(), None);
        let part = Area::of("ops-a", ["shop".to_owned(), "bar".to_owned()]).unwrap();
        assert!(part.covers("shop") && !part.covers("other"));
        assert_eq!(part.name("x"), "x-ops-a");
        let values = &part.selector()["matchExpressions"][0];
        assert_eq!(
            (&values["operator"], &values["values"]),
            (&json!("In"), &json!(["bar", "shop"]))
        );
        assert_eq!(part.selector_of_rollouts(), Some(part.selector()));
        assert_eq!(Area::selected(&part.selector()), Some(vec!["bar", "shop"]));
        assert_eq!(Area::selected(&whole.selector()), None);
    }

    #[test]
    fn what_two_areas_have_in_common_is_said() {
        let area =
            |own: &str, names: &[&str]| Area::of(own, names.iter().map(|name| (*name).to_owned())).unwrap();
        let (whole, ab, bc, d) = (
            area("ops", &[]),
            area("ops-a", &["a", "b"]),
            area("ops-b", &["b", "c"]),
            area("ops-d", &["d"]),
        );
        let common = |one: &Area, other: &Area| {
            let said = overlap(&one.selector(), "x", &other.selector())?.text;
            let (common, _) = said.split_once(" too, by the MutatingWebhookConfiguration x")?;
            Some(
                common
                    .trim_start_matches("another controller governs ")
                    .to_owned(),
            )
        };
        for (one, other, expected) in [
            (&ab, &bc, Some("the namespace b")),
            (&whole, &ab, Some("the namespaces a, b")),
            (&whole, &area("ops-c", &["ops"]), None),
            (&whole, &area("other", &[]), Some("the whole cluster")),
            (&ab, &d, None),
        ] {
            assert_eq!(common(one, other).as_deref(), expected);
            assert_eq!(common(other, one).as_deref(), expected);
        }
        assert_eq!(overlap(&whole.selector(), "x", &json!({})), None);
    }

    #[test]
    fn a_registration_of_ours_is_known_by_its_name() {
        let part = in_part(names::WEBHOOK_CONFIGURATION, "ops-a");
        for (name, ours) in [
            (names::WEBHOOK_CONFIGURATION, true),
            (part.as_str(), true),
            ("zz-kruise-rollouts", false),
            (names::LEGACY_WEBHOOK_CONFIGURATION, false),
        ] {
            assert_eq!(is_registration(name), ours, "{name}");
        }
    }

    #[test]
    fn nothing_is_governed_in_excluded_namespaces() {
        for name in ["ops", "kube-system"] {
            let area = Area::of("ops", ["shop".to_owned(), name.to_owned()]);
            assert_eq!(area, Err(name.to_owned()));
        }
    }
}
