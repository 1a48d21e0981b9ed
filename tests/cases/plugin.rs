//! The plugin as people run it: `kubectl kruise …`, each as who may.

use kruise_rollout::names;
use serde_json::{Value, json};
use support::{Entry, Identity, eventually, installed};

use crate::scene::{APP, ROLLOUT, SOON, Scene, condition, mark, walk_steps};

/// What a command said.
#[derive(Debug)]
pub struct Said {
    /// Its exit code.
    pub code: i32,
    /// On stdout.
    pub answer: String,
    /// On stderr.
    pub talk: String,
}

/// Runs `kubectl kruise` in the scene's namespace.
pub async fn kruise(scene: &Scene<'_>, who: Identity, arguments: &[&str]) -> Said {
    let mut command = scene.namespace.kubectl(who).unwrap();
    let output = command.arg("kruise").args(arguments).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let said = Said {
        code: output.status.code().unwrap(),
        answer: text(output.stdout),
        talk: text(output.stderr),
    };
    assert!(
        !said.answer.contains('\u{1b}') && !said.talk.contains('\u{1b}'),
        "escape codes without a terminal"
    );
    said
}

fn rollout() -> String {
    format!("rollout/{ROLLOUT}")
}

#[tokio::test]
async fn a_release_is_approved_undone_and_shown() {
    let scene = Scene::new(installed().await, "plugin").await;
    scene.set(Some(0), &walk_steps()).await;
    let target = rollout();
    let early = kruise(&scene, Identity::Approver, &["rollout", "approve", &target]).await;
    assert_eq!(early.code, 1, "{}", early.talk);

    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let shown = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "status", &target, "--watch=false", "-o", "json"],
    )
    .await;
    let report: Value = serde_json::from_str(&shown.answer).unwrap();
    assert_eq!(shown.code, 0, "{}", shown.talk);
    assert!(report.to_string().contains("AwaitingApproval"), "{report:#}");

    let approved = kruise(&scene, Identity::Approver, &["rollout", "approve", &target]).await;
    assert_eq!(approved.code, 0, "{}", approved.talk);
    assert!(approved.answer.ends_with("approved\n"), "{}", approved.answer);
    let followed = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "status", &target, "--watch", "--timeout=60s"],
    )
    .await;
    assert_eq!(followed.code, 0, "{}{}", followed.answer, followed.talk);
    scene.wait_pods("v2", 5).await;

    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    let unasked = kruise(&scene, Identity::Developer, &["rollout", "undo", &target]).await;
    assert_ne!(unasked.code, 0, "{}", unasked.answer);
    let undone = kruise(
        &scene,
        Identity::Developer,
        &["rollout", "undo", &target, "--yes"],
    )
    .await;
    assert_eq!(undone.code, 0, "{}", undone.talk);
    let back = scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    assert_eq!(back["status"]["canaryStatus"]["currentStepState"], "Completed");
    scene.wait_pods("v2", 5).await;
    // A rollback is shown as one.
    let shown = kruise(
        &scene,
        Identity::Viewer,
        &["rollout", "status", &target, "--watch=false"],
    )
    .await;
    assert_eq!(shown.code, 6, "{}", shown.answer);

    // At rest the newest other template comes back, by steps.
    let undone = kruise(
        &scene,
        Identity::Developer,
        &["rollout", "undo", &target, "--yes", "--to-revision=1"],
    )
    .await;
    assert_eq!(undone.code, 0, "{}", undone.talk);
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v1", 1).await;
}

/// Requests of the plugin that change something, or would.
fn changes(scene: &Scene<'_>, since: support::Mark) -> Vec<Entry> {
    let entries = scene.namespace.control_plane().audit().since(since);
    let ours = |entry: &Entry| {
        (entry.is_write() || entry.dry_run)
            && entry.namespace == scene.namespace.name()
            && entry.field_manager == names::PLUGIN_FIELD_MANAGER
    };
    entries.into_iter().filter(ours).collect()
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let scene = Scene::new(installed().await, "plugin-dry").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let (target, app) = (rollout(), format!("mystatefulapp/{APP}"));
    let commands: [(Identity, Vec<&str>); 3] = [
        (Identity::Approver, vec!["rollout", "approve", &target]),
        (Identity::Developer, vec!["rollout", "undo", &target, "--yes"]),
        (Identity::Developer, vec!["workload", "label", &app]),
    ];
    // The label is what the third command would set; in mid-release admission keeps it, so another object has none.
    let mut bare = scene.manifest("v1", None);
    bare["metadata"] = json!({"name": "bare", "namespace": scene.namespace.name()});
    scene.create_app(&bare).await;
    let before = (scene.app().await, scene.rollout().await);
    let begin = scene.namespace.control_plane().audit().mark();
    for (who, arguments) in &commands {
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|a| if *a == app { "mystatefulapp/bare" } else { a })
            .collect();
        let said = kruise(&scene, *who, &[&arguments[..], &["--dry-run=client"]].concat()).await;
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.talk);
        assert!(
            said.answer.contains("dry run") || said.answer.contains("dry-run"),
            "{}",
            said.answer
        );
    }
    let asked = scene.namespace.control_plane().audit().mark();
    for (who, arguments) in &commands {
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|a| if *a == app { "mystatefulapp/bare" } else { a })
            .collect();
        let said = kruise(&scene, *who, &[&arguments[..], &["--dry-run=server"]].concat()).await;
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.talk);
    }
    // The log is written in order: once the last command's request is there, all before it are.
    let seen = eventually(SOON, "the dry-runs are in the audit log", async || {
        let seen = changes(&scene, asked);
        if seen.len() >= commands.len() {
            Ok(seen)
        } else {
            Err(format!("{} entries", seen.len()))
        }
    })
    .await;
    assert!(seen.iter().all(|entry| entry.dry_run), "{seen:?}");
    assert_eq!(
        changes(&scene, begin).len(),
        seen.len(),
        "a client's dry-run wrote"
    );
    assert_eq!((scene.app().await, scene.rollout().await), before);
    assert_eq!(mark(&scene.app().await, names::GRANTED_PARTITION), "4");
}
