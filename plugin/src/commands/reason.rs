//! Why a step was approved, kept where others can read it.

use kruise_rollout::lens::PatchBuilder;
use kruise_rollout::names;
use serde_json::{Value, json};

use crate::cli::writing::{DryRun, Writing};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::follow::now;
use crate::render;
use crate::ui::Ui;

/// Writes annotations of the Rollout. The approval stands whatever comes of it, so a failure is only said.
pub(super) async fn record(
    reason: &str,
    step: i32,
    name: &str,
    cluster: &Cluster,
    writing: &Writing,
    ui: &mut Ui,
) {
    if let Err(error) = annotate(reason, step, name, cluster, writing).await {
        ui.say(&format!(
            "{}: the reason is not recorded: {error}",
            render::subject(name)
        ));
    }
}

async fn annotate(
    reason: &str,
    step: i32,
    name: &str,
    cluster: &Cluster,
    writing: &Writing,
) -> Result<(), Error> {
    // Nothing is stored in a dry run, so it does not matter who it was.
    let by = match writing.dry_run() {
        DryRun::None => cluster.user().await?,
        DryRun::Client | DryRun::Server => String::new(),
    };
    let at = render::second(now());
    for _ in 0..super::ATTEMPTS {
        let read = cluster.read_rollout(name).await?;
        let known = json!({"metadata": {"annotations": read.object["metadata"]["annotations"]}});
        let mut patch =
            PatchBuilder::new(known).test(["metadata", "uid"], read.object["metadata"]["uid"].clone());
        for (annotation, value) in [
            (names::APPROVED_BY, by.as_str()),
            (names::APPROVED_AT, &at),
            (names::APPROVED_STEP, &step.to_string()),
            (names::APPROVED_REASON, reason),
        ] {
            patch = patch.set(&["metadata", "annotations", annotation], Value::from(value));
        }
        let write = cluster.write_rollout(&read.object, None, patch.build());
        if cluster.send(&write, writing).await?.is_some() {
            return Ok(());
        }
    }
    Err(Error::Changed(render::subject(name)))
}
