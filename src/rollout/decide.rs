use super::away::{tell_changes, tell_created_again};
use super::back::{default_strategy, free, is_free};
use super::inherited::{inherited, is_left};
use super::observed::{Children, Observed, Proof, Stray, Target, Workload};
use super::release::{Release, advance};
use super::rest::{at_rest, guarded, left_alone, operator_silent, unmarked};
use super::status::{Draft, settled};
use super::why;
use super::{Action, Announcement, Decision, EditKind, Wake};
use crate::api::v1beta1::condition::{self, reason};
use crate::api::v1beta1::{Rollout, phase};
use crate::lens::PatchBuilder;
use crate::names;
use crate::plan::Plan;
use crate::workload::{Adapter, Revision, TypeLabel, View};

/// Decides what to do about one Rollout. See the module for the states.
#[must_use]
pub fn decide(observed: &Observed<'_>) -> Decision {
    let mut decision = match observed.rollout {
        None => Decision {
            actions: Vec::new(),
            status: None,
            wake: Wake::OnChange,
        },
        Some(rollout) => govern(observed, rollout),
    };
    let (mut edits, mut disowned) = (Vec::new(), Vec::new());
    let (kept, strays): (Vec<&Stray<'_>>, Vec<_>) = observed
        .strays
        .iter()
        .partition(|stray| observed.rollout.is_none() && observed.keeps_held && stray.view.hold().is_some());
    for stray in &strays {
        if let Some((kind, patch)) = free(stray.adapter, stray.view, Children::Unknown) {
            let mut actions = edit_to_free(stray.workload, kind, patch);
            edits.extend(actions.by_ref().take(2));
            disowned.extend(actions);
        }
    }
    decision.actions.splice(0..0, edits);
    let told = strays.iter().flat_map(|stray| {
        let strategy = default_strategy(stray.workload, stray.adapter, stray.view);
        let strategy = strategy.map(|told| Action::AnnounceOn(stray.workload.clone(), told));
        lets_go(observed.name, stray).into_iter().chain(strategy)
    });
    decision.actions.extend(told);
    if observed.first_look {
        decision
            .actions
            .extend(kept.iter().map(|stray| keeps(observed, stray)));
    }
    // The last, since it may lose to whoever writes the workload's status, and is tried again.
    decision.actions.extend(disowned);
    decision
}

/// The write that ends governing, and what follows the last one. A Rollout may have come back since it was seen to end: its release
/// must not be let go.
fn edit_to_free(workload: &Workload, kind: EditKind, patch: PatchBuilder) -> impl Iterator<Item = Action> {
    let edit = Action::Edit {
        workload: workload.clone(),
        kind,
        patch: patch.build(),
    };
    let disown = (kind == EditKind::Release).then(|| Action::Disown(workload.clone()));
    [Action::Confirm, edit].into_iter().chain(disown)
}

/// What is told when the rest of a release is let go because its Rollout governs the workload no more.
fn lets_go(rollout: &str, stray: &Stray<'_>) -> Option<Action> {
    // Once it is open there is nothing to let go of any more.
    stray.view.hold().filter(|hold| hold.granted > 0)?;
    let announcement = Announcement {
        warning: true,
        reason: why::event::RELEASED,
        message: format!(
            "Rollout {rollout} governs this workload no more: the rest of its release goes on without steps"
        ),
    };
    Some(Action::AnnounceOn(stray.workload.clone(), announcement))
}

/// What is told when a workload has lost its Rollout and stays held.
fn keeps(observed: &Observed<'_>, stray: &Stray<'_>) -> Action {
    let name = observed.name;
    let announcement = Announcement {
        warning: true,
        reason: why::event::KEPT_HELD,
        message: format!(
            "Rollout {name} was deleted in mid-release and this workload stays held as it is: {}",
            way_on(name)
        ),
    };
    Action::AnnounceOn(stray.workload.clone(), announcement)
}

/// How a workload goes on that is held for a Rollout which is gone.
pub(crate) fn way_on(rollout: &str) -> String {
    format!("create {rollout} again to go on, with spec.disabled: true to let the rest of the release go")
}

/// The target when it is there.
pub(super) struct Present<'a> {
    pub(super) workload: &'a Workload,
    pub(super) adapter: &'a dyn Adapter,
    pub(super) view: &'a View,
    pub(super) children: Children<'a>,
    pub(super) revisions: &'a [Revision],
    pub(super) proof: &'a Proof,
}

fn govern(observed: &Observed<'_>, rollout: &Rollout) -> Decision {
    if matches!(observed.target, Target::Pending) {
        return Decision {
            actions: Vec::new(),
            status: None,
            wake: Wake::OnChange,
        };
    }
    let present = present(observed);
    let left = present.as_ref().is_some_and(|p| is_left(rollout, p.view));
    let taken_over = present
        .as_ref()
        .and_then(|p| inherited(rollout, p.view, observed.now));
    let mut draft = Draft::new(taken_over.as_ref().unwrap_or(rollout), observed.now);
    let unbinds = unbinds(observed, rollout);
    if unbinds && !left {
        draft.act(Action::DropFinalizer);
    }
    course(&mut draft, observed, rollout, present.as_ref());
    // What the existing controller has left on the workload, nobody would find once the Rollout is gone.
    let stays = observed.keeps_held && rollout.metadata.deletion_timestamp.is_some();
    if unbinds && left && (stays || draft.edits()) {
        draft.act(Action::DropFinalizer);
    }
    draft.finish()
}

/// Whether the finalizer of the existing controller is to go. While that one may be at work, it would only set it again.
fn unbinds(observed: &Observed<'_>, rollout: &Rollout) -> bool {
    let finalizers = rollout.metadata.finalizers.iter().flatten();
    let bound = finalizers
        .into_iter()
        .any(|finalizer| finalizer == names::LEGACY_FINALIZER);
    bound && (!observed.beside_another || rollout.metadata.deletion_timestamp.is_some())
}

fn present<'a>(observed: &Observed<'a>) -> Option<Present<'a>> {
    match (&observed.target, observed.workload) {
        (
            &Target::Present {
                adapter,
                view,
                children,
                revisions,
                proof,
            },
            Some(workload),
        ) if !view.deleting => Some(Present {
            workload,
            adapter,
            view,
            children,
            revisions,
            proof,
        }),
        _ => None,
    }
}

/// What becomes of the Rollout and its workload.
fn course(draft: &mut Draft<'_>, observed: &Observed<'_>, rollout: &Rollout, present: Option<&Present<'_>>) {
    if let Some(p) = present
        && p.view.hold().is_none()
        && p.view.partition_is_ours
    {
        // It was handed back, and we ended before we could disown it.
        draft.act(Action::Disown(p.workload.clone()));
    }
    if let Some(message) = refusal(observed, rollout) {
        let ends = rollout.spec.disabled || rollout.metadata.deletion_timestamp.is_some();
        if !ends && present.is_some_and(|p| is_left(rollout, p.view)) {
            // Let go, the rest of a release that others have begun would go without steps.
            return left_alone(draft, &message);
        }
        let_go(draft, rollout, present, phase::DISABLED, &message);
        return draft.stalled(why::UNSUPPORTED, &message);
    }
    if rollout.metadata.deletion_timestamp.is_some() {
        let held = |p: &Present<'_>| p.view.hold().is_some() || is_left(rollout, p.view);
        if observed.keeps_held && present.is_some_and(held) {
            return draft.say(
                phase::TERMINATING,
                "the Rollout is being deleted; its workload stays held",
            );
        }
        let message = "the Rollout is being deleted";
        let_go(draft, rollout, present, phase::TERMINATING, message);
        return draft.condition(
            condition::TERMINATING,
            true,
            reason::IN_TERMINATING,
            "the workload is being handed back",
        );
    }
    if rollout.spec.disabled {
        let message = "spec.disabled is set: updates of the workload are not held";
        return let_go(draft, rollout, present, phase::DISABLED, message);
    }
    match present {
        Some(present) => govern_present(draft, observed, rollout, present),
        None => absent(draft, observed),
    }
}

/// What validation refuses; it may not have been asked.
fn refusal(observed: &Observed<'_>, rollout: &Rollout) -> Option<String> {
    let namespace = observed.namespace;
    if namespace == observed.own_namespace || names::EXCLUDED_NAMESPACES.contains(&namespace) {
        return Some(format!(
            "Rollouts in namespace {namespace} are not carried out: move the workload to another one"
        ));
    }
    if matches!(observed.target, Target::Unsupported) {
        let kind = &rollout.spec.workload_ref.kind;
        return Some(format!("workloads of kind {kind} are not supported"));
    }
    match &rollout.spec.strategy {
        strategy if strategy.blue_green.is_some() => {
            Some("spec.strategy.blueGreen is not supported: use spec.strategy.canary with steps".to_owned())
        }
        strategy => match &strategy.canary {
            None => Some("spec.strategy.canary is missing: add steps".to_owned()),
            Some(canary) if !canary.traffic_routings.is_empty() => Some(
                "spec.strategy.canary.trafficRoutings is not supported: remove it, batches work without it"
                    .to_owned(),
            ),
            Some(canary) if canary.enable_extra_workload_for_canary => Some(
                "spec.strategy.canary.enableExtraWorkloadForCanary is not supported: remove it".to_owned(),
            ),
            Some(_) => None,
        },
    }
}

/// No object to govern, or none that can be read.
fn absent(draft: &mut Draft<'_>, observed: &Observed<'_>) {
    let named = observed
        .workload
        .map_or_else(|| "the workload".to_owned(), ToString::to_string);
    let message = match &observed.target {
        Target::NoKind => format!("the server has no kind {}: install its CRD", kind_of(observed)),
        Target::Unreadable(answer) => {
            let message = format!("{named} cannot be read: {answer}");
            return unreadable(draft, why::UNREADABLE, message);
        }
        Target::Malformed(error) => {
            let message = format!("{named}: {error}: correct the field");
            return unreadable(draft, why::MALFORMED, message);
        }
        Target::Present { .. } => format!("{named} is being deleted"),
        _ => format!(
            "{named} is not in namespace {}: waiting for it",
            observed.namespace
        ),
    };
    forget(draft);
    if matches!(observed.target, Target::NoKind) {
        draft.stalled(why::NO_KIND, &message);
    }
    draft.say(phase::INITIAL, message);
}

/// What was known of a workload is void once it has gone: another object of its name is another workload.
fn forget(draft: &mut Draft<'_>) {
    draft.status.canary_status = None;
    for type_ in [
        condition::GUARDED,
        condition::PROGRESSING,
        condition::SUCCEEDED,
        condition::STALLED,
    ] {
        draft.drop_condition(type_);
    }
}

/// Whether the status speaks of another workload: of one of the same name, which nobody has seen go, or of another name.
fn speaks_of_another(draft: &Draft<'_>, view: &View) -> bool {
    let canary = draft.before().canary_status.as_ref();
    canary.is_some_and(|canary| {
        !canary.observed_workload_uid.is_empty() && canary.observed_workload_uid != view.uid
    })
}

/// The workload is there, or may be, but cannot be read: nothing is done to it, and nothing that is known of it is forgotten.
fn unreadable(draft: &mut Draft<'_>, reason: &str, message: String) {
    draft.stalled(reason, &message);
    let phase = match draft.before().phase.as_str() {
        "" => phase::INITIAL,
        present => present,
    };
    draft.say(phase, message);
}

fn kind_of(observed: &Observed<'_>) -> String {
    observed
        .workload
        .map_or_else(String::new, |workload| workload.kind.to_string())
}

/// Ends governing: opens what is held, hands back the partition, removes the marks.
fn let_go(draft: &mut Draft<'_>, rollout: &Rollout, present: Option<&Present<'_>>, end: &str, message: &str) {
    draft.drop_condition(condition::STALLED);
    if let Some(p) = present.filter(|p| is_left(rollout, p.view)) {
        let patch = p.adapter.let_go_of_left(p.view);
        edit_to_free(p.workload, EditKind::Release, patch).for_each(|action| draft.act(action));
    }
    let name = rollout.metadata.name.as_deref();
    let mine = present.filter(|p| p.view.guard().map(|guard| guard.rollout.as_str()) == name);
    let Some(p) = mine.filter(|p| !is_free(p.view)) else {
        draft.say(end, message);
        draft.condition(condition::GUARDED, false, why::DISABLED, message);
        if draft.before().phase == phase::DISABLING || draft.before().phase == phase::PROGRESSING {
            super::status::progressing(draft, reason::COMPLETED);
        }
        if let Some(canary) = &mut draft.status.canary_status {
            let steps = usize::try_from(canary.current_step_index).unwrap_or_default();
            settled(canary, steps);
        }
        return;
    };
    if let Some((kind, patch)) = free(p.adapter, p.view, p.children) {
        draft.tell_of(default_strategy(p.workload, p.adapter, p.view));
        edit_to_free(p.workload, kind, patch).for_each(|action| draft.act(action));
    }
    let going = if end == phase::DISABLED {
        phase::DISABLING
    } else {
        end
    };
    draft.say(going, format!("{message}; {} is being handed back", p.workload));
}

fn govern_present(draft: &mut Draft<'_>, observed: &Observed<'_>, rollout: &Rollout, p: &Present<'_>) {
    if let Some(rival) = observed.rival {
        let message = format!(
            "{} is governed by Rollout {rival}: delete one of the two Rollouts",
            p.workload
        );
        draft.say(phase::INITIAL, message.clone());
        draft.condition(condition::GUARDED, false, why::CONFLICT, &message);
        draft.stalled(why::CONFLICT, &message);
        return;
    }
    if speaks_of_another(draft, p.view) {
        if observed.first_look {
            tell_created_again(draft, p, rollout.metadata.generation);
        }
        forget(draft);
        return draft.say(
            phase::INITIAL,
            format!("{} is another one than before", p.workload),
        );
    }
    if !p.view.replicas_known {
        return wait_for_the_size(draft, p);
    }
    let plan = match rollout
        .spec
        .strategy
        .canary
        .as_ref()
        .map(|canary| Plan::new(canary, p.view.replicas))
    {
        Some(Ok(plan)) => plan,
        Some(Err(error)) => return broken_plan(draft, &error.to_string()),
        None => return broken_plan(draft, "spec.strategy.canary is missing: add steps"),
    };
    match p.view.guard() {
        Some(guard) if guard.rollout != observed.name => {
            let other = &guard.rollout;
            let message = format!("{} still carries the mark of Rollout {other}", p.workload);
            if observed.keeps_held && p.view.hold().is_some() {
                // Nobody may be there to take it off.
                let message = format!("{message}: delete this Rollout, and {}", way_on(other));
                draft.stalled(why::CONFLICT, &message);
                return draft.say(phase::INITIAL, message);
            }
            draft.say(phase::INITIAL, message);
        }
        Some(_) if p.view.hold().is_some() => {
            guarded(draft, p.workload);
            if p.view.label != TypeLabel::Right {
                // Admission keeps the label while the workload is held; it may have been down.
                set_label(draft, p);
            }
            advance(
                draft,
                &Release {
                    rollout,
                    present: p,
                    plan: &plan,
                    replaces: observed.replace_stuck_pods,
                },
            );
        }
        Some(_) => at_rest(draft, observed, p, &plan),
        None => unmarked(draft, observed, rollout, p),
    }
    if observed.first_look {
        tell_changes(draft, p, &plan);
    }
}

/// The operator has not said how many pods there should be: without that there is no plan, and a held workload stays held.
fn wait_for_the_size(draft: &mut Draft<'_>, p: &Present<'_>) {
    let message = format!(
        "waiting for the operator of {} to report how many pods there should be",
        p.workload
    );
    draft.say(progressing_or_initial(draft), message);
    let stall = operator_silent(draft, p);
    draft.stall(stall);
}

/// The plan cannot be read: nothing more is exposed, and a held workload stays held.
fn broken_plan(draft: &mut Draft<'_>, message: &str) {
    draft.say(progressing_or_initial(draft), message);
    draft.stalled(why::PLAN, message);
}

fn progressing_or_initial(draft: &Draft<'_>) -> &'static str {
    if draft.before().phase == phase::PROGRESSING {
        phase::PROGRESSING
    } else {
        phase::INITIAL
    }
}

/// Sets the workload-type label. Somebody may be setting labels too: those are neither lost nor overwritten.
pub(super) fn set_label(draft: &mut Draft<'_>, p: &Present<'_>) {
    let patch = PatchBuilder::new(p.view.skeleton.value())
        .test(["metadata", "uid"], p.view.uid.clone().into())
        .test(
            ["metadata", "resourceVersion"],
            p.view.resource_version.clone().into(),
        )
        .set(
            &["metadata", "labels", names::WORKLOAD_TYPE],
            p.adapter.type_label().into(),
        );
    draft.edit(p.workload, EditKind::Label, patch);
}
