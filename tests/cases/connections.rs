//! How the plugin reaches an API server, beside kubectl in the same circumstances.

mod credentials;
mod plugins;
mod routes;

use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;
use serde_json::{Value, json};
use support::{Identity, installed};
use tokio::process::Command;

use crate::plugin::Said;
use crate::scene::{ROLLOUT, Scene, walk_steps};

/// A Rollout without a workload to look at, and a folder for what a case writes.
struct Site {
    scene: Scene<'static>,
    folder: PathBuf,
}

impl Site {
    async fn new(prefix: &str) -> Self {
        let scene = Scene::new(installed().await, prefix).await;
        scene.create_rollout(&walk_steps()).await;
        let folder = scene
            .namespace
            .control_plane()
            .folder()
            .join(scene.namespace.name());
        std::fs::create_dir_all(&folder).unwrap();
        Self { scene, folder }
    }

    /// Address of the API server.
    async fn server(&self) -> String {
        let config = self.scene.namespace.control_plane().config(Identity::Admin).await;
        config
            .unwrap()
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A script that can be run.
    #[cfg(unix)]
    fn script(&self, name: &str, body: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.write(name, &format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The kubeconfig of somebody in this namespace, changed: the cluster, and the user.
    fn kubeconfig(&self, name: &str, who: Identity, change: impl FnOnce(&mut Value, &mut Value)) -> PathBuf {
        let kubeconfig = Kubeconfig::read_from(self.scene.namespace.kubeconfig(who).unwrap()).unwrap();
        let mut kubeconfig = serde_json::to_value(kubeconfig).unwrap();
        let (mut cluster, mut user) = (
            kubeconfig["clusters"][0]["cluster"].take(),
            kubeconfig["users"][0]["user"].take(),
        );
        change(&mut cluster, &mut user);
        kubeconfig["clusters"][0]["cluster"] = cluster;
        kubeconfig["users"][0]["user"] = user;
        self.write(name, &kubeconfig.to_string())
    }

    /// The plugin, called with nothing in its environment but this kubeconfig.
    fn plugin(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let plugin = &support::build_binaries().unwrap().plugin;
        bare(plugin, kubeconfig, arguments)
    }

    fn look(&self, kubeconfig: &Path) -> Command {
        self.plugin(
            kubeconfig,
            &["rollout", "status", ROLLOUT, "--watch=false", "-o", "name"],
        )
    }

    /// kubectl, asked for the same object in the same way.
    fn kubectl(&self, kubeconfig: &Path) -> Command {
        let kubectl = self.scene.namespace.control_plane().kubectl(Identity::Admin);
        let program = PathBuf::from(kubectl.as_std().get_program());
        bare(
            &program,
            kubeconfig,
            &["get", "rollouts.rollouts.kruise.io", ROLLOUT, "-o", "name"],
        )
    }

    /// Both see the Rollout, or neither does. What the plugin says.
    async fn as_kubectl(&self, kubeconfig: &Path, environment: &[(&str, &str)]) -> Said {
        let theirs = said(self.kubectl(kubeconfig).envs(environment.iter().copied())).await;
        let ours = said(self.look(kubeconfig).envs(environment.iter().copied())).await;
        assert_eq!(
            theirs.answer.trim(),
            ours.answer.trim(),
            "{environment:?}\nkubectl: {theirs:?}\nplugin: {ours:?}"
        );
        ours
    }
}

fn bare(program: &Path, kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("KUBECACHEDIR", kubeconfig.with_extension("cache"))
        .env("KUBECONFIG", kubeconfig)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    command
}

async fn said(command: &mut Command) -> Said {
    let output = command.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code().unwrap(),
        answer: text(output.stdout),
        talk: text(output.stderr),
    }
}

fn saw(said: &Said) -> bool {
    said.answer.trim() == format!("rollout.rollouts.kruise.io/{ROLLOUT}")
}

/// A user that runs a program for its credentials.
fn exec(script: &Path) -> Value {
    json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "IfAvailable",
        "command": script.display().to_string()}})
}
