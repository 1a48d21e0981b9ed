//! What a controller asks of the API server while nothing happens.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use support::Identity;
use tokio::time::sleep;

use crate::ground::Ground;
use crate::outage::wait_failure_policy;
use crate::scene::{Scene, walk_steps};

/// For so long nothing happens.
const REST: Duration = Duration::from_secs(30);
/// Until then the watches of the pods have ended, which are there during a release only.
const SETTLED: Duration = Duration::from_secs(5);
/// The most renewals of the lease in that time.
const RENEWALS: usize = REST.as_secs() as usize;
/// Watches: Rollouts, one kind of workloads, definitions, and the sorts of registrations that the controller keeps. Each is renewed
/// once within the time, and may be twice on its edges.
const WATCHES: usize = 2 * 12;

#[tokio::test]
async fn at_rest_only_lease_and_watches_are_renewed() {
    let ground = Ground::with_controller().await;
    let scenes = join_all((0..3).map(|_| Scene::new(&ground, "idle"))).await;
    // One has a release behind it, one is paused in one, and one has none.
    let steps = walk_steps();
    join_all(scenes.iter().map(|scene| scene.set(Some(0), &steps))).await;
    wait_failure_policy(&scenes[0].admin, "Ignore").await;
    for scene in &scenes[..2] {
        scene.set_version("v2").await;
        scene.wait_state(1, "StepPaused").await;
    }
    scenes[0].approve().await;
    scenes[0].wait_phase("Healthy").await;
    sleep(SETTLED).await;

    let audit = ground.control_plane().audit();
    let mark = audit.mark();
    // What is watched for here is that nothing happens, so this is no wait for a condition.
    sleep(REST).await;
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    for entry in audit.since(mark) {
        if entry.user == Identity::Controller.user() {
            *asked
                .entry(format!("{} {}", entry.verb, entry.resource))
                .or_default() += 1;
        }
    }
    let (watches, rest): (BTreeMap<_, _>, BTreeMap<_, _>) = asked
        .into_iter()
        .partition(|(what, _)| what.starts_with("watch "));
    let (renewals, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
        rest.into_iter().partition(|(what, _)| what.ends_with(" leases"));
    assert!(rest.is_empty(), "{rest:?}");
    assert!(renewals.values().sum::<usize>() <= RENEWALS, "{renewals:?}");
    assert!(watches.values().sum::<usize>() <= WATCHES, "{watches:?}");
}
