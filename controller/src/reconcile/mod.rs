//! The driver: observe → decide → apply → write the status.
//!
//! Workers take keys from the queue. Reads come from the stores; what is written carries tests of what was read, so a stale read
//! loses (409, or 422 of a failed test) and the world is looked at again.

mod apply;
mod guard;
mod labels;
mod moves;
mod put_back;
mod record;
mod status;

pub(crate) use self::apply::drop_entries;
pub(crate) use self::guard::is_held_by_policies;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::rollout::{
    Action, Children, Decision, Observed, Stray, Target, Wake, Workload, decide, refused,
};
use kruise_rollout::workload::adapter_for;
use kube::Resource as _;
use kube::core::Status;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::events::Event;
use crate::lease::{Leadership, Term};
use crate::queue::Turn;
use crate::telemetry::chain;
use crate::world::{Key, Snapshot, Watch};

/// Works until the stop, while this replica leads; what is being done at the stop is finished, what is being done when the lease
/// is lost is abandoned.
pub(crate) async fn work(
    context: Arc<Context>,
    leadership: Leadership,
    workers: u16,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let mut tasks = JoinSet::new();
    let first_looks = look_at_all(context.clone(), leadership.clone());
    let until = stop.clone();
    tasks.spawn(async move {
        until.run_until_cancelled(first_looks).await;
    });
    for _ in 0..workers {
        let (context, mut leadership, stop) = (context.clone(), leadership.clone(), stop.clone());
        tasks.spawn(async move {
            while stop.run_until_cancelled(leadership.gained()).await.is_some() {
                let Some(key) = stop.run_until_cancelled(context.queue.next()).await else {
                    break;
                };
                let turn = match leadership.term() {
                    Some(term) => tokio::select! {
                        turn = reconcile(&context, &key, term) => turn,
                        () = leadership.lost() => Turn::Failed,
                    },
                    None => Turn::Failed,
                };
                context.queue.end(&key, turn);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic.into_panic());
        }
    }
    Ok(())
}

/// Queues all Rollouts whenever this replica begins to write: a first look that waits for a change would take that one for a change
/// of before.
async fn look_at_all(context: Arc<Context>, mut leadership: Leadership) -> Infallible {
    loop {
        leadership.gained().await;
        context.look_at(context.world.rollout_keys(None));
        leadership.lost().await;
    }
}

/// Why a turn ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The world has moved since it was read.
    #[error("the object has changed since it was read")]
    Raced(#[source] Box<kube::Error>),
    /// The Rollout is another one than the stores have.
    #[error("the Rollout has changed since it was seen to end")]
    Back,
    /// The workload is another one, or has another template, than was read.
    #[error("the workload has changed since it was read")]
    Stale,
    /// The object is gone.
    #[error("the object is gone")]
    Gone(#[source] Box<kube::Error>),
    /// The API server will not have it: what it says.
    #[error("the API server refuses: {0}")]
    Refused(String),
    /// Anything else that the API server or the way to it says.
    #[error("API server")]
    Api(#[source] Box<kube::Error>),
    /// Another webhook changes the template in our writes.
    #[error("another mutating webhook changes the template in a write of ours")]
    Rewritten,
    /// Not yet: again after so long.
    #[error("not before {0:?}")]
    Later(Duration),
    /// The kind is not known any more.
    #[error("the kind is not watched any more")]
    NoKind,
    /// An object that is no JSON.
    #[error("object is not JSON")]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if is_verdict(status) => Self::Refused(status.message.clone()),
            kube::Error::Api(status) if matches!(status.code, 409 | 422) => Self::Raced(Box::new(error)),
            kube::Error::Api(status) if status.code == 404 => Self::Gone(Box::new(error)),
            _ => Self::Api(Box::new(error)),
        }
    }
}

/// A refusal for what was sent, as against a lost race (a test that failed: 422 without details) or a fault.
fn is_verdict(status: &Status) -> bool {
    match status.code {
        400 | 403 => true,
        422 => status
            .details
            .as_ref()
            .is_some_and(|details| !details.causes.is_empty()),
        _ => false,
    }
}

async fn reconcile(context: &Arc<Context>, key: &Key, term: Term) -> Turn {
    let began = Instant::now();
    let Some(snapshot) = context.world.snapshot(key, term) else {
        return Turn::Done;
    };
    let now = Timestamp::now();
    let decision = decide(&observe(context, key, &snapshot, now));
    let (outcome, turn) = match apply(context, key, &snapshot, &decision).await {
        Ok(wake) => {
            let seen = snapshot.rollout.is_none() || matches!(snapshot.seen, Some(Ok(_)));
            if snapshot.first_look && seen {
                // Nothing was awaited since the events were told, so they are not told again.
                context.world.looked(key, term);
            }
            let outcome = if decision.actions.is_empty() && decision.status.is_none() {
                "silent"
            } else {
                "acted"
            };
            (outcome, turn(wake, now))
        }
        Err(Error::Later(pause)) => ("waits", Turn::After(pause)),
        Err(
            error @ (Error::Raced(_)
            | Error::Back
            | Error::Stale
            | Error::Gone(_)
            | Error::NoKind
            | Error::Rewritten),
        ) => {
            tracing::debug!(rollout = %key, error = %chain(&error), "Looks again.");
            ("raced", Turn::Failed)
        }
        Err(error) => {
            tracing::warn!(rollout = %key, error = %chain(&error), "Could not go on.");
            if let (Error::Refused(answer), Some(rollout)) = (&error, &snapshot.rollout) {
                tell_refusal(context, key, rollout, answer, now).await;
            }
            ("failed", Turn::Failed)
        }
    };
    context.metrics.reconciled(outcome, began.elapsed());
    turn
}

/// Says in the status what the API server will not have: otherwise the Rollout would wait in silence.
async fn tell_refusal(context: &Context, key: &Key, rollout: &Rollout, answer: &str, now: Timestamp) {
    let Some(status) = refused(rollout, answer, now) else {
        return;
    };
    if let Err(error) = status::write(context, key, rollout, &status).await {
        tracing::warn!(rollout = %key, error = %chain(&error), "The status cannot be written either.");
    }
}

fn turn(wake: Wake, now: Timestamp) -> Turn {
    match wake {
        Wake::OnChange => Turn::Done,
        Wake::At(at) => Turn::After(at.duration_since(now).try_into().unwrap_or_default()),
    }
}

/// What `decide` sees of a snapshot.
fn observe<'a>(context: &'a Context, key: &'a Key, snapshot: &'a Snapshot, now: Timestamp) -> Observed<'a> {
    let adapter = snapshot
        .workload
        .as_ref()
        .and_then(|workload| adapter_for(&workload.kind));
    let target = match (&snapshot.watch, adapter, &snapshot.seen) {
        _ if snapshot.rollout.is_none() => Target::Missing,
        (_, None, _) => Target::Unsupported,
        (Watch::NoKind, ..) => Target::NoKind,
        (Watch::Refused(answer), ..) => Target::Unreadable(answer.clone()),
        (Watch::Starting, _, None) => Target::Pending,
        (_, _, None) => Target::Missing,
        (_, _, Some(Err(unreadable))) => Target::Malformed(unreadable.error.clone()),
        (_, Some(adapter), Some(Ok(view))) => Target::Present {
            adapter,
            view,
            children: snapshot.pods.as_deref().map_or(Children::Unknown, Children::Pods),
            revisions: &snapshot.revisions,
            proof: &snapshot.proof,
        },
    };
    Observed {
        rollout: snapshot.rollout.as_deref(),
        namespace: &key.namespace,
        name: &key.name,
        workload: snapshot.workload.as_ref(),
        target,
        strays: snapshot
            .strays
            .iter()
            .map(|(workload, adapter, view)| Stray {
                workload,
                adapter: *adapter,
                view,
            })
            .collect(),
        rival: snapshot.rival.as_deref(),
        own_namespace: context.area.own(),
        beside_another: *context.beside_another.borrow(),
        replace_stuck_pods: context.replace_stuck_pods,
        keeps_held: context.keeps_held,
        first_look: snapshot.first_look,
        now,
    }
}

/// Which Rollout it is and what it asks for: two copies that differ in this lead to different decisions.
fn asked(rollout: &Rollout) -> (Option<&str>, Option<i64>, Option<&Time>) {
    let metadata = &rollout.metadata;
    (
        metadata.uid.as_deref(),
        metadata.generation,
        metadata.deletion_timestamp.as_ref(),
    )
}

/// Does what was decided, in order, then remembers it; returns when to look again. Events come last, since they tell of what has
/// been done.
async fn apply(
    context: &Arc<Context>,
    key: &Key,
    snapshot: &Snapshot,
    decision: &Decision,
) -> Result<Wake, Error> {
    let mut wake = decision.wake;
    let mut events = Vec::new();
    for action in &decision.actions {
        match action {
            Action::Guard => guard::guard(context, key, snapshot).await?,
            Action::Confirm => apply::confirm(context, key, snapshot).await?,
            Action::Record => record::record_target(context, key, snapshot).await?,
            Action::Edit {
                workload,
                kind,
                patch,
            } => {
                apply::edit(context, key, workload, *kind, patch).await?;
            }
            Action::LabelPods(pods) => {
                if let Some(pause) = labels::write(context, key, pods).await {
                    wake = wake.sooner(Timestamp::now() + pause);
                }
            }
            Action::Disown(workload) => apply::disown(context, key, workload).await?,
            Action::Move(workload, to_move) => {
                if let Some(pause) = moves::carry_out(context, key, workload, to_move).await? {
                    wake = wake.sooner(Timestamp::now() + pause);
                }
            }
            Action::Replace {
                pod,
                uid,
                resource_version,
            } => apply::replace(context, key, pod, uid, resource_version).await?,
            Action::DropFinalizer => apply::drop_finalizer(context, key, snapshot).await?,
            Action::Announce(announcement) => {
                let about = snapshot.rollout.as_ref().map(|rollout| rollout.object_ref(&()));
                events.extend(about.map(|about| Event::new(about, announcement.clone())));
            }
            Action::AnnounceOn(workload, announcement) => {
                // What it tells has been done, whatever becomes of the rest; nobody would tell it later.
                if let Some(about) = stray_ref(context, key, snapshot, workload) {
                    tell(context, key, Event::new(about, announcement.clone()));
                }
            }
        }
    }
    if let (Some(rollout), Some(status)) = (&snapshot.rollout, &decision.status) {
        status::write(context, key, rollout, status).await?;
    }
    for event in events {
        tell(context, key, event);
    }
    Ok(wake)
}

/// A full backlog drops the event: it only tells.
fn tell(context: &Context, key: &Key, event: Event) {
    tracing::info!(rollout = %key, reason = event.announcement.reason, "{}", event.announcement.message);
    let _ = context.events.try_send(event);
}

/// Reference to a stray workload, for events.
fn stray_ref(
    context: &Context,
    key: &Key,
    snapshot: &Snapshot,
    workload: &Workload,
) -> Option<ObjectReference> {
    let (_, _, view) = snapshot.strays.iter().find(|(stray, ..)| stray == workload)?;
    let resource = context.world.resource(&workload.kind)?;
    Some(ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        namespace: Some(key.namespace.clone()),
        name: Some(workload.name.clone()),
        uid: Some(view.uid.clone()),
        ..ObjectReference::default()
    })
}
