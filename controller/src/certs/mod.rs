//! The certificate of the webhook: issued here and shared by all replicas through one Secret, or taken from files; renewed without
//! a pause.
//!
//! [`plan`] decides what is due, [`issue`] makes it, [`store`] keeps it in the Secret, [`keeper`] runs the three whenever the Secret
//! or the clock moves. The Secret holds a certificate authority and a leaf, which are renewed after two thirds of their life. A new
//! authority never replaces the leaf: the old one stays in the bundle that the API server trusts, and the new one signs when the
//! leaf is next due. With `--tls-dir`, [`directory`] follows files instead.
//!
//! Both sources offer what they have to [`serving`], which shows a new certificate to callers only once the webhook configurations
//! trust it; [`resolver`] hands it to new connections. So no moment exists in which a served certificate is not trusted.
//!
//! [`x509`] reads expiry and names out of a certificate.

mod bundle;
mod directory;
mod issue;
mod keeper;
mod plan;
mod resolver;
mod serving;
mod store;
mod x509;

use std::path::PathBuf;
use std::sync::Arc;

use kruise_rollout::names;
use kube::Client;
use rustls::pki_types::ServerName;
use tokio::sync::watch;

use crate::gates::Gate;
use crate::metrics::Metrics;
use directory::Follower;
use keeper::Keeper;
use serving::Serving;

pub(crate) use plan::Lifetimes;
pub(crate) use resolver::ServedKey;
pub(crate) use serving::Trusted;

/// A DNS name or IP address that a certificate is for.
pub(crate) type Name = ServerName<'static>;

/// What others need to know about the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertState {
    /// What the API server has to trust, for `caBundle`: one or two certificates in PEM. Nothing if that is the business of others.
    pub(crate) ca_bundle_pem: Option<String>,
}

/// Where certificates come from and where they go.
pub(crate) struct Served {
    /// Handed to new connections.
    pub(crate) keys: Arc<ServedKey>,
    /// What the API server trusts.
    pub(crate) trusted: watch::Receiver<Trusted>,
    pub(crate) metrics: Arc<Metrics>,
    /// Opened once there is a certificate to serve.
    pub(crate) ready: Gate,
}

/// What the API server has to trust; nothing before it is known.
pub(crate) type State = watch::Receiver<Option<CertState>>;

/// Certificates of our own in the Secret of `namespace`, for the names under which the webhook is reached.
pub(crate) fn self_made(
    served: Served,
    client: Client,
    namespace: &str,
    host: Option<&str>,
    lives: Lifetimes,
) -> (Keeper, State) {
    let (serving, state) = served.start();
    let want = wanted_names(namespace, host);
    (Keeper::new(client, namespace, want, lives, serving), state)
}

/// Certificates that others put into `directory`.
pub(crate) fn from_files(
    served: Served,
    directory: PathBuf,
    namespace: &str,
    host: Option<&str>,
) -> (Follower, State) {
    let (serving, state) = served.start();
    // The host, or the Service, which comes first.
    let called = wanted_names(namespace, None).into_iter().next();
    let called = host
        .and_then(|host| Name::try_from(host.to_owned()).ok())
        .or(called);
    (Follower::new(directory, called, serving), state)
}

impl Served {
    fn start(self) -> (Serving, State) {
        Serving::new(self.keys, self.trusted, self.metrics, self.ready)
    }
}

/// The names under which the webhook is reached: through its Service, on loopback, and as `host` if that is given.
fn wanted_names(namespace: &str, host: Option<&str>) -> Vec<Name> {
    let service = format!("{}.{namespace}", names::WEBHOOK_SERVICE);
    let mut wanted: Vec<Name> = Vec::new();
    let fixed = [
        format!("{service}.svc"),
        format!("{service}.svc.cluster.local"),
        service,
    ]
    .into_iter()
    .chain(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    for text in fixed.chain(host.map(str::to_owned)) {
        // The namespace is a DNS label; a host that is no name cannot be called either.
        if let Ok(name) = Name::try_from(text)
            && !wanted.contains(&name)
        {
            wanted.push(name);
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_service_loopback_and_host() {
        let text = |host| {
            let names = wanted_names("ops", host);
            names
                .iter()
                .map(|name| name.to_str().into_owned())
                .collect::<Vec<_>>()
        };
        let fixed = [
            "kruise-rollout-webhook.ops.svc",
            "kruise-rollout-webhook.ops.svc.cluster.local",
            "kruise-rollout-webhook.ops",
            "localhost",
            "127.0.0.1",
        ];
        assert_eq!(text(None), fixed);
        assert_eq!(text(Some("127.0.0.1")), fixed);
        assert_eq!(text(Some("::1")).last().map(String::as_str), Some("::1"));
        assert_eq!(
            text(Some("example.com")).last().map(String::as_str),
            Some("example.com")
        );
    }
}
