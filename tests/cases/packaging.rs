//! What is installed: archives for krew, the chart, the image, alerts. Checked by the tools that read them.

mod chart;
mod health;
mod helm;
mod image;
mod install;
mod krew;
mod monitoring;
mod size;

use std::path::PathBuf;
use std::process::{Command, Output};

use support::Tool;
use support::process::scratch;

/// A path of the repository.
fn repository(path: &str) -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap().join(path)
}

/// Helm with these arguments, in the repository, with a home of its own.
fn helm(arguments: &[&str]) -> Command {
    let mut helm = Command::new(Tool::Helm.program().unwrap());
    helm.args(arguments).env("HOME", scratch("helm").unwrap());
    helm.current_dir(repository(""));
    helm
}

/// What a command prints.
///
/// # Panics
/// It fails.
fn answer(command: &mut Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub fn run(command: &mut Command) -> Output {
    command.stdin(std::process::Stdio::null());
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
