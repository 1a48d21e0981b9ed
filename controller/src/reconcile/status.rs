//! Writing the status of a Rollout.

use kruise_rollout::api::v1beta1::{Rollout, RolloutStatus};
use kruise_rollout::names;
use kube::api::Patch;
use kube::{Api, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::{Error, asked};
use crate::context::{Context, patch_params};
use crate::world::Key;

/// How often a status is written in a row while others write what it does not depend on.
const ATTEMPTS: u32 = 5;

/// Writes what changed, against the Rollout as it was read: an approval that arrived meanwhile makes the write fail (409) and is
/// seen on the next look, instead of being overwritten. Where others have only written what a decision does not depend on, such as
/// labels, it is written again at once: somebody who does so all the time must not keep the status from being told.
pub(super) async fn write(
    context: &Context,
    key: &Key,
    rollout: &Rollout,
    status: &RolloutStatus,
) -> Result<(), Error> {
    let before = serde_json::to_value(&rollout.status)?;
    let changes = merge_patch(&before, &serde_json::to_value(status)?);
    let api: Api<Rollout> = Api::namespaced(context.client.clone(), &key.namespace);
    let mut version = rollout.metadata.resource_version.clone();
    let mut attempt = 1;
    let told = rollout.status.as_ref();
    let rollout = loop {
        let patch = json!({
            "metadata": {"uid": rollout.metadata.uid, "resourceVersion": version},
            "status": changes,
        });
        let written = api
            .patch_status(&key.name, &patch_params(), &Patch::Merge(&patch))
            .await;
        match written {
            Ok(rollout) => break rollout,
            Err(kube::Error::Api(answer)) if answer.code == 409 && attempt < ATTEMPTS => {
                let now = api.get(&key.name).await?;
                if !says_the_same(&now, rollout, &before)? {
                    return Err(kube::Error::Api(answer).into());
                }
                version = now.metadata.resource_version;
                attempt += 1;
            }
            Err(error) => return Err(error.into()),
        }
    };
    context.metrics.acted("status");
    if let Some(told) = told {
        context.metrics.goes_on(told, status);
    }
    context.look_at(context.world.put_answered_rollout(rollout));
    Ok(())
}

/// Whether the Rollout is still as it was read, in all that a status is decided by.
fn says_the_same(now: &Rollout, read: &Rollout, status: &Value) -> Result<bool, Error> {
    let way_back = |rollout: &Rollout| rollout.annotations().get(names::ROLLBACK_IN_BATCH).cloned();
    Ok(asked(now) == asked(read)
        && way_back(now) == way_back(read)
        && serde_json::to_value(&now.status)? == *status)
}

/// The JSON merge patch that turns `before` into `after`.
fn merge_patch(before: &Value, after: &Value) -> Value {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let gone = before
                .keys()
                .filter(|name| !after.contains_key(*name))
                .map(|name| (name.clone(), Value::Null));
            let changed = after.iter().filter_map(|(name, after)| match before.get(name) {
                Some(before) if before == after => None,
                Some(before) => Some((name.clone(), merge_patch(before, after))),
                None => Some((name.clone(), after.clone())),
            });
            Value::Object(gone.chain(changed).collect::<Map<_, _>>())
        }
        (_, after) => after.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_has_what_changed_and_nothing_else() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "gone": true, "list": [1, 2]});
        let after = json!({"a": 1, "b": {"c": 2, "d": 4}, "new": {"x": 1}, "list": [2]});
        let patch = merge_patch(&before, &after);
        assert_eq!(
            patch,
            json!({"b": {"d": 4}, "gone": null, "new": {"x": 1}, "list": [2]})
        );
        let mut result = before;
        json_patch::merge(&mut result, &patch);
        assert_eq!(result, after);
        assert_eq!(merge_patch(&Value::Null, &after), after);
    }
}
