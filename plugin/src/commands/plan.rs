use std::path::Path;

use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::diagnosis::lint::{rollouts, workload_among};
use kruise_rollout::diagnosis::preview::{Preview, preview};
use kruise_rollout::names;
use kruise_rollout::workload::{GroupKind, UpdateOrder, View, adapter_for};
use serde_json::Value;

use crate::cli::{Connection, Plan};
use crate::connect::connect;
use crate::error::Error;
use crate::manifests::{self, Unreadable};
use crate::render;
use crate::ui::Ui;

pub(super) async fn run(command: &Plan, connection: &Connection, ui: &mut Ui) -> Result<u8, Error> {
    let previews = match &command.filename {
        Some(path) => of_file(command, path, connection).await?,
        None => vec![of_cluster(command, connection).await?],
    };
    for (place, preview) in previews.iter().enumerate() {
        match command.output {
            Some(format) => super::doctor::answer(ui, format, preview)?,
            None => {
                if place > 0 {
                    ui.answer("")?;
                }
                for line in render::preview(preview) {
                    ui.answer(&line)?;
                }
            }
        }
    }
    Ok(0)
}

async fn of_cluster(command: &Plan, connection: &Connection) -> Result<Preview, Error> {
    let cluster = connect(connection).await?;
    let rollout = cluster.named_rollout(&command.target).await?;
    let (_, workload) = cluster.referred(&rollout.spec.workload_ref).await?;
    let object = workload
        .seen()
        .and_then(Option::as_ref)
        .map(|workload| &workload.object);
    planned(command, &rollout, object, &command.target.join(" "))
}

/// Needs no cluster.
async fn of_file(command: &Plan, path: &Path, connection: &Connection) -> Result<Vec<Preview>, Error> {
    let (file, text) = manifests::read(path).await?;
    let documents = manifests::parse(&file, &text).map_err(Unreadable::into_error)?;
    let namespace = connection.namespace().unwrap_or("default");
    let values: Vec<Value> = documents.into_iter().map(|document| document.value).collect();
    let rollouts = rollouts(&values, namespace);
    let is_rollout =
        |object: &&Value| object["kind"] == "Rollout" && object["apiVersion"] == names::API_VERSION;
    if rollouts.len() < values.iter().filter(is_rollout).count() {
        return Err(Error::Manifest {
            problem: format!(
                "a Rollout in it cannot be read: kubectl kruise rollout lint -f {} tells why",
                path.display()
            ),
            place: file,
        });
    }
    if rollouts.is_empty() {
        return Err(Error::Manifest {
            place: file,
            problem: format!("there is no Rollout of {} in it", names::API_VERSION),
        });
    }
    let planned = rollouts.iter().map(|(_, rollout)| {
        planned(
            command,
            rollout,
            workload_among(&values, rollout, namespace),
            &file,
        )
    });
    planned.collect()
}

fn planned(
    command: &Plan,
    rollout: &Rollout,
    workload: Option<&Value>,
    place: &str,
) -> Result<Preview, Error> {
    let view = workload.and_then(|object| view(rollout, object));
    let known = view
        .as_ref()
        .filter(|view| view.replicas_known)
        .map(|view| view.replicas);
    let Some(replicas) = command.replicas.or(known) else {
        let reference = &rollout.spec.workload_ref;
        return Err(Error::Usage(format!(
            "how many pods has {} {}? Its workload is not seen: write --replicas NUMBER",
            reference.kind, reference.name
        )));
    };
    let order: Option<&UpdateOrder> = view.as_ref().map(|view| &view.order);
    preview(rollout, replicas, order).map_err(|error| Error::Manifest {
        place: place.to_owned(),
        problem: error.to_string(),
    })
}

fn view(rollout: &Rollout, object: &Value) -> Option<View> {
    let reference = &rollout.spec.workload_ref;
    let kind = GroupKind {
        group: reference.group_version()?.0.to_owned(),
        kind: reference.kind.clone(),
    };
    adapter_for(&kind)?.view(object).ok()
}
