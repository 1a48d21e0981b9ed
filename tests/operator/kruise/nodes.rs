//! The nodes of the cluster and their labels.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio::sync::watch;

type Labels = BTreeMap<String, String>;

/// Nodes by name, fed by a watch.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    known: Mutex<BTreeMap<String, Labels>>,
    listed: watch::Sender<bool>,
}

impl Nodes {
    /// Waits for the first complete list.
    pub(crate) async fn ready(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// Names of the nodes that the template's node selector allows, in order. Taints are left aside.
    pub(crate) fn selected_by(&self, template: &Value) -> Vec<String> {
        let wanted = template.pointer("/spec/nodeSelector").and_then(Value::as_object);
        let selected = |labels: &Labels| {
            let mut pairs = wanted.into_iter().flatten();
            pairs.all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
        };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().filter(|(_, labels)| selected(labels));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// Takes in what the watch says, and returns whether something has changed. A node that goes while nobody watches is
    /// missed: none does in a cluster for tests.
    pub(crate) fn absorb(&self, event: Event<Node>) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => false,
            Event::InitDone => !self.listed.send_replace(true),
            Event::InitApply(node) | Event::Apply(node) => {
                let labels = node.labels().clone();
                known.insert(node.name_any(), labels.clone()) != Some(labels)
            }
            Event::Delete(node) => known.remove(&node.name_any()).is_some(),
        }
    }
}
