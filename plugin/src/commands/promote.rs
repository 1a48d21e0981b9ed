use kruise_rollout::intent::{Refusal, Wanted};
use kruise_rollout::report::State;

use super::approve::{Meant, has_acted, one};
use super::follow::{deadline, follow};
use super::jump::{self, To};
use crate::cli::approve::Promote;
use crate::cli::writing::DryRun;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::render;
use crate::target;
use crate::ui::Ui;

pub(super) async fn run(command: &Promote, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let name = cluster.rollout_of(&target::target(&command.target)?).await?;
    if command.full {
        return full(command, &name, cluster, ui).await;
    }
    Ok(one(&any(), &name, cluster, &command.writing, ui).await?.code)
}

/// Any pause.
fn any() -> Meant<'static> {
    Meant {
        wanted: Wanted {
            skip_timer: true,
            ..Wanted::default()
        },
        seen: None,
        strict: false,
    }
}

/// Goes to the last step, and then approves every pause until the release is complete.
async fn full(command: &Promote, name: &str, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let subject = render::subject(name);
    let writing = &command.writing;
    if !command.yes && writing.dry_run() == DryRun::None {
        ui.ask(
            &format!("Take {subject} to its last step, without further approvals?"),
            &format!("take {subject} to its last step"),
        )?;
    }
    match jump::to(To::Last, name, cluster, writing, ui).await {
        Ok(()) => {}
        Err(Error::Refused {
            refusal: Refusal::MayNotJump,
            ..
        }) => ui.say("you may not jump here: the steps are approved one after the other"),
        // It is there, or the next one is the last and still to be approved.
        Err(Error::Refused {
            refusal: Refusal::SameStep(_) | Refusal::StillUpdating { .. },
            ..
        }) => {}
        Err(error) => return Err(error),
    }
    if writing.dry_run() != DryRun::None {
        return Ok(0);
    }
    let deadline = deadline(command.timeout);
    loop {
        let (report, code) = follow(name, cluster, deadline, ui, |report| {
            matches!(
                report.state,
                State::AwaitingApproval | State::TimedPause | State::Paused
            )
            .then_some(0)
        })
        .await?;
        match report.state {
            State::AwaitingApproval | State::TimedPause => {
                match one(&any(), name, cluster, writing, ui).await {
                    Ok(_) => {}
                    // It has moved on by itself: a jump was carried out, or somebody else approved.
                    Err(Error::Refused { .. } | Error::Changed(_)) => continue,
                    Err(error) => return Err(error),
                }
                let step = report.step;
                follow(name, cluster, deadline, ui, |report| {
                    has_acted(step, report).then_some(0)
                })
                .await?;
            }
            State::Paused => {
                return Err(super::refused(name, cluster.namespace(), Refusal::SpecPaused));
            }
            _ => return Ok(code),
        }
    }
}
