//! The API server of the simulated world: what a write meets on its way into the store.

use serde_json::{Value, json};

use super::world::{ROLLOUT, World, nested};
use crate::admission::workload::{Write, review};
use crate::names;
use crate::workload::Adapter;

/// What befalls one write of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing: it is the one after it that fails.
    None,
    /// 409, or 422 of a test: as if somebody else had been faster.
    Conflict,
    /// 403: the right is missing.
    Refused,
    /// 500 before anything is stored.
    Broken,
    /// It is stored, but the answer does not arrive.
    Lost,
}

/// How a write of the controller failed, as the controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Raced,
    Refused,
    Broken,
}

/// Another webhook, called before ours, that changes the template of every update of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Injection {
    None,
    /// The same annotation each time.
    Constant,
    /// Another annotation each time.
    Counter,
}

/// The annotation of the template that the other webhook sets.
pub(super) const INJECTED: &str = "injected";

impl World {
    /// The next write of the controller: what befalls it before it is stored.
    pub(super) fn arrives(&mut self) -> Result<(), Failure> {
        match self.faults.front() {
            Some(Fault::Lost | Fault::None) | None => Ok(()),
            Some(Fault::Conflict) => self.lost(Failure::Raced),
            Some(Fault::Refused) => self.lost(Failure::Refused),
            Some(Fault::Broken) => self.lost(Failure::Broken),
        }
    }

    fn lost(&mut self, failure: Failure) -> Result<(), Failure> {
        self.faults.pop_front();
        Err(failure)
    }

    /// The same write once it is stored: whether its answer arrives.
    pub(super) fn answered(&mut self) -> Result<(), Failure> {
        match self.faults.front() {
            Some(Fault::Lost) => self.lost(Failure::Broken),
            Some(Fault::None) => {
                self.faults.pop_front();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What admission makes of an update of the workload; `None`: it is refused, since our webhook does not answer.
    pub(super) fn admit(&mut self, mut new: Value, by_controller: bool) -> Option<Value> {
        self.inject(&mut new);
        self.set_defaults(&mut new);
        let old = self.object();
        let labelled = |object: &Value| object["metadata"]["labels"].get(names::WORKLOAD_TYPE).is_some();
        let own_step = by_controller && old["spec"]["template"] == new["spec"]["template"];
        if own_step || !(labelled(old) || labelled(&new)) || !touches_the_hold(old, &new) || !self.webhook {
            return Some(new);
        }
        if self.unreachable {
            return None;
        }
        let claimed_by = self.is_wanted().then_some(ROLLOUT);
        let mut write = Write {
            old,
            new: &new,
            by_controller,
            claimed_by,
        };
        let mut stored = new.clone();
        json_patch::patch(&mut stored, &review(self.adapter, write).patch).unwrap();
        self.set_defaults(&mut stored);
        write.new = &stored;
        let again = review(self.adapter, write).patch;
        assert!(again.0.is_empty(), "not idempotent: {again:?}");
        Some(stored)
    }

    fn inject(&mut self, new: &mut Value) {
        let value = match self.injection {
            Injection::None => return,
            Injection::Constant => "constant".to_owned(),
            Injection::Counter => self.tick(),
        };
        let metadata = &mut new["spec"]["template"]["metadata"];
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        metadata["annotations"][INJECTED] = json!(value);
    }

    /// Stores an object under the name of the present one.
    pub(super) fn store(&mut self, mut new: Value) {
        let old = self.object();
        if new == *old {
            return;
        }
        if new["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap();
            new["metadata"]["generation"] = json!(generation + 1);
        }
        new["metadata"]["resourceVersion"] = json!(self.tick());
        let (was, before) = (self.view().partition, self.view().replicas);
        self.put_in_place(new);
        let view = self.view();
        self.oracle.steady &= view.replicas == before;
        if view.partition != was {
            let pods = view.partition.map(|partition| partition.pods(view.replicas));
            self.partitions.push(pods);
        }
        self.oracle_looks();
    }
}

/// Puts the fields where the hold is under our field manager, or takes them away.
pub(super) fn own_hold(object: &mut Value, adapter: &dyn Adapter, ours: bool) {
    if !ours {
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        return;
    }
    let mut fields = json!({});
    for path in adapter.paths().means.paths() {
        let path: Vec<_> = path.iter().map(|name| format!("f:{name}")).collect();
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        json_patch::merge(&mut fields, &nested(&path, json!({})));
    }
    let entry = json!([{"manager": names::FIELD_MANAGER, "operation": "Update", "fieldsV1": fields}]);
    object["metadata"]["managedFields"] = entry;
}

/// The `matchConditions` of our webhook.
fn touches_the_hold(old: &Value, new: &Value) -> bool {
    let marks = [&[names::GUARDED_BY], names::RELEASE_MARKS.as_slice()].concat();
    let spec = |name: &str| old["spec"].get(name) != new["spec"].get(name);
    let differs = |map: &str, name: &str| old["metadata"][map].get(name) != new["metadata"][map].get(name);
    let held = old["metadata"]["annotations"]
        .get(names::IN_PROGRESSING)
        .is_some();
    let loosened = || {
        ["updateStrategy", "strategy", "paused", "replicas"]
            .into_iter()
            .any(spec)
            || differs("labels", names::WORKLOAD_TYPE)
    };
    spec("template") || marks.into_iter().any(|mark| differs("annotations", mark)) || held && loosened()
}
