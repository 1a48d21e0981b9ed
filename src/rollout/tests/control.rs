//! The controller of the simulated world: it observes, decides and applies.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::json;

use super::world::{APP, NAMESPACE, Pod, ROLLOUT, Seen, World, adapter, app, brief};
use crate::api::v1beta1::{Rollout, step_state};
use crate::lens::FieldError;
use crate::names;
use crate::rollout::{
    Action, Children, Decision, Observed, PodPatch, Proof, Stray, Target, Wake, Workload, decide,
};
use crate::workload::{Guard, PodView, Trouble, View};

/// The resource version of a pod: what can change of it.
fn version(pod: &Pod) -> String {
    format!("{}-{}", pod.ready, pod.terminating)
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
        self.rewritten = None;
    }

    fn view_of(&self, seen: &Seen) -> Option<Result<View, FieldError>> {
        let object = seen.workload.as_ref()?;
        let view = match &self.workload {
            Some(present) if present == object => Ok(self.view()),
            _ => adapter().view(object),
        };
        Some(view.map(|view| View {
            rewritten: self.rewritten,
            ..view
        }))
    }

    pub(super) fn decide(&self, seen: &Seen) -> Decision {
        let name = app();
        let view = self.view_of(seen);
        let uid = view
            .as_ref()
            .and_then(|view| view.as_ref().ok())
            .map(|view| view.uid.clone());
        let pods: Vec<PodView> = seen
            .pods
            .iter()
            .map(|(ordinal, pod)| PodView {
                name: format!("{APP}-{ordinal}"),
                uid: pod.uid.clone(),
                owner: uid.clone(),
                revision: self.habits.pod_labels.then(|| pod.revision.clone()),
                rollout_id: pod.rollout_id.clone(),
                batch_id: pod.batch_id.clone(),
                ready: pod.ready,
                terminating: pod.terminating,
                finished: false,
                reason: None,
                created: Some(pod.created),
                since: Some(pod.since),
                restarted: false,
                trouble: (!pod.ready || pod.terminating).then(|| {
                    Box::new(Trouble {
                        resource_version: version(pod),
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
                adapter: adapter(),
                view,
                children,
                proof: &self.proof,
            },
            Some(Err(error)) if is_target => Target::Malformed(error.clone()),
            _ => Target::Missing,
        };
        let strays = match &view {
            Some(Ok(view)) if !is_target && view.guard().is_some_and(|guard| guard.rollout == ROLLOUT) => {
                vec![Stray {
                    workload: &name,
                    adapter: adapter(),
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
            replace_stuck_pods: self.replaces,
            now: self.now,
        })
    }

    /// The controller looks and acts.
    pub(super) fn control(&mut self) {
        self.control_on(&self.seen(), usize::MAX);
    }

    /// The controller acts on what it saw, and dies after so many actions.
    pub(super) fn control_on(&mut self, seen: &Seen, survives: usize) {
        let decision = self.decide(seen);
        self.oracle_sees_a_decision(&decision);
        let held = self
            .view_of(seen)
            .is_some_and(|view| view.is_ok_and(|view| view.hold().is_some()));
        self.watching = held;
        for (done, action) in decision.actions.iter().enumerate() {
            if done >= survives {
                return self.restart();
            }
            if !self.act(seen, action) {
                return;
            }
        }
        if decision.actions.len() >= survives {
            return self.restart();
        }
        let version =
            |rollout: &Option<Rollout>| rollout.as_ref().and_then(|r| r.metadata.resource_version.clone());
        if let Some(status) = decision
            .status
            .filter(|_| version(&self.rollout) == version(&seen.rollout))
        {
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
        }
    }

    /// Carries an action out; false when the race is lost.
    fn act(&mut self, seen: &Seen, action: &Action) -> bool {
        match action {
            Action::Guard => self.guard(seen),
            Action::Edit { patch, .. } => {
                let Some(mut new) = self.workload.clone() else {
                    return false;
                };
                if json_patch::patch(&mut new, patch).is_err() {
                    return false;
                }
                self.oracle_sees_an_edit(&new);
                self.store(new);
                true
            }
            Action::DropFinalizer => {
                if let Some(rollout) = &mut self.rollout {
                    rollout.metadata.finalizers = None;
                    if rollout.metadata.deletion_timestamp.is_some() {
                        self.rollout = None;
                    }
                }
                self.touch_rollout(false);
                true
            }
            Action::Replace {
                pod: name,
                uid,
                resource_version,
            } => {
                let same =
                    |pod: &Pod| pod.uid == *uid && version(pod) == *resource_version && !pod.terminating;
                let found = self
                    .pods
                    .iter()
                    .find(|(ordinal, pod)| *name == format!("{APP}-{ordinal}") && same(pod));
                let Some(ordinal) = found.map(|(ordinal, _)| *ordinal) else {
                    return false;
                };
                self.oracle_sees_a_replacement(ordinal);
                self.delete_pod(ordinal);
                true
            }
            Action::Announce(event) | Action::AnnounceOn(_, event) => {
                self.events.push(event.reason);
                true
            }
            Action::LabelPods(patches) => {
                patches.iter().for_each(|patch| self.label_pod(patch));
                true
            }
            Action::Record | Action::Disown(_) => true,
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

    /// Marks the workload if admission answers.
    fn guard(&mut self, seen: &Seen) -> bool {
        let (Some(object), Some(now)) = (&seen.workload, &self.workload) else {
            return false;
        };
        if object["metadata"]["uid"] != now["metadata"]["uid"] || object["spec"] != now["spec"] {
            return false;
        }
        if !self.webhook {
            let retry = self.now + SignedDuration::from_secs(30);
            let message = "a template change came back as it was: is the webhook reachable?".to_owned();
            self.proof = Proof::Refused {
                reason: "NotHeld",
                message,
                retry,
            };
            return true;
        }
        let view = self.view();
        let mut new = now.clone();
        let text = Guard::text(&view.uid, ROLLOUT, &view.template);
        json_patch::merge(
            &mut new,
            &json!({"metadata": {"annotations": {names::GUARDED_BY: text}}}),
        );
        if view.guard().is_none() {
            self.store(new);
        }
        self.proof = Proof::Proven;
        true
    }

    // ---- all of them together ----

    /// Everybody acts until nothing changes, without time passing. Then the controller must be silent.
    pub(super) fn settle(&mut self) {
        for _ in 0..400 {
            let before = (self.clock, self.pods.clone(), self.proof.clone(), self.watching);
            self.control();
            // What it wrote it sees before the operator does.
            self.control();
            self.operate();
            self.kubelet();
            if (self.clock, self.pods.clone(), self.proof.clone(), self.watching) == before {
                return self.check();
            }
        }
        panic!(
            "the world does not settle: {} {:?} {:?}",
            self.at(),
            self.object(),
            self.pods
        );
    }

    /// The controller wants nothing of a world that is settled, and nothing has escaped.
    pub(super) fn check(&self) {
        let decision = self.decide(&self.seen());
        let quiet = decision.actions.is_empty() && decision.status.is_none();
        assert!(quiet, "not silent: {:?}\n{:?}", decision.actions, decision.status);
        assert_eq!(self.oracle.breaches, Vec::<String>::new());
        self.check_labels();
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
