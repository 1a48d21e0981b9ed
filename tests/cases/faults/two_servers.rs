//! Several API servers: the controller talks to one of them, and people to another one, which learns of a registration by itself.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::future::join_all;
use kruise_rollout::names;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use support::{Component, ControlPlane, Identity, Installation, Options, SecondApiServer, eventually};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::changes::follow;
use crate::ground::{finish, two_steps};
use crate::kinds::OwnKind;
use crate::scene::{APP, SOON, Scene, condition, image, mark, partition};

/// So many new kinds, each with a first workload and a further one.
const KINDS: usize = 2;
/// So many changes wait for a server that is frozen.
const AT_ONCE: usize = 10;
/// So many changes in a row are held before a server is believed to hold.
const IN_A_ROW: usize = 50;

/// What a server did with changes of the template that it was asked for as dry-runs, one after the other.
#[derive(Default)]
struct Answers {
    /// How many were let through that were sent after holding was promised.
    escaped: usize,
    /// When the answer to the last one came that was let through.
    last_through: Option<Instant>,
}

/// Asks until a server has held so many changes in a row since it was promised that changes are held.
async fn ask_until_held(apps: &Api<DynamicObject>, promised: &OnceLock<Instant>) -> Answers {
    let mut answers = Answers::default();
    let mut in_a_row = 0;
    let params = PatchParams::default().dry_run();
    let change = Patch::Merge(image("probe"));
    while in_a_row < IN_A_ROW {
        let promise = promised.get().copied();
        match apps.patch(APP, &params, &change).await {
            Ok(app) if is_held(&app) => {
                in_a_row += usize::from(promise.is_some());
                continue;
            }
            Ok(_) => {
                answers.escaped += usize::from(promise.is_some());
                answers.last_through = Some(Instant::now());
            }
            // Nothing has escaped, and nothing is held.
            Err(_) => {}
        }
        in_a_row = 0;
    }
    answers
}

/// Milliseconds from `promise` to `last`; negative where `last` was earlier.
fn lateness(last: Instant, promise: Instant) -> i128 {
    let ms = |from: Instant, to: Instant| to.saturating_duration_since(from).as_millis().cast_signed();
    ms(promise, last) - ms(last, promise)
}

fn is_held(app: &DynamicObject) -> bool {
    let app = serde_json::to_value(app).unwrap();
    partition(&app) == names::HOLD_PARTITION && mark(&app, names::IN_PROGRESSING).is_string()
}

/// Tells when a watch has shown that the Rollout says `Guarded`.
async fn watch_for_guarded(scene: &Scene<'_>, watches: &mut JoinSet<()>) -> Arc<OnceLock<Instant>> {
    let rollouts = scene.untyped_rollouts();
    let list = rollouts.list(&ListParams::default()).await.unwrap();
    let guarded = Arc::new(OnceLock::new());
    watches.spawn({
        let guarded = guarded.clone();
        async move {
            let note = |rollout: &DynamicObject, _| {
                if condition(&serde_json::to_value(rollout).unwrap(), "Guarded")["status"] == "True" {
                    guarded.get_or_init(Instant::now);
                }
            };
            let failure = follow(rollouts, list.metadata.resource_version.unwrap(), note).await;
            panic!("the watch has a gap: {failure}");
        }
    });
    guarded
}

/// The app without its Rollout, and the way to it through the second server.
async fn app_of<'a>(
    installation: &Installation<'a>,
    second: &SecondApiServer<'a>,
    kind: &OwnKind,
) -> (Scene<'a>, Api<DynamicObject>) {
    let scene = Scene::of_kind(installation, "two-servers", kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", Some(0))).await;
    scene.wait_pods("v1", 5).await;
    let there = scene.apps(&second.client(Identity::Developer).await.unwrap());
    eventually(SOON, "the second server has the app", async || {
        there.get(APP).await
    })
    .await;
    (scene, there)
}

/// A real change through the second server is held and walks through its steps.
async fn a_change_is_held(scene: &Scene<'_>, there: &Api<DynamicObject>) {
    let change = Patch::Merge(image("v2"));
    let held = there.patch(APP, &PatchParams::default(), &change).await.unwrap();
    assert!(is_held(&held), "{held:#?}");
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v2", 1).await;
    finish(scene, "v2").await;
}

/// For how long the second server lets changes through after the Rollout has said that they are held.
#[tokio::test]
async fn a_second_api_server_holds_too() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let second = control_plane.start_second_api_server().await.unwrap();
    let installation = Installation::start(&control_plane).await.unwrap();
    for number in 0..KINDS {
        let kind = OwnKind::new(&format!("TwoServers{number}App"));
        kind.enable(&installation).await;
        kind.define(&installation, &[]).await;
        let _operator = kind.operate(&installation, &[]);
        for which in ["the first of its kind", "a further one"] {
            let (scene, there) = app_of(&installation, &second, &kind).await;
            let mut watches = JoinSet::new();
            let guarded = watch_for_guarded(&scene, &mut watches).await;
            let asking = timeout(SOON, ask_until_held(&there, &guarded));
            let steps = two_steps();
            let (answers, ()) = tokio::join!(asking, scene.create_rollout(&steps));
            let answers = answers.expect("the second server holds at last");
            let last = answers.last_through.expect("it is asked before it can hold");
            let after = lateness(last, *guarded.get().unwrap());
            println!(
                "{which}: {} are let through after Guarded, the last {after} ms after it",
                answers.escaped
            );
            a_change_is_held(&scene, &there).await;
        }
    }
}

/// The second server is frozen while a kind is registered, and finds changes in front of its door as it wakes up. For how long it
/// lets them through.
#[tokio::test]
async fn a_second_api_server_that_was_frozen_holds_too() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let second = control_plane.start_second_api_server().await.unwrap();
    let installation = Installation::start(&control_plane).await.unwrap();
    for number in 0..KINDS {
        let kind = OwnKind::new(&format!("FrozenServer{number}App"));
        kind.enable(&installation).await;
        kind.define(&installation, &[]).await;
        let _operator = kind.operate(&installation, &[]);
        let (scene, there) = app_of(&installation, &second, &kind).await;
        // Connected before it is frozen, so that nothing is between a change and its admission.
        let clients = join_all((0..AT_ONCE).map(async |_| {
            let client = second.client(Identity::Developer).await.unwrap();
            let there = scene.apps(&client);
            there.get(APP).await.unwrap();
            there
        }));
        let clients = clients.await;
        let signal = |name| {
            control_plane
                .signal_component(Component::SecondApiServer, name)
                .unwrap()
        };
        signal("STOP");
        scene.create_rollout(&two_steps()).await;
        scene
            .wait("guarded", |rollout| {
                condition(rollout, "Guarded")["status"] == "True"
            })
            .await;
        let promised = OnceLock::from(Instant::now());
        let asking = join_all(clients.iter().map(|there| ask_until_held(there, &promised)));
        let waking = async {
            // Not a wait for anything: the changes are on their way by then.
            tokio::time::sleep(Duration::from_millis(50)).await;
            signal("CONT");
            Instant::now()
        };
        let (answers, awake) = tokio::join!(timeout(SOON, asking), waking);
        let answers = answers.expect("the second server holds at last");
        let through: usize = answers.iter().map(|answers| answers.escaped).sum();
        match answers.iter().filter_map(|answers| answers.last_through).max() {
            None => println!("frozen: none is let through"),
            Some(last) => {
                let after = lateness(last, awake);
                println!("frozen: {through} are let through, the last {after} ms after it was woken up");
            }
        }
        a_change_is_held(&scene, &there).await;
    }
}
