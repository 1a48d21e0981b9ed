//! The product's own programs, built for a test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::{Error, profile_dir, repository};

/// Paths of the built programs.
#[derive(Debug, Clone)]
pub struct Product {
    /// `kruise-rollout-controller`.
    pub controller: PathBuf,
    /// `kubectl-kruise`; its folder is first in the `PATH` of [`crate::ControlPlane::kubectl`].
    pub plugin: PathBuf,
    /// `my-stateful-app-operator`, the example operator.
    pub operator: PathBuf,
}

/// Builds controller, plugin and example operator in the profile of the running program, once per process. Blocks.
///
/// # Errors
/// Cargo fails; the text has its output.
pub fn build_binaries() -> Result<&'static Product, Error> {
    static PRODUCT: LazyLock<Result<Product, String>> = LazyLock::new(|| build(&profile_dir()));
    PRODUCT.as_ref().map_err(|text| Error::Build(text.clone()))
}

fn build(folder: &Path) -> Result<Product, String> {
    let names = [
        "kruise-rollout-controller",
        "kubectl-kruise",
        "my-stateful-app-operator",
    ];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--profile", profile])
        .args(names.iter().flat_map(|name| ["--bin", name]))
        .current_dir(repository());
    forget_package(&mut command);
    let output = command
        .output()
        .map_err(|error| format!("cargo build: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo build: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let [controller, plugin, operator] = names.map(|name| folder.join(name));
    Ok(Product {
        controller,
        plugin,
        operator,
    })
}

/// Takes from the environment of a command that builds what Cargo has put there for the running test.
pub fn forget_package(command: &mut Command) {
    for variable in std::env::vars_os().map(|(name, _)| name) {
        if is_of_the_running_package(&variable.to_string_lossy()) {
            command.env_remove(variable);
        }
    }
}

/// Whether Cargo sets this variable for the program that it runs. Build scripts of dependencies watch some of them, so handing them on
/// would have these dependencies built again each time.
fn is_of_the_running_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_")
        || variable.starts_with("CARGO_MANIFEST_")
        || [
            "CARGO_CRATE_NAME",
            "CARGO_BIN_NAME",
            "CARGO_PRIMARY_PACKAGE",
            "OUT_DIR",
        ]
        .contains(&variable)
}
