//! Gathers what a diagnosis is made of.

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kruise_rollout::admission::policy::all_names;
use kruise_rollout::api::v1beta1::{Rollout, WorkloadRef};
use kruise_rollout::area::{Area, in_part, is_registration};
use kruise_rollout::diagnosis::{Controller, Facts, Looked, Registrations, Right, Server, Subject};
use kruise_rollout::names;
use kruise_rollout::workload::{GroupKind, PodView};
use kube::api::{Api, ApiResource, PostParams};
use serde_json::Value;

use super::look::{Place, looked};
use super::write::CLUSTER_ROLES;
use super::{Cluster, Workload, qualified};
use crate::error::Error;
use crate::target;

/// Rollouts that are looked at when none is named.
const SUBJECTS: usize = 20;
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of it.
    Everything,
    /// What may keep a release from moving: not the caller, and no other workloads.
    Release,
}

impl Cluster {
    /// The Rollout that the words name, themselves or by its workload.
    pub(crate) async fn named_rollout(&self, words: &[String]) -> Result<Rollout, Error> {
        let name = self.rollout_of(&target::target(words)?).await?;
        self.rollout(&name).await
    }

    /// Gathers facts about the Rollouts, or about all of the namespace where none is given.
    pub(crate) async fn facts(
        &self,
        targets: Option<Rollout>,
        installed: &str,
        scope: Scope,
        now: Timestamp,
    ) -> Result<Facts, Error> {
        let rollouts = self.all_rollouts(false).await?;
        let chosen: Vec<Rollout> = match targets {
            Some(rollout) => vec![rollout],
            None => rollouts
                .seen()
                .into_iter()
                .flatten()
                .take(SUBJECTS)
                .cloned()
                .collect(),
        };
        let mut facts = self.installation(installed, now).await?;
        for rollout in chosen {
            facts.subjects.push(self.subject(rollout).await?);
        }
        let known = rollouts.seen().cloned().unwrap_or_default();
        let (labelled, refused) = self.labelled(false, &known).await?;
        facts.labelled = match refused.first() {
            Some(right) if labelled.is_empty() => Looked::Forbidden(right.clone()),
            _ => Looked::Seen(labelled),
        };
        facts.rollouts = rollouts;
        if scope == Scope::Everything {
            let workloads: Vec<_> = facts.subjects.iter().filter_map(right_to).collect();
            (facts.user, facts.rights) = self.rights(&workloads).await?;
        }
        Ok(facts)
    }

    /// What is the same for every workload.
    pub(crate) async fn installation(&self, installed: &str, now: Timestamp) -> Result<Facts, Error> {
        let version = self.server_version().await?;
        let now = self.server_time().await.unwrap_or(now);
        let definitions = Place {
            folder: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            resource: "customresourcedefinitions.apiextensions.k8s.io",
        };
        let definition = self
            .one(definitions, &format!("rollouts.{}", names::GROUP))
            .await?;
        let registrations = self.registrations(installed).await?;
        Ok(Facts {
            now,
            namespace: self.namespace.clone(),
            server: Server { version },
            definition,
            controller: self.controller(installed).await?,
            registrations,
            ..Facts::default()
        })
    }

    async fn controller(&self, installed: &str) -> Result<Controller, Error> {
        let deployments = format!("/apis/apps/v1/namespaces/{installed}/deployments");
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{installed}/leases");
        let (deployments, leases) = (
            Place {
                folder: &deployments,
                resource: "deployments.apps",
            },
            Place {
                folder: &leases,
                resource: "leases.coordination.k8s.io",
            },
        );
        Ok(Controller {
            namespace: installed.to_owned(),
            deployments: self
                .some(deployments, &[names::CONTROLLER, names::LEGACY_DEPLOYMENT])
                .await?,
            leases: self
                .some(leases, &[names::CONTROLLER, names::LEGACY_LEASE])
                .await?,
        })
    }

    async fn registrations(&self, installed: &str) -> Result<Registrations, Error> {
        let folder = |plural: &str| format!("{ADMISSION}/{plural}");
        let resource = |plural: &str| format!("{plural}.admissionregistration.k8s.io");
        let named = async |plural: &str, names: &[&str]| {
            let (folder, resource) = (folder(plural), resource(plural));
            let place = Place {
                folder: &folder,
                resource: &resource,
            };
            self.some(place, names).await
        };
        // A controller of a part of the cluster has registrations of its own.
        let of_part = in_part(names::WEBHOOK_CONFIGURATION, installed);
        let configurations = [
            names::WEBHOOK_CONFIGURATION,
            of_part.as_str(),
            names::LEGACY_WEBHOOK_CONFIGURATION,
        ];
        let mut webhooks = named("mutatingwebhookconfigurations", &configurations).await?;
        if let Looked::Seen(found) = &mut webhooks {
            let others = self.other_registrations().await?.into_iter();
            let known: Vec<_> = found
                .iter()
                .map(|known| known["metadata"]["name"].clone())
                .collect();
            found.extend(others.filter(|other| !known.contains(&other["metadata"]["name"])));
        }
        let mut policies = all_names(&Area::whole(installed));
        let is_of_part = |found: &Value| found["metadata"]["name"] == of_part.as_str();
        if webhooks.seen().is_some_and(|found| found.iter().any(is_of_part)) {
            for name in &mut policies {
                *name = in_part(name, installed);
            }
        }
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let (held, bound) = (
            named("mutatingadmissionpolicies", &policies).await?,
            named("mutatingadmissionpolicybindings", &policies).await?,
        );
        Ok(Registrations {
            endpoints: self.endpoints(webhooks.seen()).await?,
            webhooks,
            policies: held.map(Some),
            bindings: bound.map(Some),
            roles: self.roles_of_kinds().await?,
        })
    }

    /// The registrations of all controllers of ours, wherever they are; none for who may not list them.
    async fn other_registrations(&self) -> Result<Vec<Value>, Error> {
        let place = Place {
            folder: &format!("{ADMISSION}/mutatingwebhookconfigurations"),
            resource: "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        };
        let is_ours = |found: &Value| found["metadata"]["name"].as_str().is_some_and(is_registration);
        let all = self.all(place, None).await?;
        let all = all.seen().into_iter().flatten();
        Ok(all.filter(|found| is_ours(found)).cloned().collect())
    }

    /// The ClusterRoles whose rules are added to the controller's.
    pub(crate) async fn roles_of_kinds(&self) -> Result<Looked<Vec<Value>>, Error> {
        let roles = Place {
            folder: CLUSTER_ROLES,
            resource: "clusterroles.rbac.authorization.k8s.io",
        };
        let aggregated = format!("{}=true", names::AGGREGATE_TO_CONTROLLER);
        self.all(roles, Some(&aggregated)).await
    }

    /// The same, for who cannot go on without them.
    ///
    /// # Errors
    /// They may not be read.
    pub(crate) async fn enabling_roles(&self) -> Result<Vec<Value>, Error> {
        match self.roles_of_kinds().await? {
            Looked::Seen(roles) => Ok(roles),
            other => Err(Error::Forbidden {
                message: other.why_not().unwrap_or_default(),
                right: "list clusterroles.rbac.authorization.k8s.io".to_owned(),
                role: None,
            }),
        }
    }

    /// Who stands behind the Service that a registration names.
    async fn endpoints(&self, webhooks: Option<&Vec<Value>>) -> Result<Looked<Vec<Value>>, Error> {
        let entries = webhooks
            .into_iter()
            .flatten()
            .filter_map(|found| found["webhooks"].as_array())
            .flatten();
        let service = entries
            .map(|entry| &entry["clientConfig"]["service"])
            .find(|service| service.is_object());
        let (Some(namespace), Some(name)) = (
            service.and_then(|service| service["namespace"].as_str()),
            service.and_then(|service| service["name"].as_str()),
        ) else {
            return Ok(Looked::Not);
        };
        let folder = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        let place = Place {
            folder: &folder,
            resource: "endpointslices.discovery.k8s.io",
        };
        self.all(place, Some(&format!("kubernetes.io/service-name={name}")))
            .await
    }

    /// A Rollout's workload, and all that is about it.
    async fn subject(&self, rollout: Rollout) -> Result<Subject, Error> {
        let reference = rollout.spec.workload_ref.clone();
        let mut subject = Subject {
            rollout,
            ..Subject::default()
        };
        let Some(resource) = self.discovered(&reference).await? else {
            subject.plural = Looked::Seen(None);
            return Ok(subject);
        };
        subject.plural = Looked::Seen(Some(resource.plural.clone()));
        subject.definition = self.definition(&resource).await?;
        let right = format!("get {}", qualified(&resource));
        let workload = looked(self.workload(&resource, &reference.name).await, &right)?;
        if let Looked::Seen(Some(workload)) = &workload {
            subject.pods = self.looked_pods(workload).await?;
            subject.probe = self.try_template(workload).await?;
        }
        subject.workload = workload.map(|found| found.map(|workload| workload.object));
        Ok(subject)
    }

    /// The pods of a workload, as far as they may be seen.
    pub(crate) async fn looked_pods(&self, workload: &Workload) -> Result<Looked<Vec<PodView>>, Error> {
        let uid = workload.object["metadata"]["uid"].as_str().unwrap_or_default();
        looked(self.pods(uid, workload).await, "list pods")
    }

    /// The definition of a resource; `None` for built-in ones.
    pub(crate) async fn definition(&self, resource: &ApiResource) -> Result<Looked<Option<Value>>, Error> {
        let kind = GroupKind {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
        };
        if kind.is_built_in() {
            return Ok(Looked::Seen(None));
        }
        self.definition_named(&qualified(resource)).await
    }

    /// The definition of this name.
    pub(crate) async fn definition_named(&self, name: &str) -> Result<Looked<Option<Value>>, Error> {
        let place = Place {
            folder: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            resource: "customresourcedefinitions.apiextensions.k8s.io",
        };
        self.one(place, name).await
    }

    /// The resource of a reference, and the workload; what may not be looked at is told.
    pub(crate) async fn referred(
        &self,
        reference: &WorkloadRef,
    ) -> Result<(Option<ApiResource>, Looked<Option<Workload>>), Error> {
        let Some(resource) = self.discovered(reference).await? else {
            return Ok((None, Looked::Seen(None)));
        };
        let right = format!("get {}", qualified(&resource));
        let workload = looked(self.workload(&resource, &reference.name).await, &right)?;
        Ok((Some(resource), workload))
    }

    /// The caller's name, and what the caller may do with Rollouts, pods and these workloads.
    async fn rights(&self, workloads: &[(String, String)]) -> Result<(String, Vec<Right>), Error> {
        let who: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let review = SelfSubjectReview::default();
        let answer = self.call("", who.create(&PostParams::default(), &review)).await;
        let user = match answer {
            Ok(answer) => answer
                .status
                .and_then(|status| status.user_info)
                .and_then(|user| user.username),
            Err(Error::Server(_)) => None,
            Err(error) => return Err(error),
        };
        let rollouts = |verb: &str, resource: &str, purpose: &str| {
            (
                verb.to_owned(),
                names::GROUP.to_owned(),
                resource.to_owned(),
                purpose.to_owned(),
            )
        };
        let mut asked = vec![
            rollouts("get", "rollouts", "every command"),
            rollouts("list", "rollouts", "finding a Rollout by its workload"),
            rollouts("watch", "rollouts", "rollout status --watch"),
            rollouts("patch", "rollouts/status", "rollout approve"),
            rollouts("patch", "rollouts", "pausing and resuming"),
            (
                "list".to_owned(),
                String::new(),
                "pods".to_owned(),
                "showing pods".to_owned(),
            ),
            (
                "list".to_owned(),
                "apps".to_owned(),
                "controllerrevisions".to_owned(),
                "rollout undo".to_owned(),
            ),
        ];
        for (group, plural) in workloads {
            let of = |verb: &str, purpose: &str| {
                (verb.to_owned(), group.clone(), plural.clone(), purpose.to_owned())
            };
            asked.push(of("get", "showing the workload"));
            asked.push(of("patch", "rollout undo, and workload label"));
        }
        asked.dedup();
        let mut rights = Vec::with_capacity(asked.len());
        for (verb, group, resource, purpose) in asked {
            let allowed = self.may(&verb, &group, &resource).await?;
            rights.push(Right {
                verb,
                group,
                resource,
                purpose,
                allowed,
            });
        }
        Ok((user.unwrap_or_default(), rights))
    }

    /// Whether the caller may.
    async fn may(&self, verb: &str, group: &str, resource: &str) -> Result<bool, Error> {
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (resource, None),
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(self.namespace.clone()),
                    verb: Some(verb.to_owned()),
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource,
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let answer = self
            .call("", reviews.create(&PostParams::default(), &review))
            .await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// Group and plural of a subject's workload, where the server has them.
fn right_to(subject: &Subject) -> Option<(String, String)> {
    let (group, _) = subject.rollout.spec.workload_ref.group_version()?;
    Some((group.to_owned(), subject.plural.seen()?.clone()?))
}
