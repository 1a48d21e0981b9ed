//! A step or a rollback that does not get on: after the progress deadline it is told who holds it up, why and since when.
//!
//! Progress is derived, not stored: it is when the present state was entered, or when the last updated pod became ready. What is
//! told stays word for word the same while nothing moves: absolute times, no counts of restarts.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};

use super::back::{told_to_wait, updated_pods};
use super::observed::Children;
use super::release::Release;
use super::status::{Draft, Stall};
use super::why;
use crate::api::v1beta1::condition::{self, get};
use crate::api::v1beta1::{CanaryStatus, Rollout, step_state};
use crate::workload::{PodView, View};

/// The deadline where the Rollout has none.
const DEFAULT: SignedDuration = SignedDuration::from_secs(600);
/// How many pods are named.
const NAMED: usize = 3;

/// `progressDeadlineSeconds` as it is written, or so long; `None` when it is switched off.
pub(super) fn limit(rollout: &Rollout, default: SignedDuration) -> Option<SignedDuration> {
    let canary = rollout.spec.strategy.canary.as_ref();
    match canary.and_then(|canary| canary.progress_deadline_seconds) {
        None => Some(default),
        Some(..=0) => None,
        Some(seconds) => Some(SignedDuration::from_secs(seconds.into())),
    }
}

/// Keeps what was told while pods are not known, as after a restart: dropped and told again it would look like news.
pub(super) fn kept(draft: &mut Draft<'_>, children: Children<'_>) -> bool {
    let before = draft.before();
    let told = get(&before.conditions, condition::STALLED)
        .is_some_and(|stalled| [why::DEADLINE, why::IN_THE_WAY].contains(&stalled.reason.as_str()));
    let entered = |canary: &Option<CanaryStatus>| canary.as_ref().and_then(|c| c.last_update_time.clone());
    let keeps = matches!(children, Children::Unknown)
        && told
        && draft.status.phase == before.phase
        && entered(&draft.status.canary_status) == entered(&before.canary_status);
    if keeps {
        draft.status.message.clone_from(&before.message);
    }
    keeps
}

/// Tells of a deadline that has passed.
pub(super) fn overdue(draft: &mut Draft<'_>, release: &Release<'_>) -> Option<Stall> {
    let p = release.present;
    let Children::Pods(pods) = p.children else {
        return None;
    };
    let limit = limit(release.rollout, DEFAULT)?;
    let canary = draft.status.canary_status.as_ref().filter(|_| draft.held_up)?;
    let since = progressed(canary, p.view, pods, draft.now)?;
    let until = since.checked_add(limit).ok()?;
    if until > draft.now {
        draft.wake_at(until);
        return None;
    }
    let culprits = culprits(p.view, pods);
    let who = match told_to_wait(p) {
        _ if !culprits.is_empty() => named(&culprits),
        Some(paused) => paused,
        None => format!("no pod is in trouble: does the operator of {} run?", p.workload),
    };
    Some(tell(
        draft,
        why::DEADLINE,
        format!("no progress since {since:.0}: {who}"),
    ))
}

/// Tells it in the message of the Rollout too.
pub(super) fn tell(draft: &mut Draft<'_>, reason: &'static str, message: String) -> Stall {
    // Writing to a String does not fail.
    let _ = write!(draft.status.message, "; {message}");
    Stall { reason, message }
}

/// When the release last got on. A pod that crashes again and again and is ready between counts as of its creation. A step that was
/// done and has lost pods since stands still from then on.
fn progressed(canary: &CanaryStatus, view: &View, pods: &[PodView], now: Timestamp) -> Option<Timestamp> {
    let done = canary.current_step_state != step_state::STEP_UPGRADE;
    let updated = updated_pods(view, pods).filter(|pod| !pod.terminating);
    let moments = updated.filter_map(|pod| match pod.ready {
        true => pod.steadily_since(),
        false => pod.since.filter(|_| done),
    });
    let entered = canary.last_update_time.as_ref().map(|time| time.0);
    moments.chain(entered).filter(|at| *at <= now).max()
}

/// The pods that hold it up: first those that should become ready, then those that should go, then those whose turn must come
/// before others. Each by name.
fn culprits<'a>(view: &'a View, pods: &'a [PodView]) -> Vec<&'a PodView> {
    let updated: Vec<_> = updated_pods(view, pods).map(|pod| &pod.name).collect();
    let mut culprits: Vec<_> = pods
        .iter()
        .filter_map(|pod| {
            let rank = match pod {
                pod if pod.terminating => 1,
                pod if pod.ready => return None,
                pod if updated.contains(&&pod.name) => 0,
                _ if view.in_order => 2,
                _ => return None,
            };
            Some((rank, &pod.name, pod))
        })
        .collect();
    culprits.sort_by_key(|(rank, name, _)| (*rank, *name));
    culprits.into_iter().map(|(.., pod)| pod).collect()
}

fn named(pods: &[&PodView]) -> String {
    let mut names: Vec<_> = pods.iter().take(NAMED).map(|pod| described(pod)).collect();
    if pods.len() > NAMED {
        names.push(format!("and {} more", pods.len() - NAMED));
    }
    names.join("; ")
}

/// A pod that is not ready or on its way out, why and since when.
pub(super) fn described(pod: &PodView) -> String {
    let name = &pod.name;
    let trouble = pod.trouble.as_deref();
    let since = |what: &str, at: Option<Timestamp>| {
        at.map_or_else(|| what.to_owned(), |at| format!("{what} since {at:.0}"))
    };
    if pod.terminating {
        let node = trouble.and_then(|trouble| trouble.node.as_deref());
        let node = node.map(|node| format!(" on node {node}")).unwrap_or_default();
        return format!("pod {name} is {}{node}", since("terminating", pod.since));
    }
    let state = match pod.created.filter(|_| pod.restarted) {
        Some(created) => format!("of {created:.0} is not ready"),
        None => format!("is {}", since("not ready", pod.since)),
    };
    match trouble {
        Some(trouble) => format!("pod {name} {state} ({})", trouble.why),
        None => format!("pod {name} {state}"),
    }
}
