//! Everybody in the simulated world together.

use super::world::{Pods, World};
use crate::api::v1beta1::step_state;
use crate::names;
use crate::rollout::{Action, Proof, Wake};

impl World {
    /// The controller looks at what it made until it wants nothing more, which must be soon.
    pub(super) fn quiet(&mut self) {
        for _ in 0..8 + self.faults.len() {
            let before = self.state();
            self.control();
            if self.state() == before {
                return self.check();
            }
        }
        panic!(
            "the controller does not come to rest: {self:?} {:?}",
            self.status()
        );
    }

    /// Everybody acts until nothing changes, without time passing. Then the controller must be silent.
    pub(super) fn settle(&mut self) {
        if self.adapter.paths().revisions.is_some() {
            // It would write over what we write, again and again.
            self.frozen = None;
        }
        for _ in 0..400 {
            let before = self.state();
            self.control();
            // What it wrote it sees before the operator does.
            self.control();
            self.operate();
            self.kubelet();
            if self.state() == before {
                self.oracle_sees_rest();
                self.check();
                if self.frozen.is_none() {
                    self.check_labels();
                }
                return;
            }
        }
        panic!(
            "the world does not settle: {} {:?} {:?}",
            self.at(),
            self.object(),
            self.pods
        );
    }

    /// Whether anything has changed is seen here.
    fn state(&self) -> (u64, Pods, Proof, bool, usize) {
        let memory = (self.proof.clone(), self.watching);
        (
            self.clock,
            self.pods.clone(),
            memory.0,
            memory.1,
            self.faults.len(),
        )
    }

    /// The controller wants nothing of a world that is settled, nor does one that comes after it, and nothing has escaped.
    pub(super) fn check(&self) {
        for first_look in [false, true] {
            let mut decision = self.decide_at(&self.seen(), first_look);
            // Each process says once that there is no Rollout any more: nothing is left that could remember it.
            decision.actions.retain(|action| {
                !matches!(action, Action::AnnounceOn(_, event) if first_look && event.reason == "KeptHeld")
            });
            let quiet = decision.actions.is_empty() && decision.status.is_none();
            assert!(quiet, "not silent: {:?}\n{:?}", decision.actions, decision.status);
        }
        assert_eq!(self.oracle.breaches, Vec::<String>::new());
    }

    /// People approve and time passes until the Rollout is Healthy.
    pub(super) fn finish(&mut self) {
        for _ in 0..30 {
            self.settle();
            if self.status().phase == "Healthy" {
                return;
            }
            if let Wake::At(at) = self.decide(&self.seen()).wake {
                self.now = self.now.max(at);
            } else {
                self.approve();
            }
            self.oracle_looks();
        }
        panic!(
            "no end: {} {:?} {:?}\n{:?}",
            self.at(),
            self.object(),
            self.pods,
            self.status()
        );
    }

    /// What must hold at the end: Healthy, no release marks, every pod on the image, this partition.
    pub(super) fn assert_done(&self, image: &str, partition: Option<i64>) {
        assert_eq!(self.status().phase, "Healthy", "{}", self.status().message);
        assert_eq!(self.canary().current_step_state, step_state::COMPLETED);
        assert_eq!(self.marks(), [names::GUARDED_BY]);
        assert_eq!(
            self.view().guard().unwrap().stable.as_ref(),
            Some(&self.view().template)
        );
        assert_eq!(self.partition(), partition);
        assert_eq!(
            self.on(image).len(),
            self.view().replicas as usize,
            "{:?}",
            self.pods
        );
    }
}
