//! From flags and kubeconfig files to a client.

use std::path::PathBuf;

use kube::config::{
    AuthInfo, Cluster as ClusterEntry, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use kube::{Client, Config};

use crate::cli::Connection;
use crate::cluster::Cluster;
use crate::error::Error;

/// Name of the entries that stand for flags where the kubeconfig has none.
const OVERRIDE: &str = "kubectl-kruise";

/// Connects as kubectl would: `--kubeconfig`, else the merged files of `KUBECONFIG`, else `~/.kube/config`, else the Pod's own
/// service account; flags override single values.
///
/// # Errors
/// A kubeconfig that is missing, cannot be read, or has no such context.
pub(crate) async fn connect(flags: &Connection) -> Result<Cluster, Error> {
    let config = config(flags).await?;
    let namespace = flags
        .namespace
        .clone()
        .unwrap_or_else(|| config.default_namespace.clone());
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = Client::try_from(config).map_err(|error| Error::Kubeconfig(chain(&error)))?;
    Ok(Cluster::new(client, namespace, server, flags.request_timeout))
}

async fn config(flags: &Connection) -> Result<Config, Error> {
    let wrong = |error: kube::config::KubeconfigError| Error::Kubeconfig(chain(&error));
    let kubeconfig = match &flags.kubeconfig {
        Some(path) => Some(Kubeconfig::read_from(path).map_err(wrong)?),
        None => merged(&paths()).map_err(wrong)?,
    };
    let nothing = kubeconfig
        .as_ref()
        .is_none_or(|kubeconfig| kubeconfig.contexts.is_empty());
    if nothing && flags.server.is_none() && flags.context.is_none() {
        return Config::incluster()
            .map(|config| overridden(config, flags))
            .map_err(|_| Error::Kubeconfig("no kubeconfig was found".to_owned()));
    }
    let kubeconfig = applied(kubeconfig.unwrap_or_default(), flags)?;
    let options = KubeConfigOptions {
        context: flags.context.clone(),
        cluster: flags.cluster.clone(),
        user: flags.user.clone(),
    };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(wrong)
}

/// The files that count without `--kubeconfig`.
fn paths() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
    match listed {
        Some(list) => std::env::split_paths(&list)
            .filter(|path| !path.as_os_str().is_empty())
            .collect(),
        None => std::env::home_dir()
            .map(|home| home.join(".kube").join("config"))
            .into_iter()
            .collect(),
    }
}

/// Merges the files that exist; the first one to set a value wins. `None` when none of them exists.
fn merged(paths: &[PathBuf]) -> Result<Option<Kubeconfig>, kube::config::KubeconfigError> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths.iter().filter(|path| path.exists()) {
        let next = Kubeconfig::read_from(path)?;
        merged = Some(match merged {
            None => next,
            Some(first) => first.merge(next)?,
        });
    }
    Ok(merged)
}

/// Puts the flags over the entries of the context in use, before files are read for them: a flag replaces a broken file.
fn applied(mut kubeconfig: Kubeconfig, flags: &Connection) -> Result<Kubeconfig, Error> {
    let name = flags
        .context
        .clone()
        .or_else(|| kubeconfig.current_context.clone())
        .filter(|name| !name.is_empty());
    let name = match name {
        Some(name) => name,
        None if flags.server.is_some() || flags.cluster.is_some() => OVERRIDE.to_owned(),
        None => {
            return Err(Error::Kubeconfig(
                "the kubeconfig has no current-context".to_owned(),
            ));
        }
    };
    let position = kubeconfig
        .contexts
        .iter()
        .position(|context| context.name == name);
    if position.is_none() && flags.context.is_some() {
        return Err(Error::Kubeconfig(format!(
            "the kubeconfig has no context {name:?}"
        )));
    }
    let position = position.unwrap_or_else(|| {
        kubeconfig.contexts.push(NamedContext {
            name: name.clone(),
            ..NamedContext::default()
        });
        kubeconfig.contexts.len() - 1
    });
    kubeconfig.current_context = Some(name);
    let context = kubeconfig.contexts[position]
        .context
        .get_or_insert_with(Context::default);
    if let Some(cluster) = &flags.cluster {
        context.cluster.clone_from(cluster);
    }
    if context.cluster.is_empty() {
        OVERRIDE.clone_into(&mut context.cluster);
    }
    let user = flags
        .user
        .clone()
        .or_else(|| context.user.clone())
        .unwrap_or_else(|| OVERRIDE.to_owned());
    context.user = Some(user.clone());
    let cluster = context.cluster.clone();
    override_cluster(&mut kubeconfig, &cluster, flags);
    override_user(&mut kubeconfig, &user, flags);
    Ok(kubeconfig)
}

fn override_cluster(kubeconfig: &mut Kubeconfig, name: &str, flags: &Connection) {
    let asked = flags.server.is_some()
        || flags.certificate_authority.is_some()
        || flags.insecure_skip_tls_verify
        || flags.tls_server_name.is_some();
    if !asked {
        return;
    }
    let entry = match kubeconfig
        .clusters
        .iter()
        .position(|cluster| cluster.name == name)
    {
        Some(position) => &mut kubeconfig.clusters[position],
        None => {
            kubeconfig.clusters.push(NamedCluster {
                name: name.to_owned(),
                ..NamedCluster::default()
            });
            let last = kubeconfig.clusters.len() - 1;
            &mut kubeconfig.clusters[last]
        }
    };
    let cluster = entry.cluster.get_or_insert_with(ClusterEntry::default);
    if let Some(server) = &flags.server {
        let server = if server.contains("://") {
            server.clone()
        } else {
            format!("http://{server}")
        };
        cluster.server = Some(server);
    }
    if let Some(path) = &flags.certificate_authority {
        cluster.certificate_authority = Some(path.clone());
        cluster.certificate_authority_data = None;
    }
    if flags.insecure_skip_tls_verify {
        cluster.insecure_skip_tls_verify = Some(true);
        cluster.certificate_authority = None;
        cluster.certificate_authority_data = None;
    }
    if let Some(name) = &flags.tls_server_name {
        cluster.tls_server_name = Some(name.clone());
    }
}

fn override_user(kubeconfig: &mut Kubeconfig, name: &str, flags: &Connection) {
    let entry = match kubeconfig.auth_infos.iter().position(|user| user.name == name) {
        Some(position) => &mut kubeconfig.auth_infos[position],
        None => {
            kubeconfig.auth_infos.push(NamedAuthInfo {
                name: name.to_owned(),
                ..NamedAuthInfo::default()
            });
            let last = kubeconfig.auth_infos.len() - 1;
            &mut kubeconfig.auth_infos[last]
        }
    };
    override_auth(entry.auth_info.get_or_insert_with(AuthInfo::default), flags);
}

fn override_auth(user: &mut AuthInfo, flags: &Connection) {
    if let Some(token) = &flags.token {
        // A token on the command line counts alone, or a program in the kubeconfig would be asked for another one.
        *user = AuthInfo {
            token: Some(token.clone().into()),
            impersonate: user.impersonate.take(),
            impersonate_groups: user.impersonate_groups.take(),
            impersonate_uid: user.impersonate_uid.take(),
            ..AuthInfo::default()
        };
    }
    if let Some(path) = &flags.client_certificate {
        user.client_certificate = Some(path.clone());
        user.client_certificate_data = None;
    }
    if let Some(path) = &flags.client_key {
        user.client_key = Some(path.clone());
        user.client_key_data = None;
    }
    if let Some(name) = &flags.impersonate {
        user.impersonate = Some(name.clone());
    }
    if !flags.impersonate_group.is_empty() {
        user.impersonate_groups = Some(flags.impersonate_group.clone());
    }
    if let Some(uid) = &flags.impersonate_uid {
        user.impersonate_uid = Some(uid.clone());
    }
}

/// In a Pod there is no kubeconfig to put flags into.
fn overridden(mut config: Config, flags: &Connection) -> Config {
    if flags.token.is_some() {
        config.auth_info.token_file = None;
    }
    override_auth(&mut config.auth_info, flags);
    if flags.insecure_skip_tls_verify {
        config.accept_invalid_certs = true;
    }
    config
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
mod tests {
    use super::*;

    const FIRST: &str = "
contexts: [{name: a, context: {cluster: a, user: a, namespace: shop}}, {name: b, context: {cluster: b, user: a}}]
clusters: [{name: a, cluster: {server: 'https://a.example:6443', certificate-authority: /missing/ca.crt}}]
users: [{name: a, user: {token: one, as: root}}]
current-context: a
";

    async fn load(kubeconfig: &str, flags: &Connection) -> Result<Config, Error> {
        let kubeconfig = applied(Kubeconfig::from_yaml(kubeconfig).unwrap(), flags)?;
        let options = KubeConfigOptions {
            context: flags.context.clone(),
            cluster: flags.cluster.clone(),
            user: flags.user.clone(),
        };
        Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|e| Error::Kubeconfig(chain(&e)))
    }

    #[tokio::test]
    async fn flags_replace_single_values() {
        let flags = Connection {
            insecure_skip_tls_verify: true,
            token: Some("two".to_owned()),
            impersonate_group: vec!["ops".to_owned()],
            ..Connection::default()
        };
        let config = load(FIRST, &flags).await.unwrap();
        assert_eq!(config.cluster_url, "https://a.example:6443/");
        assert_eq!(config.default_namespace, "shop");
        assert!(config.accept_invalid_certs && config.root_cert.is_none());
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("root"));
        assert_eq!(config.auth_info.impersonate_groups, Some(vec!["ops".to_owned()]));
    }

    #[tokio::test]
    async fn a_server_is_enough_without_any_kubeconfig() {
        let flags = Connection {
            server: Some("127.0.0.1:8001".to_owned()),
            ..Connection::default()
        };
        let config = load("{}", &flags).await.unwrap();
        assert_eq!(config.cluster_url, "http://127.0.0.1:8001/");
        assert_eq!(config.default_namespace, "default");
    }

    #[tokio::test]
    async fn a_context_that_is_not_there_is_named() {
        let flags = Connection {
            context: Some("prod".to_owned()),
            ..Connection::default()
        };
        let error = load(FIRST, &flags).await.unwrap_err();
        assert_eq!(error.to_string(), "the kubeconfig has no context \"prod\"");
        let error = load("{}", &Connection::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "the kubeconfig has no current-context");
    }

    #[test]
    fn the_first_of_several_files_wins_and_missing_ones_do_not_matter() {
        let folder = std::env::temp_dir().join(format!("kubectl-kruise-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (one, two) = (folder.join("one"), folder.join("two"));
        std::fs::write(&one, FIRST).unwrap();
        std::fs::write(&two, "
clusters: [{name: a, cluster: {server: 'https://other.example'}}, {name: b, cluster: {server: 'https://b.example', certificate-authority: ca.crt}}]
current-context: b
").unwrap();
        let merged = merged(&[folder.join("missing"), one, two]).unwrap().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("a"));
        let cluster = |name: &str| {
            merged
                .clusters
                .iter()
                .find(|c| c.name == name)
                .unwrap()
                .cluster
                .clone()
                .unwrap()
        };
        assert_eq!(cluster("a").server.as_deref(), Some("https://a.example:6443"));
        assert_eq!(cluster("b").server.as_deref(), Some("https://b.example"));
        assert!(cluster("b").certificate_authority.unwrap().ends_with("/ca.crt"));
        assert!(super::merged(&[folder]).unwrap().is_none());
    }
}
