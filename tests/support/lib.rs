//! A real Kubernetes control plane on this machine, for tests and for `cargo cluster`.
//!
//! [`ControlPlane::start`] runs etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok (fake nodes whose pods
//! become ready by rules) on loopback. Tests of one process share one by [`shared`] and separate themselves by
//! [`TestNamespace`]s. Nothing that is started here outlives the process that started it (see [`process`]).
//!
//! Environment:
//! - `KUBEBUILDER_ASSETS`: a folder whose programs are preferred to the ones built here.
//! - `USE_EXISTING_CLUSTER=true`: use the cluster of the current kubeconfig; the identities are impersonated.
//! - `KRUISE_KEEP_SCRATCH=1`: keep logs and data.

mod access;
mod assets;
mod audit;
mod bootstrap;
mod component;
mod control_plane;
mod credentials;
mod eventually;
mod go;
mod identity;
mod installation;
mod namespace;
pub mod process;
mod product;
pub mod proxy;
mod tunnel;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub use access::SecondApiServer;
pub use assets::Assets;
pub use audit::{Audit, Entry, Mark};
pub use component::{Component, free_port};
pub use control_plane::{ControlPlane, Options};
pub use eventually::eventually;
pub use go::Tool;
pub use identity::Identity;
pub use installation::{Installation, Replica, installed};
pub use namespace::{TestNamespace, shared};
pub use process::{Process, spawn};
pub use product::{Product, build_binaries, forget_package};
pub use proxy::Proxy;
pub use tunnel::Tunnel;

/// Why a control plane could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The programs of the control plane cannot be built.
    #[error("building the control plane: {0}")]
    Build(String),
    /// A component did not start or did not become ready; with the last lines of its log.
    #[error("{component}: {reason}\n{log}")]
    Component {
        /// Which one.
        component: &'static str,
        /// What was waited for or what went wrong.
        reason: String,
        /// The end of its log, indented.
        log: String,
    },
    /// Files, pipes or processes.
    #[error("{context}: {source}")]
    Io {
        /// What was attempted.
        context: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A request to the API server.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// A kubeconfig that cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// A program that was run to its end, or that does not start.
    #[error("{0}")]
    Command(String),
    /// Keys and certificates.
    #[error("credentials: {0}")]
    Credentials(#[from] rcgen::Error),
}

pub(crate) trait IoContext<T> {
    fn context(self, context: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, context: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            context: context(),
            source,
        })
    }
}

/// The root of the repository.
pub(crate) fn repository() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests)
}

/// The folder of the running program: `target/debug` or another profile's.
pub(crate) fn profile_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new(".")).to_owned();
    match folder.file_name() {
        Some(name) if name == "deps" => folder.parent().map(Path::to_owned).unwrap_or(folder),
        _ => folder,
    }
}

/// Cargo's target folder, wherever it is configured to be: the nearest one above the running program that Cargo marked.
pub fn target_dir() -> &'static Path {
    static TARGET: LazyLock<PathBuf> = LazyLock::new(|| {
        let profile = profile_dir();
        let marked = profile
            .ancestors()
            .find(|folder| folder.join("CACHEDIR.TAG").exists());
        marked.map_or_else(|| repository().join("target"), Path::to_owned)
    });
    &TARGET
}
