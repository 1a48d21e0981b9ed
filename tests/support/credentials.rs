//! Keys and certificates of one control plane.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::{Error, Identity, IoContext as _};

/// Names of the files in the folder of a control plane.
pub(crate) const CA: &str = "ca.crt";
pub(crate) const SERVING_CERTIFICATE: &str = "apiserver.crt";
pub(crate) const SERVING_KEY: &str = "apiserver.key";
/// Of somebody who shows a certificate instead of a token: [`Identity::Viewer`].
pub(crate) const CLIENT_CERTIFICATE: &str = "viewer.crt";
pub(crate) const CLIENT_KEY: &str = "viewer.key";
pub(crate) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
pub(crate) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";

/// Writes an authority, the API server's certificate for loopback, one for a client, and the key that signs ServiceAccount tokens.
///
/// They are made here because the API server would spend a good part of a second on RSA keys of its own.
pub(crate) fn write(folder: &Path) -> Result<(), Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(DnType::CommonName, "local control plane");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"]
        .map(str::to_owned)
        .to_vec();
    let mut server = CertificateParams::new(names)?;
    server
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    let server_key = KeyPair::generate()?;
    let server = server.signed_by(&server_key, &authority)?;

    let viewer = Identity::Viewer;
    let mut client = CertificateParams::new(Vec::new())?;
    client.distinguished_name.push(DnType::CommonName, viewer.user());
    for group in viewer.groups() {
        client.distinguished_name.push(DnType::OrganizationName, *group);
    }
    let client_key = KeyPair::generate()?;
    let client = client.signed_by(&client_key, &authority)?;

    let service_accounts = KeyPair::generate()?;
    for (name, text) in [
        (CA, authority.pem()),
        (SERVING_CERTIFICATE, server.pem()),
        (SERVING_KEY, server_key.serialize_pem()),
        (CLIENT_CERTIFICATE, client.pem()),
        (CLIENT_KEY, client_key.serialize_pem()),
        (SERVICE_ACCOUNT_KEY, service_accounts.serialize_pem()),
        (SERVICE_ACCOUNT_PUBLIC_KEY, service_accounts.public_key_pem()),
    ] {
        fs::write(folder.join(name), text).context(|| format!("writing {name}"))?;
    }
    Ok(())
}
