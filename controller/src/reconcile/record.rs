//! Recorded templates: what `undo` goes back to.
//!
//! Each template that a Rollout has met is a ControllerRevision owned by the Rollout, so that it goes with it. The records carry one
//! label, by which those of a Rollout are read without those of its neighbours; no selector of an operator matches it. A template
//! that is released again gets a new, higher revision number.

use std::cmp::Reverse;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kruise_rollout::api::v1beta1::{Rollout, condition};
use kruise_rollout::names;
use kruise_rollout::rollout::{Announcement, why};
use kruise_rollout::workload::TemplateId;
use kube::api::{Api, DeleteParams, ListParams, Patch, PostParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::Error;
use crate::context::{Context, patch_params};
use crate::events::Event;
use crate::world::{Key, Place, Snapshot};

/// Largest template that is recorded, in bytes of JSON: objects above about 1.5 MiB are refused by etcd.
const LIMIT: usize = 1024 * 1024;
/// Longest name of an object.
const NAME_LIMIT: usize = 253;
/// Records that are kept for each Rollout.
const HISTORY: usize = 10;
/// Records in one page of a list.
const PAGE: u32 = 100;

/// Records the present template of the Rollout's workload.
pub(super) async fn record_target(context: &Context, key: &Key, snapshot: &Snapshot) -> Result<(), Error> {
    let (Some(rollout), Some(workload)) = (&snapshot.rollout, &snapshot.workload) else {
        return Ok(());
    };
    let place = Place {
        namespace: key.namespace.clone(),
        workload: workload.clone(),
    };
    let api = context.api(&place).ok_or(Error::NoKind)?;
    let object = api.get(&workload.name).await?;
    record(context, rollout, &object.data["spec"]["template"]).await
}

/// Records a template unless the newest record is of it. Records serve undo alone: where they are refused, by a quota or a policy,
/// people are told, and the release goes on.
pub(super) async fn record(context: &Context, rollout: &Rollout, template: &Value) -> Result<(), Error> {
    match write(context, rollout, template).await {
        Err(Error::Refused(answer)) => {
            not_recorded(
                context,
                rollout,
                format!(
                    "the API server refuses a record of the template, so undo will not offer it: {answer}"
                ),
            );
            Ok(())
        }
        written => written,
    }
}

/// Tells that a template is not recorded.
fn not_recorded(context: &Context, rollout: &Rollout, message: String) {
    tracing::warn!(rollout = rollout.name_any(), "{message}");
    let announcement = Announcement {
        warning: true,
        reason: why::event::TEMPLATE_NOT_RECORDED,
        message,
    };
    // A full backlog drops the event: it only tells.
    let _ = context
        .events
        .try_send(Event::new(rollout.object_ref(&()), announcement));
}

async fn write(context: &Context, rollout: &Rollout, template: &Value) -> Result<(), Error> {
    let size = serde_json::to_vec(template)?.len();
    if size > LIMIT {
        let message = format!(
            "the template has {size} bytes, more than the {LIMIT} that are recorded: undo will not offer it"
        );
        not_recorded(context, rollout, message);
        return Ok(());
    }
    let namespace = rollout.namespace().unwrap_or_default();
    let api: Api<ControllerRevision> = Api::namespaced(context.client.clone(), &namespace);
    let mut records = records_of(&api, rollout).await?;
    records.sort_by_key(|record| Reverse(record.revision));
    let id = TemplateId::of(template).to_string();
    let next = records.first().map_or(1, |record| record.revision + 1);
    let of_template =
        |record: &&ControllerRevision| record.annotations().get(names::TEMPLATE_ID) == Some(&id);
    match records.iter().find(of_template) {
        Some(record) if record.revision + 1 == next => return Ok(()),
        Some(record) => {
            let patch = json!({"metadata": {"resourceVersion": record.resource_version()}, "revision": next});
            api.patch(&record.name_any(), &patch_params(), &Patch::Merge(patch))
                .await?;
        }
        None => {
            let record = serde_json::from_value(document(rollout, &id, next, template))?;
            let params = PostParams {
                field_manager: Some(names::FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            };
            match api.create(&params, &record).await {
                // Another process of ours was here first.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                created => drop(created?),
            }
        }
    }
    for old in records
        .iter()
        .filter(|record| !of_template(record))
        .skip(HISTORY - 1)
    {
        let params = DeleteParams::default().preconditions(kube::api::Preconditions {
            uid: old.uid(),
            resource_version: None,
        });
        match api.delete(&old.name_any(), &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

/// The records of a Rollout, by their label.
async fn records_of(
    api: &Api<ControllerRevision>,
    rollout: &Rollout,
) -> Result<Vec<ControllerRevision>, Error> {
    let uid = rollout.uid().unwrap_or_default();
    let records = listed(api, &format!("{}={uid}", names::RECORD_OF), rollout).await?;
    if records.is_empty() && was_guarded(rollout) {
        return label_old(api, rollout, &uid).await;
    }
    Ok(records)
}

/// Whether a template may have been recorded before: a Rollout that is new has no old records to look for.
fn was_guarded(rollout: &Rollout) -> bool {
    let status = rollout.status.as_ref();
    status.is_some_and(|status| {
        status.canary_status.is_some() || condition::get(&status.conditions, condition::GUARDED).is_some()
    })
}

/// Labels the records that a version without labels has written, and returns them. They are among all revisions of the namespace,
/// which are read once. The newest comes first: if the others are never come to, the numbers still go on from there.
async fn label_old(
    api: &Api<ControllerRevision>,
    rollout: &Rollout,
    uid: &str,
) -> Result<Vec<ControllerRevision>, Error> {
    let mut records = listed(api, &format!("!{}", names::RECORD_OF), rollout).await?;
    records.sort_by_key(|record| Reverse(record.revision));
    for record in &mut records {
        let version = record.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "labels": {names::RECORD_OF: uid}}});
        *record = api
            .patch(&record.name_any(), &patch_params(), &Patch::Merge(patch))
            .await?;
    }
    Ok(records)
}

/// What a selector finds that the Rollout owns, page by page.
async fn listed(
    api: &Api<ControllerRevision>,
    selector: &str,
    rollout: &Rollout,
) -> Result<Vec<ControllerRevision>, Error> {
    let mut records = Vec::new();
    let mut page = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let list = api.list(&page).await?;
        let token = list.metadata.continue_.clone().filter(|token| !token.is_empty());
        records.extend(list.items.into_iter().filter(|record| {
            record
                .owner_references()
                .iter()
                .any(|owner| Some(&owner.uid) == rollout.metadata.uid.as_ref())
        }));
        let Some(token) = token else { return Ok(records) };
        page.continue_token = Some(token);
    }
}

/// Name of a record. A Rollout whose own name leaves no room for the template's id is named by its UID.
fn name(rollout: &Rollout, id: &str) -> String {
    let name = format!("{}-{id}", rollout.name_any());
    if name.len() <= NAME_LIMIT {
        name
    } else {
        format!("{}-{id}", rollout.uid().unwrap_or_default())
    }
}

fn document(rollout: &Rollout, id: &str, revision: i64, template: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name(rollout, id),
            "namespace": rollout.namespace(),
            "labels": {names::RECORD_OF: rollout.uid()},
            "annotations": {names::TEMPLATE_ID: id},
            "ownerReferences": [{
                "apiVersion": Rollout::api_version(&()), "kind": Rollout::kind(&()),
                "name": rollout.name_any(), "uid": rollout.uid(), "blockOwnerDeletion": false,
            }],
        },
        "revision": revision,
        "data": {"template": template},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_long_names_have_names_too() {
        let id = TemplateId::of(&json!({})).to_string();
        let mut rollout = Rollout::new("short", Default::default());
        rollout.metadata.uid = Some("e2b3c4d5-0000-4000-8000-000000000000".to_owned());
        assert_eq!(name(&rollout, &id), format!("short-{id}"));
        rollout.metadata.name = Some("n".repeat(NAME_LIMIT));
        assert!(name(&rollout, &id).starts_with("e2b3c4d5-"));
        assert!(name(&rollout, &id).len() <= NAME_LIMIT);
    }
}
