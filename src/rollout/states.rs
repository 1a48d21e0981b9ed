//! Every way from one state of a Rollout to another: what the documentation prints, and what tests hold the code to.

use std::fmt::Write as _;

use crate::api::v1beta1::{RolloutStatus, phase, step_state};

/// A way from some states to another one.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    /// States that it leads from, as [`place`] names them. None: any state.
    pub from: &'static [&'static str],
    /// What makes the Rollout take it.
    pub when: &'static str,
    /// The state that it leads to. The same as `from`: to another step.
    pub to: &'static str,
    /// What the controller does there, or on the way.
    pub does: &'static str,
    /// What leads on from there.
    pub on: &'static str,
}

/// Nothing has been told of the Rollout: it is new, or its status was lost.
pub const NONE: &str = "(none)";

const STEPS: &[&str] = &[
    step_state::STEP_UPGRADE,
    step_state::STEP_PAUSED,
    step_state::STEP_READY,
];
const NO_STEPS: &[&str] = &[
    NONE,
    phase::INITIAL,
    phase::HEALTHY,
    phase::DISABLED,
    phase::DISABLING,
];
/// The same, and Progressing before it is known which way the template leads.
const NOT_YET: &[&str] = &[
    NONE,
    phase::INITIAL,
    phase::HEALTHY,
    phase::DISABLED,
    phase::DISABLING,
    phase::PROGRESSING,
];
const UPGRADES: &str = "grants the step's partition; waits until its pods are updated and ready";
const BY_PODS: &str = "by itself; a template that works, or the stable one, where pods do not become ready";
const PAUSES: &str = "waits";
const BY_PAUSE: &str = "its seconds pass, or somebody approves";
const OPENS: &str = "opens the workload and hands it back";

/// All of them. In the phase Progressing a state is named by the state of the step.
pub const TRANSITIONS: &[Transition] = &[
    Transition {
        from: &[],
        when: "the workload, or its kind, is not there, or it is another one than before; an older Rollout governs it",
        to: phase::INITIAL,
        does: "waits",
        on: "the workload appears; the older Rollout goes",
    },
    Transition {
        from: &[],
        when: "`spec.disabled`, and nothing of the Rollout is on the workload; a custom workload lacks the label; the workload cannot be held",
        to: phase::DISABLED,
        does: "holds nothing",
        on: "enable, set the label, mend what `Guarded` names",
    },
    Transition {
        from: &[],
        when: "`spec.disabled`, and the workload is marked",
        to: phase::DISABLING,
        does: OPENS,
        on: "by itself",
    },
    Transition {
        from: &[],
        when: "the Rollout is being deleted, and somebody's finalizer keeps it",
        to: phase::TERMINATING,
        does: OPENS,
        on: "by itself",
    },
    Transition {
        from: NO_STEPS,
        when: "the workload runs one template and is seen to be held",
        to: phase::HEALTHY,
        does: "waits for a new template",
        on: "a template change",
    },
    Transition {
        from: NO_STEPS,
        when: "held, and only the operator can tell whether the template is another one",
        to: phase::PROGRESSING,
        does: "waits for the operator",
        on: "the operator sees the change",
    },
    Transition {
        from: &[phase::PROGRESSING],
        when: "the change is none, or was taken back before anything was exposed",
        to: phase::HEALTHY,
        does: "hands the workload back",
        on: "a template change",
    },
    Transition {
        from: NOT_YET,
        when: "held with another template: step 1, or the step that the grant shows where the status was lost",
        to: step_state::STEP_UPGRADE,
        does: UPGRADES,
        on: BY_PODS,
    },
    Transition {
        from: NOT_YET,
        when: "the same, and the step's pods are there already",
        to: step_state::STEP_PAUSED,
        does: PAUSES,
        on: BY_PAUSE,
    },
    Transition {
        from: &[phase::PROGRESSING],
        when: "another controller has begun the release, and has left its last step, which was approved or needed no approval",
        to: step_state::STEP_READY,
        does: "nothing yet",
        on: "by itself",
    },
    Transition {
        from: &[step_state::STEP_UPGRADE],
        when: "the step's pods are ready, and it has a pause",
        to: step_state::STEP_PAUSED,
        does: PAUSES,
        on: BY_PAUSE,
    },
    Transition {
        from: &[step_state::STEP_UPGRADE],
        when: "the step's pods are ready, and it has no pause: the next step",
        to: step_state::STEP_UPGRADE,
        does: UPGRADES,
        on: BY_PODS,
    },
    Transition {
        from: &[step_state::STEP_PAUSED],
        when: "the seconds have passed: the next step",
        to: step_state::STEP_UPGRADE,
        does: UPGRADES,
        on: BY_PODS,
    },
    Transition {
        from: &[step_state::STEP_PAUSED, step_state::STEP_READY],
        when: "somebody approves: written by a person; while paused, the plan comes to have fewer steps",
        to: step_state::STEP_READY,
        does: "nothing yet",
        on: "by itself, once not paused",
    },
    Transition {
        from: &[step_state::STEP_READY],
        when: "approved: the next step",
        to: step_state::STEP_UPGRADE,
        does: UPGRADES,
        on: BY_PODS,
    },
    Transition {
        from: STEPS,
        when: "somebody jumps by `nextStepIndex`; a newer template: step 1",
        to: step_state::STEP_UPGRADE,
        does: UPGRADES,
        on: BY_PODS,
    },
    Transition {
        from: &[step_state::STEP_PAUSED, step_state::STEP_READY],
        when: "the plan is edited and the step is larger now; it has become the last one and pods are missing",
        to: step_state::STEP_UPGRADE,
        does: UPGRADES,
        on: BY_PODS,
    },
    Transition {
        from: STEPS,
        when: "the stable template: a rollback, at once or by steps",
        to: step_state::STEP_UPGRADE,
        does: "opens the workload; by steps, grants step 1",
        on: "by itself; by steps, as forward",
    },
    Transition {
        from: STEPS,
        when: "the step that comes next, or that somebody jumps to, is there already; an approval came too late",
        to: step_state::STEP_PAUSED,
        does: PAUSES,
        on: BY_PAUSE,
    },
    Transition {
        from: STEPS,
        when: "every pod runs the template, the new one or the stable one",
        to: phase::HEALTHY,
        does: "hands the workload back; `Succeeded` says which",
        on: "a template change",
    },
];

/// The state of a Rollout in one word: the phase, or the state of the step while steps are taken.
#[must_use]
pub fn place(status: &RolloutStatus) -> &str {
    let canary = status.canary_status.as_ref();
    let state = canary.map_or("", |canary| canary.current_step_state.as_str());
    match status.phase.as_str() {
        "" => NONE,
        phase::PROGRESSING if STEPS.contains(&state) => state,
        phase => phase,
    }
}

/// Whether a row names this way.
#[must_use]
pub fn explains(row: &Transition, from: &str, to: &str) -> bool {
    row.to == to && (row.from.is_empty() || row.from.contains(&from))
}

/// The table of the documentation.
#[must_use]
pub fn table() -> String {
    let mut table = "| from | when | to | what it does | way on |\n|---|---|---|---|---|\n".to_owned();
    for row in TRANSITIONS {
        let from: Vec<_> = row.from.iter().map(|from| word(from)).collect();
        let from = if from.is_empty() {
            "any".to_owned()
        } else {
            from.join(", ")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| {from} | {} | {} | {} | {} |",
            row.when,
            word(row.to),
            row.does,
            row.on
        );
    }
    table
}

fn word(place: &str) -> String {
    if place == NONE {
        NONE.to_owned()
    } else {
        format!("`{place}`")
    }
}
