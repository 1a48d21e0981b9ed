//! Commands that take many.

use crate::cli::targets::Targets;
use crate::cluster::{Chosen, Cluster};
use crate::error::Error;
use crate::follow;
use crate::ui::Ui;

/// What a command is about. Says so when a selection finds nothing.
pub(super) async fn chosen(targets: &Targets, cluster: &Cluster, ui: &mut Ui) -> Result<Vec<Chosen>, Error> {
    let chosen = cluster.chosen(targets).await?;
    if chosen.is_empty() {
        ui.say(&format!("No rollouts found {}.", cluster.scope(targets)));
    }
    Ok(chosen)
}

/// Carries out a command for each of its targets. Returns the gravest exit code.
pub(super) async fn each(
    targets: &Targets,
    cluster: &Cluster,
    ui: &mut Ui,
    one: impl AsyncFn(&Chosen, &mut Ui) -> Result<u8, Error>,
) -> Result<u8, Error> {
    let chosen = chosen(targets, cluster, ui).await?;
    all(&chosen, ui, one).await
}

/// Goes through all, also when one of them fails. Returns the gravest exit code.
pub(super) async fn all<T>(
    targets: &[T],
    ui: &mut Ui,
    one: impl AsyncFn(&T, &mut Ui) -> Result<u8, Error>,
) -> Result<u8, Error> {
    if let [only] = targets {
        return one(only, ui).await;
    }
    let mut gravest = 0;
    for target in targets {
        let code = match one(target, ui).await {
            // Ctrl-C is meant for all.
            Err(error @ Error::Interrupted) => return Err(error),
            Err(error) => {
                error.explain(ui);
                error.exit_code()
            }
            Ok(code) => code,
        };
        gravest = follow::gravest([gravest, code]);
    }
    Ok(gravest)
}
