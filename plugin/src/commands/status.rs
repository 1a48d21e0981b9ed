use kruise_rollout::report::{RolloutReport, Verdict};

use super::label::find;
use super::plain;
use crate::cli::{Output, Status, Wait};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::follow::{PAUSED, follow, gravest, now};
use crate::format::{pretty, yaml};
use crate::ui::Ui;
use crate::{render, target};

pub(super) async fn run(command: &Status, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let targets = match targets(&command.targets, cluster).await {
        // What no Rollout releases has a status of its own.
        Err(error @ Error::NoRollout { .. }) => match target::targets(&command.targets)?.as_slice() {
            [target] => {
                let workload = find(cluster, target).await?;
                return plain::run(command, &workload, cluster, ui).await;
            }
            _ => return Err(error),
        },
        targets => targets?,
    };
    if command.watch {
        return follow(targets, command.until, &command.follow, command.output, ui).await;
    }
    let mut codes = Vec::new();
    for (cluster, name) in &targets {
        match once(command, cluster, name, ui).await {
            Ok(code) => codes.push(code),
            Err(error @ Error::Io(_)) => return Err(error),
            Err(error) => {
                error.explain(ui);
                codes.push(error.exit_code());
            }
        }
    }
    Ok(gravest(codes))
}

pub(super) async fn wait(command: &Wait, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let targets = targets(&command.targets, cluster).await?;
    follow(targets, command.condition, &command.follow, None, ui).await
}

async fn targets(words: &[String], cluster: &Cluster) -> Result<Vec<(Cluster, String)>, Error> {
    let mut targets = Vec::new();
    for target in target::targets(words)? {
        targets.push((cluster.clone(), cluster.rollout_of(&target).await?));
    }
    Ok(targets)
}

/// One look. Its exit code is the verdict.
async fn once(command: &Status, cluster: &Cluster, name: &str, ui: &mut Ui) -> Result<u8, Error> {
    let (world, _, notes) = cluster.world(name).await?;
    for note in notes {
        ui.say(&note);
    }
    let report = world.report(None, now());
    for line in lines(command.output, &report, ui)? {
        ui.answer(&line)?;
    }
    Ok(match report.verdict {
        Verdict::AwaitingApproval if command.follow.exit_on_pause => PAUSED,
        _ => report.exit_code,
    })
}

/// One report in the format that was asked for.
fn lines(format: Option<Output>, report: &RolloutReport, ui: &Ui) -> Result<Vec<String>, Error> {
    Ok(match format {
        None => render::report(report, ui.theme()),
        Some(Output::Wide) => render::report_wide(report, ui.theme()),
        Some(Output::Json) => vec![pretty(report)?],
        Some(Output::Yaml) => vec![yaml(report)?],
        Some(Output::Name) => vec![render::subject(&report.name)],
    })
}
