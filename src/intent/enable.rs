//! Letting the controller govern a kind: one ClusterRole whose rules are added to the controller's.

use serde_json::{Value, json};

use super::Refusal;
use crate::names;
use crate::workload::{GroupKind, adapter_for};

/// The ClusterRole that lets the controller govern a kind of workloads, known by the plural and the group of its resource.
#[must_use]
pub fn enabling_role(group: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": format!("{}-{plural}.{group}", names::CLUSTER_ROLE),
            "labels": { "app.kubernetes.io/name": "kruise-rollout", names::AGGREGATE_TO_CONTROLLER: "true" },
        },
        "rules": [{ "apiGroups": [group], "resources": [plural], "verbs": names::KIND_VERBS }],
    })
}

/// What becomes of the rights to a kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Enabling {
    /// The controller has them already, or has none from us: by this ClusterRole, where there is one.
    Unchanged {
        /// Name of the ClusterRole that gives all of them.
        by: Option<String>,
    },
    /// This ClusterRole is to be applied.
    Apply(Value),
    /// This ClusterRole is to be deleted.
    Delete {
        /// As it was read.
        role: Value,
        /// Another one that gives the same rights.
        also: Option<String>,
    },
}

/// Lets the controller govern a kind. `roles` are all ClusterRoles whose rules are added to the controller's.
///
/// # Errors
/// A kind that is not supported.
pub fn enable_kind(kind: &GroupKind, plural: &str, roles: &[Value]) -> Result<Enabling, Refusal> {
    if adapter_for(kind).is_none() {
        return Err(Refusal::UnsupportedKind(kind.to_string()));
    }
    let by = roles.iter().find(|role| gives(role, &kind.group, plural));
    Ok(match by {
        Some(role) => Enabling::Unchanged { by: name(role) },
        None => Enabling::Apply(enabling_role(&kind.group, plural)),
    })
}

/// Takes away what [`enable_kind`] has applied. Roles of other names are left alone.
#[must_use]
pub fn disable_kind(group: &str, plural: &str, roles: &[Value]) -> Enabling {
    let ours = enabling_role(group, plural)["metadata"]["name"].clone();
    let (own, others): (Vec<_>, Vec<_>) = roles.iter().partition(|role| role["metadata"]["name"] == ours);
    let also = others
        .into_iter()
        .find(|role| gives(role, group, plural))
        .and_then(name);
    match own.first() {
        Some(role) => Enabling::Delete {
            role: (*role).clone(),
            also,
        },
        None => Enabling::Unchanged { by: also },
    }
}

fn name(role: &Value) -> Option<String> {
    role["metadata"]["name"].as_str().map(str::to_owned)
}

/// Whether a role gives everything that the controller needs of a resource, whatever its objects are called.
fn gives(role: &Value, group: &str, plural: &str) -> bool {
    let has = |values: &Value, wanted: &str| {
        let values = values.as_array().into_iter().flatten();
        values
            .filter_map(Value::as_str)
            .any(|value| value == wanted || value == "*")
    };
    let rules = || role["rules"].as_array().into_iter().flatten();
    names::KIND_VERBS.iter().all(|verb| {
        rules().any(|rule| {
            has(&rule["apiGroups"], group)
                && has(&rule["resources"], plural)
                && has(&rule["verbs"], verb)
                && rule["resourceNames"].as_array().is_none_or(Vec::is_empty)
        })
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn kind() -> GroupKind {
        GroupKind {
            group: "example.io".to_owned(),
            kind: "MyStatefulApp".to_owned(),
        }
    }

    fn role(name: &str, resources: &[&str], verbs: &[&str]) -> Value {
        json!({"metadata": {"name": name}, "rules": [{"apiGroups": ["example.io"], "resources": resources, "verbs": verbs}]})
    }

    const OURS: &str = "kruise-rollout-controller-mystatefulapps.example.io";

    #[test]
    fn a_kind_that_no_role_gives_whole_is_enabled() {
        let partial = role("operator", &["mystatefulapps"], &["get", "list", "watch"]);
        let mut bound = role("bound", &["mystatefulapps"], &["*"]);
        bound["rules"][0]["resourceNames"] = json!(["one"]);
        let other = role("other", &["widgets"], &["*"]);
        let Ok(Enabling::Apply(applied)) =
            enable_kind(&kind(), "mystatefulapps", &[partial.clone(), bound, other])
        else {
            panic!("nothing is applied");
        };
        assert_eq!(applied["metadata"]["name"], OURS);
        assert_eq!(
            applied["metadata"]["labels"][names::AGGREGATE_TO_CONTROLLER],
            "true"
        );
        // It is what is looked for the next time.
        let again = enable_kind(&kind(), "mystatefulapps", &[partial, applied]);
        assert_eq!(
            again,
            Ok(Enabling::Unchanged {
                by: Some(OURS.to_owned())
            })
        );
    }

    #[test]
    fn a_kind_that_its_operator_brings_a_role_for_is_enabled_already() {
        let whole = role("operator", &["*"], &["get", "list", "watch", "patch", "delete"]);
        assert_eq!(
            enable_kind(&kind(), "mystatefulapps", &[whole]),
            Ok(Enabling::Unchanged {
                by: Some("operator".to_owned())
            })
        );
    }

    #[rstest]
    #[case::of_a_known_group("batch", "Job", "jobs")]
    #[case::of_the_core("", "Pod", "pods")]
    #[case::that_govern_the_cluster("rbac.authorization.k8s.io", "Role", "roles")]
    #[case::of_any_other_group_of_kubernetes("coordination.k8s.io", "Lease", "leases")]
    #[case::of_an_old_group("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers")]
    #[case::of_our_own("rollouts.kruise.io", "Rollout", "rollouts")]
    fn kinds_without_an_adapter_are_refused(#[case] group: &str, #[case] kind: &str, #[case] plural: &str) {
        let kind = GroupKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        };
        let refused = Err(Refusal::UnsupportedKind(kind.to_string()));
        assert_eq!(enable_kind(&kind, plural, &[]), refused);
    }

    #[test]
    fn a_group_that_only_looks_like_one_of_kubernetes_is_enabled() {
        let kind = GroupKind {
            group: "leaderworkerset.x-k8s.io".to_owned(),
            kind: "LeaderWorkerSet".to_owned(),
        };
        let enabling = enable_kind(&kind, "leaderworkersets", &[]);
        assert!(matches!(enabling, Ok(Enabling::Apply(_))), "{enabling:?}");
    }

    #[test]
    fn only_the_role_of_our_name_is_taken_away() {
        let own = enabling_role("example.io", "mystatefulapps");
        let whole = role("operator", &["mystatefulapps"], &["*"]);
        let disable = |roles: &[Value]| disable_kind("example.io", "mystatefulapps", roles);
        assert_eq!(disable(&[]), Enabling::Unchanged { by: None });
        let by = Some("operator".to_owned());
        assert_eq!(
            disable(std::slice::from_ref(&whole)),
            Enabling::Unchanged { by: by.clone() }
        );
        assert_eq!(
            disable(&[whole, own.clone()]),
            Enabling::Delete {
                role: own.clone(),
                also: by
            }
        );
        assert_eq!(
            disable(std::slice::from_ref(&own)),
            Enabling::Delete {
                role: own,
                also: None
            }
        );
    }
}
