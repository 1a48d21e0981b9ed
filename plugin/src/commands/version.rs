use kruise_rollout::names;
use kruise_rollout::report::REPORT_VERSION;
use serde::Serialize;

use crate::cli::{Connection, Output, Version};
use crate::cluster::ControllerImage;
use crate::connect::connect;
use crate::error::Error;
use crate::format::{json, yaml};
use crate::ui::Ui;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    api_version: &'static str,
    kind: &'static str,
    client_version: Client,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<Controller>,
    /// Versions of Rollouts that the server has, the preferred one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rollout_versions: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Client {
    version: String,
    commit: &'static str,
    target: &'static str,
}

#[derive(Debug, Serialize)]
struct Controller {
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

pub(super) async fn run(command: &Version, connection: &Connection, ui: &mut Ui) -> Result<u8, Error> {
    let mut versions = Versions {
        api_version: REPORT_VERSION,
        kind: "Versions",
        client_version: Client {
            version: format!("v{}", env!("CARGO_PKG_VERSION")),
            commit: env!("KRUISE_ROLLOUT_COMMIT"),
            target: env!("KRUISE_ROLLOUT_TARGET"),
        },
        server_version: None,
        controller: None,
        rollout_versions: Vec::new(),
    };
    let mut outcome = Ok(0);
    if !command.client {
        match server(connection, &mut versions).await {
            Ok(notes) => notes.iter().for_each(|note| ui.say(note)),
            // The version of the plugin is an answer also without a server.
            Err(error) => outcome = Err(error),
        }
    }
    match command.output {
        Some(Output::Json) => ui.answer(&json(&versions)?)?,
        Some(Output::Yaml) => ui.answer(&yaml(&versions)?)?,
        Some(Output::Name | Output::Wide) | None => {
            for line in lines(&versions) {
                ui.answer(&line)?;
            }
        }
    }
    outcome
}

fn lines(versions: &Versions) -> Vec<String> {
    let client = &versions.client_version;
    let mut lines = vec![format!(
        "Client:     {} (commit {}, {})",
        client.version,
        client.commit.get(..12).unwrap_or(client.commit),
        client.target
    )];
    if let Some(version) = &versions.server_version {
        lines.push(format!("Server:     {version}"));
    }
    if let Some(controller) = &versions.controller {
        lines.push(format!("Controller: {}", controller.image));
    }
    if !versions.rollout_versions.is_empty() {
        lines.push(format!("Rollouts:   {}", versions.rollout_versions.join(", ")));
    }
    lines
}

/// Asks the server. Returns what is worth saying.
async fn server(connection: &Connection, versions: &mut Versions) -> Result<Vec<String>, Error> {
    let cluster = connect(connection).await?;
    versions.server_version = Some(cluster.server_version().await?);
    let mut notes = Vec::new();
    versions.rollout_versions = cluster.rollout_versions().await?;
    if versions.rollout_versions.is_empty() {
        notes.push("the server has no Rollouts: install kruise-rollout".to_owned());
    }
    match cluster.controller_image().await {
        Ok(Some(ControllerImage { image, ours })) => {
            let version = tag(&image).map(str::to_owned);
            let own = &versions.client_version.version;
            notes.extend(
                version
                    .as_deref()
                    .filter(|_| ours)
                    .and_then(|version| skew(own, version)),
            );
            versions.controller = Some(Controller { image, version });
        }
        Ok(None) => notes.push(format!(
            "no controller is installed in namespace {}",
            names::DEFAULT_NAMESPACE
        )),
        Err(Error::Forbidden { right, .. }) => {
            notes.push(format!("the controller is not shown: you may not {right}"));
        }
        Err(error) => return Err(error),
    }
    Ok(notes)
}

/// The tag of an image; none where it is named by its digest alone.
fn tag(image: &str) -> Option<&str> {
    let name = image.split('@').next().unwrap_or_default();
    // A colon in front of a slash belongs to the registry's port.
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split_once(':').map(|(_, tag)| tag)
}

/// What to say of a plugin and a controller that are more than one minor version apart. Tags that are no versions say nothing.
fn skew(client: &str, controller: &str) -> Option<String> {
    let minor = |text: &str| {
        let mut numbers = text.trim_start_matches('v').split('.').map(str::parse::<i64>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    let (own, theirs) = (minor(client)?, minor(controller)?);
    (own.0 != theirs.0 || own.1.abs_diff(theirs.1) > 1).then(|| {
        format!(
            "warning: this plugin is {client} and the controller {controller}: use releases that are at most one minor version apart"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_names_its_version_and_what_is_too_far_apart_is_said() {
        for (image, expected) in [
            ("registry:5000/kruise/controller:v0.3.1", Some("v0.3.1")),
            ("registry:5000/kruise/controller", None),
            ("controller:v1.0.0@sha256:abc", Some("v1.0.0")),
            ("controller@sha256:abc", None),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
        for (controller, apart) in [
            ("v0.3.1", false),
            ("0.4.0", false),
            ("v0.5.0", true),
            ("v1.3.0", true),
            ("latest", false),
            ("v0", false),
        ] {
            assert_eq!(skew("v0.3.0", controller).is_some(), apart, "{controller}");
        }
    }
}
