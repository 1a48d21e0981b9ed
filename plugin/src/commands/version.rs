use serde::Serialize;

use crate::cli::{Connection, Output, Version};
use crate::connect::connect;
use crate::error::Error;
use crate::format::{json, yaml};
use crate::ui::Ui;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller_image: Option<String>,
}

pub(super) async fn run(command: &Version, connection: &Connection, ui: &mut Ui) -> Result<u8, Error> {
    let mut versions = Versions {
        client_version: format!("v{}", env!("CARGO_PKG_VERSION")),
        server_version: None,
        controller_image: None,
    };
    let mut outcome = Ok(0);
    if !command.client {
        match server(connection, &mut versions).await {
            Ok(Some(note)) => ui.say(&note),
            Ok(None) => {}
            // The version of the plugin is an answer also without a server.
            Err(error) => outcome = Err(error),
        }
    }
    match command.output {
        Some(Output::Json) => ui.answer(&json(&versions)?)?,
        Some(Output::Yaml) => ui.answer(&yaml(&versions)?)?,
        Some(Output::Name | Output::Wide) | None => {
            ui.answer(&format!("Client:     {}", versions.client_version))?;
            if let Some(version) = &versions.server_version {
                ui.answer(&format!("Server:     {version}"))?;
            }
            if let Some(image) = &versions.controller_image {
                ui.answer(&format!("Controller: {image}"))?;
            }
        }
    }
    outcome
}

/// Asks the server. Returns what is worth saying.
async fn server(connection: &Connection, versions: &mut Versions) -> Result<Option<String>, Error> {
    let cluster = connect(connection).await?;
    versions.server_version = Some(cluster.server_version().await?);
    let namespace = kruise_rollout::names::DEFAULT_NAMESPACE;
    Ok(match cluster.controller_image().await {
        Ok(Some(image)) => {
            versions.controller_image = Some(image);
            None
        }
        Ok(None) => Some(format!("no controller is installed in namespace {namespace}")),
        Err(Error::Forbidden { right, .. }) => {
            Some(format!("the controller is not shown: you may not {right}"))
        }
        Err(error) => return Err(error),
    })
}
