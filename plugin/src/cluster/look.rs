//! Looks that may be refused: what was seen, or the right that is missing.

use jiff::Timestamp;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::diagnosis::{Answer, Looked};
use kruise_rollout::names;
use kruise_rollout::workload::{TemplateId, adapter_for};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::client::Body;
use kube::core::Request;
use serde_json::{Value, json};

use super::{Cluster, PAGE, Workload};
use crate::error::Error;

/// A folder of the API, and the resource that a caller needs a right to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Such as `/apis/apps/v1/namespaces/shop/deployments`.
    pub(crate) folder: &'a str,
    /// Such as `deployments.apps`.
    pub(crate) resource: &'a str,
}

/// An answer as a fact. What keeps every further question from being answered stays an error.
pub(super) fn looked<T>(answer: Result<T, Error>, right: &str) -> Result<Looked<T>, Error> {
    match answer {
        Ok(seen) => Ok(Looked::Seen(seen)),
        Err(Error::Forbidden { .. }) => Ok(Looked::Forbidden(right.to_owned())),
        Err(Error::Server(status)) => Ok(Looked::Failed(status.message)),
        Err(error) => Err(error),
    }
}

/// A member of a list gets no `kind` and `apiVersion` from the server.
fn items(answer: Value) -> Vec<Value> {
    match answer {
        Value::Object(mut members) => match members.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

impl Cluster {
    /// An object; `None` where there is none, or no such kind.
    pub(super) async fn one(&self, place: Place<'_>, name: &str) -> Result<Looked<Option<Value>>, Error> {
        let right = format!("get {}", place.resource);
        let answer = match self.get_json(&right, place.folder, name).await {
            Ok(found) => Ok(Some(found)),
            Err(Error::Server(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        };
        looked(answer, &right)
    }

    /// Those of these names that there are.
    pub(super) async fn some(&self, place: Place<'_>, names: &[&str]) -> Result<Looked<Vec<Value>>, Error> {
        let mut found = Vec::new();
        for name in names {
            match self.one(place, name).await? {
                Looked::Seen(object) => found.extend(object),
                Looked::Forbidden(right) => return Ok(Looked::Forbidden(right)),
                Looked::Failed(answer) => return Ok(Looked::Failed(answer)),
                Looked::Not => {}
            }
        }
        Ok(Looked::Seen(found))
    }

    /// All objects with these labels; none where there is no such kind.
    pub(super) async fn all(
        &self,
        place: Place<'_>,
        labels: Option<&str>,
    ) -> Result<Looked<Vec<Value>>, Error> {
        let right = format!("list {}", place.resource);
        looked(self.listed(place.folder, labels, &right).await, &right)
    }

    async fn listed(&self, folder: &str, labels: Option<&str>, right: &str) -> Result<Vec<Value>, Error> {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = labels.map(str::to_owned);
        let mut found = Vec::new();
        loop {
            let request = Request::new(folder).list(&params);
            let request = request.map_err(|error| Error::Usage(format!("{folder}: {error}")))?;
            let answer: Value = match self.call(right, self.client.request(request)).await {
                Ok(answer) => answer,
                Err(Error::Server(status)) if status.code == 404 => return Ok(found),
                Err(error) => return Err(error),
            };
            let next = answer["metadata"]["continue"].as_str().map(str::to_owned);
            found.extend(items(answer));
            match next.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// The time by the server's clock, if it tells it: a lease is judged by the clock that wrote it more likely than by ours.
    pub(super) async fn server_time(&self) -> Option<Timestamp> {
        let request = Request::new("/version").list(&ListParams::default()).ok()?;
        let answer = self
            .call("", self.client.send(request.map(Body::from)))
            .await
            .ok()?;
        let date = answer.headers().get("date")?.to_str().ok()?.to_owned();
        let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&date);
        parsed.ok()
    }

    /// Whether admission holds a change of the template: a dry-run adds an annotation to it, which nobody stores.
    pub(super) async fn try_template(&self, workload: &Workload) -> Result<Looked<Answer>, Error> {
        let patch =
            json!({"spec": {"template": {"metadata": {"annotations": {names::GUARD_PROBE: "dry-run"}}}}});
        let before = TemplateId::of(&workload.object["spec"]["template"]);
        self.tried(workload, &patch, |after| {
            if TemplateId::of(&after["spec"]["template"]) == before {
                // The schema of the template knows no annotations, so this was no change.
                return Looked::Failed("a template without annotations cannot be tried".to_owned());
            }
            Looked::Seen(answered(workload, after))
        })
        .await
    }

    /// Whether the server keeps the partition that holds, by a dry-run.
    pub(crate) async fn try_partition(&self, workload: &Workload) -> Result<Looked<Answer>, Error> {
        let path = adapter_for(&workload.kind()).and_then(|adapter| adapter.partition_path());
        let Some(path) = path else {
            return Ok(Looked::Not);
        };
        let hold = json!(names::HOLD_PARTITION);
        let patch = path.iter().rev().fold(hold, |inner, name| json!({*name: inner}));
        self.tried(workload, &patch, |after| Looked::Seen(answered(workload, after)))
            .await
    }

    /// What the server says to a Rollout of a manifest, by a dry-run; `None` where it would take it.
    pub(crate) async fn try_rollout(
        &self,
        manifest: &Value,
        rollout: &Rollout,
    ) -> Result<Looked<Option<String>>, Error> {
        let params = PatchParams::apply(names::PLUGIN_FIELD_MANAGER).force().dry_run();
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &ApiResource::erase::<Rollout>(&()),
        );
        let name = rollout.metadata.name.clone().unwrap_or_default();
        let answer = self
            .call("", api.patch(&name, &params, &Patch::Apply(manifest)))
            .await;
        match answer {
            Ok(_) => Ok(Looked::Seen(None)),
            Err(Error::Server(status)) if is_lack_of_rights(&status.message, status.code) => {
                Ok(Looked::Forbidden(format!("patch rollouts.{}", names::GROUP)))
            }
            Err(Error::Server(status)) => Ok(Looked::Seen(Some(status.message))),
            Err(error) => Err(error),
        }
    }

    async fn tried(
        &self,
        workload: &Workload,
        patch: &Value,
        judge: impl FnOnce(&Value) -> Looked<Answer>,
    ) -> Result<Looked<Answer>, Error> {
        let params = PatchParams {
            field_manager: Some(names::PLUGIN_FIELD_MANAGER.to_owned()),
            ..PatchParams::default().dry_run()
        };
        let right = format!("patch {}", super::qualified(&workload.resource));
        let api = self.objects(&workload.resource);
        let answer = self
            .call("", api.patch(&workload.name, &params, &Patch::Merge(patch)))
            .await;
        match answer {
            Ok(object) => Ok(judge(&serde_json::to_value(&object).unwrap_or_default())),
            Err(Error::Server(status)) if is_lack_of_rights(&status.message, status.code) => {
                Ok(Looked::Forbidden(right))
            }
            Err(Error::Server(status)) if status.code == 404 => Ok(Looked::Not),
            Err(Error::Server(status)) => Ok(Looked::Seen(Answer::Refused(status.message))),
            Err(error) => Err(error),
        }
    }
}

/// The server's own refusal names the verb; that of an admission names the admission.
fn is_lack_of_rights(message: &str, code: u16) -> bool {
    code == 403 && message.contains("cannot patch resource")
}

fn answered(workload: &Workload, after: &Value) -> Answer {
    let view = adapter_for(&workload.kind()).and_then(|adapter| adapter.view(after).ok());
    if view.is_some_and(|view| view.partition_in_force() == names::HOLD_PARTITION) {
        Answer::Held
    } else {
        Answer::NotHeld
    }
}
