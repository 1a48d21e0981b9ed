//! The Helm chart installs what `manifests` prints.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use support::process::scratch;
use support::{Identity, build_binaries, installed};

use super::{answer, repository, run};

/// By kind, namespace and name.
type Documents = BTreeMap<(String, String, String), Value>;

fn documents(text: &str) -> Documents {
    let read: Vec<Option<Value>> = serde_saphyr::from_multiple(text).unwrap();
    let named = |document: Value| {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &document["metadata"];
        let key = (
            word(&document["kind"]),
            word(&metadata["namespace"]),
            word(&metadata["name"]),
        );
        (key, document)
    };
    read.into_iter().flatten().map(named).collect()
}

fn manifests(flags: &[&str]) -> Documents {
    let mut command = Command::new(&build_binaries().unwrap().controller);
    let mut printed = documents(&answer(command.arg("manifests").args(flags)));
    // Helm makes the namespace, if asked.
    printed.retain(|(kind, ..), _| kind != "Namespace");
    printed
}

fn helm(arguments: &[&str]) -> Command {
    let mut helm = super::helm(arguments);
    // It knows no version of Kubernetes when it is built from its module.
    helm.args(["--kube-version", "1.36.0"]);
    helm
}

fn rendered(namespace: &str, values: &[&str]) -> String {
    let mut helm = helm(&[
        "template",
        "kruise-rollout",
        "charts/kruise-rollout",
        "--namespace",
        namespace,
    ]);
    for value in values {
        helm.args(["--set", value]);
    }
    answer(&mut helm)
}

/// The chart without what only Helm has a use for.
fn chart(namespace: &str, values: &[&str]) -> Documents {
    let mut chart = documents(&rendered(namespace, values));
    for ((kind, _, name), document) in &mut chart {
        if kind == "CustomResourceDefinition" {
            let annotations = document["metadata"]["annotations"].as_object_mut().unwrap();
            let kept = annotations.remove("helm.sh/resource-policy");
            assert_eq!(
                kept,
                Some(json!("keep")),
                "{name} would go with the chart, and every Rollout with it"
            );
            if annotations.is_empty() {
                document["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("annotations");
            }
        }
        if kind == "Deployment" {
            let container = &mut document["spec"]["template"]["spec"]["containers"][0];
            container.as_object_mut().unwrap().remove("imagePullPolicy");
        }
    }
    chart
}

#[test]
fn it_is_clean_to_helm() {
    answer(&mut helm(&["lint", "--strict", "charts/kruise-rollout"]));
}

#[test]
fn it_installs_what_the_controller_prints() {
    let image = format!("kruise-rollout-controller:{}", env!("CARGO_PKG_VERSION"));
    let cases: [(&str, &[&str], &[&str]); 7] = [
        ("kruise-rollout", &[], &[]),
        ("delivery-x", &[], &[]),
        ("ops", &["admission=webhook"], &["--admission=webhook"]),
        (
            "ops",
            &["replaceStuckPods=false"],
            &["--replace-stuck-pods=false"],
        ),
        ("ops", &["approversMayJump=true"], &["--approvers-may-jump=true"]),
        (
            "ops",
            &["keepHeldOnDeletion=true"],
            &["--keep-held-on-deletion=true"],
        ),
        (
            "ops",
            &["watchNamespaces={shop,lab}", "replaceStuckPods=false"],
            &["--watch-namespaces=shop,lab", "--replace-stuck-pods=false"],
        ),
    ];
    for (namespace, values, flags) in cases {
        let mut all = vec!["--namespace", namespace, "--image", &image];
        all.extend(flags);
        let (printed, chart) = (manifests(&all), chart(namespace, values));
        let names = |documents: &Documents| documents.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&chart), names(&printed), "{values:?}");
        for (name, document) in &printed {
            assert_eq!(chart[name], *document, "{name:?} with {values:?}");
        }
    }
}

#[test]
fn what_is_generated_is_fresh() {
    let folder = scratch("chart").unwrap();
    let controller = &build_binaries().unwrap().controller;
    answer(
        Command::new(repository("release/chart"))
            .arg(controller)
            .arg(&folder),
    );
    for file in ["crds.yaml", "rbac.yaml"] {
        let stored = repository("charts/kruise-rollout/templates").join(file);
        assert_eq!(
            fs::read_to_string(stored).unwrap(),
            fs::read_to_string(folder.join(file)).unwrap(),
            "write {file} anew: release/chart"
        );
    }
}

#[test]
fn each_value_does_something() {
    let usual = documents(&rendered("ops", &[]));
    let deployment = |documents: &Documents| {
        let (_, deployment) = documents
            .iter()
            .find(|((kind, ..), _)| kind == "Deployment")
            .unwrap();
        deployment["spec"].clone()
    };
    for value in [
        "replicas=3",
        "image.repository=my-registry/controller",
        "image.tag=v9",
        "image.pullPolicy=Always",
        "imagePullSecrets[0].name=secret",
        "extraArgs[0]=--workers=8",
        "resources.limits.memory=256Mi",
        "nodeSelector.pool=system",
        "tolerations[0].operator=Exists",
        "priorityClassName=system-cluster-critical",
        "podAnnotations.team=delivery",
    ] {
        let changed = documents(&rendered("ops", &[value]));
        assert_ne!(deployment(&changed), deployment(&usual), "{value}");
    }
    let without = |value: &str, kind: &str| {
        let changed = documents(&rendered("ops", &[value]));
        assert!(usual.keys().any(|(found, ..)| found == kind));
        assert_eq!(changed.len() + 1, usual.len(), "{value}");
        assert!(changed.keys().all(|(found, ..)| found != kind), "{value}");
    };
    without("crds.install=false", "CustomResourceDefinition");
    without("networkPolicy.enabled=false", "NetworkPolicy");
    without("podDisruptionBudget.enabled=false", "PodDisruptionBudget");
    // A second controller brings nothing that the first one has.
    let part = [
        "watchNamespaces={shop}",
        "sharedRoles.install=false",
        "crds.install=false",
    ];
    for ((kind, place, name), document) in documents(&rendered("second", &part)) {
        let own = document["metadata"]["labels"]["app.kubernetes.io/instance"] == "second";
        assert!(own || place == "second", "{kind} {place}/{name}");
    }
    let alerts = documents(&rendered(
        "ops",
        &["podMonitor.enabled=true", "prometheusRule.enabled=true"],
    ));
    let named = |kind: &str, namespace: &str, name: &str| [kind, namespace, name].map(str::to_owned).into();
    let alerts = &alerts[&named("PrometheusRule", "ops", "kruise-rollout-controller")];
    assert_eq!(alerts["spec"]["groups"][0]["name"], "kruise-rollout");
    let kinds = documents(&rendered(
        "ops",
        &[
            "customKinds[0].group=example.io",
            "customKinds[0].resource=widgets",
        ],
    ));
    let role = &kinds[&named("ClusterRole", "", "kruise-rollout-controller-widgets.example.io")];
    assert_eq!(role["rules"][0]["resources"], json!(["widgets"]));
    let mut nameless = helm(&[
        "template",
        "x",
        "charts/kruise-rollout",
        "--set",
        "customKinds[0].group=example.io",
    ]);
    let refused = run(&mut nameless);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("customKinds[].resource is the plural"));
}

/// The API server knows every field. Nothing is stored: the shared installation is that of `manifests`.
#[tokio::test]
async fn the_api_server_takes_it_strictly() {
    let installation = installed().await;
    let file = scratch("chart-applied").unwrap().join("all.yaml");
    fs::write(
        &file,
        rendered(
            "default",
            &[
                "customKinds[0].group=example.io",
                "customKinds[0].resource=widgets",
            ],
        ),
    )
    .unwrap();
    let mut kubectl = installation.control_plane().kubectl(Identity::Admin);
    kubectl.args([
        "apply",
        "--server-side",
        "--force-conflicts",
        "--validate=strict",
        "--dry-run=server",
        "-f",
    ]);
    let applied = kubectl.arg(&file).output().await.unwrap();
    assert!(
        applied.status.success(),
        "{}",
        String::from_utf8_lossy(&applied.stderr)
    );
    assert!(
        applied.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&applied.stderr)
    );
}
