//! Several controllers: one writes, and another goes on when it is killed or frozen.

use std::time::Duration;

use support::{ControlPlane, Installation, Options, eventually};

use crate::gate::Gate;
use crate::scene::{SOON, Scene, partition, walk_steps};

/// Lease, failover and the requests around it.
const FAILOVER: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_replica_goes_on_where_a_killed_or_frozen_one_stopped() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut installation = Installation::start(&control_plane).await.unwrap();
    let spare = installation.spare_controller().unwrap();
    let scene = Scene::new(&installation, "replicas").await;
    scene.set(Some(0), &walk_steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    // Killed in a pause: the other one takes the approval.
    installation.kill_controller();
    scene.approve().await;
    goes_on(&scene, "the spare controller").await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    gate.within_grants("v2").await;

    // Frozen in a pause, and awake again after another one has taken over and a newer template is held.
    installation.start_controller().await.unwrap();
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    spare.signal("STOP").unwrap();
    scene.approve().await;
    goes_on(&scene, "the first controller").await;
    scene.wait_phase("Healthy").await;
    gate.within_grants("v3").await;
    eventually(SOON, "the webhook answers again", async || {
        let held = scene.try_version("v4").await?;
        if partition(&held) == 32_767 {
            Ok(())
        } else {
            Err(format!("{held:#}"))
        }
    })
    .await;
    scene.wait_state(1, "StepPaused").await;
    spare.signal("CONT").unwrap();
    scene.wait_pods("v4", 1).await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v4", 5).await;
    gate.within_grants("v4").await;
}

/// The approval of step 1 is acted on; the two seconds of step 2 may have passed before this looks.
async fn goes_on(scene: &Scene<'_>, who: &str) {
    eventually(FAILOVER, &format!("{who} lowers the partition"), async || {
        let app = scene.app().await;
        if partition(&app) == 2 || partition(&app) == 0 {
            Ok(())
        } else {
            Err(partition(&app).to_string())
        }
    })
    .await;
}
