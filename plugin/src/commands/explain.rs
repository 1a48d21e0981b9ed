use kruise_rollout::diagnosis::explain;

use crate::cli::Explain;
use crate::cluster::{Cluster, Scope};
use crate::error::Error;
use crate::follow::now;
use crate::render;
use crate::ui::Ui;

pub(super) async fn run(command: &Explain, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let rollout = cluster.named_rollout(&command.target).await?;
    let installed = &command.installed.controller_namespace;
    let facts = cluster
        .facts(Some(rollout), installed, Scope::Release, now())
        .await?;
    let Some(explanation) = explain(&facts) else {
        return Ok(0);
    };
    match command.output {
        Some(format) => super::doctor::answer(ui, format, &explanation)?,
        None => {
            for line in render::explanation(&explanation, ui.theme()) {
                ui.answer(&line)?;
            }
        }
    }
    Ok(0)
}
