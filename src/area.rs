//! Which part of a cluster a controller governs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::names;

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

    fn excluded(&self) -> impl Iterator<Item = &str> {
        names::EXCLUDED_NAMESPACES.into_iter().chain([self.own.as_str()])
    }
}

/// What a name becomes for the controller in the namespace `own` if that one governs a part of the cluster.
#[must_use]
pub fn in_part(plain: &str, own: &str) -> String {
    format!("{plain}-{own}")
}

fn selects(operator: &str, values: &Value) -> Value {
    json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": operator, "values": values}]})
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
    }

    #[test]
    fn nothing_is_governed_in_excluded_namespaces() {
        for name in ["ops", "kube-system"] {
            let area = Area::of("ops", ["shop".to_owned(), name.to_owned()]);
            assert_eq!(area, Err(name.to_owned()));
        }
    }
}
