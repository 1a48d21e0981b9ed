//! The certificate of the webhook: issued here, shared by all replicas through one Secret, renewed without a pause.
//!
//! [`plan`] decides what is due, [`issue`] makes it, [`store`] keeps it in the Secret, [`keeper`] runs the three whenever the Secret
//! or the clock moves, and [`resolver`] hands the present key to new connections. The Secret holds a certificate authority of one
//! year and a leaf of 30 days. Both are renewed after two thirds of their life. A new authority never replaces the leaf: the old
//! one stays in the bundle that the API server trusts and the leaf is signed by the new one when it is next due, weeks after
//! every API server has learned of it. So no moment exists in which a served certificate is not trusted.
//!
//! [`x509`] reads expiry and names out of a certificate.

mod bundle;
mod issue;
mod keeper;
mod plan;
mod resolver;
mod store;
mod x509;

use jiff::Timestamp;
use kruise_rollout::names;
use rustls::pki_types::ServerName;

pub(crate) use keeper::Keeper;
pub(crate) use resolver::ServedKey;

/// A DNS name or IP address that a certificate is for.
pub(crate) type Name = ServerName<'static>;

/// What others need to know about the certificate that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertState {
    /// What the API server has to trust, for `caBundle`: one or two certificates in PEM.
    pub(crate) ca_bundle_pem: String,
    /// When the served certificate expires.
    pub(crate) expires: Timestamp,
}

/// The names under which the webhook is reached: through its Service, on loopback, and as `host` if that is given.
pub(crate) fn wanted_names(namespace: &str, host: Option<&str>) -> Vec<Name> {
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
