//! A controller that dies, at every moment that matters and at any other.

use std::time::Duration;

use kruise_rollout::names;
use serde_json::json;
use support::proxy::{Fault, Side};
use support::{Identity, Proxy, eventually};
use tokio::sync::Notify;

use crate::gate::Gate;
use crate::ground::{Dice, Ground, called, finish, over_or_approved, two_steps};
use crate::outage::wait_failure_policy;
use crate::scene::{SOON, Scene, assert_free, partition};

/// Environment variable: how many kills and stops at random moments.
const KILLS: &str = "KRUISE_KILLS";
/// So many in a usual run.
const FEW_KILLS: u64 = 12;

/// Kills the controller just before its next write, and the one after it just after that write, and so on, until the release has
/// ended. How many writes were met.
async fn killed_at_each_write(ground: &mut Ground, proxy: &Proxy, scene: &Scene<'_>, begin: &str) -> usize {
    let mut begins = Some(begin);
    for writes in 0..30 {
        for side in [Side::Before, Side::After] {
            let mut met = false;
            let rule = proxy.rule(move |request| {
                if met || !request.is_write() {
                    return None;
                }
                met = true;
                Some(Fault::Hold(side))
            });
            match begins.take() {
                Some(version) => drop(scene.set_version(version).await),
                None => ground.start_alone(proxy.kubeconfig()).await,
            }
            let ended = async {
                eventually(SOON, "a write or the end", async || over_or_approved(scene).await).await;
            };
            tokio::select! {
                () = rule.reached(1) => {}
                () = ended => return writes,
            }
            ground.kill_controller();
            rule.abandoned(1).await;
        }
    }
    let requests = proxy.requests();
    let writes: Vec<_> = requests
        .iter()
        .filter(|request| request.is_write())
        .map(|r| &r.uri)
        .collect();
    panic!("no end after 30 writes: {writes:#?}");
}

#[tokio::test]
async fn killed_before_and_after_each_write_of_a_release_and_of_a_rollback() {
    let (mut ground, proxy) = Ground::with_proxy().await;
    let scene = Scene::new(&ground, "each-write").await;
    scene.set(Some(2), &two_steps()).await;
    wait_failure_policy(&scene.admin, "Ignore").await;
    let gate = Gate::open(&scene).await;
    let audit = ground.control_plane().audit();
    let mark = audit.mark();
    let writes = killed_at_each_write(&mut ground, &proxy, &scene, "v2").await;
    assert!(writes >= 6, "only {writes} writes");
    scene.wait_pods("v2", 5).await;
    assert_free(&scene.app().await);
    let held = Some(names::HOLD_PARTITION);
    assert_eq!(
        gate.steps("v2").await,
        [(Some(2), 0), (held, 0), (Some(4), 1), (Some(0), 5), (Some(2), 5)]
    );

    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    let writes = killed_at_each_write(&mut ground, &proxy, &scene, "v2").await;
    assert!(writes >= 3, "only {writes} writes");
    scene.wait_pods("v2", 5).await;
    assert_free(&scene.app().await);
    assert_eq!(partition(&scene.app().await), 2);
    assert!(gate.steps("v3").await.iter().all(|(_, pods)| *pods <= 1));
    // No restart has touched the registrations: without them nothing would be held for a moment.
    let entries = audit.since(mark);
    let registrations = entries
        .iter()
        .filter(|entry| entry.is_write() && entry.group == "admissionregistration.k8s.io");
    assert_eq!(registrations.count(), 0);
}

/// How many kills and stops this run has.
fn kills() -> u64 {
    std::env::var(KILLS).map_or(FEW_KILLS, |text| text.parse().unwrap())
}

/// One kill in a release or in a rollback, before or after one of its writes: what dies has seen all that came before.
#[tokio::test]
async fn killed_once_at_any_write_of_a_release_or_of_a_rollback() {
    const WRITES: u64 = 10;
    let (mut ground, proxy) = Ground::with_proxy().await;
    let scene = Scene::new(&ground, "any-write").await;
    scene.set(Some(0), &two_steps()).await;
    let mut dice = Dice::new(7);
    let mut stable = "v1".to_owned();
    for round in 0..kills() / 4 {
        let (mut left, side) = (
            dice.below(WRITES),
            [Side::Before, Side::After][dice.below(2) as usize],
        );
        let (version, back) = (format!("v{}", round + 2), dice.below(3) == 0);
        println!("{version}: write {left}, {side:?}, back: {back}");
        let gate = Gate::open(&scene).await;
        let rule = proxy.rule(move |request| {
            let met = request.is_write() && left == 0;
            left = left.saturating_sub(u64::from(request.is_write()));
            met.then_some(Fault::Hold(side))
        });
        let over = Notify::new();
        let release = async {
            scene.set_version(&version).await;
            if back {
                scene.wait_state(1, "StepPaused").await;
                let reverted = async || scene.try_version(&stable).await;
                eventually(SOON, "the reverted template is accepted", reverted).await;
            }
            finish(&scene, if back { &stable } else { &version }).await;
            over.notify_one();
        };
        let death = async {
            tokio::select! {
                () = rule.reached(1) => {}
                () = over.notified() => return,
            }
            ground.kill_controller();
            rule.abandoned(1).await;
            rule.release();
            ground.start_alone(proxy.kubeconfig()).await;
        };
        tokio::join!(release, death);
        if back {
            assert!(gate.steps(&version).await.iter().all(|(_, pods)| *pods <= 1));
        } else {
            gate.within_grants(&version).await;
            stable = version;
        }
    }
}

/// Kills, and stops of up to a second, at random moments while one release follows the other.
#[tokio::test]
async fn r39_kills_and_stops_at_random_moments() {
    let kills = kills();
    let seed = 20_261_130 + kills;
    println!("{kills} kills and stops, seed {seed}");
    let mut dice = Dice::new(seed);
    let mut ground = Ground::take().await;
    let kubeconfig = ground.control_plane().kubeconfig(Identity::Controller);
    ground.start_alone(&kubeconfig).await;
    called(&ground).await;
    let scene = Scene::new(&ground, "random-kills").await;
    let second = json!({"duration": 1});
    let steps =
        json!([{"replicas": 1, "pause": second}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}]);
    scene.set(Some(1), &steps).await;
    let mut done = 0;
    let mut release = 2;
    while done < kills {
        let version = format!("v{release}");
        release += 1;
        let gate = Gate::open(&scene).await;
        eventually(SOON, "the change is accepted", async || {
            scene.try_version(&version).await
        })
        .await;
        for _ in 0..4 {
            // Not a wait for anything: the moment is what is tried.
            tokio::time::sleep(Duration::from_millis(dice.below(700))).await;
            if dice.below(3) == 0 {
                let controller = ground.controller.as_ref().unwrap();
                controller.signal("STOP").unwrap();
                tokio::time::sleep(Duration::from_millis(dice.below(1000))).await;
                controller.signal("CONT").unwrap();
            } else {
                ground.kill_controller();
                ground.start_alone(&kubeconfig).await;
            }
            done += 1;
        }
        finish(&scene, &version).await;
        assert_free(&scene.app().await);
        assert_eq!(partition(&scene.app().await), 1);
        for (partition, pods) in gate.steps(&version).await {
            let allowed = 5 - partition.unwrap_or(0).min(5);
            // The original partition is in force before and after, when all pods run the version.
            assert!(
                partition == Some(1) || i64::try_from(pods).unwrap() <= allowed,
                "{version}: {pods} at {partition:?}, seed {seed}"
            );
        }
    }
}
