//! What the controller of the simulated world writes.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::api::{Failure, own_hold};
use super::control::version;
use super::world::{APP, Pod, ROLLOUT, Seen, World};
use crate::api::v1beta1::Rollout;
use crate::names;
use crate::rollout::{Action, PodPatch, Proof, is_left};
use crate::workload::{Guard, PodView};

impl World {
    /// Carries an action out.
    pub(super) fn act(&mut self, seen: &Seen, action: &Action) -> Result<(), Failure> {
        match action {
            Action::Guard => self.guard(seen),
            Action::Confirm => {
                self.arrives()?;
                let of = |rollout: &Option<Rollout>| {
                    rollout.as_ref().map(|rollout| {
                        let metadata = &rollout.metadata;
                        let ends = metadata.deletion_timestamp.is_some();
                        (metadata.uid.clone(), metadata.generation, ends)
                    })
                };
                if of(&self.rollout) == of(&seen.rollout) {
                    self.answered()
                } else {
                    Err(Failure::Raced)
                }
            }
            Action::Edit { patch, .. } => {
                self.arrives()?;
                let mut new = self.workload.clone().ok_or(Failure::Raced)?;
                json_patch::patch(&mut new, patch).map_err(|_| Failure::Raced)?;
                self.put_step(seen, new)?;
                self.answered()
            }
            Action::DropFinalizer => {
                self.arrives()?;
                if let Some(rollout) = &mut self.rollout {
                    rollout.metadata.finalizers = None;
                    if rollout.metadata.deletion_timestamp.is_some() {
                        self.rollout = None;
                    }
                }
                self.touch_rollout(false);
                self.answered()
            }
            Action::Move(_, to_move) => self.carry_out(seen, to_move),
            Action::Replace {
                pod: name,
                uid,
                resource_version,
            } => {
                self.arrives()?;
                let same =
                    |pod: &Pod| pod.uid == *uid && version(pod) == *resource_version && !pod.terminating;
                let mut pods = self.pods.iter();
                let found = pods.find(|(ordinal, pod)| *name == format!("{APP}-{ordinal}") && same(pod));
                let ordinal = found.map(|(ordinal, _)| *ordinal).ok_or(Failure::Raced)?;
                self.oracle_sees_a_replacement(ordinal, seen);
                self.delete_pod(ordinal);
                self.answered()
            }
            Action::Announce(event) | Action::AnnounceOn(_, event) => {
                self.events.push(event.reason);
                Ok(())
            }
            Action::Record => {
                self.arrives()?;
                self.answered()
            }
            Action::LabelPods(patches) => {
                self.arrives()?;
                patches.iter().for_each(|patch| self.label_pod(patch));
                self.answered()
            }
            Action::Disown(_) => self.disown(seen),
        }
    }

    /// A patch of a pod that is not the one that was seen any more fails, and that is all.
    fn label_pod(&mut self, patch: &PodPatch) {
        let ordinal = patch.pod.rsplit_once('-').unwrap().1.parse().unwrap();
        let Some(pod) = self.pods.get_mut(&ordinal) else {
            return;
        };
        let label = |name: &str, value: &Option<String>| value.clone().map(|value| (name.to_owned(), value));
        let labels: BTreeMap<_, _> = [
            label(names::ROLLOUT_ID, &pod.rollout_id),
            label(names::ROLLOUT_BATCH_ID, &pod.batch_id),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut object = json!({"metadata": {"uid": pod.uid, "labels": labels}});
        if json_patch::patch(&mut object, &patch.patch).is_ok() {
            let new = PodView::read(&object);
            (pod.rollout_id, pod.batch_id) = (new.rollout_id, new.batch_id);
            self.label_writes += 1;
        }
    }

    /// Stores an object that the controller has written.
    fn put_step(&mut self, seen: &Seen, new: Value) -> Result<(), Failure> {
        let old = self.object().clone();
        let mut stored = self.admit(new, true).ok_or(Failure::Broken)?;
        self.oracle_sees_an_edit(&stored, seen);
        self.oracle_sees_a_step_of_ours(&old, &stored);
        if self.moves_the_hold(&stored) {
            own_hold(&mut stored, self.adapter, true);
        }
        self.store(stored);
        Ok(())
    }

    fn disown(&mut self, seen: &Seen) -> Result<(), Failure> {
        let Some(mut object) = self.workload.clone() else {
            return Err(Failure::Raced);
        };
        if self.view().partition_is_ours {
            self.arrives()?;
            own_hold(&mut object, self.adapter, false);
            self.put_step(seen, object)?;
            self.answered()?;
        }
        Ok(())
    }

    /// Marks the workload if admission answers.
    fn guard(&mut self, seen: &Seen) -> Result<(), Failure> {
        self.arrives()?;
        let (Some(object), Some(now)) = (&seen.workload, self.workload.clone()) else {
            return Err(Failure::Raced);
        };
        if object["metadata"]["uid"] != now["metadata"]["uid"] || object["spec"] != now["spec"] {
            return Err(Failure::Raced);
        }
        if !self.webhook || self.unreachable {
            let retry = self.now + SignedDuration::from_secs(30);
            let message = "a template change came back as it was: is the webhook reachable?".to_owned();
            self.proof = Proof::Refused {
                reason: "NotHeld",
                message,
                retry,
            };
            return Ok(());
        }
        let view = self.view();
        let text = Guard::text(&view.uid, ROLLOUT, &view.template);
        let left = seen
            .rollout
            .as_ref()
            .is_some_and(|rollout| is_left(rollout, &view));
        if left {
            let mut new = now;
            json_patch::patch(&mut new, &self.adapter.take_over(&view, ROLLOUT).build()).unwrap();
            self.put_step(seen, new)?;
        } else if view.guard().is_none() && view.hold().is_none() {
            let mut new = now;
            json_patch::merge(
                &mut new,
                &json!({"metadata": {"annotations": {names::GUARDED_BY: text}}}),
            );
            self.put_step(seen, new)?;
        }
        self.proof = Proof::Proven;
        self.answered()
    }
}
