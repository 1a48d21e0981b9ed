//! The API server: reads and writes, each with a deadline and an error that says what to do.

mod event;
mod events;
mod facts;
mod feed;
mod history;
mod kind;
mod labelled;
mod link;
mod list;
mod look;
mod pages;
mod plain;
mod pod;
mod search;
mod shelf;
mod targets;
mod views;
mod watch;
mod workload;
mod world;
mod write;

use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Namespace;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, ApiResource, GetParams, ListParams, PostParams};
use kube::core::Request;
use serde_json::Value;

use crate::connect::chain;
use crate::error::Error;

pub(crate) use event::Happening;
pub(crate) use events::{Timeline, Told};
pub(crate) use facts::Scope;
pub(crate) use list::{Roll, RollChange};
pub(crate) use pages::Pages;
pub(crate) use plain::WorkloadFeed;
pub(crate) use targets::Chosen;
pub(crate) use views::Details;
pub(crate) use watch::{Arrival, Feeds};
pub(crate) use workload::Workload;
pub(crate) use world::World;
pub(crate) use write::Write;

/// Objects in one answer of a list.
const PAGE: u32 = 200;

/// A Rollout as it was read.
pub(crate) struct ReadRollout {
    /// What is known of it.
    pub(crate) rollout: Rollout,
    /// All of it.
    pub(crate) object: Value,
}

/// The image of a controller.
#[derive(Debug)]
pub(crate) struct ControllerImage {
    /// Its name with registry and tag.
    pub(crate) image: String,
    /// Whether it is this product's.
    pub(crate) ours: bool,
}

/// One API server and namespace.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
    server: String,
    deadline: Option<Duration>,
}

impl Cluster {
    pub(crate) fn new(client: Client, namespace: String, server: String, deadline: Duration) -> Self {
        Self {
            client,
            namespace,
            server,
            deadline: (!deadline.is_zero()).then_some(deadline),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The same server, another namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// Waits for one answer, at most for `--request-timeout`. `right` names what a caller must be allowed to, for the hint.
    async fn call<T>(&self, right: &str, request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        let answer = match self.deadline {
            None => request.await,
            Some(deadline) => {
                tokio::time::timeout(deadline, request)
                    .await
                    .map_err(|_| Error::Unreachable {
                        server: self.server.clone(),
                        cause: format!(
                            "no answer within {} s (--request-timeout)",
                            deadline.as_secs_f32()
                        ),
                    })?
            }
        };
        answer.map_err(|error| self.shaped(error, right))
    }

    /// The error as kubectl would say it.
    fn shaped(&self, error: kube::Error, right: &str) -> Error {
        match error {
            kube::Error::Api(status) => match status.code {
                401 => Error::Unauthorized(status.message),
                // What a policy or a webhook denies, no role allows.
                403 if !right.is_empty() && !status.message.contains("denied") => Error::Forbidden {
                    message: status.message,
                    right: if self.namespace.is_empty() {
                        format!("{right} in all namespaces")
                    } else {
                        format!("{right} in namespace {}", self.namespace)
                    },
                    role: role(right, &self.namespace),
                },
                _ => Error::Server(status),
            },
            kube::Error::Auth(kube::client::AuthError::AuthExec(cause)) => Error::Credentials(cause),
            error if is_about_credentials(&error) => Error::Unauthorized(chain(&error)),
            error => Error::Unreachable {
                server: self.server.clone(),
                cause: root(&error),
            },
        }
    }

    fn rollouts(&self) -> Api<Rollout> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A Rollout.
    pub(crate) async fn rollout(&self, name: &str) -> Result<Rollout, Error> {
        Ok(self.read_rollout(name).await?.rollout)
    }

    /// A Rollout, with the object as the server has it.
    pub(crate) async fn read_rollout(&self, name: &str) -> Result<ReadRollout, Error> {
        let resource = format!("rollouts.{}", names::GROUP);
        let right = format!("get {resource}");
        let object = match self.get_json(&right, &self.rollouts_folder(), name).await {
            Err(Error::Server(status))
                if status.code == 404 && status.details.as_ref().is_none_or(|d| d.name.is_empty()) =>
            {
                return Err(self.not_served().await);
            }
            Err(Error::Server(status)) if status.code == 404 => {
                return Err(Error::NotFound {
                    resource,
                    name: name.to_owned(),
                    namespace: self.namespace.clone(),
                    close: self.close_to(name).await,
                });
            }
            answer => answer?,
        };
        let rollout = serde_json::from_value(object.clone())
            .map_err(|error| Error::Unreadable(crate::render::subject(name), error.to_string()))?;
        Ok(ReadRollout { rollout, object })
    }

    /// Why there are no Rollouts: other versions than the known ones, or none.
    async fn not_served(&self) -> Error {
        let versions = self.rollout_versions().await.unwrap_or_default();
        if versions.is_empty() {
            Error::NotInstalled
        } else {
            Error::OtherVersions(versions)
        }
    }

    /// Names that somebody who typed `name` may have meant. Best effort.
    async fn close_to(&self, name: &str) -> Vec<String> {
        let names = self.rollout_names().await.unwrap_or_default().into_iter();
        let mut close: Vec<_> = names.filter(|known| is_close(known, name)).collect();
        close.truncate(3);
        close
    }

    /// Names of Rollouts, those of the first page.
    pub(crate) async fn rollout_names(&self) -> Result<Vec<String>, Error> {
        self.first_names(self.rollouts()).await
    }

    /// Names of the objects of a resource, those of the first page.
    pub(crate) async fn names(&self, resource: &ApiResource) -> Result<Vec<String>, Error> {
        self.first_names(self.objects(resource)).await
    }

    /// Names of namespaces, those of the first page.
    pub(crate) async fn namespaces(&self) -> Result<Vec<String>, Error> {
        self.first_names(Api::<Namespace>::all(self.client.clone())).await
    }

    async fn first_names<K>(&self, api: Api<K>) -> Result<Vec<String>, Error>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let params = ListParams::default().limit(PAGE);
        let list = self.call("", api.list_metadata(&params)).await?;
        Ok(list
            .items
            .into_iter()
            .filter_map(|item| item.metadata.name)
            .collect())
    }

    /// The workloads that Rollouts name, as `TYPE/NAME`; those of the first page.
    pub(crate) async fn referenced(&self) -> Result<Vec<String>, Error> {
        let params = ListParams::default().limit(PAGE);
        let list = self.call("", self.rollouts().list(&params)).await?;
        let references = list.items.into_iter().map(|rollout| rollout.spec.workload_ref);
        Ok(references
            .filter_map(|reference| {
                let (group, _) = reference.group_version()?;
                let dot = if group.is_empty() { "" } else { "." };
                Some(format!(
                    "{}{dot}{group}/{}",
                    reference.kind.to_lowercase(),
                    reference.name
                ))
            })
            .collect())
    }

    fn objects(&self, resource: &ApiResource) -> Api<kube::core::DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, resource)
    }

    /// The user that the server takes us for.
    pub(crate) async fn user(&self) -> Result<String, Error> {
        let reviews: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let (params, review) = (PostParams::default(), SelfSubjectReview::default());
        let asked = reviews.create(&params, &review);
        let review = self
            .call("create selfsubjectreviews.authentication.k8s.io", asked)
            .await?;
        let user = review.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }

    /// The version of the API server.
    pub(crate) async fn server_version(&self) -> Result<String, Error> {
        Ok(self.call("", self.client.apiserver_version()).await?.git_version)
    }

    /// Versions of Rollouts that the server has, the preferred one first; none where they are not installed.
    pub(crate) async fn rollout_versions(&self) -> Result<Vec<String>, Error> {
        let group = match self.get_json("", "/apis", names::GROUP).await {
            Ok(group) => group,
            Err(Error::Server(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let versions = group["versions"].as_array().into_iter().flatten();
        Ok(versions
            .filter_map(|version| version["version"].as_str().map(str::to_owned))
            .collect())
    }

    /// The image of the controller, ours or the existing one; `None` when neither is installed under its usual name.
    pub(crate) async fn controller_image(&self) -> Result<Option<ControllerImage>, Error> {
        let resource = ApiResource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            plural: "deployments".to_owned(),
        };
        // What is refused is refused there.
        let there = self.in_namespace(names::DEFAULT_NAMESPACE);
        let api = there.objects(&resource);
        for (name, ours) in [(names::CONTROLLER, true), (names::LEGACY_DEPLOYMENT, false)] {
            let found = there.call("get deployments.apps", api.get_opt(name)).await?;
            let image = found.and_then(|object| {
                let containers = object
                    .data
                    .pointer("/spec/template/spec/containers")?
                    .as_array()?;
                containers
                    .iter()
                    .find_map(|container| container["image"].as_str().map(str::to_owned))
            });
            if let Some(image) = image {
                return Ok(Some(ControllerImage { image, ours }));
            }
        }
        Ok(None)
    }

    /// One answer as JSON.
    async fn get_json(&self, right: &str, folder: &str, name: &str) -> Result<Value, Error> {
        let request = Request::new(folder).get(name, &GetParams::default());
        let request = request.map_err(|error| Error::Usage(format!("{folder}/{name}: {error}")))?;
        self.call(right, self.client.request(request)).await
    }
}

/// Resource and group, as people write them.
pub(crate) fn qualified(resource: &ApiResource) -> String {
    let ApiResource { group, plural, .. } = resource;
    if group.is_empty() {
        plural.clone()
    } else {
        format!("{plural}.{group}")
    }
}

/// A Role that grants a right, written as `VERB PLURAL.GROUP/SUBRESOURCE`; a ClusterRole without a namespace.
fn role(right: &str, namespace: &str) -> Option<String> {
    let (verb, resource) = right.split_once(' ')?;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let slash = if subresource.is_empty() { "" } else { "/" };
    let group = if group.is_empty() { "\"\"" } else { group };
    let (kind, place) = if namespace.is_empty() {
        ("ClusterRole", String::new())
    } else {
        ("Role", format!(", namespace: {namespace}"))
    };
    Some(format!(
        "apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: {kind}\n\
         metadata: {{name: kubectl-kruise-{verb}-{plural}{place}}}\n\
         rules:\n\
         - {{apiGroups: [{group}], resources: [{plural}{slash}{subresource}], verbs: [{verb}]}}"
    ))
}

/// Whether a request was not sent because there was nothing to show.
fn is_about_credentials(error: &kube::Error) -> bool {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = next {
        if cause.is::<kube::client::AuthError>() {
            return true;
        }
        next = cause.source();
    }
    false
}

/// The innermost cause of a transport error, which says most.
fn root(error: &kube::Error) -> String {
    let mut at: &dyn std::error::Error = error;
    while let Some(cause) = at.source() {
        at = cause;
    }
    at.to_string()
}

/// Whether two names differ by at most two edits, or one begins with the other.
fn is_close(known: &str, typed: &str) -> bool {
    known.starts_with(typed) || typed.starts_with(known) || distance(known, typed) <= 2
}

fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert!(is_close("my-app-rollout", "my-app"));
        assert!(is_close("my-app-rollout", "my-app-rolout"));
        assert!(!is_close("my-app-rollout", "shop"));
    }

    #[test]
    fn a_role_grants_the_right_that_is_missing() {
        let text = role("patch rollouts.rollouts.kruise.io/status", "shop").unwrap();
        let role: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(role["metadata"]["namespace"], "shop");
        assert_eq!(
            role["rules"],
            serde_json::json!([{"apiGroups": ["rollouts.kruise.io"], "resources": ["rollouts/status"], "verbs": ["patch"]}])
        );
        assert!(
            super::role("list pods", "shop")
                .unwrap()
                .contains("apiGroups: [\"\"]")
        );
        let everywhere = super::role("list pods", "").unwrap();
        let everywhere: Value = serde_saphyr::from_str(&everywhere).unwrap();
        assert_eq!(everywhere["kind"], "ClusterRole");
        assert_eq!(
            everywhere["metadata"],
            serde_json::json!({"name": "kubectl-kruise-list-pods"})
        );
    }
}
