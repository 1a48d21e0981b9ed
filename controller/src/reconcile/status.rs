//! Writing the status of a Rollout.

use kruise_rollout::api::v1beta1::{Rollout, RolloutStatus};
use kube::Api;
use kube::api::Patch;
use serde_json::{Map, Value, json};

use super::Error;
use crate::context::{Context, patch_params};
use crate::world::Key;

/// Writes what changed, against the Rollout as it was read: an approval that arrived meanwhile makes the write fail (409) and is
/// seen on the next look, instead of being overwritten.
pub(super) async fn write(
    context: &Context,
    key: &Key,
    rollout: &Rollout,
    status: &RolloutStatus,
) -> Result<(), Error> {
    let before = serde_json::to_value(&rollout.status)?;
    let changes = merge_patch(&before, &serde_json::to_value(status)?);
    let patch = json!({
        "metadata": {"uid": rollout.metadata.uid, "resourceVersion": rollout.metadata.resource_version},
        "status": changes,
    });
    let api: Api<Rollout> = Api::namespaced(context.client.clone(), &key.namespace);
    let rollout = api
        .patch_status(&key.name, &patch_params(), &Patch::Merge(&patch))
        .await?;
    context.metrics.acted("status");
    context.look_at(context.world.put_answered_rollout(rollout));
    Ok(())
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
