//! The product installed on a control plane, as its manifests install it; its processes run outside the cluster.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tokio::sync::OnceCell;

use crate::process::{Process, spawn};
use crate::{ControlPlane, Error, Identity, Product, build_binaries, eventually, free_port, shared};

/// How long a process may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The installation that the tests of this process share, on [`shared`].
///
/// # Panics
/// It cannot be installed: no test can go on.
#[expect(clippy::panic, reason = "a test without the product has failed")]
pub async fn installed() -> &'static Installation<'static> {
    static INSTALLED: OnceCell<Installation<'static>> = OnceCell::const_new();
    match INSTALLED
        .get_or_try_init(async || Installation::start(shared().await).await)
        .await
    {
        Ok(installation) => installation,
        Err(error) => panic!("not installed: {error}"),
    }
}

/// Controller and example operator, running against a control plane. Both end when this is dropped.
#[derive(Debug)]
pub struct Installation<'a> {
    control_plane: &'a ControlPlane,
    product: &'static Product,
    ports: Ports,
    flags: Vec<String>,
    /// What runs as the controller.
    program: PathBuf,
    /// The controller, while it runs.
    pub controller: Option<Process>,
    /// The example operator of `mystatefulapps.example.io`, while it runs.
    pub operator: Option<Process>,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    webhook: u16,
    admin: u16,
}

/// A controller beside the one that the [`Installation`] runs, or instead of it. It ends when this is dropped.
#[derive(Debug)]
pub struct Replica {
    /// Its process.
    pub process: Process,
    /// Port of its webhook.
    pub webhook: u16,
    admin: u16,
}

impl Replica {
    /// Whether it is ready, and otherwise what it answers.
    ///
    /// # Errors
    /// It is not ready.
    pub async fn ready(&self) -> Result<(), String> {
        ready(self.admin, &self.process).await
    }

    /// Waits until it is ready.
    pub async fn wait_ready(&self) {
        eventually(READY_WITHIN, "the controller is ready", async || {
            self.ready().await
        })
        .await;
    }

    /// The value of a metric without labels, by its name.
    ///
    /// # Errors
    /// It does not answer, or has no such metric.
    pub async fn metric(&self, name: &str) -> Result<i64, String> {
        let text = http_get(self.admin, "/metrics")
            .await
            .map_err(|error| error.to_string())?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.ok_or_else(|| format!("no {name} in {text}"))
    }
}

impl<'a> Installation<'a> {
    /// Applies what `manifests` prints and the example's definition, starts operator and controller, and waits until the
    /// controller is ready.
    ///
    /// # Errors
    /// Something cannot be built, applied or started.
    pub async fn start(control_plane: &'a ControlPlane) -> Result<Self, Error> {
        Self::start_with(control_plane, &[]).await
    }

    /// The same with flags that `manifests` and `run` have in common.
    ///
    /// # Errors
    /// Something cannot be built, applied or started.
    pub async fn start_with(control_plane: &'a ControlPlane, flags: &[&str]) -> Result<Self, Error> {
        let mut installation = Self::new(control_plane)?;
        installation.set_flags(flags);
        installation.install().await?;
        Ok(installation)
    }

    /// Applies the manifests, starts operator and controller, and waits until the controller is ready.
    ///
    /// # Errors
    /// Something cannot be applied or started.
    pub async fn install(&mut self) -> Result<(), Error> {
        self.apply_manifests().await?;
        self.start_operator(&[])?;
        self.start_controller().await
    }

    /// Applies the manifests and starts nothing.
    ///
    /// # Errors
    /// Something cannot be built or applied.
    pub async fn apply(control_plane: &'a ControlPlane) -> Result<Self, Error> {
        let installation = Self::new(control_plane)?;
        installation.apply_manifests().await?;
        Ok(installation)
    }

    /// Applies what `manifests` prints with the flags that are set, and the example's definition.
    ///
    /// # Errors
    /// Something cannot be printed or applied.
    pub async fn apply_manifests(&self) -> Result<(), Error> {
        let mut command = Command::new(&self.product.controller);
        let manifests = output(command.arg("manifests").args(&self.flags))?;
        self.kubectl_apply(&manifests).await?;
        self.define(&[]).await?;
        self.enable_kind("example.io", "mystatefulapps").await
    }

    /// Applies nothing and starts nothing.
    ///
    /// # Errors
    /// Something cannot be built.
    pub fn new(control_plane: &'a ControlPlane) -> Result<Self, Error> {
        let ports = Ports {
            webhook: free_port(),
            admin: free_port(),
        };
        let product = build_binaries()?;
        Ok(Self {
            control_plane,
            product,
            ports,
            flags: Vec::new(),
            program: product.controller.clone(),
            controller: None,
            operator: None,
        })
    }

    /// Flags of every controller that is started from now on.
    pub fn set_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// The program of every controller that is started from now on, instead of the one that was built for tests.
    pub fn set_program(&mut self, program: PathBuf) {
        self.program = program;
    }

    /// Applies the definition that the example operator's `crd` prints with these arguments.
    ///
    /// # Errors
    /// It cannot be printed or applied.
    pub async fn define(&self, arguments: &[&str]) -> Result<(), Error> {
        let definition = output(Command::new(&self.product.operator).arg("crd").args(arguments))?;
        self.kubectl_apply(&definition).await
    }

    /// Lets the controller govern a custom kind: one labelled ClusterRole.
    ///
    /// # Errors
    /// The role cannot be applied.
    pub async fn enable_kind(&self, group: &str, plural: &str) -> Result<(), Error> {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("kruise-rollout-controller-{plural}.{group}"),
                "labels": {kruise_rollout::names::AGGREGATE_TO_CONTROLLER: "true"}},
            "rules": [{"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch", "patch"]}],
        });
        self.kubectl_apply(&role.to_string()).await
    }

    /// Applies documents as the administrator, with strict validation.
    ///
    /// # Errors
    /// kubectl refuses.
    pub async fn kubectl_apply(&self, documents: &str) -> Result<(), Error> {
        use tokio::io::AsyncWriteExt as _;
        let mut kubectl = self.control_plane.kubectl(Identity::Admin);
        kubectl.args(["apply", "--server-side", "--validate=strict", "-f", "-"]);
        kubectl.stdin(std::process::Stdio::piped());
        kubectl
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let failed = |text: String| Error::Command(format!("kubectl apply: {text}"));
        let mut child = kubectl.spawn().map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin
                .write_all(documents.as_bytes())
                .await
                .map_err(|error| failed(error.to_string()))?;
        }
        let output = child
            .wait_with_output()
            .await
            .map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
        }
    }

    /// Starts the example operator with further arguments of its `run`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_operator(&mut self, arguments: &[&str]) -> Result<(), Error> {
        self.operator = Some(self.run_operator(arguments)?);
        Ok(())
    }

    /// Runs one more example operator, with these arguments of its `run`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run_operator(&self, arguments: &[&str]) -> Result<Process, Error> {
        let mut command = Command::new(&self.product.operator);
        command
            .arg("run")
            .arg("--kubeconfig")
            .arg(self.control_plane.kubeconfig(Identity::Admin))
            .args(arguments);
        spawned(&command)
    }

    /// Starts the controller under its own identity and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn start_controller(&mut self) -> Result<(), Error> {
        let kubeconfig = self.control_plane.kubeconfig(Identity::Controller);
        self.start_controller_with(&kubeconfig, &[]).await
    }

    /// Starts the controller with a kubeconfig and further arguments of its `run`, and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn start_controller_with(
        &mut self,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<(), Error> {
        let mut command = self.controller_command(kubeconfig, self.ports);
        self.controller = Some(spawned(command.args(arguments))?);
        eventually(READY_WITHIN, "the controller is ready", async || {
            self.ready().await
        })
        .await;
        Ok(())
    }

    /// Starts one more controller, which waits for the lease of the other.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spare_controller(&self) -> Result<Process, Error> {
        let ports = Ports {
            webhook: free_port(),
            admin: free_port(),
        };
        let kubeconfig = self.control_plane.kubeconfig(Identity::Controller);
        spawned(&self.controller_command(&kubeconfig, ports))
    }

    /// Starts a controller with further arguments of its `run`, and does not wait until it is ready. The API server calls it at
    /// the port `called`, or at its own.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn replica(&self, called: Option<u16>, arguments: &[&str]) -> Result<Replica, Error> {
        let kubeconfig = self.control_plane.kubeconfig(Identity::Controller);
        self.replica_with(&kubeconfig, called, arguments)
    }

    /// [`Installation::replica`] with a kubeconfig.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn replica_with(
        &self,
        kubeconfig: &Path,
        called: Option<u16>,
        arguments: &[&str],
    ) -> Result<Replica, Error> {
        let ports = Ports {
            webhook: free_port(),
            admin: free_port(),
        };
        let mut command = self.controller_command(kubeconfig, ports);
        if let Some(port) = called {
            command.env("KRUISE_ROLLOUT_WEBHOOK_URL", format!("https://127.0.0.1:{port}"));
        }
        Ok(Replica {
            process: spawned(command.args(arguments))?,
            webhook: ports.webhook,
            admin: ports.admin,
        })
    }

    fn controller_command(&self, kubeconfig: &Path, ports: Ports) -> Command {
        let Ports { webhook, admin } = ports;
        let mut command = Command::new(&self.program);
        command.arg("run").arg("--kubeconfig").arg(kubeconfig);
        command.arg(format!("--webhook-bind=127.0.0.1:{webhook}"));
        command.env(
            "KRUISE_ROLLOUT_WEBHOOK_URL",
            format!("https://127.0.0.1:{webhook}"),
        );
        command.arg(format!("--admin-bind=127.0.0.1:{admin}"));
        command.args(&self.flags);
        command
    }

    /// Ends the controller at once, as a crash would.
    pub fn kill_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.kill();
        }
    }

    /// The control plane.
    #[must_use]
    pub fn control_plane(&self) -> &'a ControlPlane {
        self.control_plane
    }

    /// Path of the example operator's, the plugin's and the controller's programs.
    #[must_use]
    pub fn product(&self) -> &'static Product {
        self.product
    }

    /// Log of the running controller.
    #[must_use]
    pub fn controller_log(&self) -> Option<&Path> {
        self.controller.as_ref().map(Process::log)
    }

    /// Everything that the controller counts.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn metrics(&self) -> Result<String, Error> {
        let failed = |error: String| Error::Command(format!("GET /metrics: {error}"));
        let answer = http_get(self.ports.admin, "/metrics").await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
            _ => Err(failed(answer)),
        }
    }

    async fn ready(&self) -> Result<(), String> {
        match &self.controller {
            Some(controller) => ready(self.ports.admin, controller).await,
            None => Err("not started".to_owned()),
        }
    }
}

async fn ready(admin: u16, controller: &Process) -> Result<(), String> {
    match http_get(admin, "/readyz").await {
        Ok(answer) if answer.starts_with("HTTP/1.1 200") => Ok(()),
        Ok(answer) => Err(answer),
        Err(error) => Err(format!("{error}; its log: {}", controller.log_tail(5))),
    }
}

/// One plain HTTP request on loopback; the whole answer.
async fn http_get(port: u16, path: &str) -> std::io::Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn spawned(command: &Command) -> Result<Process, Error> {
    spawn(command).map_err(|error| Error::Command(format!("{command:?}: {error}")))
}

fn output(command: &mut Command) -> Result<String, Error> {
    let output = command
        .output()
        .map_err(|error| Error::Command(format!("{command:?}: {error}")))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::Command(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        )))
    }
}
