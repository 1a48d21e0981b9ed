use kruise_rollout::intent::{Enabling, Refusal, disable_kind, enable_kind};
use kruise_rollout::workload::GroupKind;
use serde_json::Value;

use super::written::{changed, unchanged};
use crate::cli::Enable;
use crate::cluster::{Cluster, qualified};
use crate::error::Error;
use crate::ui::Ui;

/// The resource of ClusterRoles, as kubectl names it.
const ROLES: &str = "clusterrole.rbac.authorization.k8s.io";

pub(super) async fn run(command: &Enable, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let (word, group) = command
        .kind
        .split_once('.')
        .map_or((command.kind.as_str(), None), |(word, group)| (word, Some(group)));
    let resource = cluster.resource(word, group).await?;
    let kind = GroupKind {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
    };
    let name = qualified(&resource);
    let roles = cluster.enabling_roles().await?;
    let enabling = if command.remove {
        disable_kind(&kind.group, &resource.plural, &roles)
    } else {
        enable_kind(&kind, &resource.plural, &roles).map_err(|refusal: Refusal| Error::Refused {
            subject: name.clone(),
            refusal,
            hint: None,
        })?
    };
    let subject = |role: &Value| {
        format!(
            "{ROLES}/{}",
            role["metadata"]["name"].as_str().unwrap_or_default()
        )
    };
    match enabling {
        Enabling::Unchanged { by } => {
            let says = match (command.remove, by.is_some()) {
                (false, _) => "enabled already",
                (true, true) => "not disabled",
                (true, false) => "not enabled",
            };
            let role = by.and_then(|by| roles.iter().find(|role| role["metadata"]["name"] == by.as_str()));
            unchanged(ui, &command.writing, &name, says, role.unwrap_or(&Value::Null))?;
            if let Some(role) = role {
                ui.say(&format!(
                    "{} gives the controller its rights to {name}",
                    subject(role)
                ));
            }
        }
        Enabling::Apply(role) => {
            let write = cluster.apply_role(&role);
            let after = sent(cluster, &write, command, &subject(&role)).await?;
            changed(ui, &command.writing, &subject(&role), "applied", &write, after)?;
        }
        Enabling::Delete { role, also } => {
            let write = cluster.delete_role(&role);
            let after = sent(cluster, &write, command, &subject(&role)).await?;
            changed(ui, &command.writing, &subject(&role), "deleted", &write, after)?;
            if let Some(other) = also {
                ui.say(&format!(
                    "{ROLES}/{other} still gives the controller its rights to {name}"
                ));
            }
        }
    }
    Ok(0)
}

/// Sends it; a role that is not as it was read any more is not written.
async fn sent(
    cluster: &Cluster,
    write: &crate::cluster::Write<'_>,
    command: &Enable,
    subject: &str,
) -> Result<Value, Error> {
    let after = cluster.send(write, &command.writing).await?;
    after.ok_or_else(|| Error::Changed(subject.to_owned()))
}
