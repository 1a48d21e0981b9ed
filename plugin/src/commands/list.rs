use kruise_rollout::admission::rollout::WorkloadClaim;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::diagnosis::Labelled;
use kruise_rollout::names;
use kruise_rollout::report::REPORT_VERSION;
use kruise_rollout::workload::adapter_for;
use serde::Serialize;

use crate::cli::List;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::render;
use crate::ui::Ui;

/// A labelled workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    pub(crate) namespace: String,
    /// `plural.group`.
    pub(crate) resource: String,
    pub(crate) name: String,
    /// Value of the label.
    pub(crate) label: String,
    /// The Rollout that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rollout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<u32>,
    /// As it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<String>,
    /// A release is in progress.
    pub(crate) releasing: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Items<'a> {
    api_version: &'static str,
    kind: &'static str,
    items: &'a [Item],
}

pub(super) async fn run(command: &List, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let rollouts = cluster.all_rollouts(command.all_namespaces).await?;
    if let Some(why) = rollouts.why_not() {
        ui.say(&format!("Rollouts are not shown: {why}"));
    }
    let rollouts = rollouts.seen().cloned().unwrap_or_default();
    let (labelled, refused) = cluster.labelled(command.all_namespaces, &rollouts).await?;
    for right in &refused {
        ui.say(&format!("some workloads are not shown: you may not {right}"));
    }
    let mut items: Vec<_> = labelled
        .iter()
        .map(|workload| item(workload, &rollouts))
        .collect();
    items.sort_by(|one, other| {
        (&one.namespace, &one.resource, &one.name).cmp(&(&other.namespace, &other.resource, &other.name))
    });
    if let Some(format) = command.output {
        let items = Items {
            api_version: REPORT_VERSION,
            kind: "WorkloadList",
            items: &items,
        };
        super::doctor::answer(ui, format, &items)?;
        return Ok(0);
    }
    if items.is_empty() {
        let place = if command.all_namespaces {
            "in any namespace".to_owned()
        } else {
            format!("in namespace {}", cluster.namespace())
        };
        let which = if refused.is_empty() {
            "No workload"
        } else {
            "No workload that you may list"
        };
        ui.say(&format!(
            "{which} has the label {} {place}.",
            names::WORKLOAD_TYPE
        ));
        return Ok(0);
    }
    for line in render::workloads(&items, command.all_namespaces) {
        ui.answer(&line)?;
    }
    Ok(0)
}

fn item(workload: &Labelled, rollouts: &[Rollout]) -> Item {
    let (kind, object) = (&workload.kind, &workload.object);
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    let view = adapter_for(kind).and_then(|adapter| adapter.view(object).ok());
    let names_it = |claim: &WorkloadClaim| {
        (&claim.namespace, &claim.group, &claim.kind, &claim.workload)
            == (&namespace, &kind.group, &kind.kind, &name)
    };
    let claim = rollouts.iter().filter_map(WorkloadClaim::of).find(names_it);
    Item {
        resource: format!("{}.{}", workload.plural, kind.group),
        label: object["metadata"]["labels"][names::WORKLOAD_TYPE]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        rollout: claim.map(|claim| claim.rollout),
        replicas: view
            .as_ref()
            .filter(|view| view.replicas_known)
            .map(|view| view.replicas),
        partition: view
            .as_ref()
            .and_then(|view| view.partition)
            .map(|partition| partition.to_string()),
        releasing: view.is_some_and(|view| view.marks.hold.is_some()),
        namespace,
        name,
    }
}
