//! Completion, asked for as shells do: through kubectl.

use std::ffi::OsString;

use support::{Identity, TestNamespace, installed};

use crate::scene::{APP, ROLLOUT, Scene, walk_steps};

/// What kubectl offers for these words, without descriptions, and its directive.
async fn offered(scene: &Scene<'_>, folder: &std::path::Path, words: &[&str]) -> (Vec<String>, String) {
    let mut kubectl = scene.namespace.kubectl(Identity::Viewer).unwrap();
    let inherited = kubectl
        .as_std()
        .get_envs()
        .find_map(|(name, value)| (name == "PATH").then(|| value.unwrap_or_default().to_owned()))
        .unwrap();
    let mut path = OsString::from(folder);
    path.push(":");
    path.push(inherited);
    let output = kubectl
        .env("PATH", path)
        .args(["__complete", "kruise"])
        .args(words)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
        .collect();
    let directive = lines.pop().unwrap_or_default();
    (lines, directive)
}

#[tokio::test]
async fn r85_kubectl_completes_commands_names_namespaces_and_contexts() {
    let scene = Scene::new(installed().await, "completion").await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.create_rollout(&walk_steps()).await;
    let other = TestNamespace::create(scene.namespace.control_plane(), "completion-other")
        .await
        .unwrap();
    let folder = scene
        .namespace
        .control_plane()
        .folder()
        .join(format!("{}-bin", scene.namespace.name()));
    let mut install = scene.namespace.kubectl(Identity::Viewer).unwrap();
    let install = install
        .args(["kruise", "completion", "install", "--dir"])
        .arg(&folder);
    assert!(install.output().await.unwrap().status.success());

    let app = format!("mystatefulapp.example.io/{APP}");
    for (words, expected) in [
        (&["rollout", "approve", ""][..], ROLLOUT),
        (&["rollout", "approve", "my"], ROLLOUT),
        (&["rollout", "approve", "ro"], ""),
        (&["rollout", "approve", "rollout/"], "rollout/my-app-rollout"),
        (&["rollout", "status", "rollout", ""], ROLLOUT),
        (&["rollout", "status", ROLLOUT, ""], ""),
        (&["rollout", "approve", "-n", other.name(), ""], ""),
        (&["rollout", "approve", "-n", "completion-o"], other.name()),
        (&["workload", "label", ""], &app),
        (&["workload", "label", "mystatefulapp/"], "mystatefulapp/my-app"),
        (&["workload", "label", "mystatefulapp", ""], APP),
        (&["--context", ""], "local"),
        (&["rollout", "appr"], "approve"),
    ] {
        let (found, directive) = offered(&scene, &folder, words).await;
        let expected: Vec<_> = [expected].into_iter().filter(|name| !name.is_empty()).collect();
        assert_eq!(
            (found.as_slice(), directive.as_str()),
            (&*owned(&expected), ":4"),
            "{words:?}"
        );
    }
    let (commands, _) = offered(&scene, &folder, &[""]).await;
    assert!(
        commands.iter().any(|command| command == "rollout"),
        "{commands:?}"
    );
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
