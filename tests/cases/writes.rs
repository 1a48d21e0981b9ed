//! The ways in which people and tools write an app, and what the server answers them.

use std::process::Stdio;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams, Request};
use kube::client::Body;
use serde_json::Value;
use support::Identity;
use tokio::io::AsyncWriteExt as _;

use crate::scene::{APP, Scene};

/// Field manager of people's writes.
const DEVELOPER: &str = "developer";

/// An answer of the API server.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// The object, or the status of a failure.
    pub body: Value,
    /// Texts of the warnings.
    pub warnings: Vec<String>,
}

impl Answer {
    /// The object of a write that must have succeeded.
    pub fn object(self) -> Value {
        assert!(self.code < 300, "{self:?}");
        self.body
    }

    /// Whether the writer was told something about a release.
    pub fn warned(&self) -> bool {
        !self.warnings.is_empty()
    }
}

/// One write of the app.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// A merge patch.
    Merge(&'a Value),
    /// A PUT of this very object.
    Put {
        manager: &'a str,
        dry_run: bool,
        object: &'a Value,
    },
    /// Server-side apply by a field manager.
    Apply {
        manager: &'a str,
        force: bool,
        manifest: &'a Value,
    },
}

/// A way to bring a manifest into the cluster, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `kubectl apply`, which remembers in an annotation what it applied.
    Kubectl,
    /// Server-side apply, without force.
    ServerSide,
    /// A PUT over whatever is there, as `kubectl replace` does it.
    Put,
    /// A merge patch.
    Merge,
}

/// Writes an object as a client.
pub async fn send(client: &Client, api: &Api<DynamicObject>, name: &str, write: Write<'_>) -> Answer {
    let request = Request::new(api.resource_url());
    let patch = PatchParams {
        field_manager: Some(DEVELOPER.to_owned()),
        ..PatchParams::default()
    };
    let request = match write {
        Write::Merge(object) => request.patch(name, &patch, &Patch::Merge(object)),
        Write::Put {
            manager,
            dry_run,
            object,
        } => {
            let params = PostParams {
                dry_run,
                field_manager: Some(manager.to_owned()),
            };
            request.replace(name, &params, serde_json::to_vec(object).unwrap())
        }
        Write::Apply {
            manager,
            force,
            manifest,
        } => {
            let params = PatchParams {
                force,
                ..PatchParams::apply(manager)
            };
            request.patch(name, &params, &Patch::Apply(manifest))
        }
    };
    let response = client.send(request.unwrap().map(Body::from)).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings
        .filter_map(|value| value.to_str().ok().map(warning_text))
        .collect();
    let body = response.into_body().collect_bytes().await.unwrap();
    Answer {
        code,
        body: serde_json::from_slice(&body).unwrap(),
        warnings,
    }
}

impl Scene<'_> {
    /// Writes the app as a client.
    pub async fn write(&self, client: &Client, write: Write<'_>) -> Answer {
        send(client, &self.apps(client), APP, write).await
    }

    /// A merge patch by the developer.
    pub async fn merge(&self, patch: &Value) -> Answer {
        self.write(&self.developer, Write::Merge(patch)).await
    }

    /// A PUT by the developer over whatever is there now.
    pub async fn put(&self, object: &Value) -> Answer {
        let mut object = object.clone();
        loop {
            object["metadata"]["resourceVersion"] = self.app().await["metadata"]["resourceVersion"].clone();
            let put = Write::Put {
                manager: DEVELOPER,
                dry_run: false,
                object: &object,
            };
            let answer = self.write(&self.developer, put).await;
            // The operator's status writes race with it.
            if answer.code != 409 {
                return answer;
            }
        }
    }

    /// Server-side apply by the developer.
    pub async fn apply(&self, manifest: &Value, force: bool) -> Answer {
        let write = Write::Apply {
            manager: DEVELOPER,
            force,
            manifest,
        };
        self.write(&self.developer, write).await
    }

    /// `kubectl apply` by the developer: what it prints on stdout and on stderr.
    pub async fn kubectl_apply(&self, manifest: &Value) -> (String, String) {
        let mut kubectl = self.namespace.kubectl(Identity::Developer).unwrap();
        kubectl
            .args(["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = kubectl.spawn().unwrap();
        let manifest = serde_json::to_vec(manifest).unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&manifest).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{stdout}{stderr}");
        (stdout, stderr)
    }

    /// Brings a manifest into the cluster; the app as it is then.
    pub async fn deploy(&self, way: Way, manifest: &Value) -> Value {
        match way {
            Way::Kubectl => drop(self.kubectl_apply(manifest).await),
            Way::ServerSide => drop(self.apply(manifest, false).await.object()),
            Way::Put if self.exists().await => drop(self.put(manifest).await.object()),
            Way::Merge if self.exists().await => drop(self.merge(manifest).await.object()),
            Way::Put | Way::Merge => self.create_app(manifest).await,
        }
        self.app().await
    }

    async fn exists(&self) -> bool {
        self.apps(&self.admin).get_opt(APP).await.unwrap().is_some()
    }
}

/// The text of a `Warning` header: `299 - "text"`.
fn warning_text(header: &str) -> String {
    let quoted = header.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"'));
    quoted.map_or(header, |(text, _)| text).replace("\\\"", "\"")
}
