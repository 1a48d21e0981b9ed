//! Where the walk takes place: a cluster, a namespace in it, the product, and a folder with the manifests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use k8s_openapi::api::apps::v1::Deployment;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::Value;
use support::process::scratch;
use support::{ControlPlane, Identity, Installation};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::story::Story;

/// Installs the product.
const INSTALL: &str = "kruise-rollout-controller manifests | kubectl apply --server-side -f -";
/// Defines the custom workload.
const DEFINE: &str = "my-stateful-app-operator crd | kubectl apply --server-side -f -";
/// How long the cleanup of somebody else's cluster may take.
const CLEAR_WITHIN: Duration = Duration::from_secs(60);

/// The place of the walk.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) control_plane: &'a ControlPlane,
    pub(crate) namespace: String,
    folder: PathBuf,
    installation: Installation<'a>,
    installed_by_us: bool,
}

impl<'a> Stage<'a> {
    /// A stage on which nothing stands yet. The manifests lie in its folder.
    pub(crate) fn new(control_plane: &'a ControlPlane) -> anyhow::Result<Self> {
        let namespace = if control_plane.is_existing() {
            format!("kruise-demo-{}", std::process::id())
        } else {
            "demo".to_owned()
        };
        Ok(Self {
            control_plane,
            namespace,
            folder: scratch("manifests")?,
            installation: Installation::new(control_plane)?,
            installed_by_us: false,
        })
    }

    /// Writes a manifest.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// The folder of the manifests.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folders of the product's programs and of kubectl.
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        let kubectl = self.control_plane.assets().program("kubectl");
        let all = [&self.installation.product().plugin, &kubectl];
        let folders = all.into_iter().filter_map(|program| program.parent());
        folders
            .filter(|folder| folder.is_absolute())
            .map(Path::to_owned)
            .collect()
    }

    /// The `PATH` of the commands, which finds these programs first.
    fn path(&self) -> OsString {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let all = self
            .programs()
            .into_iter()
            .chain(std::env::split_paths(&inherited));
        std::env::join_paths(all).unwrap_or(inherited)
    }

    /// The workload as it is now.
    pub(crate) async fn app(&self) -> anyhow::Result<Value> {
        let client = self.control_plane.client(Identity::Developer).await?;
        let gvk = GroupVersionKind::gvk("example.io", "v1", "MyStatefulApp");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "mystatefulapps");
        let apps: Api<DynamicObject> = Api::namespaced_with(client, &self.namespace, &resource);
        Ok(serde_json::to_value(apps.get("my-app").await?)?)
    }

    /// Runs a command line, tells it and its output, and gives the output.
    ///
    /// # Errors
    /// It fails.
    pub(crate) async fn run(&self, story: &mut Story, who: Identity, line: &str) -> anyhow::Result<String> {
        story.command(who.name(), line);
        self.told(story, who, line).await
    }

    /// [`Stage::run`] without telling the command line.
    async fn told(&self, story: &mut Story, who: Identity, line: &str) -> anyhow::Result<String> {
        let mut child = self
            .command(who, line)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("running {line}"))?;
        let mut output = String::new();
        if let Some(stdout) = child.stdout.take() {
            let mut lines = BufReader::new(stdout).lines();
            while let Some(line) = lines.next_line().await? {
                story.quote(&line);
                output += &line;
                output.push('\n');
            }
        }
        let status = child.wait().await?;
        if status.success() {
            Ok(output)
        } else {
            bail!("{line}: {status}")
        }
    }

    /// A command line in the folder of the manifests. What it says on standard error goes to its standard output.
    fn command(&self, who: Identity, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec 2>&1; {line}")])
            .current_dir(&self.folder)
            .env("PATH", self.path())
            .env("KUBECONFIG", self.control_plane.kubeconfig(who))
            .env("KUBECACHEDIR", self.control_plane.folder().join("kubectl-cache"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Installs the product and starts the controller here, or finds it at work in the cluster.
    pub(crate) async fn install(&mut self, story: &mut Story) -> anyhow::Result<()> {
        let at_hand = self.is_on_loopback().await?;
        if self.control_plane.is_existing() {
            if self.has_controller().await? {
                story.tell("The product is installed in this cluster, and is used as it is.");
                return Ok(());
            }
            if !at_hand {
                bail!(
                    "the API server cannot reach a controller on this machine, and none is installed there: build an \
                     image of kruise-rollout-controller, then\n  kruise-rollout-controller manifests --image IMAGE | \
                     kubectl apply --server-side -f -"
                );
            }
        }
        self.installed_by_us = true;
        self.run(story, Identity::Admin, INSTALL).await?;
        let start = Instant::now();
        self.installation.start_controller().await?;
        story.tell("The API server reaches this machine: the controller runs here, with its ServiceAccount's rights.");
        story.seen("the controller is ready", Some((start.elapsed(), "its start")));
        Ok(())
    }

    /// Defines the custom workload, lets the controller govern its kind and starts its operator.
    pub(crate) async fn define(&mut self, story: &mut Story) -> anyhow::Result<()> {
        self.run(story, Identity::Admin, DEFINE).await?;
        let role = include_str!("my-app-role.yaml");
        self.write("my-app-role.yaml", role)?;
        self.run(story, Identity::Admin, "cat my-app-role.yaml").await?;
        self.run(story, Identity::Admin, "kubectl apply -f my-app-role.yaml")
            .await?;
        let wait = "kubectl wait --for=condition=Established crd/mystatefulapps.example.io";
        self.run(story, Identity::Admin, wait).await?;
        self.installation.start_operator(&[])?;
        let create = format!("kubectl create namespace {}", self.namespace);
        self.run(story, Identity::Admin, &create).await?;
        Ok(())
    }

    async fn has_controller(&self) -> anyhow::Result<bool> {
        let client = self.control_plane.client(Identity::Admin).await?;
        let deployments: Api<Deployment> = Api::namespaced(client, names::DEFAULT_NAMESPACE);
        Ok(deployments.get_opt(names::CONTROLLER).await?.is_some())
    }

    /// Whether the API server is on this machine, as far as its address tells.
    async fn is_on_loopback(&self) -> anyhow::Result<bool> {
        let config = self.control_plane.config(Identity::Admin).await?;
        let host = config.cluster_url.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = host.parse::<std::net::IpAddr>();
        Ok(host == "localhost" || address.is_ok_and(|address| address.is_loopback()))
    }

    /// The end of the controller's log, when it runs here.
    pub(crate) fn controller_log(&self) -> Option<String> {
        let controller = self.installation.controller.as_ref()?;
        Some(controller.log_tail(20))
    }

    /// Ends what runs here. In somebody else's cluster everything that this program has put there goes first, while the
    /// controller can still let go of it.
    pub(crate) async fn clear(mut self) -> anyhow::Result<()> {
        if self.control_plane.is_existing() {
            match tokio::time::timeout(CLEAR_WITHIN, self.remove()).await {
                Ok(result) => result?,
                Err(_) => bail!("the cluster is not cleared after {CLEAR_WITHIN:?}"),
            }
        }
        Ok(())
    }

    async fn remove(&mut self) -> anyhow::Result<()> {
        let Self { namespace, .. } = self;
        let namespace = format!("kubectl delete namespace {namespace} --ignore-not-found");
        let rights = ["developer", "approver", "viewer"].map(|name| format!("local-{name}"));
        let rights = format!(
            "kubectl delete clusterrolebinding,clusterrole {} --ignore-not-found",
            rights.join(" ")
        );
        self.quietly(&namespace).await?;
        if self.installed_by_us {
            self.installation.controller = None;
            let uninstall = "kruise-rollout-controller uninstall";
            self.quietly(uninstall).await?;
            let delete = "kruise-rollout-controller manifests | kubectl delete --ignore-not-found -f -";
            self.quietly(delete).await?;
        }
        self.quietly("kubectl delete -f my-app-role.yaml --ignore-not-found")
            .await?;
        self.quietly("my-stateful-app-operator crd | kubectl delete --ignore-not-found -f -")
            .await?;
        self.quietly(&rights).await
    }

    async fn quietly(&self, line: &str) -> anyhow::Result<()> {
        let output = self.command(Identity::Admin, line).output().await?;
        if output.status.success() {
            Ok(())
        } else {
            bail!(
                "{line}: {}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stdout)
            )
        }
    }
}
