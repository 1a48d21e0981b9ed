use kruise_rollout::diagnosis::Looked;
use kruise_rollout::diagnosis::fitness::{Candidate, Fitness};
use kruise_rollout::diagnosis::requirements::{Surroundings, requirements};
use kruise_rollout::intent::Refusal;
use kruise_rollout::workload::GroupKind;
use serde_json::Value;

use super::label::find;
use crate::cli::Check;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::render;
use crate::target;
use crate::ui::Ui;

/// No release is possible.
const UNFIT: u8 = 3;

pub(super) async fn run(command: &Check, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let fitness = match &command.crd {
        Some(name) => of_kind(name, cluster).await?,
        None => of_workload(command, cluster, ui).await?,
    };
    match command.output {
        Some(format) => super::doctor::answer(ui, format, &fitness)?,
        None => {
            for line in render::fitness(&fitness, ui.theme()) {
                ui.answer(&line)?;
            }
        }
    }
    Ok(if fitness.fit { 0 } else { UNFIT })
}

async fn of_kind(name: &str, cluster: &Cluster) -> Result<Fitness, Error> {
    const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";
    let definition = match cluster.definition_named(name).await? {
        Looked::Seen(Some(definition)) => definition,
        Looked::Seen(None) | Looked::Not => {
            return Err(Error::NoType(name.to_owned()));
        }
        other => {
            return Err(Error::Forbidden {
                message: other.why_not().unwrap_or_default(),
                right: format!("get {RESOURCE}"),
                role: None,
            });
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = GroupKind {
        group: text(&definition["spec"]["group"]),
        kind: text(&definition["spec"]["names"]["kind"]),
    };
    let candidate = Candidate {
        kind: &kind,
        version: "",
        definition: Some(&definition),
        object: None,
        probe: None,
    };
    let surroundings = Surroundings {
        plural: &text(&definition["spec"]["names"]["plural"]),
        roles: &cluster.roles_of_kinds().await?,
        pods: &Looked::Not,
    };
    judged(&candidate, &surroundings, name)
}

async fn of_workload(command: &Check, cluster: &Cluster, ui: &mut Ui) -> Result<Fitness, Error> {
    let workload = find(cluster, &target::workload(&command.target)?).await?;
    let definition = cluster.definition(&workload.resource).await?;
    if let Some(why) = definition.why_not() {
        ui.say(&format!("the schema is not shown: {why}"));
    }
    let probe = if command.probe {
        cluster.try_partition(&workload).await?
    } else {
        Looked::Not
    };
    if let (true, Some(why)) = (command.probe, probe.why_not()) {
        ui.say(&format!("nothing was tried: {why}"));
    }
    let kind = workload.kind();
    let candidate = Candidate {
        kind: &kind,
        version: &workload.resource.version,
        definition: definition.seen().and_then(Option::as_ref),
        object: Some(&workload.object),
        probe: probe.seen(),
    };
    let surroundings = Surroundings {
        plural: &workload.resource.plural,
        roles: &cluster.roles_of_kinds().await?,
        pods: &cluster.looked_pods(&workload).await?,
    };
    judged(&candidate, &surroundings, &workload.subject())
}

/// The verdict on a kind that is supported.
fn judged(
    candidate: &Candidate<'_>,
    surroundings: &Surroundings<'_>,
    subject: &str,
) -> Result<Fitness, Error> {
    requirements(candidate, surroundings, subject).ok_or_else(|| Error::Refused {
        subject: subject.to_owned(),
        refusal: Refusal::UnsupportedKind(candidate.kind.to_string()),
        hint: None,
    })
}
