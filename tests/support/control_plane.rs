//! One control plane: start, use, break, stop.

mod components;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams, Request};
use kube::config::Kubeconfig;

use crate::component::{AUDIT_LOG, AUDIT_POLICY, Ports, STAGES, TOKENS, kubeconfig_name};
use crate::eventually::poll;
use crate::process::{remove_scratch, scratch};
use crate::{
    Assets, Audit, Component, Error, Identity, IoContext as _, Process, SecondApiServer, bootstrap,
    credentials, identity,
};

/// How long a component may take to do what is expected of it; far above what a busy machine needs.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often a start is tried again when another process took a port meanwhile.
const ATTEMPTS: u32 = 5;

/// What kind of control plane to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of fake nodes.
    pub nodes: u32,
    /// Pods that fit on one node.
    pub pods_per_node: u32,
    /// Further flags of kube-apiserver, such as `--feature-gates=MaxUnavailableStatefulSet=true`. With `--emulated-version=1.35` it
    /// serves what that version serves. [`ControlPlane::set_flags`] changes them later.
    pub api_server_flags: Vec<String>,
    /// Further flags of kube-controller-manager.
    pub controller_manager_flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            pods_per_node: 10_000,
            api_server_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
        }
    }
}

/// A running control plane, or an existing cluster. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct ControlPlane {
    folder: PathBuf,
    assets: Assets,
    options: Options,
    /// Further flags that are not those of the options any more.
    flags: Mutex<BTreeMap<Component, Vec<String>>>,
    ports: Ports,
    processes: Mutex<BTreeMap<Component, Process>>,
    admin: Kubeconfig,
    audit: Audit,
    existing: bool,
}

impl ControlPlane {
    /// Starts a control plane; ready when its nodes are Ready and its controllers work. Takes about 5 s, and minutes when the
    /// programs have to be built first.
    ///
    /// # Errors
    /// A component does not come up (with the end of its log), or the programs cannot be built.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let assets = blocking(Assets::locate).await?;
        let mut attempt = 1;
        loop {
            match Self::start_once(&assets, &options).await {
                Err(Error::Component { log, .. })
                    if attempt < ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// The cluster of the current kubeconfig, with the people's rights created in it. Its identities are impersonated.
    ///
    /// # Errors
    /// There is no kubeconfig, or the cluster does not answer.
    pub async fn existing() -> Result<Self, Error> {
        Self::existing_as(Kubeconfig::read()?).await
    }

    /// [`ControlPlane::existing`] with a context of the kubeconfig that need not be the current one.
    ///
    /// # Errors
    /// There is no kubeconfig or no such context, or the cluster does not answer.
    pub async fn existing_context(context: &str) -> Result<Self, Error> {
        let kubeconfig = Kubeconfig {
            current_context: Some(context.to_owned()),
            ..Kubeconfig::read()?
        };
        Self::existing_as(kubeconfig).await
    }

    async fn existing_as(admin: Kubeconfig) -> Result<Self, Error> {
        let folder = scratch("existing-cluster").context(|| "creating a scratch folder".to_owned())?;
        let assets = Assets::present()?;
        let ports = Ports {
            etcd: 0,
            etcd_peer: 0,
            api_server: 0,
            second_api_server: 0,
        };
        let control_plane = Self::new(folder, &assets, &Options::default(), ports, admin, true);
        for identity in Identity::ALL {
            let kubeconfig = identity.impersonated(&control_plane.admin);
            let text = serde_json::to_string_pretty(&kubeconfig).map_err(kube::Error::SerdeError)?;
            control_plane.write(&kubeconfig_name(identity.name()), &text)?;
        }
        bootstrap::create_rights(&control_plane.client(Identity::Admin).await?).await?;
        Ok(control_plane)
    }

    async fn start_once(assets: &Assets, options: &Options) -> Result<Self, Error> {
        let folder = scratch("control-plane").context(|| "creating a scratch folder".to_owned())?;
        let ports = Ports::free();
        let url = format!("https://127.0.0.1:{}", ports.api_server);
        let ca = folder.join(credentials::CA);
        let (_, admin) = identity::kubeconfig(&url, &ca, Identity::Admin.user())?;
        let control_plane = Self::new(folder, assets, options, ports, admin, false);
        control_plane.write_files(&url, &ca)?;

        // The API server takes longer to initialise than etcd does to serve.
        control_plane.spawn(Component::Etcd)?;
        control_plane.spawn(Component::ApiServer)?;
        control_plane.wait_for_api_server(Component::ApiServer).await?;
        for component in [
            Component::ControllerManager,
            Component::Scheduler,
            Component::Kwok,
        ] {
            control_plane.spawn(component)?;
        }
        let client = control_plane.client(Identity::Admin).await?;
        bootstrap::create_nodes(&client, options.nodes, options.pods_per_node).await?;
        bootstrap::create_rights(&client).await?;
        control_plane.wait_for_controllers(&client).await?;
        Ok(control_plane)
    }

    fn new(
        folder: PathBuf,
        assets: &Assets,
        options: &Options,
        ports: Ports,
        admin: Kubeconfig,
        existing: bool,
    ) -> Self {
        Self {
            audit: Audit::new(&folder.join(AUDIT_LOG)),
            folder,
            assets: assets.clone(),
            options: options.clone(),
            flags: Mutex::default(),
            ports,
            processes: Mutex::default(),
            admin,
            existing,
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        fs::write(self.folder.join(name), text).context(|| format!("writing {name}"))
    }

    /// The kubeconfig of each identity for the second API server.
    fn write_second_kubeconfigs(&self) -> Result<(), Error> {
        let url = format!("https://127.0.0.1:{}", self.ports.second_api_server);
        let ca = self.folder.join(credentials::CA);
        for identity in Identity::ALL {
            let (text, _) = identity::kubeconfig(&url, &ca, identity.user())?;
            let path = SecondApiServer(self).kubeconfig(identity);
            fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    fn write_files(&self, url: &str, ca: &Path) -> Result<(), Error> {
        credentials::write(&self.folder)?;
        self.write(TOKENS, &identity::token_file())?;
        self.write(AUDIT_POLICY, include_str!("audit-policy.yaml"))?;
        self.write(STAGES, include_str!("stages.yaml"))?;
        let people = Identity::ALL.map(|identity| (identity.name(), identity.user()));
        let programs = [
            Component::ControllerManager,
            Component::Scheduler,
            Component::Kwok,
        ];
        let programs = programs.map(|component| (component.user(), component.user()));
        for (name, user) in people.into_iter().chain(programs) {
            let (text, _) = identity::kubeconfig(url, ca, user)?;
            self.write(&kubeconfig_name(name), &text)?;
        }
        Ok(())
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until an API server says that it is ready.
    async fn wait_for_api_server(&self, server: Component) -> Result<(), Error> {
        let client = match server {
            Component::SecondApiServer => SecondApiServer(self).client(Identity::Admin).await?,
            _ => self.client(Identity::Admin).await?,
        };
        self.wait(server, "did not become ready", async || {
            // A GET of the path; the server ignores that it is written like a list.
            let request = Request::new("/readyz")
                .list(&ListParams::default())
                .map_err(|error| error.to_string())?;
            client
                .request_text(request)
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
        .await
    }

    /// Waits until kwok and the controller manager have done something.
    async fn wait_for_controllers(&self, client: &Client) -> Result<(), Error> {
        let nodes = Api::<Node>::all(client.clone());
        let wanted = self.options.nodes as usize;
        self.wait(Component::Kwok, "did not make the nodes ready", async || {
            let nodes = nodes
                .list(&Default::default())
                .await
                .map_err(|error| error.to_string())?;
            let ready = nodes.items.iter().filter(|node| is_schedulable(node)).count();
            if ready == wanted {
                Ok(())
            } else {
                Err(format!("{ready} of {wanted} nodes ready"))
            }
        })
        .await?;
        let namespaces = Api::<Namespace>::all(client.clone());
        self.wait(
            Component::ApiServer,
            "did not create the default namespace",
            async || {
                namespaces
                    .get("default")
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            },
        )
        .await?;
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
        self.wait(
            Component::ControllerManager,
            "did not create the default ServiceAccount",
            async || {
                accounts
                    .get("default")
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            },
        )
        .await
    }

    /// Waits for a condition that `component` has to bring about, and stops waiting when any component has ended.
    async fn wait(
        &self,
        component: Component,
        failure: &str,
        mut condition: impl AsyncFnMut() -> Result<(), String>,
    ) -> Result<(), Error> {
        let mut ended = None;
        let outcome = poll(DEADLINE, async || {
            ended = self.first_ended();
            if ended.is_some() {
                Ok(())
            } else {
                condition().await
            }
        })
        .await;
        match (ended, outcome) {
            (Some(component), _) => Err(self.failed(component, "ended".to_owned())),
            (None, Ok(())) => Ok(()),
            (None, Err(reason)) => {
                Err(self.failed(component, format!("{failure} in {DEADLINE:?}: {reason}")))
            }
        }
    }

    fn first_ended(&self) -> Option<Component> {
        self.processes()
            .iter()
            .find(|(_, process)| !process.is_running())
            .map(|(component, _)| *component)
    }

    fn failed(&self, component: Component, reason: String) -> Error {
        let log = self
            .processes()
            .get(&component)
            .map(|process| process.log_tail(20))
            .unwrap_or_default();
        Error::Component {
            component: component.program(),
            reason,
            log,
        }
    }

    /// Ends the control plane and removes its data.
    pub async fn stop(self) {
        blocking(move || drop(self)).await;
    }

    /// Whether this is somebody else's cluster (`USE_EXISTING_CLUSTER`).
    #[must_use]
    pub fn is_existing(&self) -> bool {
        self.existing
    }

    /// The folder of kubeconfigs, logs and data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The programs in use.
    #[must_use]
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// The programs that run, and their process groups.
    #[must_use]
    pub fn groups(&self) -> BTreeMap<&'static str, u32> {
        let processes = self.processes();
        let each = processes.iter();
        each.map(|(component, process)| (component.program(), process.pid()))
            .collect()
    }

    /// The audit log.
    #[must_use]
    pub fn audit(&self) -> &Audit {
        &self.audit
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Clients of the API server first, so that they do not fill their logs.
        let mut processes = self.processes();
        while processes.pop_last().is_some() {}
        remove_scratch(&self.folder);
    }
}

/// Ready, and without the taint that keeps pods away until the controller manager has seen that.
fn is_schedulable(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    ready && taints.count() == 0
}

/// Runs blocking work away from the runtime's own threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
