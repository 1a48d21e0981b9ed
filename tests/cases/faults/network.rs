//! Networks and servers that break, lie, or say nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, PostParams};
use support::proxy::{Fault, Interruption, Request, Side};
use support::{Proxy, eventually};

use crate::gate::Gate;
use crate::ground::{Dice, Ground, called, finish, over_or_approved, two_steps};
use crate::scene::{APP, SOON, Scene, mark, partition};

/// The connections that may be silent for 35 s, and what a busy machine adds.
const NOTICED: Duration = Duration::from_secs(45);
/// How long an API server may be back before the controller goes on.
const BACK: Duration = Duration::from_secs(15);

/// Waits until the app has this partition, for longer than usual; how long that took.
async fn granted(scene: &Scene<'_>, granted: i64, within: Duration) -> Duration {
    let since = Instant::now();
    eventually(within, &format!("partition {granted}"), async || {
        let app = scene.app().await;
        if partition(&app) == granted {
            Ok(())
        } else {
            Err(partition(&app).to_string())
        }
    })
    .await;
    since.elapsed()
}

/// Connections that say nothing any more although they are open, and one write that is never answered.
#[tokio::test]
async fn r80_dead_connections_are_noticed() {
    let (ground, proxy) = Ground::with_proxy().await;
    let scene = Scene::new(&ground, "dead").await;
    let unanswered = Scene::new(&ground, "unanswered").await;
    for scene in [&scene, &unanswered] {
        scene.set(Some(0), &two_steps()).await;
        scene.set_version("v2").await;
        scene.wait_state(1, "StepPaused").await;
    }
    let path = format!("/namespaces/{}/mystatefulapps", unanswered.namespace.name());
    let write = proxy.fault(Fault::Hold(Side::Before), move |request| {
        request.is_write() && request.uri.contains(&path)
    });
    unanswered.approve().await;
    write.reached(1).await;
    proxy.kill_connections_in_silence();
    scene.approve().await;
    let took = granted(&scene, 0, NOTICED).await;
    println!("dead connections noticed after {took:?}");
    write.abandoned(1).await;
    write.release();
    finish(&unanswered, "v2").await;
    finish(&scene, "v2").await;
}

#[tokio::test]
async fn r80_an_api_server_that_is_away_for_a_while() {
    let (ground, proxy) = Ground::with_proxy().await;
    let scene = Scene::new(&ground, "away").await;
    scene.set(Some(0), &two_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    proxy.refuse(true);
    scene.approve().await;
    // Away for as long as it takes to reach the longest pauses.
    tokio::time::sleep(Duration::from_secs(6)).await;
    // The webhook needs nobody.
    assert_eq!(partition(&scene.set_version("v3").await), names::HOLD_PARTITION);
    proxy.refuse(false);
    let took = granted(&scene, 4, BACK).await;
    println!("back after {took:?}");
    finish(&scene, "v3").await;
}

/// Answers that the API server gives when it has too much to do or is not well, and connections that break on either side of it.
#[tokio::test]
async fn answers_and_connections_that_fail_at_random() {
    const FAULTS: [Fault; 7] = [
        Fault::Answer(429),
        Fault::Answer(500),
        Fault::Answer(409),
        Fault::Answer(503),
        Fault::Answer(504),
        Fault::Break(Side::Before),
        Fault::Break(Side::After),
    ];
    let (ground, proxy) = Ground::with_proxy().await;
    let scene = Scene::new(&ground, "random").await;
    scene.set(Some(1), &two_steps()).await;
    let gate = Gate::open(&scene).await;
    let seed = 42;
    let mut dice = Dice::new(seed);
    let rule = proxy.rule(move |request| {
        let spared = request.is_watch() || dice.below(4) > 0;
        (!spared).then(|| FAULTS[dice.below(FAULTS.len() as u64) as usize])
    });
    scene.set_version("v2").await;
    finish(&scene, "v2").await;
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    scene.set_version("v2").await;
    eventually(SOON, "the rollback ends", async || over_or_approved(&scene).await).await;
    scene.wait_pods("v2", 5).await;
    println!("{} faults, seed {seed}", rule.count());
    assert!(rule.count() > 5);
    let held = Some(names::HOLD_PARTITION);
    assert_eq!(
        gate.steps("v2").await[..5],
        [(Some(1), 0), (held, 0), (Some(4), 1), (Some(0), 5), (Some(1), 5)]
    );
    let third = gate.steps("v3").await;
    assert!(third.iter().all(|(_, pods)| *pods <= 1), "{third:?}");
}

fn lists(proxy: &Proxy, plural: &str, since: Instant) -> usize {
    let requests = proxy.requests();
    requests
        .iter()
        .filter(|request| request.at >= since && request.lists(plural))
        .count()
}

/// Errors in streams that were answered with 200, streams that end in half an object, and watches that cannot be resumed.
#[tokio::test]
async fn r82_errors_inside_a_watch() {
    let (ground, proxy) = Ground::with_proxy().await;
    let scene = Scene::new(&ground, "stream").await;
    scene.set(Some(0), &two_steps()).await;
    let plurals = ["mystatefulapps", "rollouts", "pods"];
    let concerned = move |request: &Request| plurals.iter().any(|plural| request.is_of(plural));
    let error = |status: &str| format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n");
    let status = |code: &str| {
        format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"injected"{code}}}"#
        )
    };
    let half = r#"{"type":"MODIFIED","object":{"apiVersion":"example.io/v1","kind":"MyState"#;
    let interruptions = [
        Interruption::Send(error(&status(r#","code":410,"reason":"Expired""#))),
        Interruption::End(error(&status(r#","code":410,"reason":"Gone""#))),
        Interruption::Send(error(&status(r#","code":500,"reason":"InternalError""#))),
        Interruption::End(error(&status(r#","code":500,"reason":"InternalError""#))),
        Interruption::Send(error(&status(""))),
        Interruption::End(half.to_owned()),
        Interruption::End(String::new()),
        Interruption::Cut,
    ];
    let began = Instant::now();
    for (round, interruption) in interruptions.into_iter().enumerate() {
        let version = format!("v{}", round + 2);
        scene.set_version(&version).await;
        scene.wait_state(1, "StepPaused").await;
        scene.wait_pods(&version, 1).await;
        proxy.interrupt(interruption.clone(), concerned);
        scene.approve().await;
        let took = granted(&scene, 0, BACK).await;
        println!("{interruption:?}: {took:?}");
        finish(&scene, &version).await;
    }
    for plural in ["mystatefulapps", "rollouts"] {
        let count = lists(&proxy, plural, began);
        assert!(
            count <= began.elapsed().as_secs() as usize + 1,
            "{count} lists of {plural}"
        );
    }
}

/// A watch that cannot be resumed, again and again: what has gone meanwhile is noticed by a list, and there is no tight loop.
#[tokio::test]
async fn r82_a_resource_version_that_is_too_old() {
    let (ground, proxy) = Ground::with_proxy().await;
    let scene = Scene::new(&ground, "expired").await;
    scene.set(Some(2), &two_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let began = Instant::now();
    let mut left = 4;
    let expired = proxy.rule(move |request| {
        let concerned = request.is_watch() && request.is_of("rollouts") && left > 0;
        left -= i32::from(concerned);
        concerned.then_some(Fault::Answer(410))
    });
    proxy.refuse(true);
    scene.delete_rollout().await;
    proxy.refuse(false);
    let app = eventually(BACK, "freed", async || {
        let app = scene.app().await;
        if mark(&app, names::GUARDED_BY).is_null() {
            Ok(app)
        } else {
            Err(format!("{app:#}"))
        }
    })
    .await;
    assert_eq!(partition(&app), 2);
    scene.wait_pods("v2", 5).await;
    expired.reached(4).await;
    let (count, seconds) = (
        lists(&proxy, "rollouts", began),
        began.elapsed().as_secs() as usize,
    );
    assert!(count <= seconds + 1, "{count} lists in {seconds} s");
    // It is gone for good, and can come back.
    let apps: Api<_> = scene.apps(&scene.admin);
    apps.delete(APP, &DeleteParams::default()).await.unwrap();
}

/// A token file that is replaced as a kubelet does it, by swapping a symbolic link.
#[tokio::test]
async fn r79_credentials_that_rotate() {
    /// Tokens are read again within a minute.
    const READ_AGAIN: Duration = Duration::from_secs(75);
    let mut ground = Ground::take().await;
    let proxy = Proxy::start(ground.control_plane()).await.unwrap();
    let scene = Scene::new(&ground, "rotate").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(scene.admin.clone(), names::DEFAULT_NAMESPACE);
    let issue = async || {
        let (params, request) = (PostParams::default(), TokenRequest::default());
        let issued = accounts
            .create_token_request(names::CONTROLLER, &params, &request)
            .await;
        issued.unwrap().status.unwrap().token
    };
    let (old, new) = (issue().await, issue().await);

    let folder = support::process::scratch("service-account").unwrap();
    let token = folder.join("token");
    let link = |content: &str, name: &str| {
        std::fs::write(folder.join(name), content).unwrap();
        let fresh = folder.join("fresh");
        std::os::unix::fs::symlink(folder.join(name), &fresh).unwrap();
        std::fs::rename(&fresh, &token).unwrap();
    };
    link(&old, "first");
    let kubeconfig = proxy.kubeconfig_with_token_file(&token).unwrap();
    ground
        .start_controller_with(&kubeconfig, &["--leader-elect=false"])
        .await
        .unwrap();
    called(&ground).await;
    scene.set(Some(0), &two_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    link(&new, "second");
    eventually(READ_AGAIN, "the new token is used", async || {
        let requests = proxy.requests();
        let last = requests.last().map(|request| request.token.clone());
        if last.as_deref() == Some(new.as_str()) {
            Ok(())
        } else {
            Err("the old one is")
        }
    })
    .await;
    finish(&scene, "v2").await;
    assert!(ground.controller.as_ref().unwrap().is_running());
    let tokens: BTreeSet<_> = proxy
        .requests()
        .into_iter()
        .map(|request| request.token)
        .collect();
    assert_eq!(tokens, BTreeSet::from([old, new]));
}
