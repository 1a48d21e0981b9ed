//! What the plugin shows of a release: get, list, pods, events and history, to people and to programs.

pub(crate) mod documented;
mod list;
mod requests;
mod rights;

use std::process::Stdio;

use serde_json::Value;
use support::{Identity, eventually, installed};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::plugin::{Said, kruise};
use crate::scene::{ROLLOUT, SOON, Scene, condition, walk_steps};

/// What a viewer is told; it has to work.
async fn view(scene: &Scene<'_>, arguments: &[&str]) -> Said {
    let said = kruise(scene, Identity::Viewer, arguments).await;
    assert_eq!(said.code, 0, "{arguments:?}: {}{}", said.answer, said.talk);
    said
}

/// The same for a program, which is told nothing but the document.
async fn document(scene: &Scene<'_>, arguments: &[&str]) -> Value {
    let said = view(scene, &[arguments, &["-o", "json"]].concat()).await;
    let document: Value = serde_json::from_str(&said.answer).unwrap();
    assert_eq!(document["apiVersion"], "kruise.cli/v1");
    documented::check(&document);
    let yaml = view(scene, &[arguments, &["-o", "yaml"]].concat()).await;
    assert!(
        yaml.answer.starts_with("apiVersion: kruise.cli/v1\n"),
        "{}",
        yaml.answer
    );
    document
}

/// The values of a field of all items.
fn each<'a>(items: &'a Value, field: &str) -> Vec<&'a Value> {
    items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item[field])
        .collect()
}

#[tokio::test]
async fn a_release_at_its_first_step() {
    let scene = Scene::new(installed().await, "views").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    let detail = document(&scene, &["rollout", "get", ROLLOUT]).await;
    assert_eq!(detail["kind"], "RolloutDetail");
    assert_eq!(detail["report"]["state"], "AwaitingApproval", "{detail:#}");
    assert_eq!(detail["report"]["step"], 1);
    assert_eq!(detail["report"]["overlays"], serde_json::json!([]));
    assert_eq!(
        each(&detail["pods"], "name"),
        ["my-app-0", "my-app-1", "my-app-2", "my-app-3", "my-app-4"]
    );
    assert_eq!(
        each(&detail["pods"], "role"),
        ["stable", "stable", "stable", "stable", "update"]
    );
    assert_eq!(detail["pods"][4]["batch"], 1);
    assert_eq!(detail["pods"][3]["batch"], Value::Null);
    assert_eq!(
        each(&detail["revisions"], "state"),
        ["update", "stable"],
        "{detail:#}"
    );
    assert!(each(&detail["conditions"], "type").contains(&&Value::from("Guarded")));

    let text = view(&scene, &["describe", "rollout", ROLLOUT]).await;
    for part in [
        "AwaitingApproval, step 1 of 3",
        "STEP  REPLICAS",
        "Rollout/my-app-rollout",
        "MyStatefulApp/my-app",
        "batch 1",
        "my-app-4",
        "Conditions:",
        "Next: kubectl kruise rollout approve rollout/my-app-rollout",
    ] {
        assert!(text.answer.contains(part), "{part}: {}", text.answer);
    }
    assert_eq!(text.talk, "");
    for alias in [
        ["rollout", "tree", ROLLOUT].as_slice(),
        &["get", "rollout", ROLLOUT],
    ] {
        let name = view(&scene, &[alias, &["-o", "name"]].concat()).await;
        assert_eq!(name.answer, format!("rollout.rollouts.kruise.io/{ROLLOUT}\n"));
    }

    let pods = document(&scene, &["rollout", "pods", ROLLOUT, "--batch", "1"]).await;
    assert_eq!(each(&pods["items"], "name"), ["my-app-4"]);
    let names = view(
        &scene,
        &["rollout", "pods", ROLLOUT, "--revision=stable", "-o", "name"],
    )
    .await;
    assert_eq!(
        names.answer,
        "pod/my-app-0\npod/my-app-1\npod/my-app-2\npod/my-app-3\n"
    );
    let none = view(&scene, &["rollout", "pods", ROLLOUT, "--batch", "2"]).await;
    assert!(
        none.answer.is_empty() && none.talk.starts_with("No such pods"),
        "{none:?}"
    );
    let wide = view(&scene, &["rollout", "pods", ROLLOUT, "-o", "wide"]).await;
    assert!(
        wide.answer.contains("DETAIL") && wide.answer.contains("my-app-4"),
        "{}",
        wide.answer
    );

    let status = document(&scene, &["rollout", "status", ROLLOUT, "--watch=false"]).await;
    assert_eq!(status, detail["report"]);
    let wide = view(
        &scene,
        &["rollout", "status", ROLLOUT, "--watch=false", "-o", "wide"],
    )
    .await;
    assert!(wide.answer.contains("PARTITION"), "{}", wide.answer);
}

#[tokio::test]
async fn the_events_of_a_release() {
    let scene = Scene::new(installed().await, "views-events").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    // Events are written beside the release, not in it.
    let events = eventually(SOON, "an event of the Rollout", async || {
        let events = document(&scene, &["rollout", "events", ROLLOUT]).await;
        let objects = each(&events["items"], "object");
        if objects.contains(&&Value::from(format!("rollout/{ROLLOUT}"))) {
            Ok(events)
        } else {
            Err(format!("{events:#}"))
        }
    })
    .await;
    let last = each(&events["items"], "last");
    assert!(last.is_sorted_by_key(|time| time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap()));
    let text = view(&scene, &["rollout", "events", ROLLOUT, "--since", "10m"]).await;
    assert!(text.answer.starts_with("AGE"), "{}", text.answer);
    assert!(
        text.answer.contains(&format!("rollout/{ROLLOUT}")),
        "{}",
        text.answer
    );
    let none = view(&scene, &["rollout", "events", ROLLOUT, "--since", "1ns"]).await;
    assert!(
        none.answer.is_empty() && none.talk.starts_with("No events"),
        "{none:?}"
    );
}

#[tokio::test]
async fn events_as_they_come() {
    let scene = Scene::new(installed().await, "views-follow").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let mut kubectl = scene.namespace.kubectl(Identity::Viewer).unwrap();
    let mut child = kubectl
        .args(["kruise", "rollout", "events", ROLLOUT, "-w", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // An event of the Rollout that says this, each at most once.
    let mut told = std::collections::HashSet::new();
    let mut until = async |word: &str| {
        loop {
            let line = tokio::time::timeout(SOON, lines.next_line()).await;
            let line = line.unwrap().unwrap().unwrap();
            assert!(told.insert(line.clone()), "twice: {line}");
            let event: Value = serde_json::from_str(&line).unwrap();
            documented::check(&event);
            assert_eq!(event["kind"], "RolloutEvent");
            if event["object"] == format!("rollout/{ROLLOUT}") && line.contains(word) {
                return;
            }
        }
    };
    until("StepPaused").await;
    scene.approve().await;
    until("StepStarted").await;
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_release_that_is_complete_and_one_that_is_rolled_back() {
    let scene = Scene::new(installed().await, "views-end").await;
    scene.set(Some(0), &walk_steps()).await;
    let idle = document(&scene, &["rollout", "history", ROLLOUT]).await;
    assert_eq!(each(&idle["items"], "state"), ["stable"], "{idle:#}");
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;

    let detail = document(&scene, &["rollout", "get", ROLLOUT]).await;
    assert_eq!(detail["report"]["state"], "Complete", "{detail:#}");
    assert_eq!(detail["report"]["verdict"], "Complete");
    assert_eq!(each(&detail["pods"], "ready"), [true; 5]);
    let history = document(&scene, &["rollout", "history", ROLLOUT]).await;
    assert_eq!(history["kind"], "RolloutHistory");
    assert_eq!(each(&history["items"], "revision"), [2, 1]);
    assert_eq!(history["items"][0]["state"], "stable");
    assert_eq!(history["items"][1]["state"], Value::Null);
    let images = |place: usize| history["items"][place]["images"][0].as_str().unwrap();
    assert_eq!(
        (images(0), images(1)),
        ("my-registry/my-app:v2", "my-registry/my-app:v1")
    );
    assert!(
        history["items"][1]["hash"]
            .as_str()
            .is_some_and(|hash| hash.starts_with("my-app-")),
        "{history:#}"
    );

    let first = document(&scene, &["rollout", "history", ROLLOUT, "--revision", "1"]).await;
    assert_eq!(
        first["template"]["spec"]["containers"][0]["image"],
        "my-registry/my-app:v1"
    );
    let diff = document(&scene, &["rollout", "history", ROLLOUT, "--diff", "1..2"]).await;
    assert_eq!(diff["changes"][0]["value"], "my-registry/my-app:v2", "{diff:#}");
    let text = view(&scene, &["rollout", "history", ROLLOUT, "--diff", "1..stable"]).await;
    assert!(
        text.answer.starts_with("--- revision 1\n+++ revision 2\n@@"),
        "{}",
        text.answer
    );
    assert!(
        text.answer
            .lines()
            .any(|line| line.starts_with('-') && line.contains("my-app:v1"))
    );
    let unknown = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "history", ROLLOUT, "--revision", "9"],
    )
    .await;
    assert_eq!(unknown.code, 1);
    assert!(
        unknown.talk.contains("no revision \"9\": there are 1, 2"),
        "{}",
        unknown.talk
    );
    let limited = document(&scene, &["rollout", "history", ROLLOUT, "--limit", "1"]).await;
    assert_eq!(each(&limited["items"], "revision"), [2]);

    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    scene.set_version("v2").await;
    scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    let detail = document(&scene, &["rollout", "get", ROLLOUT]).await;
    assert_eq!(detail["report"]["state"], "RolledBack", "{detail:#}");
    assert_eq!(detail["report"]["rolledBack"], true);
    assert_eq!(each(&detail["pods"], "role"), ["stable"; 5], "{detail:#}");
    let text = view(&scene, &["rollout", "get", ROLLOUT]).await;
    assert!(text.answer.contains("RolledBack"), "{}", text.answer);
}
