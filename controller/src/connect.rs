//! The way to the API server: a client whose calls all have an end, and that repeats nothing by itself.
//!
//! A connection that is silent is a dead one: a load balancer or a firewall may have forgotten it, and nobody says so. Watches are
//! therefore ended by the server often, and whatever is silent for longer is given up. Calls are not repeated by the client: what
//! was decided is decided anew, from what is known then, and a lease must not be renewed late.

mod object;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kruise_rollout::area::Area;
use kruise_rollout::workload::GroupKind;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config, Resource};
use serde::de::DeserializeOwned;

use crate::args::Connect;
use crate::backoff::WatchBackoff;
use crate::registration;
use crate::telemetry::chain;

pub(crate) use self::object::{Object, reviewed};

/// Seconds after which the server ends a watch, which is then resumed.
const WATCH_SECONDS: u32 = 30;
/// Objects in one page of a list. A page is in memory as text and as objects at the same time, a multiple of its size.
const PAGE: u32 = 100;
/// How long a connection may be silent, counted from what was last sent or received on it: longer than a watch, and longer than
/// the slowest admission webhook of others may hold up a write (30 s).
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// How long a connection may take to be made.
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);
/// Pause before a watch that cannot be resumed begins anew.
const BEGIN_AGAIN: Duration = Duration::from_secs(1);

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The kubeconfig cannot be used.
    #[error("kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// Neither kubeconfig nor service account.
    #[error("no way to reach a cluster")]
    Infer(#[from] kube::config::InferConfigError),
    /// The client cannot be made of it.
    #[error("client")]
    Client(#[source] Box<kube::Error>),
    /// The API server refuses.
    #[error("API server")]
    Refused(#[source] Box<kube::Error>),
    /// It does not say who we are.
    #[error("the API server does not say who we are")]
    Nobody,
}

/// Follows the objects that `config` selects. A watch that breaks is resumed after a pause, or begun anew with a list where the
/// server does not know any more what happened meanwhile; that it may say in the stream or instead of one.
pub(crate) fn follow_objects<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let begin = move || {
        watcher(api.clone(), config.clone().timeout(WATCH_SECONDS).page_size(PAGE))
            .backoff(WatchBackoff::default())
            .boxed()
    };
    stream::unfold((begin(), false), move |(mut events, expired)| {
        let begin = begin.clone();
        async move {
            if expired {
                tokio::time::sleep(BEGIN_AGAIN).await;
                events = begin();
            }
            let event = events.next().await?;
            // What it resumed from is gone, or the kind is, or the right to it: only a list tells what there is then.
            let expired = matches!(&event,
                Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) if [403, 404, 410].contains(&status.code));
            Some((event, (events, expired)))
        }
    })
}

/// Where a watch is: one namespace, or all.
pub(crate) type Scope = Option<Arc<str>>;

/// Where an area has to be watched.
pub(crate) fn scopes(area: &Area) -> Vec<Scope> {
    if area.is_whole() {
        return vec![None];
    }
    let namespaces = area.namespaces().iter();
    namespaces
        .map(|namespace| Some(namespace.as_str().into()))
        .collect()
}

/// Follows the objects of several scopes at once.
pub(crate) fn follow_each<K>(
    apis: impl IntoIterator<Item = (Scope, Api<K>)>,
) -> impl Stream<Item = (Scope, watcher::Result<watcher::Event<K>>)> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    stream::select_all(apis.into_iter().map(|(scope, api)| {
        follow_objects(api, watcher::Config::default())
            .map(move |event| (scope.clone(), event))
            .boxed()
    }))
}

/// What the lists of several scopes have shown.
pub(crate) struct Listings<T> {
    listed: HashMap<Scope, HashSet<T>>,
    unread: HashSet<Scope>,
}

impl<T: Eq + Hash> Listings<T> {
    /// None of these has been read.
    pub(crate) fn of(scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self {
            listed: HashMap::new(),
            unread: scopes.into_iter().collect(),
        }
    }

    /// A list begins.
    pub(crate) fn begin(&mut self, scope: Scope) {
        self.listed.insert(scope, HashSet::new());
    }

    /// It has this.
    pub(crate) fn has(&mut self, scope: Scope, listed: T) {
        self.listed.entry(scope).or_default().insert(listed);
    }

    /// It ends; what it had.
    pub(crate) fn end(&mut self, scope: &Scope) -> HashSet<T> {
        self.unread.remove(scope);
        self.listed.remove(scope).unwrap_or_default()
    }

    /// Whether the list of each scope has been read once.
    pub(crate) fn all_read(&self) -> bool {
        self.unread.is_empty()
    }
}

/// A client for the cluster that the flags name.
pub(crate) async fn connect(args: &Connect) -> Result<Client, Error> {
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await?,
    };
    config.connect_timeout = Some(CONNECTED_WITHIN);
    config.read_timeout = Some(SILENCE);
    config.write_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    config.default_retry = false;
    Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))
}

/// What has to be known before anything begins.
pub(crate) struct Introduction {
    /// The user name that the API server knows us by: one half of what exempts our own steps from the hold.
    pub(crate) username: String,
    /// The kinds that an earlier process registered.
    pub(crate) registered: Vec<GroupKind>,
}

/// Asks the API server until it answers: one that is away now must not cost the minutes until a container is started again.
pub(crate) async fn introduce(client: &Client, area: &Area) -> Result<Introduction, Error> {
    let user = answered(async || {
        let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
        reviews
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
    });
    let user = user.await?.status.and_then(|status| status.user_info);
    let username = user.and_then(|user| user.username);
    Ok(Introduction {
        username: username.filter(|name| !name.is_empty()).ok_or(Error::Nobody)?,
        registered: answered(async || registration::registered_before(client, area).await).await?,
    })
}

/// Calls until there is an answer; a refusal is one.
async fn answered<T, F: Future<Output = kube::Result<T>>>(mut call: impl FnMut() -> F) -> Result<T, Error> {
    let mut pauses = WatchBackoff::default();
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if matches!(&error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
        {
            return Err(Error::Refused(Box::new(error)));
        }
        tracing::warn!(error = %chain(&error), "The API server does not answer; asking again.");
        tokio::time::sleep(pauses.next().unwrap_or_default()).await;
    }
}
