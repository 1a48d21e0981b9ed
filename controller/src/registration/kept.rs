//! One object that is kept as it should be: a webhook configuration, a policy, a binding.

use k8s_openapi::ByteString;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PostParams, Preconditions};
use serde_json::{Map, Value, json};
use tokio::time::{Duration, Instant};

use crate::context::patch_params;
use crate::pace::Pace;

/// Pause after a failed write.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Annotations by which cert-manager is asked to write the `caBundle`s of a configuration; they differ in where it takes them from.
const INJECTED: &str = "cert-manager.io/inject-";

/// What an object should say.
pub(super) struct Wanted {
    /// The member that is ours: `webhooks` or `spec`.
    pub(super) member: &'static str,
    /// Its content.
    pub(super) content: Value,
}

/// What is known of an object, and when it was written.
#[derive(Default)]
pub(super) struct Kept {
    /// As it was last seen or written: null while it is not there.
    seen: Value,
    /// What we last wrote, and what the server made of it: a newer server may add members that we do not know.
    accepted: Option<(Value, Value)>,
    pace: Pace<Value>,
}

impl Kept {
    /// Takes what the watch says, unless it is older than the answer to a write of ours.
    pub(super) fn see(&mut self, new: Value) {
        let version =
            |of: &Value| -> Option<u64> { of["metadata"]["resourceVersion"].as_str()?.parse().ok() };
        let old = &self.seen;
        let older = old["metadata"]["uid"] == new["metadata"]["uid"]
            && matches!((version(&new), version(old)), (Some(new), Some(old)) if new < old);
        if !older {
            self.seen = new;
        }
    }

    /// As it was last seen or written: null while it is not there.
    pub(super) const fn seen(&self) -> &Value {
        &self.seen
    }

    /// Whether cert-manager writes its `caBundle`s, so that we must not.
    pub(super) fn is_injected(&self) -> bool {
        let annotations = self.seen["metadata"]["annotations"].as_object();
        annotations.is_some_and(|annotations| annotations.keys().any(|name| name.starts_with(INJECTED)))
    }

    /// The `caBundle`s of our entries in PEM.
    pub(super) fn bundles(&self) -> impl Iterator<Item = String> {
        let entries = self.seen["webhooks"].as_array();
        entries.into_iter().flatten().map(|entry| {
            let bundle = serde_json::from_value(entry["clientConfig"]["caBundle"].clone());
            bundle.map_or_else(
                |_| String::new(),
                |ByteString(pem)| String::from_utf8_lossy(&pem).into_owned(),
            )
        })
    }

    /// These entries with the `caBundle`s that the present ones have.
    pub(super) fn with_present_bundles(&self, mut entries: Value) -> Value {
        let present = self.seen["webhooks"].as_array();
        for entry in entries.as_array_mut().into_iter().flatten() {
            let same =
                present.and_then(|present| present.iter().find(|other| other["name"] == entry["name"]));
            if let Some(bundle) = same.and_then(|same| same["clientConfig"].get("caBundle")) {
                entry["clientConfig"]["caBundle"] = bundle.clone();
            }
        }
        entries
    }

    /// Whether it says exactly this. Nothing may be added to it: a selector more is a hole.
    pub(super) fn says(&self, wanted: &Wanted) -> bool {
        let have = comparable(&self.seen[wanted.member]);
        let want = comparable(&wanted.content);
        have == want
            || (is_empty(&have) && is_empty(&want))
            || self
                .accepted
                .as_ref()
                .is_some_and(|(written, made)| *written == want && *made == have)
    }

    /// Writes it unless it says already what it should; when to look again, if not now.
    ///
    /// Its content is written as a whole, over the very state that was seen. An apply would leave entries behind that others have
    /// applied too, and the API server refuses what is left of them.
    pub(super) async fn ensure(
        &mut self,
        client: &Client,
        resource: &ApiResource,
        name: &str,
        owner: &Value,
        wanted: Wanted,
    ) -> kube::Result<Option<Instant>> {
        if self.says(&wanted) && owned(&self.seen, owner) {
            return Ok(None);
        }
        let now = Instant::now();
        let want = json!({"owner": owner, "content": wanted.content});
        if let Some(later) = self.pace.must_wait(&want, now) {
            return Ok(Some(later));
        }
        let written = write(client, resource, name, owner, &wanted, &self.seen).await;
        match written {
            Ok(answer) => self.seen = serde_json::to_value(answer).unwrap_or_default(),
            // Somebody else was faster; the watch is about to tell what they wrote.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                return Ok(Some(now + RETRY));
            }
            Err(error) => return Err(error),
        }
        let made = comparable(&self.seen[wanted.member]);
        self.accepted = Some((comparable(&wanted.content), made));
        let kind = &resource.kind;
        if self.pace.wrote(want, now) {
            tracing::warn!(%kind, name, "Put the registration right again: somebody else writes it, too.");
        } else {
            tracing::info!(%kind, name, "Wrote the registration.");
        }
        Ok(None)
    }

    /// Deletes it, as it was seen.
    pub(super) async fn delete(
        &mut self,
        client: &Client,
        resource: &ApiResource,
        name: &str,
    ) -> kube::Result<()> {
        let uid = self.seen["metadata"]["uid"].as_str().map(str::to_owned);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid,
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
        match api.delete(name, &params).await {
            Ok(_) => tracing::info!(kind = resource.kind, name, "Deleted the registration."),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
        }
        self.seen = Value::Null;
        Ok(())
    }
}

async fn write(
    client: &Client,
    resource: &ApiResource,
    name: &str,
    owner: &Value,
    wanted: &Wanted,
    seen: &Value,
) -> kube::Result<DynamicObject> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let metadata = json!({"name": name, "ownerReferences": owner});
    if seen.is_null() {
        let params = PostParams {
            field_manager: Some(names::FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let object = json!({"apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": metadata, wanted.member: wanted.content});
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        return api.create(&params, &object).await;
    }
    // A version that is none any more is a conflict; a failed test could not be told from a refused content.
    let patch = json!([
        {"op": "add", "path": "/metadata/resourceVersion", "value": seen["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/metadata/ownerReferences", "value": owner},
        {"op": "add", "path": format!("/{}", wanted.member), "value": wanted.content},
    ]);
    let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
    api.patch(name, &patch_params(), &Patch::Json::<()>(patch)).await
}

/// Whether the owner is what it should be; only those members are compared that we write.
fn owned(seen: &Value, owner: &Value) -> bool {
    let empty = Vec::new();
    let references = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let (have, want) = (
        references(&seen["metadata"]["ownerReferences"]),
        owner.as_array().unwrap_or(&empty),
    );
    have.len() == want.len()
        && have.iter().zip(want).all(|(have, want)| {
            let want = want.as_object().into_iter().flatten();
            want.into_iter().all(|(name, value)| have[name] == *value)
        })
}

/// A content without what makes no difference: the order of webhooks, and members that are empty.
fn comparable(content: &Value) -> Value {
    match content {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), comparable(value)));
            let full = members.filter(|(_, value)| !is_empty(value));
            Value::Object(full.collect::<Map<_, _>>())
        }
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(comparable).collect();
            if items.iter().any(|item| item["clientConfig"].is_object()) {
                items.sort_by_key(|item| item["name"].as_str().map(str::to_owned));
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(seen: Value) -> Kept {
        Kept {
            seen,
            ..Kept::default()
        }
    }

    fn webhooks(content: Value) -> Wanted {
        Wanted {
            member: "webhooks",
            content,
        }
    }

    #[test]
    fn a_registration_that_says_the_same_is_left_alone() {
        let entry = |name: &str, selector: Value| json!({"name": name, "clientConfig": {"url": "https://x"}, "objectSelector": selector});
        let want = || webhooks(json!([entry("a", json!({})), entry("b", json!({}))]));
        // The order of webhooks does not matter, nor do members that are empty.
        let have =
            json!({"metadata": {"uid": "u"}, "webhooks": [entry("b", Value::Null), entry("a", json!({}))]});
        assert!(kept(have).says(&want()));
        assert!(!kept(Value::Null).says(&want()));
        assert!(!kept(json!({"webhooks": [entry("a", json!({}))]})).says(&want()));
        assert!(kept(json!({})).says(&webhooks(json!([]))));
    }

    #[test]
    fn what_narrows_a_registration_is_seen() {
        let policy = |selector: Value| json!({"spec": {"matchConstraints": {"objectSelector": selector}}});
        let want = || Wanted {
            member: "spec",
            content: json!({"matchConstraints": {"objectSelector": {}}}),
        };
        assert!(kept(policy(json!({}))).says(&want()));
        let mut narrowed = kept(policy(json!({"matchLabels": {"a": "b"}})));
        assert!(!narrowed.says(&want()));
        // A server that adds members by itself is believed, once it has answered so to a write.
        narrowed.accepted = Some((comparable(&want().content), comparable(&narrowed.seen["spec"])));
        assert!(narrowed.says(&want()));
    }

    #[test]
    fn an_owner_may_have_more_members_than_we_write() {
        let seen = json!({"metadata": {"ownerReferences": [{"uid": "u", "name": "n", "controller": null}]}});
        assert!(owned(&seen, &json!([{"uid": "u", "name": "n"}])));
        assert!(!owned(&seen, &json!([{"uid": "v", "name": "n"}])));
        assert!(!owned(&seen, &json!([])));
        assert!(owned(&json!({}), &json!([])));
    }
}
