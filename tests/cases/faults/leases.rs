//! The lease: who leads, who takes over, and what one that does not lead any more leaves alone.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kruise_rollout::names;
use kube::api::Api;
use support::proxy::{Fault, Side};
use support::{Process, Proxy, eventually};

use crate::gate::Gate;
use crate::ground::{Ground, finish, two_steps};
use crate::scene::{SOON, Scene, mark, partition, walk_steps};

/// A lease of 4 s and a second to act.
const FAILOVER: Duration = Duration::from_secs(5);
/// Hand-over by a leader that is asked to end.
const HAND_OVER: Duration = Duration::from_secs(3);
/// What a busy machine adds to a time.
const SLACK: Duration = Duration::from_secs(3);
/// A lease.
const LEASE: Duration = Duration::from_secs(4);
/// For so long nothing happens, where that is what is tried.
const NOTHING: Duration = Duration::from_millis(1500);

async fn holder(scene: &Scene<'_>) -> Result<String, String> {
    let leases: Api<Lease> = Api::namespaced(scene.admin.clone(), names::DEFAULT_NAMESPACE);
    let lease = leases
        .get(names::CONTROLLER)
        .await
        .map_err(|error| error.to_string())?;
    lease
        .spec
        .and_then(|spec| spec.holder_identity)
        .ok_or_else(|| "nobody".to_owned())
}

/// Waits until a process holds the lease; its name there has its process id.
async fn leads(scene: &Scene<'_>, process: &Process) {
    let part = format!("_{}_", process.pid());
    eventually(SOON, "the lease changes hands", async || {
        let holder = holder(scene).await?;
        if holder.contains(&part) {
            Ok(())
        } else {
            Err(holder)
        }
    })
    .await;
}

async fn granted(scene: &Scene<'_>, granted: i64) {
    scene
        .wait_app(&format!("partition {granted}"), |app| partition(app) == granted)
        .await;
}

#[tokio::test]
async fn r38_a_leader_that_is_killed_or_asked_to_end_has_a_successor() {
    let mut ground = Ground::with_controller().await;
    let scene = Scene::new(&ground, "failover").await;
    scene.set(Some(0), &walk_steps()).await;
    leads(&scene, ground.controller.as_ref().unwrap()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    // Killed in mid-step: the approval is given, and nobody is there to take it.
    let mut spare = ground.spare_controller().unwrap();
    for (step, grants) in [(1, 2), (2, 0)] {
        scene.wait_state(step, "StepPaused").await;
        ready(&spare).await;
        let killed = Instant::now();
        ground.kill_controller();
        scene.approve().await;
        granted(&scene, grants).await;
        let took = killed.elapsed();
        println!("failover after {took:?}");
        assert!(took < FAILOVER + SLACK, "{took:?}");
        leads(&scene, &spare).await;
        ground.controller = Some(spare);
        spare = ground.spare_controller().unwrap();
    }
    finish(&scene, "v2").await;
    gate.within_grants("v2").await;

    // Asked to end, it hands over.
    ready(&spare).await;
    let asked = Instant::now();
    ground.controller.as_ref().unwrap().terminate().unwrap();
    leads(&scene, &spare).await;
    let took = asked.elapsed();
    println!("hand-over after {took:?}");
    assert!(took < HAND_OVER + SLACK, "{took:?}");
    ground.controller.as_ref().unwrap().wait(SOON).await.unwrap();
    ground.controller = Some(spare);
}

/// Waits until a controller has started: a standby is of use only then.
async fn ready(process: &Process) {
    eventually(SOON, "the standby has started", async || {
        let log = process.log_tail(100);
        if log.contains("Started.") {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await;
}

/// A leader that is frozen between the decision and the write of the last step, and wakes up when a newer template is on its way.
#[tokio::test]
async fn a_leader_that_was_frozen_between_decision_and_write_changes_nothing() {
    let (ground, proxy) = Ground::with_leader_and_proxy().await;
    let scene = Scene::new(&ground, "frozen").await;
    scene.set(Some(0), &two_steps()).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let standby = ground.spare_controller().unwrap();
    ready(&standby).await;

    let last_step = proxy.fault(Fault::Hold(Side::Before), |request| {
        request.is_write() && request.is_of("mystatefulapps")
    });
    scene.approve().await;
    last_step.reached(1).await;
    let leader = ground.controller.as_ref().unwrap();
    leader.signal("STOP").unwrap();
    leads(&scene, &standby).await;
    eventually(SOON, "a newer template is held", async || {
        let held = scene.try_version("v3").await?;
        if mark(&held, names::IN_PROGRESSING).is_string() {
            Ok(())
        } else {
            Err(format!("{held:#}"))
        }
    })
    .await;
    scene.wait_pods("v3", 1).await;

    leader.signal("CONT").unwrap();
    last_step.release();
    eventually(SOON, "the awakened one knows that it does not lead", async || {
        let log = leader.log_tail(100);
        let knows = ["Somebody else holds the lease", "could not be renewed"]
            .iter()
            .any(|text| log.contains(text));
        if knows { Ok(()) } else { Err(log) }
    })
    .await;
    leads(&scene, &standby).await;
    scene.wait_state(1, "StepPaused").await;
    tokio::time::sleep(NOTHING).await;
    assert_eq!(partition(&scene.app().await), 4);
    let steps = gate.steps("v3").await;
    assert!(steps.iter().all(|(_, pods)| *pods <= 1), "{steps:?}");
    finish(&scene, "v3").await;
    gate.within_grants("v3").await;
    // The one that is left may be the one with the proxy or not: the case ends with both.
    standby.kill();
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_and_its_webhook_goes_on() {
    let (ground, proxy) = Ground::with_leader_and_proxy().await;
    let scene = Scene::new(&ground, "no-renewal").await;
    scene.set(Some(0), &two_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    let in_flight = proxy.fault(Fault::Hold(Side::Before), |request| {
        request.is_write() && request.is_of("mystatefulapps")
    });
    scene.approve().await;
    in_flight.reached(1).await;
    let renewals = proxy.fault(Fault::Hold(Side::Before), support::proxy::Request::is_of_lease);
    renewals.reached(1).await;
    let since = Instant::now();
    in_flight.abandoned(1).await;
    let took = since.elapsed();
    println!("stopped {took:?} after the first renewal that hung");
    assert!(took < LEASE, "{took:?}");
    in_flight.release();

    // Nothing more is written, whatever there is to do.
    let before = writes(&proxy);
    let held = scene.set_version("v3").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    tokio::time::sleep(NOTHING).await;
    assert_eq!(writes(&proxy), before);
    assert_eq!(partition(&scene.app().await), names::HOLD_PARTITION);

    renewals.release();
    scene.wait_pods("v3", 1).await;
    finish(&scene, "v3").await;
}

fn writes(proxy: &Proxy) -> usize {
    proxy
        .requests()
        .iter()
        .filter(|request| request.is_write())
        .count()
}
