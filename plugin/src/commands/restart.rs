use kruise_rollout::intent;

use super::each::each;
use super::written::changed;
use super::{ATTEMPTS, refused};
use crate::cli::steer::Restart;
use crate::cli::writing::DryRun;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::follow::now;
use crate::render;
use crate::ui::Ui;

pub(super) async fn run(command: &Restart, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    each(&command.targets, cluster, ui, async |chosen, ui| {
        let name = chosen.cluster.rollout_of(&chosen.target).await?;
        one(command, &name, &chosen.cluster, ui).await
    })
    .await
}

async fn one(command: &Restart, name: &str, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let writing = &command.writing;
    let now = render::second(now());
    for _ in 0..ATTEMPTS {
        let rollout = cluster.rollout(name).await?;
        let workload = cluster.existing_workload(&rollout).await?;
        let patch = intent::restart(&rollout, &workload.object, &now, command.force)
            .map_err(|refusal| refused(name, cluster.namespace(), refusal))?;
        let write = cluster.write_workload(&workload, patch);
        if let Some(after) = cluster.send(&write, writing).await? {
            changed(ui, writing, &workload.subject(), "restarted", &write, after)?;
            if writing.dry_run() == DryRun::None {
                ui.say(&format!(
                    "this starts a release by the steps of rollout/{name}; follow it: \
                     kubectl kruise rollout status rollout/{name} -n {}",
                    cluster.namespace()
                ));
            }
            return Ok(0);
        }
    }
    Err(Error::Changed(name.to_owned()))
}
