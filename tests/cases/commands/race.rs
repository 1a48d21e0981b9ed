//! Many people approve at once.

use std::time::Duration;

use futures::future::join_all;
use kruise_rollout::names;
use serde_json::json;
use support::{Identity, eventually, installed};

use super::{asked, run, settled};
use crate::scene::{ROLLOUT, Scene, partition};

/// Pods of this version need long to be ready, so that nobody comes so late that another step has been reached.
const SLOW: &str = "slow";
/// How long the first of them may need on a machine that does much else.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn many_approvals_at_once_advance_one_step() {
    let scene = Scene::new(installed().await, "approve-race").await;
    let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}, {"replicas": 3, "pause": {}},
        {"replicas": "100%"}]);
    scene.set(Some(0), &steps).await;
    scene.set_version(SLOW).await;
    let paused = eventually(LONG, "step 1 is paused", async || {
        let rollout = scene.rollout().await;
        let there = rollout["status"]["canaryStatus"]["currentStepState"] == "StepPaused";
        there.then_some(rollout).ok_or("not yet")
    })
    .await;
    let begin = settled(&scene).await;
    let people = [(); 6].map(|()| run(&scene, Identity::Approver, "approve", &[]));
    let said = join_all(people).await;
    let approved = format!("rollout.{}/{ROLLOUT} approved\n", names::GROUP);
    scene.wait_state(2, "StepUpgrade").await;
    settled(&scene).await;
    let writes: Vec<_> = asked(&scene, begin)
        .into_iter()
        .filter(|entry| entry.subresource == "status")
        .collect();
    // A test in the patch tells the faster approval from the others.
    assert_eq!(
        writes.iter().filter(|entry| entry.succeeded()).count(),
        1,
        "{writes:?}"
    );
    assert!(
        writes.iter().all(|entry| entry.succeeded() || entry.code == 422),
        "{writes:?}"
    );
    assert_eq!(
        said.iter().filter(|said| said.answer == approved).count(),
        1,
        "{said:?}"
    );
    for said in &said {
        let late =
            said.talk.contains("step 2 of 4 is still updating") || said.answer.contains("already approved");
        assert!(late || said.answer == approved, "{said:?}");
    }
    let now = scene.rollout().await;
    assert_eq!(
        now["status"]["canaryStatus"]["templateId"],
        paused["status"]["canaryStatus"]["templateId"]
    );
    assert_eq!(partition(&scene.app().await), 3);
}
