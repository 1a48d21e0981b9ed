//! Tells the program which commit and which target it is built from and for.

use std::path::Path;
use std::process::Command;

fn main() {
    const COMMIT: &str = "KRUISE_ROLLOUT_COMMIT";
    println!("cargo:rerun-if-env-changed={COMMIT}");
    // A source archive has no history: there the commit is given, or unknown.
    let commit = std::env::var(COMMIT).ok().or_else(|| git(&["rev-parse", "HEAD"]));
    println!(
        "cargo:rustc-env={COMMIT}={}",
        commit.unwrap_or_else(|| "unknown".to_owned())
    );
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=KRUISE_ROLLOUT_TARGET={target}");
    // This file grows with each commit and each change of branch.
    match git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        Some(log) => println!("cargo:rerun-if-changed={log}"),
        None => println!("cargo:rerun-if-changed=build.rs"),
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
