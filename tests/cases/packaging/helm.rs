//! Installed, upgraded and removed by Helm itself.

use kruise_rollout::names;
use support::{ControlPlane, Identity, Installation, Options};

use super::answer;
use crate::parts::beyond_rights;
use crate::scene::{Scene, partition, walk_steps};
use crate::uninstall::{assert_unmarked, uninstall, wait_nothing_registered};

/// What every installation here has: the kind of the example operator.
const CUSTOM_KIND: &str = "customKinds[0].group=example.io,customKinds[0].resource=mystatefulapps";

/// A release of Helm's, by the name of its namespace.
struct Release<'a> {
    control_plane: &'a ControlPlane,
    namespace: &'a str,
}

impl Release<'_> {
    fn helm(&self, arguments: &[&str]) {
        let mut helm = super::helm(arguments);
        helm.args(["--namespace", self.namespace]);
        helm.env("KUBECONFIG", self.control_plane.kubeconfig(Identity::Admin));
        answer(&mut helm);
    }

    /// `install` or `upgrade`, with these values.
    fn set(&self, verb: &str, values: &[&str]) {
        let mut arguments = vec![
            verb,
            "kruise-rollout",
            "charts/kruise-rollout",
            "--set",
            CUSTOM_KIND,
        ];
        for value in values {
            arguments.extend(["--set", value]);
        }
        if verb == "install" {
            arguments.push("--create-namespace");
        }
        self.helm(&arguments);
    }

    /// What the Deployment starts the controller with, after `run`.
    async fn flags(&self) -> Vec<String> {
        let mut kubectl = self.control_plane.kubectl(Identity::Admin);
        let path = "jsonpath={.spec.template.spec.containers[0].args}";
        kubectl.args([
            "get",
            "deployment",
            names::CONTROLLER,
            "-n",
            self.namespace,
            "-o",
            path,
        ]);
        let output = kubectl.output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let all: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(all[0], "run");
        all[1..].to_vec()
    }

    /// Starts the controller as its Deployment does, by the ServiceAccount of the chart.
    async fn runs(&self, installation: &mut Installation<'_>, identity: Identity) {
        let flags = self.flags().await;
        installation.kill_controller();
        installation.set_flags(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        let kubeconfig = self.control_plane.kubeconfig(identity);
        installation
            .start_controller_with(&kubeconfig, &[])
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn helm_installs_upgrades_and_removes() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut installation = Installation::new(&control_plane).unwrap();
    installation.define(&[]).await.unwrap();
    installation.start_operator(&[]).unwrap();
    let release = Release {
        control_plane: &control_plane,
        namespace: names::DEFAULT_NAMESPACE,
    };
    release.set("install", &[]);
    release.runs(&mut installation, Identity::Controller).await;
    let scene = Scene::new(&installation, "helm").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    // An upgrade takes no right away, not even for a moment in which a release would stop.
    release.set("upgrade", &["replicas=3", "admission=webhook"]);
    assert!(release.flags().await.contains(&"--admission=webhook".to_owned()));
    scene.approve().await;
    scene.wait_released().await;
    release.runs(&mut installation, Identity::Controller).await;
    let held = scene.set_version("v3").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    scene.wait_state(1, "StepPaused").await;

    // The webhook held alone. Its registration goes with the chart, or every update would be refused.
    installation.kill_controller();
    release.helm(&["uninstall", "kruise-rollout"]);
    wait_nothing_registered(&scene.admin, "the chart").await;
    scene.set_version("v4").await;
    uninstall(&installation, &[]).await;
    assert_unmarked(&scene.app().await);
    scene.wait_pods("v4", 5).await;
    // Rollouts are the user's, and so is their definition.
    assert_eq!(scene.rollout().await["metadata"]["name"], "my-app-rollout");
    a_part(&control_plane).await;
}

/// Another release of Helm's for one namespace of the same cluster, where the definition is there already.
async fn a_part(control_plane: &ControlPlane) {
    let mut installation = Installation::new(control_plane).unwrap();
    let governed = Scene::new(&installation, "helm-part").await;
    let other = Scene::new(&installation, "helm-other").await;
    let release = Release {
        control_plane,
        namespace: "kruise-rollout-b",
    };
    let namespaces = format!("watchNamespaces={{{}}}", governed.namespace.name());
    release.set("install", &[&namespaces, "crds.install=false"]);
    installation.start_operator(&[]).unwrap();
    release.runs(&mut installation, Identity::OtherController).await;
    governed.set(Some(0), &walk_steps()).await;
    governed.set_version("v2").await;
    governed.wait_state(1, "StepPaused").await;
    governed.approve().await;
    governed.wait_released().await;
    other.create_app(&other.manifest("v1", None)).await;
    assert_eq!(
        beyond_rights(&governed, Identity::OtherController).await,
        [false; 4]
    );
    assert_eq!(beyond_rights(&other, Identity::OtherController).await, [true; 4]);
    installation.kill_controller();
    release.helm(&["uninstall", "kruise-rollout"]);
    wait_nothing_registered(&governed.admin, "the chart").await;
    governed.set_version("v3").await;
}
