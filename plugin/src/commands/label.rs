use kruise_rollout::diagnosis::fitness::{Candidate, Verdict, fitness};
use kruise_rollout::diagnosis::{Looked, outages};
use kruise_rollout::intent::{Labelling, Refusal, label, unlabel};
use kruise_rollout::names;
use kube::api::ApiResource;

use super::ATTEMPTS;
use super::written::{changed, unchanged};
use crate::cli::Label;
use crate::cli::writing::DryRun;
use crate::cluster::{Cluster, Workload, qualified};
use crate::error::Error;
use crate::follow::now;
use crate::render;
use crate::target::{self, Object, Target};
use crate::ui::Ui;

pub(super) async fn run(command: &Label, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    if command.selector.is_some() || command.all {
        return several(command, cluster, ui).await;
    }
    if command.all_namespaces {
        return Err(Error::Usage("-A needs a selector (-l) or --all".to_owned()));
    }
    let target = target::workload(&command.target)?;
    let first = find(cluster, &target).await?;
    fit_for_label(command, cluster, &first.resource).await?;
    warn(command, cluster, ui).await;
    let mut workload = first;
    for _ in 0..ATTEMPTS {
        if written(command, cluster, &workload, ui).await? {
            return Ok(0);
        }
        workload = find(cluster, &target).await?;
    }
    Err(Error::Changed(command.target.join(" ")))
}

/// All workloads of a type, each for itself: one that fails does not keep the others.
async fn several(command: &Label, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let [word] = command.target.as_slice() else {
        return Err(Error::Usage("with -l or --all write a TYPE alone".to_owned()));
    };
    if word.contains('/') {
        return Err(Error::Usage(format!(
            "{word}: with -l or --all write a TYPE alone"
        )));
    }
    let (kind, group) = word
        .split_once('.')
        .map_or((word.as_str(), None), |(kind, group)| (kind, Some(group)));
    let resource = cluster.resource(kind, group).await?;
    fit_for_label(command, cluster, &resource).await?;
    let found = cluster
        .objects_of(&resource, command.all_namespaces, command.selector.as_deref())
        .await?;
    let objects = match found {
        Looked::Seen(objects) => objects,
        other => {
            return Err(Error::Forbidden {
                message: other.why_not().unwrap_or_default(),
                right: format!("list {}", qualified(&resource)),
                role: None,
            });
        }
    };
    if objects.is_empty() {
        ui.say(&format!("No {} found.", qualified(&resource)));
        return Ok(0);
    }
    warn(command, cluster, ui).await;
    let mut failed = false;
    for object in objects {
        let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
        let (name, namespace) = (text("name"), text("namespace"));
        let workload = Workload {
            resource: resource.clone(),
            name: name.clone(),
            object,
        };
        let answer = match written(command, &cluster.in_namespace(&namespace), &workload, ui).await {
            Ok(true) => continue,
            Ok(false) => Error::Changed(workload.subject()),
            // Nobody reads on.
            Err(error @ Error::Io(_)) => return Err(error),
            Err(error) => error,
        };
        answer.explain(ui);
        failed = true;
    }
    Ok(u8::from(failed))
}

/// Writes what is asked for. `Ok(false)`: it changed in the meantime.
async fn written(
    command: &Label,
    cluster: &Cluster,
    workload: &Workload,
    ui: &mut Ui,
) -> Result<bool, Error> {
    let subject = workload.subject();
    let refused = |refusal: Refusal| Error::Refused {
        subject: subject.clone(),
        refusal,
        hint: None,
    };
    let (patch, says) = if command.remove {
        let Some(patch) = unlabel(&workload.kind(), &workload.object).map_err(refused)? else {
            unchanged(ui, &command.writing, &subject, "not labeled", &workload.object)?;
            return Ok(true);
        };
        (patch, "unlabeled")
    } else {
        let wanted = command.value.as_deref();
        match label(&workload.kind(), &workload.object, wanted, command.overwrite).map_err(refused)? {
            Labelling::Unchanged { value } => {
                unchanged(ui, &command.writing, &subject, "not labeled", &workload.object)?;
                ui.say(&format!("{}={value} is set already", names::WORKLOAD_TYPE));
                return Ok(true);
            }
            Labelling::Write { patch, .. } => (patch, "labeled"),
        }
    };
    let write = cluster.write_workload(workload, patch);
    let Some(after) = cluster.send(&write, &command.writing).await? else {
        return Ok(false);
    };
    changed(ui, &command.writing, &subject, says, &write, after)?;
    Ok(true)
}

/// Refuses the label on a kind whose schema rules releases out. A schema that may not be read refuses nothing.
async fn fit_for_label(command: &Label, cluster: &Cluster, resource: &ApiResource) -> Result<(), Error> {
    if command.force || command.remove {
        return Ok(());
    }
    let definition = match cluster.definition(resource).await? {
        Looked::Seen(Some(definition)) => definition,
        Looked::Seen(None) | Looked::Forbidden(_) | Looked::Failed(_) | Looked::Not => return Ok(()),
    };
    let kind = kruise_rollout::workload::GroupKind {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
    };
    let candidate = Candidate {
        kind: &kind,
        version: &resource.version,
        definition: Some(&definition),
        object: None,
        probe: None,
    };
    let name = qualified(resource);
    let rows = fitness(&candidate, &name)
        .into_iter()
        .flat_map(|fitness| fitness.rows);
    let unfit = rows.into_iter().find(|row| row.verdict == Verdict::Unfit);
    match unfit {
        None => Ok(()),
        Some(row) => Err(Error::Refused {
            hint: Some(format!(
                "kubectl kruise workload check --crd {name} tells more; --force labels it all the same"
            )),
            subject: name,
            refusal: Refusal::Unfit {
                field: row.field,
                why: row.why.unwrap_or_default(),
            },
        }),
    }
}

/// Says what would keep updates of a labelled workload from being taken, as far as that may be looked at.
async fn warn(command: &Label, cluster: &Cluster, ui: &mut Ui) {
    if command.remove || command.writing.dry_run() == DryRun::Client {
        return;
    }
    let Ok(facts) = cluster.installation(names::DEFAULT_NAMESPACE, now()).await else {
        return;
    };
    for finding in outages(&facts) {
        ui.say(&format!("Warning: {}", render::plain(&finding.message)));
    }
}

/// The workload that a target means.
pub(super) async fn find(cluster: &Cluster, target: &Target) -> Result<Workload, Error> {
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
                qualified(&resource),
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
