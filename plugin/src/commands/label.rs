use kruise_rollout::intent::{Labelling, label};
use kruise_rollout::names;

use super::ATTEMPTS;
use super::written::{changed, unchanged};
use crate::cli::Label;
use crate::cluster::{Cluster, Workload};
use crate::error::Error;
use crate::target::{self, Object, Target};
use crate::ui::Ui;

pub(super) async fn run(command: &Label, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let target = target::workload(&command.target)?;
    for _ in 0..ATTEMPTS {
        let workload = find(cluster, &target).await?;
        let subject = workload.subject();
        let labelling = label(&workload.kind(), &workload.object, command.overwrite).map_err(|refusal| {
            Error::Refused {
                subject: subject.clone(),
                refusal,
                hint: None,
            }
        })?;
        let patch = match labelling {
            Labelling::Unchanged { value } => {
                unchanged(ui, &command.writing, &subject, "not labeled", &workload.object)?;
                ui.say(&format!("{}={value} is set already", names::WORKLOAD_TYPE));
                return Ok(0);
            }
            Labelling::Write { patch, .. } => patch,
        };
        let write = cluster.write_workload(&workload, patch);
        if let Some(after) = cluster.send(&write, &command.writing).await? {
            changed(ui, &command.writing, &subject, "labeled", &write, after)?;
            return Ok(0);
        }
    }
    Err(Error::Changed(command.target.join(" ")))
}

async fn find(cluster: &Cluster, target: &Target) -> Result<Workload, Error> {
    let (found, resource, name) = match target {
        Target::Rollout(name) => {
            let reference = cluster.rollout(name).await?.spec.workload_ref;
            (
                cluster.workload_of(&reference).await?,
                reference.kind,
                reference.name,
            )
        }
        Target::Object(Object {
            resource,
            group,
            name,
        }) => {
            let resource = cluster.resource(resource, group.as_deref()).await?;
            (
                cluster.workload(&resource, name).await?,
                crate::cluster::qualified(&resource),
                name.clone(),
            )
        }
    };
    found.ok_or_else(|| Error::NotFound {
        resource,
        name,
        namespace: cluster.namespace().to_owned(),
        close: Vec::new(),
    })
}
