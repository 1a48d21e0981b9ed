use std::path::{Path, PathBuf};

use kruise_rollout::diagnosis::{PROGRAM, Programs, doctor};

use crate::cli::{Doctor, Format};
use crate::cluster::{Cluster, Scope};
use crate::error::Error;
use crate::follow::now;
use crate::render;
use crate::ui::Ui;

/// Something is wrong.
const WRONG: u8 = 3;

pub(super) async fn run(command: &Doctor, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let target = if command.target.is_empty() {
        None
    } else {
        match cluster.named_rollout(&command.target).await {
            Ok(rollout) => Some(rollout),
            // That there are no Rollouts at all is a finding.
            Err(Error::NotInstalled) => None,
            Err(error) => return Err(error),
        }
    };
    let installed = &command.installed.controller_namespace;
    let mut facts = cluster.facts(target, installed, Scope::Everything, now()).await?;
    facts.programs = programs();
    let diagnosis = doctor(&facts);
    match command.output {
        Some(format) => answer(ui, format, &diagnosis)?,
        None => {
            for line in render::diagnosis(&diagnosis, ui.theme()) {
                ui.answer(&line)?;
            }
        }
    }
    let wrong = diagnosis.failures > 0 || (command.strict && diagnosis.warnings > 0);
    Ok(if wrong { WRONG } else { 0 })
}

/// Prints a value for programs.
pub(super) fn answer(ui: &mut Ui, format: Format, value: &impl serde::Serialize) -> Result<(), Error> {
    match format {
        Format::Json => ui.answer(&crate::format::json(value)?),
        Format::Yaml => ui.answer(crate::format::yaml(value)?.trim_end()),
    }
}

/// The programs that kubectl may find, and what krew has installed under our name.
fn programs() -> Programs {
    let place = |path: PathBuf| path.canonicalize().unwrap_or(path).display().to_string();
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let mut found: Vec<String> = Vec::new();
    for path in std::env::split_paths(&folders).map(|folder| folder.join(&name)) {
        if path.is_file() {
            let path = place(path);
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    Programs {
        found,
        running: std::env::current_exe().map(place).unwrap_or_default(),
        krew: foreign_receipt(),
    }
}

/// The receipt of a plugin of our name from another home, if krew has one.
fn foreign_receipt() -> Option<String> {
    let root = std::env::var_os("KREW_ROOT")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".krew")))?;
    let receipt = std::fs::read_to_string(Path::new(&root).join("receipts").join("kruise.yaml")).ok()?;
    let home = receipt
        .lines()
        .find_map(|line| line.trim().strip_prefix("homepage:"))?;
    receipt.contains("kruise-tools").then(|| home.trim().to_owned())
}
