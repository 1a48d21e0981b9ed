//! Programs built from Go modules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{scratch, spawn_with_log};
use crate::{Error, IoContext as _};

/// Builds packages of a module to `output`; a folder has to end with a slash. Blocks.
pub(crate) fn build(module: &Path, flags: &[&str], output: &Path, packages: &[String]) -> Result<(), Error> {
    let mut command = Command::new("go");
    command
        .arg("build")
        .args(flags)
        .arg("-o")
        .arg(output)
        .args(packages)
        .current_dir(module)
        .env("CGO_ENABLED", "0");
    let log = scratch("go-build").and_then(|folder| {
        let log = folder.join("log");
        spawn_with_log(&command, "go build", &log)
    });
    let build = log.context(|| "starting go build".to_owned())?;
    let status = loop {
        match build.try_wait().context(|| "waiting for go build".to_owned())? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let hint = if status.code() == Some(127) {
        " (is Go installed?)"
    } else {
        ""
    };
    Err(Error::Build(format!(
        "go build: {status}{hint}\n{}",
        build.log_tail(20)
    )))
}

/// The version that a `go.mod` requires of a module.
pub(crate) fn version(go_mod: &Path, module: &str) -> Result<String, Error> {
    let text = fs::read_to_string(go_mod).context(|| format!("reading {}", go_mod.display()))?;
    let version = text.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module))
            .then(|| words.next().map(str::to_owned))
            .flatten()
    });
    version.ok_or_else(|| Error::Build(format!("{} does not require {module}", go_mod.display())))
}

/// A program that checks what the product ships. Each is built from its module in `tests/tools`, once.
#[derive(Clone, Copy, Debug)]
pub enum Tool {
    /// The plugin installer of kubectl.
    Krew,
    /// What the index of krew checks manifests with.
    ValidateKrewManifest,
    /// Helm.
    Helm,
    /// The checker of Prometheus rules.
    Promtool,
    /// The interpreter that Argo CD runs health scripts with.
    Lua,
}

impl Tool {
    /// Folder of its module, the module that it comes from, the package, flags of the build.
    const fn source(self) -> (&'static str, &'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::Krew => ("krew", "sigs.k8s.io/krew", "sigs.k8s.io/krew/cmd/krew", &[]),
            Self::ValidateKrewManifest => (
                "krew",
                "sigs.k8s.io/krew",
                "sigs.k8s.io/krew/cmd/validate-krew-manifest",
                &[],
            ),
            Self::Helm => ("helm", "helm.sh/helm/v3", "helm.sh/helm/v3/cmd/helm", &[]),
            Self::Lua => (
                "lua",
                "github.com/yuin/gopher-lua",
                "github.com/yuin/gopher-lua/cmd/glua",
                &[],
            ),
            // It discovers targets of every cloud otherwise, which nobody asks for here and everybody waits for.
            Self::Promtool => (
                "promtool",
                "github.com/prometheus/prometheus",
                "github.com/prometheus/prometheus/cmd/promtool",
                &["-tags", "remove_all_sd"],
            ),
        }
    }

    /// The program, built by the first who asks. Blocks.
    ///
    /// # Errors
    /// Go is missing or fails to build.
    pub fn program(self) -> Result<PathBuf, Error> {
        let (folder, module, package, flags) = self.source();
        let source = crate::repository().join("tests/tools").join(folder);
        let version = version(&source.join("go.mod"), module)?;
        let built = crate::target_dir().join("tools").join(version);
        let program = built.join(package.rsplit('/').next().unwrap_or(package));
        fs::create_dir_all(&built).context(|| format!("creating {}", built.display()))?;
        let lock = program.with_extension("lock");
        let lock = fs::File::create(&lock).context(|| format!("creating {}", lock.display()))?;
        lock.lock()
            .context(|| format!("waiting for the build of {package}"))?;
        if !program.exists() {
            crate::assets::say(&format!("building {package} for tests, once"));
            // Under its final name by a rename only.
            let partial = program.with_extension("partial");
            build(&source, flags, &partial, &[package.to_owned()])?;
            fs::rename(&partial, &program).context(|| format!("moving {package}"))?;
        }
        Ok(program)
    }
}
