//! How to talk to a control plane: configurations, clients, kubectl.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::component::kubeconfig_name;
use crate::{ControlPlane, Error, Identity, IoContext as _, credentials, profile_dir};

impl ControlPlane {
    /// A new client. It belongs to the calling runtime: a test makes its own and does not hand it to another test.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn client(&self, identity: Identity) -> Result<Client, Error> {
        Ok(Client::try_from(self.config(identity).await?)?)
    }

    /// How to connect.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn config(&self, identity: Identity) -> Result<Config, Error> {
        read_config(&self.kubeconfig(identity)).await
    }

    /// The kubeconfig file.
    #[must_use]
    pub fn kubeconfig(&self, identity: Identity) -> PathBuf {
        self.folder().join(kubeconfig_name(identity.name()))
    }

    /// Certificate and key, PEM, by which the API server knows [`Identity::Viewer`] without a token.
    ///
    /// # Errors
    /// The control plane is not ours.
    pub fn client_certificate(&self) -> Result<(String, String), Error> {
        let read = |name: &str| {
            let path = self.folder().join(name);
            std::fs::read_to_string(&path).context(|| format!("reading {}", path.display()))
        };
        Ok((
            read(credentials::CLIENT_CERTIFICATE)?,
            read(credentials::CLIENT_KEY)?,
        ))
    }

    /// kubectl with the kubeconfig in its environment, so that `kubectl kruise …` works too (the product's plugin is first in
    /// the `PATH`). Killed when dropped.
    #[must_use]
    pub fn kubectl(&self, identity: Identity) -> tokio::process::Command {
        let mut command = tokio::process::Command::from(self.std_kubectl(identity));
        command.kill_on_drop(true);
        command
    }

    pub(crate) fn std_kubectl(&self, identity: Identity) -> std::process::Command {
        let mut command = std::process::Command::new(self.assets().program("kubectl"));
        let mut path = OsString::from(profile_dir());
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        command
            .env("KUBECONFIG", self.kubeconfig(identity))
            .env("KUBECACHEDIR", self.folder().join("kubectl-cache"))
            .env("PATH", path);
        command
    }
}

/// The second API server of a control plane: see [`ControlPlane::start_second_api_server`]. It is stopped, started again and signalled
/// as [`Component::SecondApiServer`](crate::Component::SecondApiServer).
#[derive(Clone, Copy, Debug)]
pub struct SecondApiServer<'a>(pub(crate) &'a ControlPlane);

impl SecondApiServer<'_> {
    /// [`ControlPlane::client`] of this server.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn client(&self, identity: Identity) -> Result<Client, Error> {
        Ok(Client::try_from(self.config(identity).await?)?)
    }

    /// [`ControlPlane::config`] of this server.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn config(&self, identity: Identity) -> Result<Config, Error> {
        read_config(&self.kubeconfig(identity)).await
    }

    /// [`ControlPlane::kubeconfig`] of this server.
    #[must_use]
    pub fn kubeconfig(&self, identity: Identity) -> PathBuf {
        let name = format!("second-{}", kubeconfig_name(identity.name()));
        self.0.folder().join(name)
    }
}

async fn read_config(kubeconfig: &Path) -> Result<Config, Error> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}
