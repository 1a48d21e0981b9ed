//! The subcommand `uninstall`: lets go of every workload and removes what the controller registered.
//!
//! It needs nothing of ours to be there any more: not the Deployment, not the RBAC, not the Rollout CRD. The order matters. The
//! controller goes first, or it would register again; then the registrations, so that nobody's update waits for a webhook that is
//! gone, and our own writes are not clamped by it; then the marks, each workload getting back the partition that people asked
//! for. Rollouts and the CRD are left: they are the user's.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use kruise_rollout::names;
use kruise_rollout::workload::{Freedom, GroupKind, adapter_for};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch};
use kube::discovery::{Discovery, verbs};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Resource, ResourceExt as _};

use crate::context::patch_params;
use crate::telemetry::chain;

/// How long the Deployment's deletion is waited for.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// How often a workload that changes under our hands is tried.
const ATTEMPTS: u32 = 5;

/// Why something could not be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server or the way to it.
    #[error("cannot {what}")]
    Api {
        /// What was attempted.
        what: String,
        /// What was answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// The controller goes on running.
    #[error("Deployment {0} is not gone after {GONE_WITHIN:?}: delete it, then uninstall again")]
    StillThere(String),
    /// Some workloads are still marked.
    #[error("{0} workloads are still marked, see above: mend what the API server says, then uninstall again")]
    Marked(usize),
}

fn cannot(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
    let what = what.into();
    move |source| Error::Api {
        what,
        source: Box::new(source),
    }
}

/// Uninstalls; says on the log what was done.
pub(crate) async fn uninstall(client: &Client, namespace: &str) -> Result<(), Error> {
    remove_controller(client, namespace).await?;
    remove::<MutatingWebhookConfiguration>(client).await?;
    remove::<ValidatingWebhookConfiguration>(client).await?;
    let discovered = Discovery::new(client.clone())
        .run()
        .await
        .map_err(cannot("read the API's resources"))?;
    let mut left = 0;
    for group in discovered.groups() {
        for (resource, capabilities) in group.resources_by_stability() {
            let kind = GroupKind {
                group: resource.group.clone(),
                kind: resource.kind.clone(),
            };
            if adapter_for(&kind).is_some()
                && capabilities.supports_operation(verbs::LIST)
                && capabilities.supports_operation(verbs::PATCH)
            {
                left += release_all(client, &resource, &kind).await?;
            }
        }
    }
    if left > 0 {
        Err(Error::Marked(left))
    } else {
        Ok(())
    }
}

/// Deletes the Deployment and waits until its last pod is told to stop.
async fn remove_controller(client: &Client, namespace: &str) -> Result<(), Error> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let what = || format!("delete Deployment {namespace}/{}", names::CONTROLLER);
    let Some(found) = deployments
        .get_metadata_opt(names::CONTROLLER)
        .await
        .map_err(cannot(what()))?
    else {
        return Ok(());
    };
    deployments
        .delete(names::CONTROLLER, &DeleteParams::foreground())
        .await
        .map_err(cannot(what()))?;
    let uid = found.metadata.uid.unwrap_or_default();
    let gone = await_condition(deployments, names::CONTROLLER, conditions::is_deleted(&uid));
    match tokio::time::timeout(GONE_WITHIN, gone).await {
        Ok(Ok(_)) => {
            tracing::info!(namespace, "Deleted the controller's Deployment.");
            Ok(())
        }
        _ => Err(Error::StillThere(format!("{namespace}/{}", names::CONTROLLER))),
    }
}

/// Deletes our configuration of one kind, if it is there.
async fn remove<K>(client: &Client) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    match api
        .delete(names::WEBHOOK_CONFIGURATION, &DeleteParams::default())
        .await
    {
        Ok(_) => tracing::info!("Deleted {} {}.", K::kind(&()), names::WEBHOOK_CONFIGURATION),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(cannot(format!("delete {}", K::kind(&())))(error)),
    }
    Ok(())
}

/// Releases the marked objects of one kind; the number of those that are still marked.
async fn release_all(client: &Client, resource: &ApiResource, kind: &GroupKind) -> Result<usize, Error> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut page = ListParams::default().limit(250);
    let mut left = 0;
    loop {
        let list = match all.list(&page).await {
            Ok(list) => list,
            // A kind whose server is gone, or whose watch and get are all that it has.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405 | 503) => return Ok(left),
            Err(error) => return Err(cannot(format!("list {kind}"))(error)),
        };
        let token = list.metadata.continue_.clone().filter(|token| !token.is_empty());
        for object in list.items {
            if object.annotations().contains_key(names::GUARDED_BY)
                && !release(client, resource, kind, object).await
            {
                left += 1;
            }
        }
        let Some(token) = token else { return Ok(left) };
        page.continue_token = Some(token);
    }
}

/// Releases one object; whether it is free now.
async fn release(
    client: &Client,
    resource: &ApiResource,
    kind: &GroupKind,
    mut object: DynamicObject,
) -> bool {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, resource);
    for _ in 0..ATTEMPTS {
        let value = serde_json::to_value(&object).unwrap_or_default();
        let view = match adapter_for(kind).map(|adapter| (adapter, adapter.view(&value))) {
            Some((adapter, Ok(view))) => adapter.release(&view, Freedom::Free),
            _ => {
                tracing::error!(namespace, %kind, name, "The workload cannot be read.");
                return false;
            }
        };
        let patch: Patch<()> = Patch::Json(view.build());
        match api.patch(&name, &patch_params(), &patch).await {
            Ok(_) => {
                tracing::info!(namespace, %kind, name, "Released.");
                return true;
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => {
                match api.get_opt(&name).await {
                    Ok(Some(now)) if now.annotations().contains_key(names::GUARDED_BY) => object = now,
                    Ok(_) => return true,
                    Err(error) => {
                        tracing::error!(namespace, %kind, name, error = %chain(&error), "Not released.");
                        return false;
                    }
                }
            }
            Err(error) => {
                tracing::error!(namespace, %kind, name, error = %chain(&error), "Not released.");
                return false;
            }
        }
    }
    tracing::error!(namespace, %kind, name, "Not released: it changes all the time.");
    false
}
