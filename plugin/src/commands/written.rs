//! What is written to Rollouts and workloads, and what is said of it.

use json_patch::Patch;
use kruise_rollout::api::v1beta1::Rollout;
use serde_json::Value;

use super::ATTEMPTS;
use crate::cli::writing::{Printed, Writing};
use crate::cluster::{Cluster, Write};
use crate::error::Error;
use crate::format::yaml;
use crate::render;
use crate::ui::Ui;

/// What a look at a Rollout comes to.
pub(super) enum Plan {
    /// Nothing is to be written. What the answer says of the object, and what else there is to say.
    Unchanged {
        /// Such as `already paused`.
        says: &'static str,
        /// More of it.
        note: Option<String>,
    },
    /// This is to be written.
    Write {
        /// The object or a subresource of it.
        subresource: Option<&'static str>,
        /// What is written.
        patch: Patch,
        /// What the answer says of the object, such as `paused`.
        says: &'static str,
    },
}

/// Reads a Rollout, writes what `plan` makes of it, and answers; again when the Rollout changes meanwhile. Whether it was written.
pub(super) async fn to_rollout(
    name: &str,
    cluster: &Cluster,
    writing: &Writing,
    ui: &mut Ui,
    mut plan: impl FnMut(&Rollout, &mut Ui) -> Result<Plan, Error>,
) -> Result<bool, Error> {
    let subject = render::subject(name);
    for _ in 0..ATTEMPTS {
        let read = cluster.read_rollout(name).await?;
        match plan(&read.rollout, ui)? {
            Plan::Unchanged { says, note } => {
                unchanged(ui, writing, &subject, says, &read.object)?;
                if let Some(note) = note {
                    ui.say(&format!("{subject}: {note}"));
                }
                return Ok(false);
            }
            Plan::Write {
                subresource,
                patch,
                says,
            } => {
                let write = cluster.write_rollout(&read.object, subresource, patch);
                if let Some(after) = cluster.send(&write, writing).await? {
                    changed(ui, writing, &subject, says, &write, after)?;
                    return Ok(true);
                }
            }
        }
    }
    Err(Error::Changed(subject))
}

/// The answer to a change that was made, or would be.
pub(super) fn changed(
    ui: &mut Ui,
    writing: &Writing,
    subject: &str,
    says: &str,
    write: &Write<'_>,
    after: Value,
) -> Result<(), Error> {
    match writing.output {
        None => ui.answer(&format!("{subject} {says}{}", writing.suffix())),
        Some(Printed::Patch) => ui.answer(&write.request(&writing.field_manager)),
        Some(format) => print(ui, format, subject, after),
    }
}

/// The answer when the object is as wanted already.
pub(super) fn unchanged(
    ui: &mut Ui,
    writing: &Writing,
    subject: &str,
    says: &str,
    object: &Value,
) -> Result<(), Error> {
    match writing.output {
        None => ui.answer(&format!("{subject} {says}")),
        Some(Printed::Patch) => {
            ui.say(&format!("{subject} {says}: there is nothing to send"));
            Ok(())
        }
        Some(format) => print(ui, format, subject, object.clone()),
    }
}

fn print(ui: &mut Ui, format: Printed, subject: &str, mut object: Value) -> Result<(), Error> {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    match format {
        Printed::Json => {
            let text = serde_json::to_string_pretty(&object).map_err(|error| Error::Io(error.into()))?;
            ui.answer(&text)
        }
        // A document of its own, since a command may change many.
        Printed::Yaml => ui.answer(&format!("---\n{}", yaml(&object)?.trim_end())),
        Printed::Name | Printed::Patch => ui.answer(subject),
    }
}
