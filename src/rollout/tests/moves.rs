//! The moves of the controller in the simulated world, of kinds whose operator is kept from moving pods.

use serde_json::Value;

use super::api::Failure;
use super::control::version;
use super::world::{APP, Pod, Seen, World, revision};
use crate::names;
use crate::workload::daemonset::{Spot, of_revision};
use crate::workload::{Move, Premise, PutBack, Revision, RevisionKind};

impl World {
    pub(super) fn carry_out(&mut self, seen: &Seen, to_move: &Move) -> Result<(), Failure> {
        match to_move {
            Move::Create { premise, replicas } => {
                self.holds(premise)?;
                self.make_our_set(seen, *replicas)
            }
            Move::Resize {
                premise,
                revision,
                patch,
            } => {
                self.holds(premise)?;
                self.resize(seen, revision, patch)
            }
            Move::Delete {
                premise,
                pod,
                uid,
                resource_version,
            } => {
                self.holds(premise)?;
                self.ask_to_leave(pod, uid, resource_version, false)
            }
            Move::PutBack(back) => self.put_back(back),
        }
    }

    /// Fails unless the workload is as it was seen.
    fn holds(&self, premise: &Premise) -> Result<(), Failure> {
        let object = self.workload.as_ref().ok_or(Failure::Raced)?;
        premise.holds(object).then_some(()).ok_or(Failure::Raced)
    }

    fn make_our_set(&mut self, seen: &Seen, replicas: u32) -> Result<(), Failure> {
        self.arrives()?;
        let object = self.object().clone();
        let set = self.adapter.revision(&object, replicas).unwrap();
        if self
            .revisions
            .iter()
            .any(|other| other["metadata"]["name"] == set["metadata"]["name"])
        {
            return Err(Failure::Raced);
        }
        self.oracle_sees_our_size(seen, None, replicas);
        self.put_set(set);
        self.answered()
    }

    fn resize(&mut self, seen: &Seen, name: &str, patch: &json_patch::Patch) -> Result<(), Failure> {
        self.arrives()?;
        let mut sets = self.revisions.iter();
        let place = sets
            .position(|set| set["metadata"]["name"] == *name)
            .ok_or(Failure::Raced)?;
        let mut set = self.revisions[place].clone();
        json_patch::patch(&mut set, patch).map_err(|_| Failure::Raced)?;
        set["metadata"]["resourceVersion"] = Value::from(self.tick());
        let size = Revision::read(RevisionKind::ReplicaSet, &set).replicas;
        self.oracle_sees_our_size(seen, Some(place), size);
        self.revisions[place] = set;
        self.answered()
    }

    /// Deletes a pod, if it is still this very one in this very state.
    fn ask_to_leave(&mut self, name: &str, uid: &str, state: &str, back: bool) -> Result<(), Failure> {
        self.arrives()?;
        let number: u32 = name.rsplit_once('-').unwrap().1.parse().unwrap();
        let same = |pod: &&Pod| pod.uid == uid && version(pod) == state && !pod.terminating;
        let node = self
            .pods
            .get(&number)
            .filter(same)
            .ok_or(Failure::Raced)?
            .node
            .unwrap();
        self.delete_pod(number);
        if back {
            // Should the other one come first, it is one that nobody asked for.
            self.oracle.unasked.insert(node);
        } else {
            self.oracle_sees_our_deletion(node);
        }
        self.answered()
    }

    fn put_back(&mut self, back: &PutBack) -> Result<(), Failure> {
        let mut records = self.revisions.iter();
        let record = records.find(|record| record["metadata"]["name"] == back.revision);
        let node: u32 = back.node[1..].parse().unwrap();
        let spot = Spot {
            daemonset: APP,
            uid: &back.premise.uid,
            node: &back.node,
            instead_of: &back.uid,
        };
        let made = record
            .and_then(|record| of_revision(record, &spot))
            .ok_or(Failure::Raced)?;
        self.holds(&back.premise)?;
        if let Some(state) = &back.resource_version {
            self.ask_to_leave(&back.pod, &back.uid, state, true)?;
        }
        self.arrives()?;
        let instead_of = Some(back.uid.clone());
        if self.pods.values().all(|pod| pod.instead_of != instead_of) {
            let mut pod = self.new_pod(&made);
            (pod.node, pod.instead_of) = (Some(node), instead_of);
            assert_eq!(
                made["metadata"]["labels"][names::CONTROLLER_REVISION_HASH],
                revision(&made)
            );
            self.add_pod(pod);
        }
        self.answered()
    }
}
