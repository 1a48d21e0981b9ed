//! Nothing outlives the process that started it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use support::{eventually, spawn};

use super::SOON;

/// The processes are gone, zombies apart, and so is the folder.
pub(super) async fn assert_gone(pids: &[u32], folder: &Path) {
    eventually(SOON, "no process and no file is left", async || {
        let alive: Vec<_> = pids
            .iter()
            .filter(|pid| Path::new(&format!("/proc/{pid}")).exists())
            .collect();
        if alive.is_empty() && !folder.exists() {
            Ok(())
        } else {
            Err(format!("{alive:?} {}", folder.display()))
        }
    })
    .await;
}

/// Every process below `root`, by the parents that /proc knows.
fn descendants(root: u32) -> Vec<u32> {
    let parent_of = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|&&pid| parent_of(pid) == Some(parent)));
        next += 1;
    }
    found.split_off(1)
}

/// Starts `cluster`, gives its children and folder once it is ready, ends it by `signal`, and says what it left.
async fn cluster_ended_by(signal: &str) {
    let mut cluster = Command::new(env!("CARGO_BIN_EXE_cluster"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(cluster.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let admin = lines
        .find(|line| line.contains("admin.kubeconfig"))
        .expect("it starts");
    let (_, path) = admin.split_once('=').unwrap();
    let folder = Path::new(path.split_whitespace().next().unwrap())
        .parent()
        .unwrap()
        .to_owned();
    assert!(folder.exists());
    let children = descendants(cluster.id());
    assert!(
        children.len() >= 6,
        "five components and the reaper: {children:?}"
    );

    let sent = Command::new("sh")
        .args(["-c", &format!("kill -s {signal} {}", cluster.id())])
        .status()
        .unwrap();
    assert!(sent.success());
    cluster.wait().unwrap();
    assert_gone(&children, &folder).await;
}

#[tokio::test]
async fn nothing_is_left_when_the_owner_is_killed() {
    cluster_ended_by("KILL").await;
}

#[tokio::test]
async fn nothing_is_left_after_ctrl_c() {
    cluster_ended_by("INT").await;
}

#[tokio::test]
async fn a_spawned_process_can_be_watched_stopped_and_killed() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap 'echo bye; exit 3' TERM; echo hello $WHO; while :; do sleep 0.05; done",
    ]);
    command.env("WHO", "world");
    let process = spawn(&command).unwrap();
    eventually(SOON, "it speaks", async || {
        let mut text = String::new();
        std::fs::File::open(process.log())
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        if text == "hello world\n" {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
    process.terminate().unwrap();
    assert_eq!(process.wait(SOON).await.unwrap().code(), Some(3));
    assert!(process.log_tail(1).contains("bye"));

    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1000 & sleep 1000"]);
    let process = spawn(&command).unwrap();
    let shell = process.pid();
    let family = eventually(SOON, "it has children", async || {
        let family = descendants(shell);
        if family.len() == 2 {
            Ok(family)
        } else {
            Err(format!("{family:?}"))
        }
    })
    .await;
    drop(process);
    assert_gone(&family, Path::new("/nonexistent")).await;
}
