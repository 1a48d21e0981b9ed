//! Events on Rollouts and workloads, published one after the other by a task of their own, so that no decision waits for them.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::ObjectReference;
use kruise_rollout::names;
use kruise_rollout::rollout::Announcement;
use kube::Client;
use kube::runtime::events::{Event as KubeEvent, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::telemetry::chain;

/// How many events may wait; more are dropped, since they only tell.
pub(crate) const BACKLOG: usize = 1024;

/// An announcement and what it is about.
pub(crate) struct Event {
    about: ObjectReference,
    pub(crate) announcement: Announcement,
}

impl Event {
    pub(crate) fn new(about: ObjectReference, announcement: Announcement) -> Self {
        Self { about, announcement }
    }
}

/// Publishes until the stop.
pub(crate) async fn publish(
    client: Client,
    mut events: mpsc::Receiver<Event>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let reporter = Reporter::from(names::CONTROLLER);
    while let Some(Some(event)) = stop.run_until_cancelled(events.recv()).await {
        let Event { about, announcement } = event;
        let kube_event = KubeEvent {
            type_: if announcement.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: announcement.reason.to_owned(),
            note: Some(announcement.message),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        // A recorder counts what it is told after the first event of a reason, and keeps the words of that one. What is told here is
        // news: the next step, other pods, another number. So each is an event of its own.
        let recorder = Recorder::new(client.clone(), reporter.clone());
        if let Err(error) = recorder.publish(&kube_event, &about).await {
            tracing::debug!(
                error = %chain(&error),
                "An event was not published."
            );
        }
    }
    Ok(())
}
