use kruise_rollout::intent::{self, Approve as Outcome, Refusal, Release, Wanted};
use kruise_rollout::report::{RolloutReport, State};
use kube::ResourceExt;

use super::each::{all, chosen};
use super::follow::{deadline, follow};
use super::written::{Plan, to_rollout};
use super::{reason, refused};
use crate::cli::approve::{Approve, Wait};
use crate::cli::writing::{DryRun, Writing};
use crate::cluster::{Chosen, Cluster};
use crate::error::Error;
use crate::target::Target;
use crate::ui::Ui;

/// Which step of which release is meant, and how.
pub(super) struct Meant<'a> {
    pub(super) wanted: Wanted<'a>,
    /// The step that was seen, where somebody has looked already.
    pub(super) seen: Option<Release>,
    pub(super) strict: bool,
}

/// What became of one approval.
pub(super) struct Approved {
    /// The step, where one was approved now or before.
    step: Option<i32>,
    /// Whether it was we who approved it.
    written: bool,
    /// The exit code.
    pub(super) code: u8,
}

pub(super) async fn run(command: &Approve, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let wanted = Wanted {
        step: command.step,
        revision: command.revision.as_deref(),
        skip_timer: command.skip_timer,
    };
    let meant = if command.targets.words.is_empty() {
        awaiting(command, &wanted, cluster, ui).await?
    } else {
        let named = chosen(&command.targets, cluster, ui).await?.into_iter();
        named.map(|chosen| (chosen, None)).collect()
    };
    let deadline = deadline(command.timeout);
    all(&meant, ui, async |(chosen, seen), ui| {
        let cluster = &chosen.cluster;
        let name = cluster.rollout_of(&chosen.target).await?;
        let meant = Meant {
            wanted,
            seen: seen.clone(),
            strict: command.strict,
        };
        let approved = one(&meant, &name, cluster, &command.writing, ui).await?;
        if command.writing.dry_run() == DryRun::Client || approved.code != 0 {
            return Ok(approved.code);
        }
        if let (true, Some(step), Some(reason)) = (approved.written, approved.step, &command.reason) {
            reason::record(reason, step, &name, cluster, &command.writing, ui).await;
        }
        match (approved.step, command.wait) {
            (Some(step), Some(wait)) if command.writing.dry_run() == DryRun::None => {
                let (_, code) =
                    follow(&name, cluster, deadline, ui, |report| reached(wait, step, report)).await?;
                Ok(code)
            }
            _ => Ok(approved.code),
        }
    })
    .await
}

/// The Rollouts of a selection that wait for an approval, each with the step that it is at. Asks once for all.
async fn awaiting(
    command: &Approve,
    wanted: &Wanted<'_>,
    cluster: &Cluster,
    ui: &mut Ui,
) -> Result<Vec<(Chosen, Option<Release>)>, Error> {
    let mut meant = Vec::new();
    let mut steps = Vec::new();
    for rollout in cluster.selected(&command.targets).await? {
        let Ok(Outcome::Write(approval)) = intent::approve(&rollout, wanted) else {
            continue;
        };
        let namespace = rollout.metadata.namespace.clone().unwrap_or_default();
        let name = rollout.name_any();
        steps.push(format!(
            "{namespace}/{name} step {} of {}",
            approval.at.step, approval.steps
        ));
        let chosen = Chosen {
            cluster: cluster.in_namespace(&namespace),
            target: Target::Rollout(name),
        };
        meant.push((chosen, Some(approval.at)));
    }
    if meant.is_empty() {
        let scope = cluster.scope(&command.targets);
        if command.targets.fail_if_empty {
            return Err(Error::NoneFound(format!("that wait for an approval {scope}")));
        }
        ui.say(&format!("No rollouts wait for an approval {scope}."));
    } else if !command.yes && command.writing.dry_run() == DryRun::None {
        let list = steps.join(", ");
        ui.ask(&format!("Approve {list}?"), &format!("approve {list}"))?;
    }
    Ok(meant)
}

/// Approves one Rollout. What is meant is the step that is seen first: when the release moves on meanwhile, what comes next is not
/// approved.
pub(super) async fn one(
    meant: &Meant<'_>,
    name: &str,
    cluster: &Cluster,
    writing: &Writing,
    ui: &mut Ui,
) -> Result<Approved, Error> {
    let refuse = |refusal: Refusal| refused(name, cluster.namespace(), refusal);
    let mut seen = meant.seen.clone();
    let mut step = None;
    let unchanged = |says, note| Ok(Plan::Unchanged { says, note });
    let written = to_rollout(name, cluster, writing, ui, |rollout, _| {
        let outcome = intent::approve(rollout, &meant.wanted).map_err(refuse)?;
        if let Outcome::Write(intent::Approval { at, .. }) | Outcome::Already(at) = &outcome {
            let seen = seen.get_or_insert_with(|| at.clone());
            if seen.id != at.id {
                return Err(refuse(Refusal::MovedOn));
            }
            if seen.step != at.step {
                return Err(refuse(Refusal::OtherStep {
                    at: at.step,
                    asked: seen.step,
                }));
            }
            step = Some(at.step);
        }
        match outcome {
            Outcome::Write(approval) => Ok(Plan::Write {
                subresource: Some("status"),
                patch: approval.patch,
                says: "approved",
            }),
            Outcome::Already(_) => unchanged("already approved", None),
            Outcome::Passed { asked, at: Some(at) } => unchanged(
                "unchanged",
                Some(format!(
                    "step {asked} is behind, the release is at step {at}: nothing is approved"
                )),
            ),
            Outcome::Passed { asked, at: None } => unchanged(
                "unchanged",
                Some(format!(
                    "step {asked} is behind, the release is complete: nothing is approved"
                )),
            ),
            Outcome::Timed { step, seconds } => unchanged(
                "unchanged",
                Some(format!(
                    "step {step} pauses for {seconds} s and goes on by itself; to end the pause now: \
                     kubectl kruise rollout approve rollout/{name} -n {} --step {step} --skip-timer",
                    cluster.namespace()
                )),
            ),
        }
    })
    .await?;
    Ok(Approved {
        step,
        written,
        code: u8::from(meant.strict && !written),
    })
}

/// Whether what is waited for has come, after the approval of a step.
fn reached(wait: Wait, approved: i32, report: &RolloutReport) -> Option<u8> {
    let step = usize::try_from(approved).unwrap_or_default();
    let paused = matches!(report.state, State::AwaitingApproval | State::TimedPause);
    let done = match wait {
        Wait::Step => has_acted(step, report),
        Wait::Paused => paused && report.step != step,
        Wait::Healthy => false,
    };
    (done || report.state == State::Complete).then_some(0)
}

/// Whether the controller has acted upon the approval of a step.
pub(super) fn has_acted(step: usize, report: &RolloutReport) -> bool {
    let waits = matches!(
        report.state,
        State::AwaitingApproval | State::TimedPause | State::Approved | State::Paused
    );
    report.step != step || !waits
}
