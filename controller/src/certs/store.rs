//! The Secret with the certificates: read, written under a condition, and watched.
//!
//! Several replicas may write at once. A create that finds the Secret there already and an update whose resourceVersion has moved
//! are not errors but [`Written::Lost`]: somebody else was faster, and what they wrote is as good.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kruise_rollout::names;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::json;

use crate::connect::follow_objects;
use crate::telemetry::chain;

/// How long one request may take.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// Type of a Secret with `tls.crt` and `tls.key`; further keys are allowed.
const SECRET_TYPE: &str = "kubernetes.io/tls";

/// Why the Secret could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server said no, or could not be reached.
    #[error("request for Secret {}", names::WEBHOOK_SERVICE)]
    Request(#[source] Box<kube::Error>),
    /// The API server did not answer in time.
    #[error(
        "request for Secret {}: no answer within {REQUEST_DEADLINE:?}",
        names::WEBHOOK_SERVICE
    )]
    Deadline,
    /// The patch is malformed, which is a fault of this program.
    #[error("patch of Secret {}", names::WEBHOOK_SERVICE)]
    Patch(#[source] serde_json::Error),
}

/// The Secret as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Condition for the next write.
    pub(crate) resource_version: String,
    /// Its data.
    pub(crate) data: BTreeMap<String, ByteString>,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is there.
    Done,
    /// The Secret has changed since it was read: read it again.
    Lost,
}

/// The one Secret.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    secrets: Api<Secret>,
}

impl Store {
    /// The Secret in this namespace.
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self {
            secrets: Api::namespaced(client, namespace),
        }
    }

    /// The present content, or nothing if there is no Secret.
    pub(crate) async fn read(&self) -> Result<Option<Held>, Error> {
        let secret = within_deadline(self.secrets.get_opt(names::WEBHOOK_SERVICE)).await?;
        let secret = secret.map_err(|error| Error::Request(Box::new(error)))?;
        Ok(secret.map(|secret| Held {
            resource_version: secret.metadata.resource_version.unwrap_or_default(),
            data: secret.data.unwrap_or_default(),
        }))
    }

    /// Writes over what was read, or creates the Secret where none was.
    pub(crate) async fn write(
        &self,
        over: Option<&Held>,
        data: BTreeMap<String, ByteString>,
    ) -> Result<Written, Error> {
        let result = match over {
            None => within_deadline(self.create(data)).await?,
            Some(held) => {
                let patch = json!([
                    { "op": "test", "path": "/metadata/resourceVersion", "value": held.resource_version },
                    { "op": "add", "path": "/data", "value": data },
                ]);
                let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).map_err(Error::Patch)?);
                let params = PatchParams {
                    field_manager: Some(names::FIELD_MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                within_deadline(self.secrets.patch(names::WEBHOOK_SERVICE, &params, &patch)).await?
            }
        };
        match result {
            Ok(_) => Ok(Written::Done),
            // 404: deleted since; 409: created or changed since; 422: the test of the patch failed.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {
                tracing::debug!(%status, "Another writer was faster.");
                Ok(Written::Lost)
            }
            Err(error) => Err(Error::Request(Box::new(error))),
        }
    }

    async fn create(&self, data: BTreeMap<String, ByteString>) -> Result<Secret, kube::Error> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(names::WEBHOOK_SERVICE.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(data),
            ..Secret::default()
        };
        let params = PostParams {
            field_manager: Some(names::FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        self.secrets.create(&params, &secret).await
    }

    /// An item whenever the Secret may have changed; what it is now, [`Store::read`] tells. Never ends.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", names::WEBHOOK_SERVICE));
        follow_objects(self.secrets.clone(), config).filter_map(async |event| match event {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => Some(()),
            Ok(Event::Init | Event::InitApply(_)) => None,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "Watch of the certificate's Secret failed.");
                None
            }
        })
    }
}

async fn within_deadline<T>(request: impl Future<Output = T>) -> Result<T, Error> {
    tokio::time::timeout(REQUEST_DEADLINE, request)
        .await
        .map_err(|_| Error::Deadline)
}
