//! One control plane for all tests of a process, one namespace for each test.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::Kubeconfig;
use tokio::sync::OnceCell;

use crate::{ControlPlane, Error, Identity, IoContext as _, Options};

/// The control plane that the tests of this process share, started by the first that asks. With
/// `USE_EXISTING_CLUSTER=true` the cluster of the current kubeconfig.
///
/// # Panics
/// It does not start: no test can go on.
#[expect(clippy::panic, reason = "a test without its control plane has failed")]
pub async fn shared() -> &'static ControlPlane {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    let start = async {
        if std::env::var("USE_EXISTING_CLUSTER").is_ok_and(|value| value == "true") {
            ControlPlane::existing().await
        } else {
            ControlPlane::start(Options::default()).await
        }
    };
    match SHARED.get_or_try_init(|| start).await {
        Ok(control_plane) => control_plane,
        Err(error) => panic!("no control plane: {error}"),
    }
}

/// A namespace of one test. Dropping it deletes it; when the test is panicking, what is in it goes to stderr first.
#[derive(Debug)]
pub struct TestNamespace<'a> {
    control_plane: &'a ControlPlane,
    name: String,
}

impl<'a> TestNamespace<'a> {
    /// Creates a namespace with a unique name that starts with `prefix`.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create(control_plane: &'a ControlPlane, prefix: &str) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{}-{count}", std::process::id());
        let client = control_plane.client(Identity::Admin).await?;
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        Api::all(client)
            .create(&PostParams::default(), &namespace)
            .await?;
        Ok(Self { control_plane, name })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The control plane it is in.
    #[must_use]
    pub fn control_plane(&self) -> &'a ControlPlane {
        self.control_plane
    }

    /// A new client of the calling runtime.
    ///
    /// # Errors
    /// See [`ControlPlane::client`].
    pub async fn client(&self, identity: Identity) -> Result<Client, Error> {
        self.control_plane.client(identity).await
    }

    /// A kubeconfig file whose default namespace is this one.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn kubeconfig(&self, identity: Identity) -> Result<PathBuf, Error> {
        let path =
            self.control_plane
                .folder()
                .join(format!("{}-in-{}.kubeconfig", identity.name(), self.name));
        if !path.exists() {
            let mut kubeconfig = Kubeconfig::read_from(self.control_plane.kubeconfig(identity))?;
            for context in kubeconfig
                .contexts
                .iter_mut()
                .filter_map(|named| named.context.as_mut())
            {
                context.namespace = Some(self.name.clone());
            }
            // JSON is YAML.
            let text = serde_json::to_string(&kubeconfig).map_err(kube::Error::SerdeError)?;
            std::fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
        }
        Ok(path)
    }

    /// [`ControlPlane::kubectl`] with this namespace as its default.
    ///
    /// # Errors
    /// See [`TestNamespace::kubeconfig`].
    pub fn kubectl(&self, identity: Identity) -> Result<tokio::process::Command, Error> {
        let mut command = self.control_plane.kubectl(identity);
        command.env("KUBECONFIG", self.kubeconfig(identity)?);
        Ok(command)
    }

    /// Events, workloads, Rollouts and pods, as text.
    fn dump(&self) -> String {
        let mut text = format!("--- state of namespace {} ---\n", self.name);
        for arguments in [
            &["get", "events", "--sort-by=.lastTimestamp"][..],
            &["get", "pods", "-o", "wide", "--show-labels"],
            &["get", "statefulsets,deployments,daemonsets", "-o", "yaml"],
            &["get", "rollouts.rollouts.kruise.io", "-o", "yaml"],
            &["get", "mystatefulapps.example.io", "-o", "yaml"],
        ] {
            let output = self.kubectl_now().args(arguments).output();
            let output = output.ok().filter(|output| output.status.success());
            let found = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            text += &format!(
                "$ kubectl {}\n{}\n",
                arguments.join(" "),
                found.unwrap_or_default()
            );
        }
        text
    }

    /// kubectl for a destructor, where nothing can be awaited.
    fn kubectl_now(&self) -> Command {
        let mut command = self.control_plane.std_kubectl(Identity::Admin);
        command
            .args(["-n", &self.name, "--request-timeout=10s"])
            .stdin(Stdio::null());
        command
    }
}

impl Drop for TestNamespace<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = std::io::stderr().write_all(self.dump().as_bytes());
        }
        let delete = ["delete", "namespace", &self.name, "--wait=false"];
        let _ = self
            .kubectl_now()
            .args(delete)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}
