use kruise_rollout::report::{Document, PodReport, RolloutPods};

use super::print;
use crate::cli::{OfRevision, Output, PodList};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::follow::now;
use crate::ui::Ui;
use crate::{render, target};

pub(super) async fn run(command: &PodList, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let name = cluster.rollout_of(&target::target(&command.target)?).await?;
    let details = cluster.details(&name).await?;
    let now = now();
    let Some(mut pods) = details.pods(now) else {
        return Err(nothing(&details));
    };
    let revisions = details.world.report(None, now).revisions;
    pods.retain(|pod| {
        let of_batch = command
            .batch
            .is_none_or(|batch| pod.batch.and_then(|own| u32::try_from(own).ok()) == Some(batch));
        let of_revision = match command.revision {
            None => true,
            Some(OfRevision::Update) => pod.runs(revisions.update.as_deref()),
            Some(OfRevision::Stable) => pod.runs(revisions.stable.as_deref()),
        };
        of_batch && of_revision
    });
    show(command, &name, cluster, pods, ui)?;
    Ok(0)
}

/// Why there are no pods to show: the right that is missing, or the workload.
fn nothing(details: &crate::cluster::Details) -> Error {
    let reference = &details.world.rollout().spec.workload_ref;
    let subject = format!("{}/{}", reference.kind, reference.name);
    match details.hidden().first() {
        Some(hidden) => Error::Forbidden {
            message: hidden.to_string(),
            right: hidden.right.clone(),
            role: None,
        },
        None => Error::NoPods(subject),
    }
}

fn show(
    command: &PodList,
    name: &str,
    cluster: &Cluster,
    items: Vec<PodReport>,
    ui: &mut Ui,
) -> Result<(), Error> {
    let content = RolloutPods {
        name: name.to_owned(),
        namespace: cluster.namespace().to_owned(),
        items,
    };
    let document = Document::new("RolloutPods", content);
    let printed = print::document(command.output, &document, ui)?;
    let pods = &document.content.items;
    if pods.is_empty() {
        ui.say(&format!(
            "No such pods of {} in namespace {}.",
            render::subject(name),
            cluster.namespace()
        ));
    } else if command.output == Some(Output::Name) {
        print::lines(pods.iter().map(|pod| format!("pod/{}", pod.name)).collect(), ui)?;
    } else if !printed {
        let wide = command.output == Some(Output::Wide);
        print::lines(render::pods(pods, wide, !command.no_headers, now()), ui)?;
    }
    Ok(())
}
