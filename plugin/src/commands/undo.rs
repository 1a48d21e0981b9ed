//! undo, abort.

use std::path::Path;

use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::intent::{self, Record, Refusal, Search, To};
use kruise_rollout::report::State;
use serde_json::Value;

use super::follow::{deadline, follow};
use super::written::{changed, unchanged};
use super::{ATTEMPTS, refused};
use crate::cli::undo::{Abort, Manner, Undo};
use crate::cli::writing::DryRun;
use crate::cluster::{Cluster, Workload};
use crate::error::Error;
use crate::format::yaml;
use crate::manifests::{self, Unreadable};
use crate::render;
use crate::target;
use crate::ui::Ui;

/// Which template is wanted, before anything has been read.
enum Wish<'a> {
    To(To),
    File(&'a Path, Vec<Value>),
}

pub(super) async fn undo(command: &Undo, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let wish = match (&command.from_file, command.to_revision.as_deref()) {
        (Some(file), _) => Wish::File(file, documents(file).await?),
        (None, None | Some("0")) => Wish::To(To::Previous),
        (None, Some(revision)) => Wish::To(To::Revision(revision.to_owned())),
    };
    run(&wish, &command.target, &command.manner, cluster, ui).await
}

pub(super) async fn abort(command: &Abort, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let wish = Wish::To(To::Stable);
    run(&wish, &command.target, &command.manner, cluster, ui).await
}

async fn run(
    wish: &Wish<'_>,
    words: &[String],
    manner: &Manner,
    cluster: &Cluster,
    ui: &mut Ui,
) -> Result<u8, Error> {
    let name = cluster.rollout_of(&target::target(words)?).await?;
    let refuse = |refusal: Refusal| refused(&name, cluster.namespace(), refusal);
    let writing = &manner.writing;
    let mut meant = None;
    for _ in 0..ATTEMPTS {
        let rollout = cluster.rollout(&name).await?;
        let workload = cluster.existing_workload(&rollout).await?;
        let (search, to) = look(wish, &rollout, &workload, cluster).await?;
        let to = to.map_err(refuse)?;
        let outcome = intent::undo(&rollout, &workload.object, &search, &to);
        let subject = workload.subject();
        let (to, template, rollback, patch) = match outcome.map_err(refuse)? {
            intent::Undo::Unchanged { at } => {
                let at = at.unwrap_or_else(|| "that template".to_owned());
                unchanged(
                    ui,
                    writing,
                    &subject,
                    &format!("unchanged (already at {at})"),
                    &workload.object,
                )?;
                return Ok(0);
            }
            intent::Undo::Restore {
                to,
                template,
                rollback,
                patch,
            } => (to, template, rollback, patch),
        };
        let effect = if rollback {
            "this ends the release, and pods return to the stable template at once".to_owned()
        } else {
            format!("this starts a release by the steps of rollout/{name}")
        };
        match &meant {
            // A question that was answered is not answered for another template.
            Some(meant) if *meant != template => return Err(Error::Changed(subject)),
            Some(_) => {}
            None => {
                if manner.diff {
                    show(&workload, &template, &to, writing.output.is_some(), ui)?;
                }
                if !manner.yes && writing.dry_run() == DryRun::None {
                    let deed = format!("take {subject} back to {to}");
                    ui.ask(&format!("{}? {}.", capital(&deed), capital(&effect)), &deed)?;
                }
            }
        }
        let write = cluster.write_workload(&workload, patch);
        let sent = cluster.send(&write, writing).await?;
        meant = Some(template);
        let Some(after) = sent else { continue };
        changed(
            ui,
            writing,
            &subject,
            &format!("rolled back to {to}"),
            &write,
            after,
        )?;
        if let Some(keeper) = intent::keeper(&workload.object, &writing.field_manager) {
            ui.say(&format!(
                "{subject}: its template is also kept by {keeper}: whoever applies that again brings back the template that is in it"
            ));
        }
        if writing.dry_run() != DryRun::None {
            return Ok(0);
        }
        if !manner.wait {
            ui.say(&format!(
                "{effect}; follow it: kubectl kruise rollout status rollout/{name} -n {}",
                cluster.namespace()
            ));
            return Ok(0);
        }
        let (_, code) = follow(&name, cluster, deadline(manner.timeout), ui, |report| {
            matches!(report.state, State::RolledBack | State::Complete).then_some(0)
        })
        .await?;
        return Ok(code);
    }
    Err(Error::Changed(name))
}

/// What there is to go back to.
async fn look(
    wish: &Wish<'_>,
    rollout: &Rollout,
    workload: &Workload,
    cluster: &Cluster,
) -> Result<(Search, Result<To, Refusal>), Error> {
    match wish {
        Wish::To(to) => Ok((cluster.search(rollout, workload).await?, Ok(to.clone()))),
        Wish::File(file, documents) => {
            let (kind, file) = (workload.kind(), file.display().to_string());
            let read = |manifest| Record::of_manifest(manifest, &kind, &workload.name, &file);
            let found = documents.iter().find_map(read);
            let to = found.map(To::Given).ok_or_else(|| Refusal::NotInFile {
                file: file.clone(),
                workload: workload.subject(),
            });
            Ok((Search::default(), to))
        }
    }
}

/// The documents of a manifest, those of a List too.
async fn documents(file: &Path) -> Result<Vec<Value>, Error> {
    let (name, text) = manifests::read(file).await?;
    let documents = manifests::parse(&name, &text).map_err(Unreadable::into_error)?;
    Ok(documents.into_iter().map(|document| document.value).collect())
}

/// Shows what changes. It is the answer, unless another one was asked for.
fn show(workload: &Workload, template: &Value, to: &str, is_talk: bool, ui: &mut Ui) -> Result<(), Error> {
    let text = |template: &Value| yaml(template);
    let (before, after) = (text(&workload.object["spec"]["template"])?, text(template)?);
    let subject = workload.subject();
    for line in render::diff(
        &before,
        &after,
        &format!("{subject} now"),
        &format!("{subject} at {to}"),
    ) {
        if is_talk {
            ui.say(&line);
        } else {
            ui.answer(&line)?;
        }
    }
    Ok(())
}

fn capital(clause: &str) -> String {
    let mut letters = clause.chars();
    letters.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_uppercase(), letters.as_str())
    })
}
