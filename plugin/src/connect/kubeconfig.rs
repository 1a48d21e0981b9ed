//! Kubeconfig files, and flags put over them.

use std::path::{Path, PathBuf};

use kube::config::{
    AuthInfo, Cluster as ClusterEntry, Context, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster,
    NamedContext,
};

use crate::cli::Connection;
use crate::error::Error;

/// Name of the entries that stand for flags where the kubeconfig has none.
const OVERRIDE: &str = "kubectl-kruise";

/// The kubeconfig of these flags with the paths it was read from: `--kubeconfig`, which must be there, else the merged files of
/// `KUBECONFIG`, else `~/.kube/config`. `None` when there is none.
pub(super) fn load(flags: &Connection) -> Result<Option<(Kubeconfig, Vec<PathBuf>)>, KubeconfigError> {
    let paths = match &flags.kubeconfig {
        Some(path) => vec![path.clone()],
        None => paths().into_iter().filter(|path| path.exists()).collect(),
    };
    Ok(merged(&paths)?.map(|kubeconfig| (kubeconfig, paths)))
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

/// Merges files; the first one to set a value wins.
pub(super) fn merged(paths: &[PathBuf]) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths {
        let next = read(path)?;
        merged = Some(match merged {
            None => next,
            Some(first) => first.merge(next)?,
        });
    }
    Ok(merged)
}

fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let mut kubeconfig = Kubeconfig::read_from(path)?;
    // An empty value says nothing, so a later file may.
    kubeconfig.current_context.take_if(|name| name.is_empty());
    Ok(kubeconfig)
}

/// Puts the flags over the entries of the context in use, before files are read for them: a flag replaces a broken file.
pub(super) fn applied(mut kubeconfig: Kubeconfig, flags: &Connection) -> Result<Kubeconfig, Error> {
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

pub(super) fn override_auth(user: &mut AuthInfo, flags: &Connection) {
    if let Some(token) = &flags.token {
        // A token on the command line counts alone, or a program in the kubeconfig would be asked for another one.
        *user = AuthInfo {
            token: Some(token.clone().into()),
            impersonate: user.impersonate.take(),
            impersonate_groups: user.impersonate_groups.take(),
            impersonate_uid: user.impersonate_uid.take(),
            impersonate_user_extra: user.impersonate_user_extra.take(),
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
    if !flags.impersonate_user_extra.is_empty() {
        let extra = user.impersonate_user_extra.get_or_insert_default();
        extra.clear();
        for (key, value) in &flags.impersonate_user_extra {
            extra.entry(key.clone()).or_default().push(value.clone());
        }
    }
}
