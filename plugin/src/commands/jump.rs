//! jump, retry.

use kruise_rollout::intent::{self, Refusal};
use kruise_rollout::names;

use super::refused;
use super::written::{Plan, to_rollout};
use crate::cli::steer::{Jump, Retry};
use crate::cli::writing::Writing;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::target;
use crate::ui::Ui;

/// Where to.
#[derive(Clone, Copy, Debug)]
pub(super) enum To {
    /// This step; the present one only by force.
    Step(i32, bool),
    /// The present one.
    Same,
    /// The last one.
    Last,
}

pub(super) async fn jump(command: &Jump, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let name = cluster.rollout_of(&target::target(&command.target)?).await?;
    to(
        To::Step(command.step, command.force),
        &name,
        cluster,
        &command.writing,
        ui,
    )
    .await
    .map(|()| 0)
}

pub(super) async fn retry(command: &Retry, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let name = cluster.rollout_of(&target::target(&command.target)?).await?;
    to(To::Same, &name, cluster, &command.writing, ui)
        .await
        .map(|()| 0)
}

/// Makes a release go to another step.
pub(super) async fn to(
    to: To,
    name: &str,
    cluster: &Cluster,
    writing: &Writing,
    ui: &mut Ui,
) -> Result<(), Error> {
    let refuse = |refusal: Refusal| refused(name, cluster.namespace(), refusal);
    let mut meant = None;
    let mut back = false;
    let written = to_rollout(name, cluster, writing, ui, |rollout, _| {
        let release = intent::Release::of(rollout).map_err(refuse)?;
        // The step that is taken again, and the release that goes somewhere, are those that were seen first.
        if *meant.get_or_insert_with(|| release.clone()) != release {
            return Err(refuse(Refusal::MovedOn));
        }
        let (step, force) = match to {
            To::Step(step, force) => (Some(step), force),
            To::Same => (Some(release.step), true),
            To::Last => (None, false),
        };
        let jump = intent::jump(rollout, step, force).map_err(refuse)?;
        back = jump.is_back();
        Ok(Plan::Write {
            subresource: Some("status"),
            says: match to {
                To::Same => "retried",
                To::Step(..) | To::Last => "jumped",
            },
            patch: jump.patch,
        })
    })
    .await;
    match written {
        Ok(_) => {
            if back {
                ui.say("pods that are updated already stay so");
            }
            Ok(())
        }
        Err(Error::Server(status)) if status.code == 403 && status.message.contains(names::STATUS_POLICY) => {
            Err(refuse(Refusal::MayNotJump))
        }
        Err(error) => Err(error),
    }
}
