//! Several processes of the controller at once: each with caches that lag behind on their own, each stopped between any two of its
//! calls, and calls that are on their way while the process has lost its lease or its life.

use std::collections::{BTreeSet, VecDeque};

use super::api::Failure;
use super::world::{Seen, World};
use crate::api::v1beta1::RolloutStatus;
use crate::rollout::{Action, Proof};
use crate::workload::Move;

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Rollout,
    Workload,
    Revisions,
    Pods,
}

/// One call of the controller.
#[derive(Clone, Debug)]
enum Call {
    Act(Action),
    Status(Box<RolloutStatus>),
}

/// A process of the controller.
#[derive(Clone, Debug)]
struct Process {
    proof: Proof,
    watching: bool,
    looked: bool,
    /// Its place in the past, for each part.
    rollout: usize,
    workload: usize,
    revisions: usize,
    pods: usize,
    /// Pods that it has asked to leave: it knows that before its watch tells.
    leaving: BTreeSet<String>,
    /// What it is doing: what it saw, and the calls that are left.
    turn: Option<(Seen, VecDeque<Call>)>,
}

/// The processes of the controller and the world's past.
pub(super) struct Processes {
    past: Vec<Seen>,
    processes: [Process; 2],
    wire: VecDeque<(usize, Seen, Call)>,
}

impl Processes {
    pub(super) fn new(world: &World) -> Self {
        let process = Process {
            proof: Proof::Unknown,
            watching: false,
            looked: false,
            rollout: 0,
            workload: 0,
            revisions: 0,
            pods: 0,
            leaving: BTreeSet::new(),
            turn: None,
        };
        Self {
            past: vec![world.seen()],
            processes: [process.clone(), process],
            wire: VecDeque::new(),
        }
    }

    /// Another moment has gone by.
    pub(super) fn remember(&mut self, world: &World) {
        self.past.push(world.seen());
    }

    /// Part of the world as it was so many moments ago.
    pub(super) fn seen_before(&self, rollout: usize, workload: usize, pods: usize) -> Seen {
        let at = |lag: usize| self.past.len().saturating_sub(lag + 1);
        Seen {
            rollout: self.past[at(rollout)].rollout.clone(),
            workload: self.past[at(workload)].workload.clone(),
            revisions: self.past[at(workload)].revisions.clone(),
            pods: self.past[at(pods)].pods.clone(),
        }
    }

    /// What the process has in its caches.
    fn seen_by(&self, process: &Process) -> Seen {
        let mut pods = self.past[process.pods].pods.clone();
        for pod in pods.values_mut() {
            pod.terminating |= process.leaving.contains(&pod.uid);
        }
        Seen {
            rollout: self.past[process.rollout].rollout.clone(),
            workload: self.past[process.workload].workload.clone(),
            revisions: self.past[process.revisions].revisions.clone(),
            pods,
        }
    }

    /// A cache catches up.
    pub(super) fn catch_up(&mut self, who: usize, part: Part) {
        let now = self.past.len() - 1;
        let process = &mut self.processes[who];
        match part {
            Part::Rollout => process.rollout = now,
            Part::Workload => process.workload = now,
            Part::Revisions => process.revisions = now,
            Part::Pods => process.pods = now,
        }
    }

    /// The process looks at its caches and decides, if it has nothing to do.
    pub(super) fn look(&mut self, world: &mut World, who: usize) {
        let process = &self.processes[who];
        if process.turn.is_some() {
            return;
        }
        let seen = self.seen_by(process);
        let decision = self.as_process(world, who, |world| world.begin(&seen));
        let mut calls: VecDeque<Call> = decision.actions.into_iter().map(Call::Act).collect();
        calls.extend(decision.status.map(|status| Call::Status(Box::new(status))));
        self.processes[who].turn = Some((seen, calls));
    }

    /// The next call of the process is made.
    pub(super) fn step(&mut self, world: &mut World, who: usize) {
        let Some((seen, mut calls)) = self.processes[who].turn.take() else {
            return;
        };
        let Some(call) = calls.pop_front() else {
            return self.as_process(world, who, |world| world.has_looked(&seen));
        };
        match self.as_process(world, who, |world| make(world, &seen, call.clone())) {
            Ok(()) => {
                self.takes_the_answer(world, who, &call);
                self.processes[who].turn = Some((seen, calls));
            }
            Err(failure) => self.as_process(world, who, |world| world.tell(&seen, failure)),
        }
    }

    /// The next call of the process is on its way, and the process has lost its lease: it does nothing more of the kind.
    pub(super) fn send(&mut self, who: usize) {
        if let Some((seen, mut calls)) = self.processes[who].turn.take()
            && let Some(call) = calls.pop_front()
        {
            self.wire.push_back((who, seen, call));
            self.processes[who].looked = false;
        }
    }

    /// A call that was on its way arrives; nobody waits for the answer.
    pub(super) fn deliver(&mut self, world: &mut World) {
        if let Some((who, seen, call)) = self.wire.pop_front() {
            let _ = self.as_process(world, who, |world| make(world, &seen, call));
        }
    }

    /// The process dies, and another one lists everything.
    pub(super) fn die(&mut self, who: usize) {
        for part in [Part::Rollout, Part::Workload, Part::Revisions, Part::Pods] {
            self.catch_up(who, part);
        }
        let process = &mut self.processes[who];
        (process.proof, process.turn) = (Proof::Unknown, None);
        (process.watching, process.looked) = (false, false);
    }

    /// The answer to a write is in the cache before the watch tells of it.
    fn takes_the_answer(&mut self, world: &World, who: usize, call: &Call) {
        let part = match call {
            Call::Status(_) | Call::Act(Action::DropFinalizer) => Part::Rollout,
            Call::Act(Action::Edit { .. } | Action::Guard | Action::Disown(_)) => Part::Workload,
            Call::Act(Action::Move(_, Move::Create { .. } | Move::Resize { .. })) => Part::Revisions,
            Call::Act(Action::Move(_, to_move)) => {
                let leaves = match to_move {
                    Move::Delete { uid, .. } => uid,
                    Move::PutBack(back) => &back.uid,
                    Move::Create { .. } | Move::Resize { .. } => return,
                };
                self.processes[who].leaving.insert(leaves.clone());
                return;
            }
            Call::Act(
                Action::Confirm
                | Action::Record
                | Action::Announce(_)
                | Action::AnnounceOn(..)
                | Action::LabelPods(_)
                | Action::Replace { .. },
            ) => return,
        };
        self.remember(world);
        self.catch_up(who, part);
    }

    /// The memory of the process is that of the world's controller for a moment.
    fn as_process<R>(&mut self, world: &mut World, who: usize, f: impl FnOnce(&mut World) -> R) -> R {
        let mut swap = |world: &mut World| {
            std::mem::swap(&mut world.proof, &mut self.processes[who].proof);
            std::mem::swap(&mut world.watching, &mut self.processes[who].watching);
            std::mem::swap(&mut world.looked, &mut self.processes[who].looked);
        };
        swap(world);
        let result = f(world);
        swap(world);
        result
    }
}

fn make(world: &mut World, seen: &Seen, call: Call) -> Result<(), Failure> {
    match call {
        Call::Act(action) => world.act(seen, &action),
        Call::Status(status) => world.write_status(seen, *status),
    }
}
