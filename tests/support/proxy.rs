//! A proxy between a controller and the API server: it shows every request, and makes faults of the network and of the server.
//!
//! It speaks plain HTTP on loopback; towards the API server it is a client that adds nothing, so that the controller stays who it
//! is. Faults are data: a rule says for each request what is done with it instead of handing it on, and what happens to watches
//! that are open is said to all of them at once.

mod connection;
mod rule;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kube::config::{AuthInfo, Kubeconfig};
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;

use self::rule::{Choice, Rules};
pub use self::rule::{Fault, Rule, Side};
use crate::{ControlPlane, Error, Identity, IoContext as _};

/// A request of the controller.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `PATCH`, …
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// The bearer token.
    pub token: String,
    /// When it arrived.
    pub at: Instant,
}

impl Request {
    /// Whether it asks for a change of the world: no dry-run, no lease, no event and no review.
    #[must_use]
    pub fn is_write(&self) -> bool {
        let tells = ["/leases", "/events", "reviews"]
            .iter()
            .any(|part| self.uri.contains(part));
        self.method != "GET" && !tells && !self.uri.contains("dryRun=All")
    }

    /// Whether it is about the lease.
    #[must_use]
    pub fn is_of_lease(&self) -> bool {
        self.uri.contains("/leases")
    }

    /// Whether it opens a watch.
    #[must_use]
    pub fn is_watch(&self) -> bool {
        self.uri.contains("watch=true")
    }

    /// Whether it lists objects of this plural.
    #[must_use]
    pub fn lists(&self, plural: &str) -> bool {
        let path = self.uri.split('?').next().unwrap_or_default();
        self.method == "GET" && !self.is_watch() && path.ends_with(&format!("/{plural}"))
    }

    /// Whether it is about objects of this plural.
    #[must_use]
    pub fn is_of(&self, plural: &str) -> bool {
        let path = self.uri.split('?').next().unwrap_or_default();
        path.split('/').any(|part| part == plural)
    }
}

/// What happens to open watches.
#[derive(Clone, Debug)]
pub enum Interruption {
    /// The connection breaks.
    Cut,
    /// These bytes are sent, as if the server had sent them.
    Send(String),
    /// These bytes are sent, then the answer ends as if it were whole.
    End(String),
}

/// The proxy, until dropped.
pub struct Proxy {
    state: Arc<State>,
    address: String,
    folder: PathBuf,
    /// The controller's kubeconfig, through the proxy.
    kubeconfig: PathBuf,
    _accepting: JoinSet<()>,
}

type Interrupted = (Arc<dyn Fn(&Request) -> bool + Send + Sync>, Interruption);

/// What all connections share.
struct State {
    upstream: Client,
    requests: Mutex<Vec<Request>>,
    rules: Rules,
    interruptions: broadcast::Sender<Interrupted>,
    /// Connections until now, which are numbered from 0.
    accepted: AtomicU64,
    /// Connections with a lower number are dead: nothing comes out of them, and they stay open.
    dead_below: watch::Sender<u64>,
    refusing: watch::Sender<bool>,
}

impl Proxy {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// No port, or the kubeconfig cannot be used or written.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self, Error> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context(|| "binding a port".to_owned())?;
        let address = listener
            .local_addr()
            .context(|| "reading a port".to_owned())?
            .to_string();
        let mut config: Config = control_plane.config(Identity::Admin).await?;
        config.auth_info = AuthInfo::default();
        config.default_retry = false;
        let state = Arc::new(State {
            upstream: Client::try_from(config)?,
            requests: Mutex::default(),
            rules: Rules::default(),
            interruptions: broadcast::channel(64).0,
            accepted: AtomicU64::new(0),
            dead_below: watch::Sender::new(0),
            refusing: watch::Sender::new(false),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(connection::accept(listener, state.clone()));
        let mut proxy = Self {
            state,
            folder: control_plane.folder().to_owned(),
            address,
            kubeconfig: PathBuf::new(),
            _accepting: accepting,
        };
        let kubeconfig = Kubeconfig::read_from(control_plane.kubeconfig(Identity::Controller))?;
        proxy.kubeconfig = proxy.write(kubeconfig, "controller")?;
        Ok(proxy)
    }

    fn write(&self, mut kubeconfig: Kubeconfig, name: &str) -> Result<PathBuf, Error> {
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|named| named.cluster.as_mut())
        {
            cluster.server = Some(format!("http://{}", self.address));
            cluster.certificate_authority = None;
        }
        let port = self.address.rsplit(':').next().unwrap_or_default();
        let path = self.folder.join(format!("{name}-through-{port}.kubeconfig"));
        // JSON is YAML.
        let text = serde_json::to_string(&kubeconfig).map_err(kube::Error::SerdeError)?;
        std::fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// The controller's kubeconfig, through the proxy.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The same, with the token in a file, as a pod has it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn kubeconfig_with_token_file(&self, token: &Path) -> Result<PathBuf, Error> {
        let mut kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        for user in kubeconfig
            .auth_infos
            .iter_mut()
            .filter_map(|named| named.auth_info.as_mut())
        {
            user.token = None;
            user.token_file = Some(token.display().to_string());
        }
        self.write(kubeconfig, "token-file")
    }

    /// Every request until now, in the order of their arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.state.requests).clone()
    }

    /// From now on this decides for each request whether there is a fault, until the rule is dropped. The first rule that has one
    /// decides.
    #[must_use]
    pub fn rule(&self, choose: impl FnMut(&Request) -> Option<Fault> + Send + 'static) -> Rule {
        let choose: Choice = Box::new(choose);
        self.state.rules.add(choose)
    }

    /// The same fault for each request of this kind.
    #[must_use]
    pub fn fault(&self, fault: Fault, which: impl Fn(&Request) -> bool + Send + 'static) -> Rule {
        self.rule(move |request| which(request).then_some(fault))
    }

    /// Something happens to the open watches whose requests are of this kind.
    pub fn interrupt(
        &self,
        interruption: Interruption,
        which: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) {
        // Without an open watch nobody listens.
        let _ = self.state.interruptions.send((Arc::new(which), interruption));
    }

    /// All present connections stay open, swallow what is sent, and say nothing any more. New ones work.
    pub fn kill_connections_in_silence(&self) {
        let accepted = self.state.accepted.load(Ordering::Relaxed);
        self.state.dead_below.send_replace(accepted);
    }

    /// Breaks all connections and refuses new ones, or accepts them again.
    pub fn refuse(&self, refuse: bool) {
        self.state.refusing.send_replace(refuse);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
