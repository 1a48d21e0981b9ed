//! The programs of a control plane and how each is run.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::{Assets, credentials};

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// A second kube-apiserver on the same etcd; runs only after [`crate::ControlPlane::start_second_api_server`].
    SecondApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok: the node and its pods.
    Kwok,
}

impl Component {
    /// The name of the program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer | Self::SecondApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// What its log is named after.
    pub(crate) fn log_name(self) -> &'static str {
        match self {
            Self::SecondApiServer => "second-kube-apiserver",
            other => other.program(),
        }
    }

    /// Whom the program is for the API server; its kubeconfig is named after it.
    pub(crate) fn user(self) -> &'static str {
        match self {
            Self::Etcd | Self::ApiServer | Self::SecondApiServer => "admin",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::Scheduler => "system:kube-scheduler",
            Self::Kwok => "kwok",
        }
    }
}

/// Loopback ports of one control plane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api_server: u16,
    pub(crate) second_api_server: u16,
}

impl Ports {
    pub(crate) fn free() -> Self {
        Self {
            etcd: free_port(),
            etcd_peer: free_port(),
            api_server: free_port(),
            second_api_server: free_port(),
        }
    }
}

/// A loopback port that nobody listens on now.
///
/// It is taken below the range from which outgoing connections get theirs, and a process does not hand out the same one
/// twice in a row, so that only another process that looks at the same instant can be in the way.
#[must_use]
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        use std::hash::{BuildHasher as _, RandomState};
        AtomicU16::new((RandomState::new().hash_one(std::process::id()) % u64::from(COUNT)) as u16)
    });
    loop {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Files in the folder of a control plane.
pub(crate) const AUDIT_LOG: &str = "audit.log";
pub(crate) const AUDIT_POLICY: &str = "audit-policy.yaml";
pub(crate) const STAGES: &str = "stages.yaml";
pub(crate) const TOKENS: &str = "tokens.csv";

/// What a component is started with.
pub(crate) struct Invocation<'a> {
    pub(crate) assets: &'a Assets,
    pub(crate) folder: &'a Path,
    pub(crate) ports: Ports,
    /// Further flags.
    pub(crate) flags: &'a [String],
}

impl Invocation<'_> {
    /// The command line of a component.
    pub(crate) fn command(&self, component: Component) -> Command {
        let mut command = Command::new(self.assets.program(component.program()));
        match component {
            Component::Etcd => self.etcd(&mut command),
            Component::ApiServer => self.api_server(&mut command, self.ports.api_server),
            Component::SecondApiServer => self.api_server(&mut command, self.ports.second_api_server),
            Component::ControllerManager => self.controller_manager(&mut command),
            Component::Scheduler => self.scheduler(&mut command),
            Component::Kwok => self.kwok(&mut command),
        }
        command.args(self.flags).current_dir(self.folder);
        command
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn kubeconfig(&self, component: Component) -> String {
        self.file(&kubeconfig_name(component.user()))
    }

    fn etcd(&self, command: &mut Command) {
        let client = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer);
        command.args([
            // The data is thrown away; a killed process does not lose what it has handed to the kernel.
            "--unsafe-no-fsync".to_owned(),
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=warn".to_owned(),
        ]);
    }

    fn api_server(&self, command: &mut Command, port: u16) {
        let service_account_key = self.file(credentials::SERVICE_ACCOUNT_KEY);
        let service_account_public_key = self.file(credentials::SERVICE_ACCOUNT_PUBLIC_KEY);
        command.args([
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", self.file(credentials::SERVING_CERTIFICATE)),
            format!("--tls-private-key-file={}", self.file(credentials::SERVING_KEY)),
            format!("--token-auth-file={}", self.file(TOKENS)),
            format!("--client-ca-file={}", self.file(credentials::CA)),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-signing-key-file={service_account_key}"),
            format!("--service-account-key-file={service_account_public_key}"),
            "--allow-privileged=true".to_owned(),
            // Pods need no token, and so need not wait for their ServiceAccount.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--audit-policy-file={}", self.file(AUDIT_POLICY)),
            format!("--audit-log-path={}", self.file(AUDIT_LOG)),
            // Megabytes; the file must not be rotated away under a reader.
            "--audit-log-maxsize=100000".to_owned(),
        ]);
    }

    fn controller_manager(&self, command: &mut Command) {
        command.args([
            format!("--kubeconfig={}", self.kubeconfig(Component::ControllerManager)),
            format!(
                "--service-account-private-key-file={}",
                self.file(credentials::SERVICE_ACCOUNT_KEY)
            ),
            format!("--root-ca-file={}", self.file(credentials::CA)),
            "--leader-elect=false".to_owned(),
            // No port of its own: whether it works is seen by what it does.
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            // On a busy machine a late heartbeat must not make pods unready.
            "--node-monitor-grace-period=10m".to_owned(),
        ]);
    }

    fn scheduler(&self, command: &mut Command) {
        // Flags for the request rate count only without a configuration file.
        command.args([
            format!("--kubeconfig={}", self.kubeconfig(Component::Scheduler)),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ]);
    }

    fn kwok(&self, command: &mut Command) {
        command.args([
            format!("--kubeconfig={}", self.kubeconfig(Component::Kwok)),
            format!("--config={}", self.file(STAGES)),
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
        ]);
    }
}

/// The file name of the kubeconfig of a user.
pub(crate) fn kubeconfig_name(user: &str) -> String {
    format!("{}.kubeconfig", user.trim_start_matches("system:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ() {
        let ports = [free_port(), free_port(), free_port()];
        assert!(
            ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2],
            "{ports:?}"
        );
    }
}
