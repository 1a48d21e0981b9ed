//! A dry run changes nothing, whatever the command: the table names every command that writes.

use std::collections::BTreeSet;

use kruise_rollout::names;
use kube::api::PostParams;
use serde_json::json;
use support::{Identity, installed};

use super::{DRY_KIND, asked, rollout, settled};
use crate::kinds::OwnKind;
use crate::plugin::kruise;
use crate::scene::{APP, Scene, walk_steps};

/// A command that would write, and who may.
struct Deed {
    command: &'static str,
    who: Identity,
    arguments: Vec<String>,
}

/// All of them, in a world in which each has something to do.
fn deeds() -> Vec<Deed> {
    use Identity::{Admin, Approver, Developer};
    let app = format!("mystatefulapps.example.io/{APP}");
    let (target, other) = (rollout(), "rollout/other".to_owned());
    let of = |command, who, target: &str, more: &[&str]| Deed {
        command,
        who,
        arguments: std::iter::once(target)
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect(),
    };
    vec![
        of("rollout approve", Approver, &target, &["--reason=because"]),
        of("rollout promote", Approver, &app, &[]),
        of("rollout promote", Admin, &target, &["--full"]),
        of("rollout pause", Developer, &target, &[]),
        of("rollout resume", Developer, &other, &[]),
        of("rollout jump", Admin, &target, &["--step=3"]),
        of("rollout retry", Admin, &app, &[]),
        of("rollout restart", Developer, &target, &["--force"]),
        of("rollout enable", Developer, &other, &[]),
        of("rollout disable", Developer, &target, &[]),
        of("rollout undo", Developer, &app, &["--diff"]),
        of("rollout abort", Developer, &target, &[]),
        of("workload label", Developer, "mystatefulapp/bare", &[]),
        of("workload enable", Admin, DRY_KIND, &[]),
    ]
}

/// The commands of the program that write, from its help: those that can be tried.
async fn writing(scene: &Scene<'_>) -> BTreeSet<String> {
    let mut writing = BTreeSet::new();
    let mut groups = vec![Vec::new()];
    while let Some(words) = groups.pop() {
        let said = kruise(scene, Identity::Viewer, &[&words[..], &["--help"]].concat()).await;
        let help: &'static str = said.answer.leak();
        match help.split_once("\nCommands:\n") {
            Some((_, list)) => {
                let lines = list.lines().take_while(|line| line.starts_with("  "));
                // Names are indented by two; what is indented further goes on from the line before.
                let named = lines.filter_map(|line| line[2..].split(' ').next());
                for name in named.filter(|name| !name.is_empty() && *name != "help") {
                    groups.push([&words[..], &[name]].concat());
                }
            }
            None if help.contains("--dry-run") => {
                writing.insert(words.join(" "));
            }
            None => {}
        }
    }
    writing
}

#[tokio::test]
async fn no_command_writes_in_a_dry_run() {
    let installation = installed().await;
    let scene = Scene::new(installation, "dry").await;
    scene.set(Some(0), &walk_steps()).await;
    let deeds = deeds();
    let named: BTreeSet<String> = deeds.iter().map(|deed| deed.command.to_owned()).collect();
    assert_eq!(
        writing(&scene).await,
        named,
        "every command that writes is in the table"
    );

    let mut bare = scene.manifest("v1", None);
    bare["metadata"] = json!({"name": "bare", "namespace": scene.namespace.name()});
    scene.create_app(&bare).await;
    let mut other = scene.rollout_manifest(&walk_steps());
    other["metadata"]["name"] = json!("other");
    other["spec"]["workloadRef"]["name"] = json!("bare");
    other["spec"]["disabled"] = json!(true);
    other["spec"]["strategy"]["paused"] = json!(true);
    let other = serde_json::from_value(other).unwrap();
    scene
        .rollouts(&scene.developer)
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    let kind = OwnKind::new("DryApp");
    kind.define(installation, &[]).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let begin = settled(&scene).await;
    let before = (scene.app().await, scene.rollout().await);

    for format in ["--dry-run=client", "--output=patch", "--dry-run"] {
        for deed in &deeds {
            let words = deed
                .command
                .split(' ')
                .chain(deed.arguments.iter().map(String::as_str));
            let arguments: Vec<_> = words.chain([format]).collect();
            let said = kruise(&scene, deed.who, &arguments).await;
            assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
            if format == "--output=patch" {
                assert!(said.answer.contains("PATCH /apis/"), "{arguments:?}: {said:?}");
            } else {
                assert!(said.answer.ends_with(" (dry run)\n"), "{arguments:?}: {said:?}");
            }
        }
    }
    let pretended = settled(&scene).await;
    let all = scene.namespace.control_plane().audit().since(begin);
    assert!(!all.is_empty(), "the audit log is read");
    assert_eq!(
        asked(&scene, begin)
            .iter()
            .map(|entry| &entry.uri)
            .collect::<Vec<_>>(),
        [""; 0]
    );

    for deed in &deeds {
        let words = deed
            .command
            .split(' ')
            .chain(deed.arguments.iter().map(String::as_str));
        let arguments: Vec<_> = words.chain(["--dry-run=server"]).collect();
        let said = kruise(&scene, deed.who, &arguments).await;
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        assert!(
            said.answer.ends_with(" (server dry run)\n"),
            "{arguments:?}: {said:?}"
        );
    }
    settled(&scene).await;
    let seen = asked(&scene, pretended);
    assert!(seen.len() >= deeds.len(), "{seen:?}");
    for entry in &seen {
        assert!(
            entry.dry_run && entry.field_manager == names::PLUGIN_FIELD_MANAGER,
            "{entry:?}"
        );
    }
    let after = (scene.app().await, scene.rollout().await);
    assert_eq!(after.0["spec"], before.0["spec"]);
    assert_eq!(after.1["spec"], before.1["spec"]);
    assert_eq!(after.1["status"], before.1["status"]);
}
