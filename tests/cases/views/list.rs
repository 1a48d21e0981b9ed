//! Many Rollouts.

use std::process::Stdio;

use kube::api::PostParams;
use serde_json::{Value, json};
use support::{Identity, installed};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{documented, view};
use crate::plugin::kruise;
use crate::scene::{ROLLOUT, Scene, walk_steps};

/// More than two pages.
const MANY: usize = 450;

#[tokio::test]
async fn an_empty_list_is_a_notice() {
    let scene = Scene::new(installed().await, "views-empty").await;
    let namespace = scene.namespace.name();
    let none = view(&scene, &["rollout", "list"]).await;
    assert_eq!(
        (none.answer.as_str(), none.talk),
        ("", format!("No Rollouts found in namespace {namespace}.\n"))
    );
    let none = view(&scene, &["list", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&none.answer).unwrap();
    assert_eq!(document["items"], json!([]));
    let wrong = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "list", "--state", "Sleeping"],
    )
    .await;
    assert_eq!(wrong.code, 2, "{}", wrong.talk);
}

#[tokio::test]
async fn many_rollouts_are_listed_page_by_page() {
    let scene = Scene::new(installed().await, "views-many").await;
    let rollouts = scene.rollouts(&scene.developer);
    let create = async |number: usize| {
        let mut manifest = scene.rollout_manifest(&walk_steps());
        manifest["metadata"]["name"] = json!(format!("many-{number}"));
        manifest["metadata"]["labels"] =
            json!({"half": if number.is_multiple_of(2) { "even" } else { "odd" }});
        // None of them is to be governed, so that the controller has little to do with them.
        manifest["spec"]["workloadRef"]["name"] = json!(format!("none-{number}"));
        let rollout = serde_json::from_value(manifest).unwrap();
        rollouts.create(&PostParams::default(), &rollout).await.unwrap();
    };
    for number in (0..MANY).step_by(10) {
        futures::future::join_all((number..number + 10).map(create)).await;
    }
    let json = view(&scene, &["rollout", "list", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&json.answer).unwrap();
    documented::check(&document);
    let names = super::each(&document["items"], "name");
    assert_eq!(names.len(), MANY);
    let sorted = view(
        &scene,
        &[
            "rollout",
            "list",
            "--sort-by=name",
            "-o",
            "name",
            "-l",
            "half=even",
        ],
    )
    .await;
    let mut expected: Vec<_> = (0..MANY)
        .step_by(2)
        .map(|number| format!("rollout.rollouts.kruise.io/many-{number}"))
        .collect();
    expected.sort();
    assert_eq!(sorted.answer.lines().collect::<Vec<_>>(), expected);
    let rows = view(
        &scene,
        &[
            "rollout",
            "list",
            "-A",
            "--no-headers",
            "--state",
            "workloadmissing,idle",
        ],
    )
    .await;
    let own = rows
        .answer
        .lines()
        .filter(|line| line.starts_with(scene.namespace.name()));
    assert_eq!(own.count(), MANY);

    // Who has seen enough closes the pipe.
    let path = scene.namespace.kubeconfig(Identity::Viewer).unwrap();
    let mut kubectl = scene.namespace.kubectl(Identity::Viewer).unwrap();
    kubectl.env("KUBECONFIG", path);
    let mut child = kubectl
        .args(["kruise", "rollout", "list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next_line().await.unwrap().unwrap().starts_with("NAME"));
    drop(lines);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn a_watch_prints_each_row_again_when_it_changes() {
    let scene = Scene::new(installed().await, "views-watch").await;
    scene.set(Some(0), &walk_steps()).await;
    let mut kubectl = scene.namespace.kubectl(Identity::Viewer).unwrap();
    let mut child = kubectl
        .args(["kruise", "rollout", "list", "-w", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(crate::scene::SOON, lines.next_line()).await;
        let document: Value = serde_json::from_str(&line.unwrap().unwrap().unwrap()).unwrap();
        documented::check(&document);
        document
    };
    let first = next().await;
    assert_eq!(
        (&first["name"], &first["kind"]),
        (&json!(ROLLOUT), &json!("RolloutReport"))
    );
    scene.set_version("v2").await;
    loop {
        let report = next().await;
        if report["state"] == "AwaitingApproval" && report["workload"]["updated"] == 1 {
            break;
        }
    }
    scene.delete_rollout().await;
    while next().await["kind"] != "RolloutDeleted" {}
    child.kill().await.unwrap();
}
