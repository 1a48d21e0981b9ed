use kruise_rollout::intent::{Refusal, approve};

use super::each::each;
use super::{ATTEMPTS, dry, refused};
use crate::cli::{Approve, DryRun};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::render;
use crate::ui::Ui;

pub(super) async fn run(command: &Approve, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    each(&command.targets, cluster, ui, async |chosen, ui| {
        let name = chosen.cluster.rollout_of(&chosen.target).await?;
        one(command, &chosen.cluster, ui, &name).await
    })
    .await
}

async fn one(command: &Approve, cluster: &Cluster, ui: &mut Ui, name: &str) -> Result<u8, Error> {
    let refuse = |refusal: Refusal| refused(name, cluster.namespace(), refusal);
    let subject = render::subject(name);
    let mut meant = command.step;
    for _ in 0..ATTEMPTS {
        let rollout = cluster.rollout(name).await?;
        let approval = match approve(&rollout) {
            Ok(approval) => approval,
            Err(Refusal::AlreadyApproved(step)) if meant.is_none_or(|meant| meant == step) => {
                ui.answer(&format!("{subject} already approved"))?;
                return Ok(0);
            }
            Err(refusal) => return Err(refuse(refusal)),
        };
        // What was meant is the step that was seen first: when the release moves on meanwhile, the next step is not approved.
        let asked = *meant.get_or_insert(approval.step);
        if asked != approval.step {
            return Err(refuse(Refusal::OtherStep {
                at: approval.step,
                asked,
            }));
        }
        let dry_run = command.writing.dry_run;
        if dry_run == DryRun::Client
            || cluster
                .patch_rollout_status(name, &approval.patch, &command.writing)
                .await?
        {
            ui.answer(&format!("{subject} approved{}", dry(dry_run)))?;
            return Ok(0);
        }
    }
    Err(Error::Changed(subject))
}
