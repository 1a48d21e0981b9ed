use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::completion::{Completion, CompletionCommand, Place};
use crate::error::Error;
use crate::ui::Ui;

/// By this line our own file is known.
const MARK: &str = "Written by kubectl-kruise completion install.";

#[cfg(windows)]
const NAME: &str = "kubectl_complete-kruise.cmd";
#[cfg(not(windows))]
const NAME: &str = "kubectl_complete-kruise";

#[cfg(windows)]
fn program() -> String {
    format!("@rem {MARK}\r\n@kubectl-kruise __complete %*\r\n")
}

#[cfg(not(windows))]
fn program() -> String {
    format!("#!/bin/sh\n# {MARK}\nexec kubectl-kruise __complete \"$@\"\n")
}

pub(super) fn run(command: &Completion, ui: &mut Ui) -> Result<u8, Error> {
    match (&command.command, command.shell) {
        (Some(CompletionCommand::Install(place)), _) => install(place, ui),
        (Some(CompletionCommand::Uninstall(place)), _) => uninstall(place, ui),
        (None, Some(shell)) => script(shell, ui),
        // The parser demands one of them.
        (None, None) => Err(Error::Usage("name a shell".to_owned())),
    }
}

/// The script is for the program's own name; kubectl completes its plugins in another way.
fn script(shell: clap_complete::Shell, ui: &mut Ui) -> Result<u8, Error> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    command = command.bin_name(&name);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    ui.answer(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

fn install(place: &Place, ui: &mut Ui) -> Result<u8, Error> {
    let (path, folders) = (search_path(), home());
    let folder = match &place.dir {
        Some(folder) => folder.clone(),
        None => default_folder(&path, folders.as_deref(), is_writable)
            .ok_or_else(|| Error::Usage("there is no folder to write to: name one with --dir".to_owned()))?,
    };
    let file = folder.join(NAME);
    let text = program();
    match fs::read(&file) {
        Ok(present) if present == text.as_bytes() => {
            ui.answer(&format!("{} unchanged", file.display()))?;
            return Ok(0);
        }
        Ok(present) if !is_ours(&present) => return Err(foreign(&file)),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(at(&file, &error)),
    }
    fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
    write(&folder, &file, &text).map_err(|error| at(&file, &error))?;
    ui.answer(&format!("{} written", file.display()))?;
    if !path.contains(&folder) {
        ui.say(&format!(
            "{} is not in the PATH: kubectl finds it only there",
            folder.display()
        ));
    }
    Ok(0)
}

fn uninstall(place: &Place, ui: &mut Ui) -> Result<u8, Error> {
    let folders = match &place.dir {
        Some(folder) => vec![folder.clone()],
        None => {
            let mut folders = search_path();
            folders.extend(home());
            folders
        }
    };
    let mut removed = false;
    for file in folders.iter().map(|folder| folder.join(NAME)) {
        match fs::read(&file) {
            Ok(present) if is_ours(&present) => {
                fs::remove_file(&file).map_err(|error| at(&file, &error))?;
                ui.answer(&format!("{} removed", file.display()))?;
                removed = true;
            }
            Ok(_) if place.dir.is_some() => return Err(foreign(&file)),
            _ => {}
        }
    }
    if !removed {
        ui.say(&format!("no {NAME} of this plugin was found"));
    }
    Ok(0)
}

/// Puts the file in its place whole, or not at all.
fn write(folder: &Path, file: &Path, text: &str) -> io::Result<()> {
    let draft = folder.join(format!(".{NAME}.{}", std::process::id()));
    let written = fs::write(&draft, text)
        .and_then(|()| executable(&draft))
        .and_then(|()| fs::rename(&draft, file));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(unix)]
fn executable(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn executable(_file: &Path) -> io::Result<()> {
    Ok(())
}

fn is_ours(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains(MARK)
}

fn foreign(file: &Path) -> Error {
    Error::Io(io::Error::new(
        ErrorKind::AlreadyExists,
        format!(
            "{} was not written by this plugin and is left alone",
            file.display()
        ),
    ))
}

fn at(file: &Path, error: &io::Error) -> Error {
    Error::Io(io::Error::new(
        error.kind(),
        format!("{}: {error}", file.display()),
    ))
}

fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect()
}

/// Where programs of a person live, beside those of the system.
fn home() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".local").join("bin"))
}

/// Next to the plugin as kubectl finds it, if we may write there.
fn default_folder(
    path: &[PathBuf],
    home: Option<&Path>,
    is_writable: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let names = ["kubectl-kruise", "kubectl-kruise.exe"];
    path.iter()
        .find(|folder| names.iter().any(|name| folder.join(name).exists()) && is_writable(folder))
        .cloned()
        .or_else(|| home.map(Path::to_owned))
}

fn is_writable(folder: &Path) -> bool {
    let probe = folder.join(format!(".{NAME}.{}", std::process::id()));
    let written = fs::write(&probe, "").is_ok();
    let _ = fs::remove_file(&probe);
    written
}
