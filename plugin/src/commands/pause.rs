//! pause, resume, enable, disable.

use kruise_rollout::intent::{self, Change, Switch};

use super::each::each;
use super::refused;
use super::written::{Plan, to_rollout};
use crate::cli::steer::{Disable, Steer};
use crate::cli::writing::DryRun;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::render;
use crate::ui::Ui;

fn of(change: Change, says: &'static str, already: &'static str) -> Plan {
    match change {
        Change::Unchanged => Plan::Unchanged {
            says: already,
            note: None,
        },
        Change::Write(patch) => Plan::Write {
            subresource: None,
            patch,
            says,
        },
    }
}

pub(super) async fn pause(command: &Steer, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    each(&command.targets, cluster, ui, async |chosen, ui| {
        let name = chosen.cluster.rollout_of(&chosen.target).await?;
        to_rollout(&name, &chosen.cluster, &command.writing, ui, |rollout, _| {
            Ok(of(intent::pause(rollout), "paused", "already paused"))
        })
        .await
        .map(|_| 0)
    })
    .await
}

pub(super) async fn resume(command: &Steer, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    each(&command.targets, cluster, ui, async |chosen, ui| {
        let cluster = &chosen.cluster;
        let name = cluster.rollout_of(&chosen.target).await?;
        to_rollout(&name, cluster, &command.writing, ui, |rollout, _| {
            let change = intent::resume(rollout);
            let change = change.map_err(|refusal| refused(&name, cluster.namespace(), refusal))?;
            Ok(of(change, "resumed", "not paused"))
        })
        .await
        .map(|_| 0)
    })
    .await
}

pub(super) async fn enable(command: &Steer, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    each(&command.targets, cluster, ui, async |chosen, ui| {
        let name = chosen.cluster.rollout_of(&chosen.target).await?;
        to_rollout(&name, &chosen.cluster, &command.writing, ui, |rollout, _| {
            Ok(of(intent::enable(rollout), "enabled", "already enabled"))
        })
        .await
        .map(|_| 0)
    })
    .await
}

/// Asks where a release is in progress, because the rest of its pods is updated at once then.
pub(super) async fn disable(command: &Disable, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    each(&command.targets, cluster, ui, async |chosen, ui| {
        let name = chosen.cluster.rollout_of(&chosen.target).await?;
        let mut confirmed = command.yes || command.writing.dry_run() != DryRun::None;
        to_rollout(&name, &chosen.cluster, &command.writing, ui, |rollout, ui| {
            let (releases, patch) = match intent::disable(rollout) {
                Switch::Unchanged => return Ok(of(Change::Unchanged, "", "already disabled")),
                Switch::Write { releases, patch } => (releases, patch),
            };
            if releases && !confirmed {
                ui.ask(
                    &format!(
                        "Disable {}? A release is in progress: the rest of its pods is updated at once.",
                        render::subject(&name)
                    ),
                    &format!("disable {} in mid-release", render::subject(&name)),
                )?;
                confirmed = true;
            }
            Ok(of(Change::Write(patch), "disabled", ""))
        })
        .await
        .map(|_| 0)
    })
    .await
}
