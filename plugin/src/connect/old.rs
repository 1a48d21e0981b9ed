//! Servers that have Rollouts in their older version only look as if they had `v1beta1`: the paths of requests are changed, and what
//! is answered is converted. So nothing else in this program knows of it.
//!
//! Patches go through as they are: what they are about (status of a release, metadata, `spec.strategy.paused`) has the same paths.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, Full, StreamBody};
use kruise_rollout::api::v1alpha1;
use kruise_rollout::names;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

use super::session::{Session, copy};

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// A session and what is known of its server.
struct Server {
    session: Session,
    /// Whether it has the older version only.
    old: AtomicBool,
    /// Whether that was looked at.
    seen: AtomicBool,
}

/// The client over a session.
pub(super) fn client(session: Session, namespace: &str) -> Client {
    let server = Arc::new(Server {
        session,
        old: AtomicBool::new(false),
        seen: AtomicBool::new(false),
    });
    let service = tower::service_fn(move |request| {
        let server = server.clone();
        async move { server.send(request).await }
    });
    Client::new(service, namespace)
}

impl Server {
    async fn send(&self, request: Request<Body>) -> Result<Answer, kube::Error> {
        let Some(older) = older(request.uri()) else {
            return Ok(whole(self.session.send(request).await?));
        };
        if self.old.load(Ordering::Relaxed) {
            return self.send_older(request, older).await;
        }
        let again = copy(&request);
        let response = self.session.send(request).await?;
        let missing = response.status() == StatusCode::NOT_FOUND;
        let Some(again) = again.filter(|_| missing && !self.seen.swap(true, Ordering::Relaxed)) else {
            return Ok(whole(response));
        };
        if !self.has_older_only().await {
            return Ok(whole(response));
        }
        self.old.store(true, Ordering::Relaxed);
        self.send_older(again, older).await
    }

    /// One more request, once, for callers who have got "not found" anyway.
    async fn has_older_only(&self) -> bool {
        let request = Request::get(format!("/apis/{}", names::GROUP)).body(Body::empty());
        let Ok(request) = request else { return false };
        let Ok(response) = self.session.send(request).await else {
            return false;
        };
        let Ok(text) = response.into_body().collect_bytes().await else {
            return false;
        };
        let group: Value = serde_json::from_slice(&text).unwrap_or_default();
        let serves = |version: &str| {
            let versions = group["versions"].as_array();
            versions.is_some_and(|all| all.iter().any(|served| served["version"] == version))
        };
        serves(v1alpha1::VERSION) && !serves(names::VERSION)
    }

    async fn send_older(&self, mut request: Request<Body>, older: Uri) -> Result<Answer, kube::Error> {
        let watches = older.query().is_some_and(|query| query.contains("watch=true"));
        *request.uri_mut() = older;
        let response = self.session.send(request).await?;
        if watches && response.status().is_success() {
            return Ok(by_lines(response));
        }
        let (mut head, body) = response.into_parts();
        head.headers.remove(http::header::CONTENT_LENGTH);
        let text = converted(&body.collect_bytes().await?);
        let body = Full::new(text)
            .map_err(|never: Infallible| match never {})
            .boxed_unsync();
        Ok(Response::from_parts(head, body))
    }
}

/// The same path in the older version, where it is about Rollouts.
fn older(uri: &Uri) -> Option<Uri> {
    let prefix = format!("/apis/{}/{}/", names::GROUP, names::VERSION);
    let rest = uri.path_and_query()?.as_str().strip_prefix(&prefix)?;
    let path = format!("/apis/{}/{}/{rest}", names::GROUP, v1alpha1::VERSION);
    path.parse().ok()
}

fn whole(response: Response<Body>) -> Answer {
    response.map(|body| body.map_err(BoxError::from).boxed_unsync())
}

/// What is no JSON stays as it is: the error that it causes says most.
fn converted(text: &[u8]) -> Bytes {
    let value = serde_json::from_slice(text).map(v1alpha1::to_v1beta1);
    match value.and_then(|value| serde_json::to_vec(&value)) {
        Ok(text) => text.into(),
        Err(_) => Bytes::copy_from_slice(text),
    }
}

/// The events of a watch, one a line, wherever the pieces of the answer end.
fn by_lines(response: Response<Body>) -> Answer {
    response.map(|body| {
        let pieces = BodyDataStream::new(body).map_err(BoxError::from);
        let lines = stream::try_unfold((pieces, Vec::new()), |(mut pieces, mut rest)| async move {
            while !rest.contains(&b'\n') {
                match pieces.try_next().await? {
                    Some(piece) => rest.extend_from_slice(&piece),
                    None if rest.is_empty() => return Ok(None),
                    None => rest.push(b'\n'),
                }
            }
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or_default();
            let next = rest.split_off(end + 1);
            let mut line = converted(&rest[..end]).to_vec();
            line.push(b'\n');
            Ok::<_, BoxError>(Some((http_body::Frame::data(Bytes::from(line)), (pieces, next))))
        });
        StreamBody::new(lines).boxed_unsync()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_rollouts_have_an_older_form() {
        let of = |path: &str| older(&path.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(
            of("/apis/rollouts.kruise.io/v1beta1/namespaces/a/rollouts?watch=true").as_deref(),
            Some("/apis/rollouts.kruise.io/v1alpha1/namespaces/a/rollouts?watch=true")
        );
        assert_eq!(of("/apis/apps/v1/namespaces/a/statefulsets"), None);
        assert_eq!(of("/apis/rollouts.kruise.io"), None);
    }
}
