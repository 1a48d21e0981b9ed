//! What to do about an app's pods: a function of what is observed.

use crate::app::{App, PodManagementPolicy, Status, UpdateStrategy};
use crate::kind::Owner;
use crate::pod::{self, Pod};
use crate::revision::Revisions;

/// One write to a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PodAction {
    /// Create the pod of this ordinal at this revision.
    Create { ordinal: u32, revision: String },
    /// Create one more pod at this revision, under a name that the server gives, on a node or on any.
    Add { node: Option<String>, revision: String },
    /// Delete this very pod.
    Delete { name: String, uid: String, why: Why },
    /// Give this very pod the images of another revision.
    Renew {
        name: String,
        uid: String,
        revision: String,
    },
    /// Let this very pod be ready again after that.
    Open { name: String, uid: String },
    /// Make an orphan the app's own.
    Adopt { name: String, uid: String },
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Why {
    Finished,
    ScaleDown,
    Update,
    /// It is on a node where none is wanted, or where there is another one.
    Misplaced,
}

/// Decides the next writes and the status.
///
/// `pods` are those that the app controls and the orphans under its label. Nothing is planned twice as long as
/// the caller shows pods it has deleted as terminating and pods it has created as there.
pub(crate) fn plan(app: &App, pods: &[Pod], revisions: &Revisions) -> (Vec<PodAction>, Status) {
    let slots = Slots::of(app, pods);
    let mut actions = adoptions(app, pods);
    if fill(app, &slots, revisions, &mut actions) && scale_down(app, &slots, &mut actions) {
        update(app, &slots, revisions, &mut actions);
    }
    (actions, status(app, pods, revisions))
}

/// The pods by their place.
struct Slots<'p> {
    /// One place for each wanted ordinal.
    wanted: Vec<Option<&'p Pod>>,
    /// Pods beyond `spec.replicas`, highest ordinal first.
    condemned: Vec<&'p Pod>,
}

impl<'p> Slots<'p> {
    fn of(app: &App, pods: &'p [Pod]) -> Self {
        let ordinals: Vec<u32> = app.ordinals.first(app.replicas).collect();
        let mut wanted = vec![None; ordinals.len()];
        let mut condemned = Vec::new();
        for pod in pods {
            let Some(ordinal) = pod.ordinal(&app.name) else {
                continue;
            };
            match ordinals
                .binary_search(&ordinal)
                .ok()
                .map(|place| &mut wanted[place])
            {
                Some(slot) => *slot = Some(pod),
                None => condemned.push((ordinal, pod)),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Slots {
            wanted,
            condemned: condemned.into_iter().map(|(_, pod)| pod).collect(),
        }
    }
}

fn adoptions(app: &App, pods: &[Pod]) -> Vec<PodAction> {
    pods.iter()
        .filter(|pod| pod.owner == Owner::Nobody && !pod.terminating && pod.ordinal(&app.name).is_some())
        .map(|pod| PodAction::Adopt {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        })
        .collect()
}

/// Creates missing pods and replaces finished ones, lowest ordinal first. In order, each waits for its
/// predecessors. Returns whether the next phase may begin.
fn fill(app: &App, slots: &Slots<'_>, revisions: &Revisions, actions: &mut Vec<PodAction>) -> bool {
    let ordered = app.management == PodManagementPolicy::OrderedReady;
    let ordinals = app.ordinals.first(app.replicas);
    for ((place, slot), ordinal) in (0..).zip(&slots.wanted).zip(ordinals) {
        match slot {
            None => actions.push(PodAction::Create {
                ordinal,
                revision: revision_for(app, place, revisions),
            }),
            Some(pod) if pod.finished => {
                if !pod.terminating {
                    actions.push(delete(pod, Why::Finished));
                }
            }
            Some(pod) if pod.available() => continue,
            // Being there is enough when pods do not wait for each other.
            Some(_) => {}
        }
        if ordered {
            return false;
        }
    }
    true
}

fn revision_for(app: &App, place: u32, revisions: &Revisions) -> String {
    let held = app.update == UpdateStrategy::RollingUpdate && place < app.partition;
    if held {
        revisions.current.clone()
    } else {
        revisions.update.clone()
    }
}

/// Deletes pods beyond the wanted count, highest ordinal first. In order, one at a time, and a pod that is not
/// available blocks the others unless it is the lowest such. Returns whether the next phase may begin.
fn scale_down(app: &App, slots: &Slots<'_>, actions: &mut Vec<PodAction>) -> bool {
    let ordered = app.management == PodManagementPolicy::OrderedReady;
    let first_unavailable = slots
        .condemned
        .iter()
        .rev()
        .find(|pod| !pod.available())
        .map(|pod| &pod.uid);
    for pod in &slots.condemned {
        let blocks = !pod.available() && first_unavailable != Some(&pod.uid);
        if !(pod.terminating || (ordered && blocks)) {
            actions.push(delete(pod, Why::ScaleDown));
        }
        if ordered {
            return false;
        }
    }
    true
}

/// Updates the highest pod at or above the partition that is not on the update revision, provided that all
/// above it are available; more at a time where so many may be unavailable, which in order only one may.
fn update(app: &App, slots: &Slots<'_>, revisions: &Revisions, actions: &mut Vec<PodAction>) {
    if app.update == UpdateStrategy::OnDelete || app.pace.paused {
        return;
    }
    let mut left = match app.management {
        PodManagementPolicy::OrderedReady => 1,
        PodManagementPolicy::Parallel => app.pace.max_unavailable.max(1),
    };
    for slot in slots.wanted.iter().skip(app.partition as usize).rev() {
        let Some(pod) = slot else { return };
        let old = !pod.runs(&revisions.update) && !pod.terminating && !pod.finished;
        if old {
            actions.push(renew(app, pod, revisions));
        }
        if old || !pod.available() {
            left -= 1;
        }
        if left == 0 {
            return;
        }
    }
}

/// How a pod comes to the update revision.
pub(crate) fn renew(app: &App, pod: &Pod, revisions: &Revisions) -> PodAction {
    if !app.pace.in_place {
        return delete(pod, Why::Update);
    }
    PodAction::Renew {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        revision: revisions.update.clone(),
    }
}

pub(crate) fn delete(pod: &Pod, why: Why) -> PodAction {
    PodAction::Delete {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        why,
    }
}

fn status(app: &App, pods: &[Pod], revisions: &Revisions) -> Status {
    let counted = |condition: &dyn Fn(&Pod) -> bool| {
        let ours = pods
            .iter()
            .filter(|pod| pod.ordinal(&app.name).is_some() && condition(pod));
        u32::try_from(ours.count()).unwrap_or(u32::MAX)
    };
    let mut status = Status {
        observed_generation: app.generation,
        replicas: counted(&|_| true),
        ready_replicas: counted(&|pod| pod.ready),
        updated_replicas: counted(&|pod| !pod.terminating && pod.runs(&revisions.update)),
        current_revision: revisions.current.clone(),
        update_revision: revisions.update.clone(),
        selector: app.selector.clone(),
    };
    let complete = [status.replicas, status.ready_replicas, status.updated_replicas] == [app.replicas; 3];
    if complete && app.update == UpdateStrategy::RollingUpdate {
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

/// Name of the pod that an action writes.
pub(crate) fn target(app: &App, action: &PodAction) -> String {
    match action {
        PodAction::Create { ordinal, .. } => pod::name(&app.name, *ordinal),
        PodAction::Add { .. } => app.name.clone(),
        PodAction::Delete { name, .. }
        | PodAction::Renew { name, .. }
        | PodAction::Open { name, .. }
        | PodAction::Adopt { name, .. } => name.clone(),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(crate) mod tests;
