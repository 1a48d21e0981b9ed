use kruise_rollout::intent::{self, Refusal};

use super::{ATTEMPTS, dry, refused};
use crate::cli::{DryRun, Undo};
use crate::cluster::{Cluster, Workload};
use crate::error::Error;
use crate::target;
use crate::ui::Ui;

pub(super) async fn run(command: &Undo, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let name = cluster.rollout_of(&target::target(&command.target)?).await?;
    let rollout = cluster.rollout(&name).await?;
    let mut confirmed = command.yes || command.writing.dry_run == DryRun::Client;
    let mut meant = None;
    for _ in 0..ATTEMPTS {
        let workload = workload_of(cluster, &rollout).await?;
        let subject = workload.subject();
        let view = match workload.view() {
            Some(Ok(view)) => view,
            Some(Err(error)) => return Err(Error::Malformed { subject, error }),
            None => {
                let refusal = Refusal::UnsupportedKind(workload.kind().to_string());
                return Err(refused(&name, cluster.namespace(), refusal));
            }
        };
        let records = cluster.records(&rollout).await?;
        let undo = intent::undo(&view, &records, command.to_revision);
        let (revision, rollback, patch) =
            match undo.map_err(|refusal| refused(&name, cluster.namespace(), refusal))? {
                intent::Undo::Unchanged { revision } => {
                    let at = revision.map_or_else(
                        || "that template".to_owned(),
                        |revision| format!("revision {revision}"),
                    );
                    ui.answer(&format!("{subject} unchanged (already at {at})"))?;
                    return Ok(0);
                }
                intent::Undo::Restore {
                    revision,
                    rollback,
                    patch,
                } => (revision, rollback, patch),
            };
        // A question that was answered is not answered for another revision.
        if meant.is_some_and(|meant| meant != revision) {
            return Err(Error::Changed(subject));
        }
        meant = Some(revision);
        let effect = if rollback {
            "this ends the release, and pods return to the stable template at once".to_owned()
        } else {
            format!("this starts a release by the steps of rollout/{name}")
        };
        if !confirmed {
            match ui.confirm(&format!(
                "Take {subject} back to revision {revision}? {}",
                sentence(&effect)
            ))? {
                Some(true) => confirmed = true,
                Some(false) => return Err(Error::Declined),
                None => {
                    return Err(Error::Unconfirmed(format!(
                        "take {subject} back to revision {revision}"
                    )));
                }
            }
        }
        let dry_run = command.writing.dry_run;
        if dry_run == DryRun::Client
            || cluster
                .patch_workload(&workload, &patch, &command.writing)
                .await?
        {
            ui.answer(&format!(
                "{subject} rolled back to revision {revision}{}",
                dry(dry_run)
            ))?;
            if dry_run == DryRun::None {
                let namespace = cluster.namespace();
                ui.say(&format!(
                    "{effect}; follow it: kubectl kruise rollout status rollout/{name} -n {namespace}"
                ));
            }
            return Ok(0);
        }
    }
    Err(Error::Changed(name))
}

async fn workload_of(
    cluster: &Cluster,
    rollout: &kruise_rollout::api::v1beta1::Rollout,
) -> Result<Workload, Error> {
    let reference = &rollout.spec.workload_ref;
    cluster
        .workload_of(reference)
        .await?
        .ok_or_else(|| Error::NotFound {
            resource: reference.kind.clone(),
            name: reference.name.clone(),
            namespace: cluster.namespace().to_owned(),
            close: Vec::new(),
        })
}

fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    letters.next().map_or_else(String::new, |first| {
        format!("{}{}.", first.to_uppercase(), letters.as_str())
    })
}
