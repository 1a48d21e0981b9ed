//! The subcommand `uninstall`: lets go of every workload and removes what the controller registered.
//!
//! It needs nothing of ours to be there any more: not the Deployment, not the RBAC, not the Rollout CRD. The order matters. The
//! controller goes first, or it would register again; then the registrations, so that nobody's update waits for a webhook that is
//! gone, and our own writes are not clamped by it or by a policy; then the marks, each workload getting back the partition that
//! people asked for. Rollouts and the CRD are left: they are the user's.
//!
//! The workloads are named on standard output, one a line; with `--dry-run` nothing is done to them, nor to anything else.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kruise_rollout::admission::policy::is_refused_unheld;
use kruise_rollout::area::Area;
use kruise_rollout::names;
use kruise_rollout::workload::{Freedom, GroupKind, adapter_for};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch};
use kube::discovery::verbs;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt as _};
use tokio::time::{Instant, sleep};

use crate::context::patch_params;
use crate::reconcile::drop_entries;
use crate::registration::{Sort, found_group, resources};
use crate::telemetry::chain;

/// How long the Deployment's deletion is waited for.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// How long a workload is tried that changes under our hands, or is held by a policy that is still in force: an API server needs
/// about a second to give one up.
const FREE_WITHIN: Duration = Duration::from_secs(15);
/// Pause between two tries.
const AGAIN: Duration = Duration::from_millis(200);

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
    /// Not everything could be looked at or removed.
    #[error(
        "{0} steps failed and {1} workloads are still marked, see above: mend what the API server says, then uninstall again"
    )]
    Incomplete(usize, usize),
}

fn cannot(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
    let what = what.into();
    move |source| Error::Api {
        what,
        source: Box::new(source),
    }
}

/// Uninstalls what governs the area, or only says what would be done; what was done is said on the log. What cannot be done holds up nothing else.
pub(crate) async fn uninstall(client: &Client, area: &Area, dry_run: bool) -> Result<(), Error> {
    if !dry_run {
        remove_controller(client, area.own()).await?;
    }
    let mut left = Left::default();
    remove_registrations(client, area, dry_run, &mut left).await;
    let groups = client
        .list_api_groups()
        .await
        .map_err(cannot("read the API's groups"))?;
    for group in groups.groups {
        let discovered = match found_group(client, &group.name).await {
            Ok(found) => found,
            Err(error) => {
                left.fails(&format!("look through the group {:?}", group.name), &error);
                continue;
            }
        };
        for (resource, capabilities) in discovered.iter().flat_map(resources) {
            let kind = GroupKind {
                group: resource.group.clone(),
                kind: resource.kind.clone(),
            };
            if adapter_for(&kind).is_some()
                && capabilities.supports_operation(verbs::LIST)
                && capabilities.supports_operation(verbs::PATCH)
                && let Err(error) = release_all(client, area, &resource, &kind, dry_run, &mut left).await
            {
                left.fails(&format!("look through {kind}"), &error);
            }
        }
    }
    match left {
        Left { failed: 0, marked: 0 } => Ok(()),
        Left { failed: 0, marked } => Err(Error::Marked(marked)),
        Left { failed, marked } => Err(Error::Incomplete(failed, marked)),
    }
}

/// What could not be done.
#[derive(Default)]
struct Left {
    /// Workloads that are still marked.
    marked: usize,
    /// Everything else.
    failed: usize,
}

impl Left {
    fn fails(&mut self, what: &str, error: &kube::Error) {
        tracing::error!(error = %chain(error), "Cannot {what}.");
        self.failed += 1;
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

/// Deletes what the controller registered, each binding before its policy.
async fn remove_registrations(client: &Client, area: &Area, dry_run: bool, left: &mut Left) {
    for sort in Sort::ALL.into_iter().rev() {
        let resource = sort.resource();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for name in sort.names(area) {
            let done = if dry_run {
                api.get_metadata_opt(&name).await.map(|found| found.map(drop))
            } else {
                api.delete(&name, &DeleteParams::default())
                    .await
                    .map(|_| Some(()))
            };
            match done {
                Ok(Some(())) => {
                    let what = if dry_run { "Would delete" } else { "Deleted" };
                    tracing::info!("{what} {} {name}.", resource.kind);
                }
                Ok(None) => {}
                // It is not there, or the server has no such kind.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => left.fails(&format!("delete {} {name}", resource.kind), &error),
            }
        }
    }
}

/// Releases the marked objects of one kind in the area.
async fn release_all(
    client: &Client,
    area: &Area,
    resource: &ApiResource,
    kind: &GroupKind,
    dry_run: bool,
    left: &mut Left,
) -> kube::Result<()> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut page = ListParams::default().limit(250);
    loop {
        let list = match all.list(&page).await {
            Ok(list) => list,
            // A kind whose server is gone, or whose watch and get are all that it has.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405 | 503) => return Ok(()),
            Err(error) => return Err(error),
        };
        let token = list.metadata.continue_.clone().filter(|token| !token.is_empty());
        for object in list.items {
            let ours = object
                .namespace()
                .is_some_and(|namespace| area.covers(&namespace));
            if !ours || !object.annotations().contains_key(names::GUARDED_BY) {
                continue;
            }
            say(kind, &object, dry_run);
            if !dry_run && !release(client, resource, kind, object).await {
                left.marked += 1;
            }
        }
        let Some(token) = token else { return Ok(()) };
        page.continue_token = Some(token);
    }
}

/// Names a workload on standard output.
#[allow(clippy::print_stdout, reason = "this is the answer")]
fn say(kind: &GroupKind, object: &DynamicObject, dry_run: bool) {
    let held = object.annotations().contains_key(names::IN_PROGRESSING);
    let what = match (held, dry_run) {
        (true, true) => "held, would be released",
        (true, false) => "held, is released",
        (false, true) => "guarded, would be let go",
        (false, false) => "guarded, is let go",
    };
    let namespace = object.namespace().unwrap_or_default();
    println!("{namespace}/{kind}/{}: {what}", object.name_any());
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
    let deadline = Instant::now() + FREE_WITHIN;
    loop {
        match release_once(&api, kind, object).await {
            Ok(None) => {
                disown(&api, kind, &namespace, &name, deadline).await;
                return true;
            }
            Ok(Some(now)) if Instant::now() < deadline => object = now,
            Ok(Some(_)) => {
                tracing::error!(namespace, %kind, name, "Not released: it changes all the time, or something puts the marks back.");
                return false;
            }
            Err(reason) => {
                tracing::error!(namespace, %kind, name, reason, "Not released.");
                return false;
            }
        }
        sleep(AGAIN).await;
    }
}

/// Drops our entries in the managed fields, which would make the next apply of its owner conflict. The workload is free without it.
async fn disown(api: &Api<DynamicObject>, kind: &GroupKind, namespace: &str, name: &str, deadline: Instant) {
    while let Err(error) = drop_entries(api, name).await {
        let code = match &error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        };
        match code {
            // Gone, and its entries with it.
            404 => return,
            409 | 422 if Instant::now() <= deadline => sleep(AGAIN).await,
            _ => {
                tracing::warn!(namespace, %kind, name, error = %chain(&error),
                    "Our entry in the managed fields stays: the next server-side apply may need --force-conflicts.");
                return;
            }
        }
    }
}

/// One try; the object if it is not free yet.
async fn release_once(
    api: &Api<DynamicObject>,
    kind: &GroupKind,
    object: DynamicObject,
) -> Result<Option<DynamicObject>, String> {
    let name = object.name_any();
    let value = serde_json::to_value(object).unwrap_or_default();
    let adapter = adapter_for(kind).ok_or("no such kind")?;
    let view = adapter.view(&value).map_err(|error| error.to_string())?;
    if let Some(told) = adapter.default_strategy(&view) {
        tracing::warn!(%kind, name, "{told}.");
    }
    let patch: Patch<()> = Patch::Json(adapter.release(&view, Freedom::Free).build());
    let now = match api.patch(&name, &patch_params(), &patch).await {
        Ok(now) => Some(now),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        // It has changed, or a policy that is deleted is in force for another moment.
        Err(kube::Error::Api(status))
            if matches!(status.code, 409 | 422) || is_refused_unheld(&status.message) =>
        {
            api.get_opt(&name).await.map_err(|error| chain(&error))?
        }
        Err(error) => return Err(chain(&error)),
    };
    Ok(now.filter(|now| now.annotations().contains_key(names::GUARDED_BY)))
}
