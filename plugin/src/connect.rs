//! From flags, kubeconfig files and the environment to a client, as kubectl has it.

mod exec;
mod kubeconfig;
mod old;
mod proxy;
mod session;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use http::Uri;
use kube::Config;
use kube::config::{AuthInfo, Cluster as ClusterEntry, ExecAuthCluster, Kubeconfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use secrecy::ExposeSecret;

use self::exec::Plugin;
use self::proxy::Environment;
use self::session::{Credential, Session, Source};
use crate::cli::Connection;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::ui::trace::Trace;

/// What a Pod is given to call the API server with.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Who is there while credentials are obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attendance {
    /// A person, where standard input is a terminal; what goes wrong is said.
    Usual,
    /// Nobody, and nothing is said: completion.
    Silent,
}

/// Connects as kubectl would: `--kubeconfig`, else the merged files of `KUBECONFIG`, else `~/.kube/config`, else the Pod's own
/// service account; flags override single values.
///
/// # Errors
/// A kubeconfig that is missing, cannot be read, or has no such context; credentials that cannot be obtained.
pub(crate) async fn connect(flags: &Connection) -> Result<Cluster, Error> {
    connect_with(flags, Attendance::Usual).await
}

/// The same, with or without a person.
pub(crate) async fn connect_with(flags: &Connection, attendance: Attendance) -> Result<Cluster, Error> {
    let flags = &flags.clone().without_empty();
    let trace = flags.trace();
    let Target { config, source } = target(flags, attendance, trace)?;
    let namespace = match &flags.namespace {
        Some(namespace) => namespace.clone(),
        None => crate::target::namespace(&config.default_namespace).map_err(Error::Kubeconfig)?,
    };
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    trace.note(&format!("server {server}, namespace {namespace}"));
    if let Some(proxy) = &config.proxy_url {
        // The authority may hold a password.
        let host = proxy.host().unwrap_or_default();
        let port = proxy
            .port_u16()
            .map_or_else(String::new, |port| format!(":{port}"));
        trace.note(&format!("through the proxy {host}{port}"));
    }
    let session = Session::open(config, source, trace)
        .await
        .map_err(|error| match error {
            kube::Error::Auth(kube::client::AuthError::AuthExec(cause)) => Error::Credentials(cause),
            error => Error::Kubeconfig(chain(&error)),
        })?;
    let client = old::client(session, &namespace);
    Ok(Cluster::new(client, namespace, server, flags.request_timeout))
}

/// The names of what a kubeconfig holds, for completion.
pub(crate) fn known(flags: &Connection) -> Option<Kubeconfig> {
    kubeconfig::load(&flags.clone().without_empty())
        .ok()
        .flatten()
        .map(|(kubeconfig, _)| kubeconfig)
}

/// An API server, and who calls it.
struct Target {
    config: Config,
    source: Source,
}

fn target(flags: &Connection, attendance: Attendance, trace: Trace) -> Result<Target, Error> {
    let loaded = kubeconfig::load(flags).map_err(|error| Error::Kubeconfig(chain(&error)))?;
    let nothing = loaded
        .as_ref()
        .is_none_or(|(kubeconfig, _)| kubeconfig.contexts.is_empty());
    if nothing && flags.server.is_none() && flags.context.is_none() {
        let address = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (Some(host), Some(port)) = (
            address("KUBERNETES_SERVICE_HOST"),
            address("KUBERNETES_SERVICE_PORT"),
        ) else {
            return Err(Error::Kubeconfig("no kubeconfig was found".to_owned()));
        };
        trace.note("in a Pod, without a kubeconfig");
        let mut target =
            in_pod(&host, &port, Path::new(SERVICE_ACCOUNT), flags).map_err(Error::Kubeconfig)?;
        if let Some(namespace) = address("POD_NAMESPACE") {
            target.config.default_namespace = namespace;
        }
        return Ok(target);
    }
    let (kubeconfig, paths) = loaded.unwrap_or_default();
    for path in &paths {
        trace.note(&format!("kubeconfig {}", path.display()));
    }
    let kubeconfig = kubeconfig::applied(kubeconfig, flags)?;
    trace.note(&format!(
        "context {}",
        kubeconfig.current_context.as_deref().unwrap_or_default()
    ));
    assembled(kubeconfig, &Environment::read(), attendance).map_err(Error::Kubeconfig)
}

/// The configuration of the current context, which has its flags in it.
fn assembled(
    kubeconfig: Kubeconfig,
    environment: &Environment,
    attendance: Attendance,
) -> Result<Target, String> {
    let name = kubeconfig.current_context.unwrap_or_default();
    let context = kubeconfig.contexts.into_iter().find(|entry| entry.name == name);
    let context = context.and_then(|entry| entry.context).unwrap_or_default();
    let cluster = kubeconfig
        .clusters
        .into_iter()
        .find(|entry| entry.name == context.cluster);
    let cluster = cluster
        .and_then(|entry| entry.cluster)
        .ok_or_else(|| format!("the kubeconfig has no cluster {:?}", context.cluster))?;
    // As for kubectl, a user that is not there is nobody.
    let user = kubeconfig
        .auth_infos
        .into_iter()
        .find(|entry| Some(&entry.name) == context.user.as_ref())
        .and_then(|entry| entry.auth_info)
        .unwrap_or_default();
    let named = |error: String| format!("cluster {:?}: {error}", context.cluster);
    let server = address(&cluster).map_err(named)?;
    let mut config = Config::new(server.clone());
    config.default_namespace = context
        .namespace
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or_else(|| "default".to_owned());
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.root_cert = authority(&cluster).map_err(named)?;
    config.tls_server_name = cluster.tls_server_name.clone().filter(|name| !name.is_empty());
    config.proxy_url = proxy::choose(&server, cluster.proxy_url.as_deref(), environment).map_err(named)?;
    let (user, source) = credentials(user, &cluster, attendance)?;
    config.auth_info = user;
    Ok(Target { config, source })
}

/// Where the server is. Without a scheme it is one with TLS if anything is said about TLS.
fn address(cluster: &ClusterEntry) -> Result<Uri, String> {
    let server = cluster.server.as_deref().unwrap_or_default();
    if server.is_empty() {
        return Err("it has no server".to_owned());
    }
    let secure = cluster.insecure_skip_tls_verify.unwrap_or_default()
        || cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some();
    let full = match (server.contains("://"), secure) {
        (true, _) => server.to_owned(),
        (false, true) => format!("https://{server}"),
        (false, false) => format!("http://{server}"),
    };
    full.parse()
        .map_err(|error| format!("server {server:?}: {error}"))
}

/// The certificates that the server's is checked against; `None`: those of the system.
fn authority(cluster: &ClusterEntry) -> Result<Option<Vec<Vec<u8>>>, String> {
    let mut cluster = cluster.clone();
    cluster.certificate_authority.take_if(|path| path.is_empty());
    cluster.certificate_authority_data.take_if(|data| data.is_empty());
    let member = match (
        &cluster.certificate_authority_data,
        &cluster.certificate_authority,
    ) {
        _ if cluster.insecure_skip_tls_verify == Some(true) => return Ok(None),
        (None, None) => return Ok(None),
        (Some(_), _) => "certificate-authority-data",
        (None, Some(_)) => "certificate-authority",
    };
    let info = ExecAuthCluster::try_from(&cluster).map_err(|error| format!("{member}: {}", chain(&error)))?;
    let pem = info.certificate_authority_data.unwrap_or_default();
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{member}: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("{member}: it holds no certificate"));
    }
    Ok(Some(certificates))
}

/// What of a user stands in the configuration, and where the rest comes from. As for kubectl, a file goes before a token, and
/// either before a program.
fn credentials(
    mut user: AuthInfo,
    cluster: &ClusterEntry,
    attendance: Attendance,
) -> Result<(AuthInfo, Source), String> {
    let empty = |text: &mut Option<String>| {
        text.take_if(|text| text.is_empty());
    };
    empty(&mut user.username);
    empty(&mut user.token_file);
    empty(&mut user.client_certificate);
    empty(&mut user.client_certificate_data);
    empty(&mut user.client_key);
    let token_file = user.token_file.take();
    let exec = user.exec.take();
    let token = user
        .token
        .take()
        .map(|token| token.expose_secret().to_owned())
        .filter(|token| !token.is_empty());
    if let Some(path) = token_file {
        return Ok((user, Source::File(PathBuf::from(path))));
    }
    let given = token.is_some() || user.username.is_some();
    match exec.filter(|_| !given) {
        None => {
            let credential = Credential::new(token.as_deref(), None, None)
                .ok_or_else(|| "the token cannot be sent: it is no single line of text".to_owned())?;
            Ok((user, Source::Fixed(credential)))
        }
        Some(exec) => {
            let attended = attendance == Attendance::Usual && std::io::stdin().is_terminal();
            let silent = attendance == Attendance::Silent;
            let plugin = Plugin::new(exec, cluster, attended, silent)?;
            Ok((user, Source::Plugin(Box::new(plugin))))
        }
    }
}

/// In a Pod there is no kubeconfig to put flags into.
fn in_pod(host: &str, port: &str, folder: &Path, flags: &Connection) -> Result<Target, String> {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let server: Uri = format!("https://{host}:{port}")
        .parse()
        .map_err(|error| format!("KUBERNETES_SERVICE_HOST {host:?}: {error}"))?;
    let mut config = Config::new(server.clone());
    config.proxy_url = proxy::choose(&server, None, &Environment::read())?;
    let namespace = std::fs::read_to_string(folder.join("namespace")).unwrap_or_default();
    if !namespace.trim().is_empty() {
        namespace.trim().clone_into(&mut config.default_namespace);
    }
    let mut cluster = ClusterEntry {
        certificate_authority: Some(folder.join("ca.crt").display().to_string()),
        ..ClusterEntry::default()
    };
    if let Some(path) = &flags.certificate_authority {
        cluster.certificate_authority = Some(path.clone());
    }
    config.accept_invalid_certs = flags.insecure_skip_tls_verify;
    if !flags.insecure_skip_tls_verify {
        config.root_cert = authority(&cluster)?;
    }
    config.tls_server_name.clone_from(&flags.tls_server_name);
    let mut user = AuthInfo {
        token_file: Some(folder.join("token").display().to_string()),
        ..AuthInfo::default()
    };
    kubeconfig::override_auth(&mut user, flags);
    let (user, source) = credentials(user, &cluster, Attendance::Usual)?;
    config.auth_info = user;
    Ok(Target { config, source })
}

/// An error with its causes; kube says less at the top than below.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
