//! What runs against the control plane: the product, another implementation, or nothing.

use std::process::Command;

use anyhow::Context as _;
use support::process::spawn;
use support::{ControlPlane, Identity, Installation, Options, Process};

use crate::usage::Usage;
use crate::{Arguments, Kind};

/// Fake nodes, so that the room for pods is not what is measured.
const NODES: u32 = 4;

/// A control plane with room for the load.
pub(crate) async fn control_plane() -> anyhow::Result<ControlPlane> {
    eprintln!("starting a control plane");
    let options = Options {
        nodes: NODES,
        ..Options::default()
    };
    Ok(ControlPlane::start(options).await?)
}

/// What is measured, and what it needs. All of it ends when this is dropped.
pub(crate) struct Stage<'a> {
    installation: Installation<'a>,
    other: Option<Process>,
}

impl<'a> Stage<'a> {
    /// Installs and starts what the arguments say.
    pub(crate) async fn set(control_plane: &'a ControlPlane, arguments: &Arguments) -> anyhow::Result<Self> {
        let mut stage = Self {
            installation: Installation::new(control_plane)?,
            other: None,
        };
        if !arguments.bare && arguments.controller.is_none() {
            eprintln!("installing the product");
            if let Some(program) = &arguments.program {
                stage.installation.set_program(program.clone());
            }
            stage.installation.install().await?;
            return Ok(stage);
        }
        if arguments.kind == Kind::Mystatefulapp {
            stage.installation.define(&[]).await?;
            stage.installation.start_operator(&[])?;
        }
        if let Some(line) = &arguments.controller {
            eprintln!("starting {line}");
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            command.env("KUBECONFIG", control_plane.kubeconfig(Identity::Admin));
            stage.other = Some(spawn(&command).with_context(|| line.clone())?);
        }
        Ok(stage)
    }

    /// The controller, unless nothing is measured.
    fn controller(&self) -> Option<&Process> {
        self.other.as_ref().or(self.installation.controller.as_ref())
    }

    /// What the controller has used so far.
    pub(crate) fn usage(&self) -> Option<Usage> {
        Some(Usage::of_group(self.controller()?.pid()))
    }

    /// The user that the controller is for the API server.
    pub(crate) fn user(&self) -> &'static str {
        match self.other {
            Some(_) => Identity::Admin.user(),
            None => Identity::Controller.user(),
        }
    }

    /// The end of the controller's log, for a run that does not come to its end.
    pub(crate) fn log(&self) -> String {
        self.controller()
            .map(|process| process.log_tail(10))
            .unwrap_or_default()
    }
}
