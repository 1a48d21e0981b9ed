//! The components of a control plane: started, stopped and started again one by one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::PoisonError;

use super::{ControlPlane, blocking};
use crate::component::Invocation;
use crate::process::spawn_with_log;
use crate::{Component, Error, IoContext as _, SecondApiServer};

impl ControlPlane {
    pub(super) fn spawn(&self, component: Component) -> Result<(), Error> {
        let invocation = Invocation {
            assets: &self.assets,
            folder: &self.folder,
            ports: self.ports,
            flags: &self.flags(component),
        };
        let name = component.program();
        let process = spawn_with_log(
            &invocation.command(component),
            name,
            &self.component_log(component),
        )
        .context(|| format!("starting {name}"))?;
        self.processes().insert(component, process);
        Ok(())
    }

    fn flags(&self, component: Component) -> Vec<String> {
        let changed = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        let given = match component {
            Component::ApiServer | Component::SecondApiServer => self.options.api_server_flags.as_slice(),
            Component::ControllerManager => &self.options.controller_manager_flags,
            Component::Etcd | Component::Scheduler | Component::Kwok => &[],
        };
        changed.get(&component).map_or(given, Vec::as_slice).to_vec()
    }

    /// Further flags of a component instead of those in [`Options`](crate::Options), from its next start on. So a later
    /// [`ControlPlane::restart_component`] makes an API server that began with `--emulated-version=1.35` one of its true version.
    pub fn set_flags(&self, component: Component, flags: &[&str]) {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let mut changed = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        changed.insert(component, flags);
    }

    /// Starts one more API server on the same etcd, with the same certificates and tokens and the flags of
    /// [`Options`](crate::Options), unless [`ControlPlane::set_flags`] gave it its own; ready when it is. It writes into the same audit
    /// log and ends with the control plane. All other components stay with the first one.
    ///
    /// # Errors
    /// It does not come up, or the cluster is not ours.
    pub async fn start_second_api_server(&self) -> Result<SecondApiServer<'_>, Error> {
        if self.existing {
            let reason = "an existing cluster gets no second API server";
            return Err(Error::Command(reason.to_owned()));
        }
        self.write_second_kubeconfigs()?;
        self.restart_component(Component::SecondApiServer).await?;
        Ok(SecondApiServer(self))
    }

    /// Kills a component (`SIGKILL`). Its data and its port stay reserved for [`ControlPlane::restart_component`].
    pub async fn stop_component(&self, component: Component) {
        let process = self.processes().remove(&component);
        blocking(move || drop(process)).await;
    }

    /// Starts a component again, after killing it if it runs; ready when the API servers are that run.
    ///
    /// # Errors
    /// It does not come up. Where this is an API server or etcd, that takes up to a minute to be said.
    pub async fn restart_component(&self, component: Component) -> Result<(), Error> {
        self.stop_component(component).await;
        self.spawn(component)?;
        let running = self.pids();
        if running.contains_key(&Component::Etcd) {
            for server in [Component::ApiServer, Component::SecondApiServer] {
                if running.contains_key(&server) {
                    self.wait_for_api_server(server).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends a signal such as `STOP` or `CONT` to a component.
    ///
    /// # Errors
    /// The component does not run.
    pub fn signal_component(&self, component: Component, signal: &str) -> Result<(), Error> {
        let processes = self.processes();
        let process = processes
            .get(&component)
            .ok_or(std::io::ErrorKind::NotFound.into());
        let sent = process.and_then(|process| process.signal(signal));
        sent.context(|| format!("signal to {}", component.program()))
    }

    /// The process ids of the running components.
    #[must_use]
    pub fn pids(&self) -> BTreeMap<Component, u32> {
        self.processes()
            .iter()
            .map(|(component, process)| (*component, process.pid()))
            .collect()
    }

    /// The log file of a component.
    #[must_use]
    pub fn component_log(&self, component: Component) -> PathBuf {
        self.folder.join(format!("{}.log", component.log_name()))
    }
}
