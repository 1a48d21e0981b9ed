//! From what was typed to Rollouts.

use kruise_rollout::api::v1beta1::{Rollout, WorkloadRef};
use kruise_rollout::workload::GroupKind;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::views::next_page;
use super::{Cluster, PAGE, is_close};
use crate::cli::targets::Targets;
use crate::error::Error;
use crate::target::{self, Object, Target};

/// One of the Rollouts that a command is about.
#[derive(Clone)]
pub(crate) struct Chosen {
    /// In its namespace.
    pub(crate) cluster: Cluster,
    /// What was typed, or what a selection found.
    pub(crate) target: Target,
}

impl Cluster {
    /// The name of the Rollout that is meant: the one that was named, or the one that names this workload.
    ///
    /// # Errors
    /// No Rollout, or more than one, names the workload.
    pub(crate) async fn rollout_of(&self, target: &Target) -> Result<String, Error> {
        let object = match target {
            Target::Rollout(name) => return Ok(name.clone()),
            Target::Object(object) => object,
        };
        let rollouts = self.list_rollouts(None).await?;
        // With its group the type is told from the reference alone; else the server says which group is meant.
        let mut kind = GroupKind {
            group: String::new(),
            kind: object.resource.clone(),
        };
        let mut referring: Vec<&Rollout> = Vec::new();
        if object.group.is_some() {
            referring.extend(rollouts.iter().filter(|rollout| {
                let reference = &rollout.spec.workload_ref;
                reference.name == object.name && is_called(object, reference)
            }));
        }
        if referring.is_empty() {
            let resource = self.resource(&object.resource, object.group.as_deref()).await?;
            kind = GroupKind {
                group: resource.group,
                kind: resource.kind,
            };
            referring.extend(rollouts.iter().filter(|rollout| {
                let reference = &rollout.spec.workload_ref;
                reference.name == object.name && kind_of(reference).as_ref() == Some(&kind)
            }));
        }
        let mut found: Vec<_> = referring.iter().map(|rollout| rollout.name_any()).collect();
        match (found.len(), found.pop()) {
            (1, Some(name)) => Ok(name),
            (0, _) | (_, None) => Err(Error::NoRollout {
                workload: format!("{}/{}", kind.to_string().to_lowercase(), object.name),
                namespace: self.namespace.clone(),
                close: close(&rollouts, object),
            }),
            (_, Some(last)) => {
                found.push(last);
                Err(Error::Usage(format!(
                    "{}/{} is the workload of several Rollouts: name one of {}",
                    object.kind(),
                    object.name,
                    found.join(", ")
                )))
            }
        }
    }

    /// What a command is about. A selection that finds nothing is empty.
    ///
    /// # Errors
    /// Words that name nothing; the server does not list Rollouts.
    pub(crate) async fn chosen(&self, targets: &Targets) -> Result<Vec<Chosen>, Error> {
        if !targets.words.is_empty() {
            let named = target::targets(&targets.words)?.into_iter();
            return Ok(named
                .map(|target| Chosen {
                    cluster: self.clone(),
                    target,
                })
                .collect());
        }
        let selected = self.selected(targets).await?.into_iter();
        Ok(selected
            .map(|rollout| {
                let namespace = rollout.metadata.namespace.clone().unwrap_or_default();
                Chosen {
                    cluster: self.in_namespace(&namespace),
                    target: Target::Rollout(rollout.name_any()),
                }
            })
            .collect())
    }

    /// The Rollouts that `-l` or `--all` choose, in one or in all namespaces.
    ///
    /// # Errors
    /// The server does not list Rollouts; none is found and `--fail-if-empty` is given.
    pub(crate) async fn selected(&self, targets: &Targets) -> Result<Vec<Rollout>, Error> {
        let selector = targets.selector.as_deref();
        let found = if targets.all_namespaces {
            self.pages(Api::all(self.client.clone()), selector).await?
        } else {
            self.list_rollouts(selector).await?
        };
        if found.is_empty() && targets.fail_if_empty {
            return Err(Error::NoneFound(self.scope(targets)));
        }
        Ok(found)
    }

    /// Where a selection looks, for a sentence.
    pub(crate) fn scope(&self, targets: &Targets) -> String {
        if targets.all_namespaces {
            "in any namespace".to_owned()
        } else {
            format!("in namespace {}", self.namespace)
        }
    }

    async fn list_rollouts(&self, selector: Option<&str>) -> Result<Vec<Rollout>, Error> {
        self.pages(self.rollouts(), selector).await
    }

    async fn pages(&self, api: Api<Rollout>, selector: Option<&str>) -> Result<Vec<Rollout>, Error> {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = selector.map(str::to_owned);
        let mut rollouts = Vec::new();
        loop {
            let page = self.page(&api, &params).await?;
            rollouts.extend(page.items);
            match next_page(&page.metadata) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(rollouts),
            }
        }
    }
}

/// Group and kind of a reference; its version does not matter.
fn kind_of(reference: &WorkloadRef) -> Option<GroupKind> {
    let (group, _) = reference.group_version()?;
    Some(GroupKind {
        group: group.to_owned(),
        kind: reference.kind.clone(),
    })
}

/// Whether a reference is of the type that was typed with its group, by kind or by the usual plural.
fn is_called(object: &Object, reference: &WorkloadRef) -> bool {
    let (Some((group, _)), Some(typed)) = (reference.group_version(), &object.group) else {
        return false;
    };
    let version = |text: &str| text.starts_with('v') && text[1..].starts_with(|c: char| c.is_ascii_digit());
    let behind_version = typed.split_once('.').filter(|(first, _)| version(first));
    let word = object.resource.to_lowercase();
    let plural = super::kind::guessed(reference).map(|resource| resource.plural);
    (*typed == group || behind_version.is_some_and(|(_, rest)| rest == group))
        && (word == reference.kind.to_lowercase() || Some(&word) == plural.as_ref())
}

/// What somebody may have meant: workloads of this name in another group first, then those with a similar name.
fn close(rollouts: &[Rollout], object: &Object) -> Vec<String> {
    let mut close: Vec<_> = rollouts
        .iter()
        .map(|rollout| &rollout.spec.workload_ref)
        .filter(|reference| is_close(&reference.name, &object.name))
        .filter_map(|reference| {
            let kind = kind_of(reference)?.to_string().to_lowercase();
            Some((
                reference.name != object.name,
                format!("{kind}/{}", reference.name),
            ))
        })
        .collect();
    close.sort_unstable();
    close.dedup();
    close.truncate(3);
    close.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn rollout(version: &str, kind: &str, name: &str) -> Rollout {
        let reference = json!({"apiVersion": version, "kind": kind, "name": name});
        serde_json::from_value(
            json!({"metadata": {"name": "r"}, "spec": {"workloadRef": reference, "strategy": {}}}),
        )
        .unwrap()
    }

    fn object(kind: &str, name: &str) -> Object {
        let Ok(Target::Object(object)) = target::target(&[format!("{kind}/{name}")]) else {
            panic!("{kind}/{name}");
        };
        object
    }

    #[rstest]
    #[case("mystatefulapps.example.io", true)]
    #[case("mystatefulapp.example.io", true)]
    #[case("MyStatefulApp.example.io", true)]
    #[case("mystatefulapps.v1.example.io", true)]
    #[case::in_another_version("mystatefulapps.v2beta1.example.io", true)]
    #[case::another_group("mystatefulapps.example.com", false)]
    #[case::no_group("mystatefulapps", false)]
    fn a_reference_is_called(#[case] kind: &str, #[case] expected: bool) {
        let rollout = rollout("example.io/v1", "MyStatefulApp", "web");
        assert_eq!(
            is_called(&object(kind, "web"), &rollout.spec.workload_ref),
            expected
        );
    }

    #[test]
    fn what_may_have_been_meant() {
        let rollouts = [
            rollout("apps/v1", "StatefulSet", "webb"),
            rollout("apps.kruise.io/v1beta1", "StatefulSet", "web"),
            rollout("apps/v1", "Deployment", "shop"),
        ];
        assert_eq!(
            close(&rollouts, &object("sts", "web")),
            ["statefulset.apps.kruise.io/web", "statefulset.apps/webb"]
        );
    }
}
