//! The transcripts of the documentation: every command is run, and its answer is the one that stands there.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use support::{Identity, installed};

use crate::outage::wait_failure_policy;
use crate::scene::{Scene, walk_steps};

const BEGIN: &str = "```console";
const END: &str = "```";
/// The commands whose answers are recorded with their times.
const SESSION: [&str; 9] = [
    "kubectl apply -f tests/demo/my-app.yaml",
    "kubectl wait --for=jsonpath='{.status.readyReplicas}'=5 mystatefulapp/my-app",
    "kubectl apply -f tests/demo/my-app-rollout.yaml",
    "kubectl wait --for=jsonpath='{.status.phase}'=Healthy rollout/my-app-rollout",
    r#"kubectl patch mystatefulapp my-app --type=merge -p '{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"my-registry/my-app:v2"}]}}}}'"#,
    "kubectl kruise rollout status my-app-rollout --exit-on-pause",
    "kubectl kruise rollout approve rollout/my-app-rollout",
    "kubectl kruise rollout status my-app-rollout",
    "kubectl kruise rollout status my-app-rollout --watch=false",
];

pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn is_updating() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

/// What a shell at the root of the repository prints, in order; the namespace is called `default`, as it is for a reader.
async fn printed(scene: &Scene<'_>, line: &str) -> String {
    shell(scene, line).await.1
}

/// The same with the exit code.
pub(crate) async fn shell(scene: &Scene<'_>, line: &str) -> (i32, String) {
    let kubectl = scene.namespace.kubectl(Identity::Admin).unwrap();
    let (code, text) = typed(&kubectl, line).await;
    (code, text.replace(scene.namespace.name(), "default"))
}

/// What a shell at the root of the repository answers and prints whose environment is that of a kubectl, which it finds.
pub(crate) async fn typed(kubectl: &tokio::process::Command, line: &str) -> (i32, String) {
    let program = PathBuf::from(kubectl.as_std().get_program());
    let mut shell = tokio::process::Command::new("sh");
    for (name, value) in kubectl.as_std().get_envs() {
        let mut value = value.unwrap_or_default().to_owned();
        if name == "PATH" {
            value.push(":");
            value.push(program.parent().unwrap());
        }
        shell.env(name, value);
    }
    let output = shell
        .env("LC_ALL", "C.UTF-8")
        .args(["-c", &format!("{{ {line}\n}} 2>&1")])
        .current_dir(docs().join(".."))
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    (output.status.code().unwrap(), text)
}

/// Without what differs from run to run: times, hashes, UIDs, and how long ago something was.
pub(crate) fn steady(text: &str) -> String {
    let mut steady = String::new();
    let mut word = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_alphanumeric() || matches!(letter, '-' | ':' | '.') {
            word.push(letter);
            continue;
        }
        steady.push_str(kind(&word));
        steady.push(letter);
        word.clear();
    }
    steady
}

fn kind(word: &str) -> &str {
    let hex = |part: &str| part.len() >= 8 && part.chars().all(|c| c.is_ascii_hexdigit());
    let parts: Vec<_> = word.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    let last = parts.last().copied().unwrap_or_default();
    if lengths == [8, 4, 4, 4, 12] {
        "<uid>"
    } else if word.starts_with("20") && word.contains('T') && word.contains(':') {
        "<time>"
    } else if word.starts_with("my-app-")
        && parts.len() == 3
        && last.len() >= 8
        && last.chars().any(|c| c.is_ascii_digit())
    {
        "my-app-<hash>"
    } else if hex(word) {
        "<hash>"
    } else {
        word
    }
}

/// Runs the commands of a document. The document with the answers as they came.
pub(crate) async fn played(document: &str, printed: impl AsyncFn(&str) -> String) -> String {
    let mut fresh = String::new();
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(fresh, "{line}");
        if line != BEGIN {
            continue;
        }
        while let Some(line) = lines.next_if(|line| *line != END) {
            let Some(first) = line.strip_prefix("$ ") else {
                // An answer, which is written anew.
                continue;
            };
            let _ = writeln!(fresh, "{line}");
            let mut command = first.to_owned();
            while command.ends_with('\\') {
                let more = lines.next().unwrap();
                let _ = writeln!(fresh, "{more}");
                command = format!("{}{}", command.trim_end_matches('\\'), more.trim_start());
            }
            fresh += &printed(&command).await;
        }
    }
    fresh
}

/// Another release of the kind, after which the API server holds it by itself: from then on it is always the same who warns.
async fn held_by_policies() -> Scene<'static> {
    let scene = Scene::new(installed().await, "registered").await;
    scene.set(None, &walk_steps()).await;
    wait_failure_policy(&scene.admin, "Ignore").await;
    scene
}

/// The document is what happens, or is written anew.
async fn is_what_happens(scene: &Scene<'_>, name: &str) {
    let file = docs().join(name);
    let document = std::fs::read_to_string(&file).unwrap();
    let fresh = played(&document, async |line| printed(scene, line).await).await;
    if is_updating() {
        std::fs::write(&file, &fresh).unwrap();
        return;
    }
    let (kept, found) = (steady(&document), steady(&fresh));
    for (number, (kept, found)) in kept.lines().zip(found.lines()).enumerate() {
        assert_eq!(
            kept,
            found,
            "docs/{name}, line {}; all of it now:\n{fresh}",
            number + 1
        );
    }
    assert_eq!(kept.lines().count(), found.lines().count(), "{fresh}");
}

#[tokio::test]
async fn the_walkthrough_is_what_happens() {
    let _registered = held_by_policies().await;
    let scene = Scene::new(installed().await, "walkthrough").await;
    is_what_happens(&scene, "walkthrough.md").await;
}

#[tokio::test]
async fn the_page_on_custom_workloads_is_what_happens() {
    let scene = Scene::new(installed().await, "custom-workloads").await;
    is_what_happens(&scene, "custom-workloads.md").await;
}

#[tokio::test]
async fn a_session_is_recorded() {
    let _registered = held_by_policies().await;
    let scene = Scene::new(installed().await, "session").await;
    let mut session = String::new();
    for command in SESSION {
        let _ = write!(session, "$ {command}\n{}", printed(&scene, command).await);
    }
    assert!(session.contains("state=AwaitingApproval"), "{session}");
    assert!(
        session.contains("rollout.rollouts.kruise.io/my-app-rollout approved\n"),
        "{session}"
    );
    assert!(session.contains("State:      ✔ Complete"), "{session}");
    let file = docs().join("session.txt");
    if is_updating() {
        std::fs::write(&file, &session).unwrap();
    }
    // The commands that are recorded are those that stand here.
    let kept = std::fs::read_to_string(&file).unwrap();
    let commands = |text: &str| -> Vec<String> {
        let commands = text.lines().filter(|line| line.starts_with("$ "));
        commands.map(str::to_owned).collect()
    };
    assert_eq!(
        commands(&kept),
        commands(&session),
        "UPDATE_DOCS=1 records it anew"
    );
}

#[test]
fn what_differs_from_run_to_run_is_left_out() {
    let text = "2026-01-01T00:00:00Z my-app-5c5c2z55d → my-app-2cb465656, 0b3c8a9e-1111-2222-3333-444455556666/my-app-rollout/1f2e3d4c5b6a7988 my-app:v2";
    assert_eq!(
        steady(text),
        "<time> my-app-<hash> → my-app-<hash>, <uid>/my-app-rollout/<hash> my-app:v2\n"
    );
}
