//! The programs of the control plane: found, or built once from Go modules.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::{Error, IoContext as _, go, repository, target_dir};

const PROGRAMS: [&str; 6] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
];

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Assets {
    given: Option<PathBuf>,
    built: PathBuf,
    version: String,
}

impl Assets {
    /// Finds the programs in `KUBEBUILDER_ASSETS` and in `target/control-plane/<version>/`; builds what neither has.
    ///
    /// The build takes several minutes once, is done by one process at a time, and says on stderr how it goes. A build that
    /// was interrupted leaves nothing that would be taken for a finished one. Blocks.
    ///
    /// # Errors
    /// Go is missing or fails to build.
    pub fn locate() -> Result<Self, Error> {
        let assets = Self::present()?;
        if !assets.complete() {
            assets.build()?;
        }
        Ok(assets)
    }

    /// [`Assets::locate`] without building: what is missing is looked for in the `PATH` when it is run.
    pub(crate) fn present() -> Result<Self, Error> {
        let version = go::version(&modules().join("kubernetes/go.mod"), "k8s.io/kubernetes")?;
        let given = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let built = target_dir().join("control-plane").join(&version);
        Ok(Self {
            given,
            built,
            version,
        })
    }

    /// The version of Kubernetes that is built here, such as `v1.36.3`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The path of a program, such as `kubectl`.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.find(name).unwrap_or_else(|| PathBuf::from(name))
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let folders = self.given.iter().chain([&self.built]);
        folders.map(|folder| folder.join(name)).find(|path| path.exists())
    }

    fn complete(&self) -> bool {
        PROGRAMS.iter().all(|name| self.find(name).is_some())
    }

    fn build(&self) -> Result<(), Error> {
        let built = &self.built;
        let parent = built.parent().unwrap_or(built);
        fs::create_dir_all(parent).context(|| format!("creating {}", parent.display()))?;
        let lock = parent.join(format!("{}.lock", self.version));
        let lock = File::create(&lock).context(|| format!("creating {}", lock.display()))?;
        if lock.try_lock().is_err() {
            say("another process is building the control plane; waiting for it");
            lock.lock()
                .context(|| "waiting for the build of the control plane".to_owned())?;
        }
        if self.complete() {
            return Ok(());
        }
        // Programs appear under their final name by a rename only.
        let partial = parent.join(format!("{}.partial", self.version));
        fs::create_dir_all(&partial).context(|| format!("creating {}", partial.display()))?;
        let started = Instant::now();
        say(&format!(
            "building Kubernetes {} for tests, once (several minutes)",
            self.version
        ));
        for (step, (folder, output, packages)) in self.steps(&partial).iter().enumerate() {
            say(&format!("  [{}/3] {}", step + 1, packages.join(" ")));
            let flags = ["-ldflags", &self.linker_flags()];
            go::build(&modules().join(folder), &flags, output, packages)?;
        }
        fs::create_dir_all(built).context(|| format!("creating {}", built.display()))?;
        for name in PROGRAMS {
            fs::rename(partial.join(name), built.join(name)).context(|| format!("moving {name}"))?;
        }
        let _ = fs::remove_dir(&partial);
        say(&format!("built in {} s", started.elapsed().as_secs()));
        Ok(())
    }

    /// Folder of the module, where the output goes, packages. A folder as output has to end with a slash.
    fn steps(&self, partial: &Path) -> [(&'static str, PathBuf, Vec<String>); 3] {
        let kubernetes = [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
        ];
        [
            (
                "kubernetes",
                partial.join(""),
                kubernetes
                    .iter()
                    .map(|name| format!("k8s.io/kubernetes/cmd/{name}"))
                    .collect(),
            ),
            (
                "kubernetes",
                partial.join("etcd"),
                vec!["go.etcd.io/etcd/server/v3".to_owned()],
            ),
            (
                "kwok",
                partial.join(""),
                vec!["sigs.k8s.io/kwok/cmd/kwok".to_owned()],
            ),
        ]
    }

    /// Without these the API server calls itself v0.0.0.
    fn linker_flags(&self) -> String {
        let mut numbers = self.version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
        let package = "k8s.io/component-base/version";
        format!(
            "-s -w -X {package}.gitVersion={} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}",
            self.version
        )
    }
}

/// The folder of the Go modules that the programs are built from.
fn modules() -> PathBuf {
    repository().join("tests/control-plane")
}

/// Progress for the person who waits; a test harness does not capture it.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_module() {
        let go_mod = modules().join("kubernetes/go.mod");
        let version = go::version(&go_mod, "k8s.io/kubernetes").unwrap();
        assert!(version.starts_with("v1."), "{version}");
    }
}
