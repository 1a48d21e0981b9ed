//! The controller of the simulated world: it observes, decides and applies.

use super::api::Failure;
use super::world::{APP, NAMESPACE, Pod, ROLLOUT, Seen, World, app, brief};
use crate::api::v1beta1::{Rollout, RolloutStatus};
use crate::lens::FieldError;
use crate::names;
use crate::rollout::{Action, Children, Decision, Observed, Proof, Stray, Target, Workload, decide, refused};
use crate::workload::{PodView, Reported, Revision, Trouble, View, with_revisions};

/// The resource version of a pod: what can change of it.
pub(super) fn version(pod: &Pod) -> String {
    format!("{}-{}-{}", pod.ready, pod.terminating, pod.failed)
}

impl World {
    pub(super) fn seen(&self) -> Seen {
        Seen {
            rollout: self.rollout.clone(),
            workload: self.workload.clone(),
            revisions: self.revisions.clone(),
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
            reported: self.reported(&view, seen),
            ..view
        }))
    }

    /// What is told of the workload: by its status and, of some kinds, by the objects that stand for its revisions.
    fn reported(&self, view: &View, seen: &Seen) -> Reported {
        if self.watching && self.adapter.paths().revisions.is_some() {
            with_revisions(view, &self.revisions_of(seen), self.adapter.next_revision(view))
        } else {
            view.reported.clone()
        }
    }

    /// The same for everybody who looks at everything.
    pub(super) fn watched_view(&self) -> View {
        self.view_of(&self.seen()).unwrap().unwrap()
    }

    fn revisions_of(&self, seen: &Seen) -> Vec<Revision> {
        let kind = self.adapter.paths().revisions.filter(|_| self.watching);
        let read = |kind| {
            seen.revisions
                .iter()
                .map(move |object| Revision::read(kind, object))
        };
        kind.into_iter().flat_map(read).collect()
    }

    pub(super) fn decide(&self, seen: &Seen) -> Decision {
        self.decide_at(seen, !self.looked)
    }

    pub(super) fn decide_at(&self, seen: &Seen, first_look: bool) -> Decision {
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
                node: pod.node.map(|node| format!("n{node}")),
                deletion_cost: 0,
                name: format!("{APP}-{ordinal}"),
                uid: pod.uid.clone(),
                resource_version: version(pod),
                rollout_id: pod.rollout_id.clone(),
                batch_id: pod.batch_id.clone(),
                owner: Some(pod.owner.clone()),
                revision: self
                    .habits
                    .pod_labels
                    .then(|| pod.label.as_ref().unwrap_or(&pod.revision).clone()),
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
        let revisions = self.revisions_of(seen);
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
                revisions: &revisions,
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
        self.oracle_sees_a_decision(&decision, seen);
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
}
