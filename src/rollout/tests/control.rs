//! The controller of the simulated world: it observes, decides and applies.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::api::{Failure, own_partition};
use super::world::{APP, NAMESPACE, Pod, Pods, ROLLOUT, Seen, World, app, brief};
use crate::api::v1beta1::{Rollout, RolloutStatus, step_state};
use crate::lens::FieldError;
use crate::names;
use crate::rollout::{
    Action, Children, Decision, Observed, PodPatch, Proof, Stray, Target, Wake, Workload, decide, is_left,
    refused,
};
use crate::workload::{Guard, PodView, Trouble, View};

/// The resource version of a pod: what can change of it.
fn version(pod: &Pod) -> String {
    format!("{}-{}-{}", pod.ready, pod.terminating, pod.failed)
}

impl World {
    pub(super) fn seen(&self) -> Seen {
        Seen {
            rollout: self.rollout.clone(),
            workload: self.workload.clone(),
            pods: self.pods.clone(),
        }
    }

    /// The controller starts anew: its memory is gone.
    pub(super) fn restart(&mut self) {
        self.proof = Proof::Unknown;
        self.watching = false;
        self.looked = false;
        self.rewritten = None;
    }

    fn view_of(&self, seen: &Seen) -> Option<Result<View, FieldError>> {
        let object = seen.workload.as_ref()?;
        let view = match &self.workload {
            Some(present) if present == object => Ok(self.view()),
            _ => self.adapter.view(object),
        };
        Some(view.map(|view| View {
            rewritten: self.rewritten,
            ..view
        }))
    }

    pub(super) fn decide(&self, seen: &Seen) -> Decision {
        self.decide_at(seen, !self.looked)
    }

    fn decide_at(&self, seen: &Seen, first_look: bool) -> Decision {
        let name = app();
        let view = self.view_of(seen);
        let uid = view
            .as_ref()
            .and_then(|view| view.as_ref().ok())
            .map(|view| view.uid.clone());
        let pods: Vec<PodView> = seen
            .pods
            .iter()
            .filter(|(_, pod)| Some(&pod.owner) == uid.as_ref())
            .map(|(ordinal, pod)| PodView {
                node: None,
                deletion_cost: 0,
                name: format!("{APP}-{ordinal}"),
                uid: pod.uid.clone(),
                resource_version: version(pod),
                rollout_id: pod.rollout_id.clone(),
                batch_id: pod.batch_id.clone(),
                owner: Some(pod.owner.clone()),
                revision: self.habits.pod_labels.then(|| pod.revision.clone()),
                ready: pod.ready,
                terminating: pod.terminating,
                finished: pod.failed,
                reason: None,
                created: Some(pod.created),
                since: Some(pod.since),
                restarted: false,
                trouble: (!pod.ready || pod.terminating).then(|| {
                    Box::new(Trouble {
                        node: Some("node-1".to_owned()),
                        why: "container main in CrashLoopBackOff: exit code 1".to_owned(),
                    })
                }),
            })
            .collect();
        let children = if self.watching {
            Children::Pods(&pods)
        } else {
            Children::Unknown
        };
        let target_name = seen
            .rollout
            .as_ref()
            .map(|rollout| rollout.spec.workload_ref.name.clone());
        let is_target = target_name.as_deref() == Some(APP);
        let target = match &view {
            Some(Ok(view)) if is_target => Target::Present {
                adapter: self.adapter,
                view,
                children,
                revisions: &[],
                proof: &self.proof,
            },
            Some(Err(error)) if is_target => Target::Malformed(error.clone()),
            _ => Target::Missing,
        };
        let strays = match &view {
            Some(Ok(view)) if !is_target && view.guard().is_some_and(|guard| guard.rollout == ROLLOUT) => {
                vec![Stray {
                    workload: &name,
                    adapter: self.adapter,
                    view,
                }]
            }
            _ => Vec::new(),
        };
        let target_name = target_name.map(|target| Workload {
            name: target,
            ..name.clone()
        });
        decide(&Observed {
            rollout: seen.rollout.as_ref(),
            namespace: NAMESPACE,
            name: ROLLOUT,
            workload: target_name.as_ref(),
            target,
            strays,
            rival: self.rival,
            own_namespace: names::DEFAULT_NAMESPACE,
            beside_another: self.beside_another,
            replace_stuck_pods: self.replaces,
            keeps_held: self.keeps_held,
            first_look,
            now: self.now,
        })
    }

    /// The controller looks and acts.
    pub(super) fn control(&mut self) {
        self.control_on(&self.seen(), usize::MAX);
    }

    /// The controller acts on what it saw, and dies after so many actions. It tells of them when all is done.
    pub(super) fn control_on(&mut self, seen: &Seen, survives: usize) {
        let decision = self.begin(seen);
        let announces = |action: &Action| matches!(action, Action::Announce(_));
        let (events, actions): (Vec<_>, Vec<_>) = decision.actions.into_iter().partition(announces);
        for (done, action) in actions.iter().enumerate() {
            if done >= survives {
                return self.restart();
            }
            if let Err(failure) = self.act(seen, action) {
                return self.tell(seen, failure);
            }
        }
        if actions.len() >= survives {
            return self.restart();
        }
        if let Some(status) = decision.status
            && let Err(failure) = self.write_status(seen, status)
        {
            return self.tell(seen, failure);
        }
        for event in &events {
            // Nothing befalls an event.
            let _ = self.act(seen, event);
        }
        self.has_looked(seen);
    }

    /// All that was decided on this has been done.
    pub(super) fn has_looked(&mut self, seen: &Seen) {
        self.looked |= seen.rollout.is_none() || self.view_of(seen).is_some_and(|view| view.is_ok());
    }

    /// The controller decides, and watches pods of a workload that is held.
    pub(super) fn begin(&mut self, seen: &Seen) -> Decision {
        let decision = self.decide(seen);
        self.oracle_sees_a_decision(&decision);
        let held = self
            .view_of(seen)
            .is_some_and(|view| view.is_ok_and(|view| view.hold().is_some()));
        self.watching = held;
        decision
    }

    /// Writes a status over the one that was read.
    pub(super) fn write_status(&mut self, seen: &Seen, status: RolloutStatus) -> Result<(), Failure> {
        self.arrives()?;
        let version = |rollout: &Option<Rollout>| {
            let metadata = &rollout.as_ref()?.metadata;
            Some((metadata.uid.clone(), metadata.resource_version.clone()))
        };
        if self.rollout.is_none() || version(&self.rollout) != version(&seen.rollout) {
            return Err(Failure::Raced);
        }
        let state = brief(&status);
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
        self.status_writes += 1;
        self.oracle_sees_a_move(&self.status(), &status);
        self.oracle_sees_a_status(&status);
        if let Some(rollout) = &mut self.rollout {
            rollout.status = Some(status);
        }
        self.touch_rollout(false);
        self.answered()
    }

    /// The controller says what the API server will not have.
    pub(super) fn tell(&mut self, seen: &Seen, failure: Failure) {
        let rollout = seen.rollout.as_ref().filter(|_| failure == Failure::Refused);
        if let Some(status) = rollout.and_then(|rollout| refused(rollout, "no right to do so", self.now)) {
            let _ = self.write_status(seen, status);
        }
    }

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
            Action::Move(..) => unreachable!("the operators of this world move their pods"),
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
        if self.adapter.view(&stored).unwrap().partition != self.view().partition {
            own_partition(&mut stored, self.adapter.partition_path().unwrap(), true);
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
            own_partition(&mut object, self.adapter.partition_path().unwrap(), false);
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

    // ---- all of them together ----

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
        for _ in 0..400 {
            let before = self.state();
            self.control();
            // What it wrote it sees before the operator does.
            self.control();
            self.operate();
            self.kubelet();
            if self.state() == before {
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
